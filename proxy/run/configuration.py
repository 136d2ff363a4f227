"""What an isolated program sees of `/etc`: a copy of the configuration that everybody may read.

What its owner or a group alone may read there (`shadow`, keys of servers and mounts, credentials of services) is not in
it, so that neither a program that root runs, nor one of a user with such a file, has it. A copy and not the directory:
files that are replaced or made there later would be seen as well, before anybody could say whether they may be.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from proxy.run.mounts import Empty, Mount, Show
from proxy.run.refused import IsolationRefused

ETC: Final = Path("/etc")
_CHUNK: Final = 1024 * 1024


def copied(target: Path, place: Path = ETC) -> tuple[Mount, ...]:
    """Copy what everybody may read in `place` to `target`, which is made, and show it there.

    What is private is an empty directory, or an empty file that nobody may read: something to mount on.

    Raises:
        IsolationRefused: the copy cannot be written.
    """
    try:
        target.mkdir(mode=0o755)
        return (Show(place, target, copied=True), *_copy(place, target))
    except OSError as error:
        cause = (error.strerror or type(error).__name__).lower()
        raise IsolationRefused(
            f"the copy of `{place}` that the program sees cannot be made in `{target.parent}`: {cause}; make room there"
        ) from None


def _copy(place: Path, target: Path) -> Iterator[Mount]:
    """What covers private directories. An OSError is the target's: what cannot be read is private."""
    for entry in _entries(place):
        to = target / entry.name
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
            link = os.readlink(entry.path) if stat.S_ISLNK(mode) else None
        except OSError:
            continue
        if link is not None:
            to.symlink_to(link)
        elif stat.S_ISDIR(mode):
            to.mkdir(mode=0o755)
            if mode & stat.S_IROTH and mode & stat.S_IXOTH:
                yield from _copy(Path(entry.path), to)
            else:
                yield Empty(Path(entry.path), closed=True)
        else:
            _copy_file(entry.path, to)


def _entries(place: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(place) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:  # nor does the program come in
        return []


def _copy_file(path: str, to: Path) -> None:
    made = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    mode = 0
    try:
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return
        try:  # asked of what was opened: the name may have become another file's
            found = os.fstat(file).st_mode
            if stat.S_ISREG(found) and found & stat.S_IROTH:
                _pour(file, made)
                mode = stat.S_IMODE(found) & 0o777
        finally:
            os.close(file)
    finally:
        os.fchmod(made, mode)
        os.close(made)


def _pour(file: int, made: int) -> None:
    while True:
        try:
            data = os.read(file, _CHUNK)
        except OSError:
            return
        if not data:
            return
        while data:
            data = data[os.write(made, data) :]
