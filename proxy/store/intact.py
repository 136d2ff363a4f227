"""Whether an SQLite file is still the one that was opened, and whole.

SQLite looks at the file less often than one would think: what it has in memory or in the write-ahead log it does not
read again. So it goes on, and says that all is well, in a file that has lost its name or was overwritten, until the
next start finds nothing. What is looked at here costs microseconds and is looked at around everything that is done.

Source: "Database File Format" (sqlite.org/fileformat2.html), 1.3 and 4.1.
"""

import asyncio
import os
from pathlib import Path
from typing import Final, final

_MAGIC: Final = b"SQLite format 3\x00"
_HEADER: Final = 100
_LOG_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_TRIES: Final = 40
_PAUSE: Final = 0.025
"""A checkpoint writes the first page before the file has grown to what that page says: then it is looked at again."""

_REMEDY: Final = "stop every process that uses it, restore it, and start again"

# By device and inode: the descriptor, and how many hold it. Closing any descriptor of a file drops all locks that this
# process has on it (POSIX, fcntl), SQLite's own among them, so the last one that holds it closes it.
_held: dict[tuple[int, int], tuple[int, int]] = {}


@final
class Intact:
    """Watches over one file. Make it before SQLite opens the file, and close it after SQLite has closed it.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        there = path.lstat()
        self._key = (there.st_dev, there.st_ino)
        descriptor, holders = _held.get(self._key, (-1, 0))
        if not holders:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        _held[self._key] = (descriptor, holders + 1)
        self._descriptor = descriptor

    def close(self) -> None:
        """Let go of the file."""
        descriptor, holders = _held.pop(self._key)
        if holders > 1:
            _held[self._key] = (descriptor, holders - 1)
        else:
            os.close(descriptor)

    async def check(self, *, written: bool = False) -> None:
        """Look at the file; with `written` at the write-ahead log too, which is there while SQLite has the file open.

        Raises:
            OSError: it is another one, or damaged, with what is wrong and the remedy.
        """
        now = self._path.lstat()
        if (now.st_dev, now.st_ino) != self._key:
            raise OSError(None, f"its file was replaced; {_REMEDY}")
        for tries in range(_TRIES):
            if tries:
                await asyncio.sleep(_PAUSE)
            if not self._too_short():
                break
        else:
            raise OSError(None, f"its file was cut short; {_REMEDY}")
        if written and not self._logged():
            raise OSError(None, f"its write-ahead log was removed or overwritten; {_REMEDY}")

    def _too_short(self) -> bool:
        """Whether the file has fewer pages than its first page says. OSError: that is no first page of a database."""
        size, header = os.fstat(self._descriptor).st_size, os.pread(self._descriptor, _HEADER, 0)
        page = int.from_bytes(header[16:18], "big")
        page = 65536 if page == 1 else page
        if len(header) < _HEADER or not header.startswith(_MAGIC) or page < 512 or page & (page - 1):
            raise OSError(None, f"its file was overwritten; {_REMEDY}")
        counted = header[24:28] == header[92:96]  # else the number of pages is not kept there
        return size < page or (counted and size < page * int.from_bytes(header[28:32], "big"))

    def _logged(self) -> bool:
        """Whether the write-ahead log is there, empty or with its header. Closing it drops no lock."""
        try:
            descriptor = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            return os.pread(descriptor, 4, 0) in (b"", *_LOG_MAGIC)
        finally:
            os.close(descriptor)
