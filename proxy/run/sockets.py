"""The directory for the sockets of an isolated program's proxy: in `/tmp`, as a socket's path is short, and the user's.

It goes with the one who made it. What a SIGKILL left behind goes at the next start: its lock is then free.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PLACE: Final = Path("/tmp")  # noqa: S108 - directories of an unforeseeable name and for the user alone
_PREFIX: Final = "grantproxy-run-"
_LOCK: Final = "lock"
_MAKING: Final = "lock.new"


@contextmanager
def sockets(place: Path = _PLACE) -> Iterator[Path]:
    """A new directory, while it is used."""
    sweep(place)
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    lock = os.open(path / _MAKING, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # before it has the name by which another start would find it free
        (path / _MAKING).rename(path / _LOCK)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def sweep(place: Path = _PLACE) -> None:
    """Remove what is left of the user's own, and nobody holds. One without a lock is just being made."""
    for path in place.glob(f"{_PREFIX}*"):
        try:
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:  # somebody uses it
            continue
        finally:
            os.close(lock)
