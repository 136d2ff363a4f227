"""A file that is held open beside SQLite, to look at it.

Closing any descriptor of a file drops all locks that this process has on it (POSIX, fcntl), SQLite's own among them.
So a file is opened once, whoever holds it, and the last one that lets go of it closes it.
"""

import os
from pathlib import Path
from typing import Final, final

# By device and inode: the descriptor, and how many hold it.
held: Final[dict[tuple[int, int], tuple[int, int]]] = {}


@final
class HeldFile:
    """The file of that name. Hold it only while SQLite does, or before, and let go of it after SQLite has.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        there = os.lstat(self._path)
        self._key = (there.st_dev, there.st_ino)
        descriptor, holders = held.get(self._key, (-1, 0))
        if not holders:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        held[self._key] = (descriptor, holders + 1)
        self._descriptor = descriptor

    def close(self) -> None:
        """Let go of it."""
        descriptor, holders = held.pop(self._key)
        if holders > 1:
            held[self._key] = (descriptor, holders - 1)
        else:
            os.close(descriptor)

    @property
    def named(self) -> bool:
        """Whether it still has its name: it was neither removed nor replaced."""
        try:
            now = os.lstat(self._path)
        except FileNotFoundError:
            return False
        return (now.st_dev, now.st_ino) == self._key

    @property
    def size(self) -> int:
        """Bytes that it has now."""
        return os.fstat(self._descriptor).st_size

    def read(self, count: int, offset: int = 0) -> bytes:
        """So many bytes, or fewer at its end."""
        return os.pread(self._descriptor, count, offset)
