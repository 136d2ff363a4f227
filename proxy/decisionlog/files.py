"""The log's file: opened for its owner alone, its end found, a line that a crash tore closed off.

Whoever writes holds the file's lock, so that processes that share a log never write into each other's lines. What is at
the end without a line end was never acknowledged to anybody: it becomes a line of its own, which `verify` reports.
"""

import errno
import fcntl
import os
import stat
import time
from pathlib import Path

from proxy.state import PRIVATE_FILE, StartRefused, reason, require_private

from .chain import as_record
from .lines import FIRST_PREV, digest
from .torn import is_torn

WHAT = "decision log"
_REMEDIES = {
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room, or raise the quota of its user",
    errno.EFBIG: "rotate it, or raise the limit of a file's size",
    errno.EROFS: "mount its disk writable",
    errno.EAGAIN: "end that program",
    errno.EBADF: "move that file away",
    errno.ESRCH: "start grantproxy anew",
}
_CHUNK = 64 * 1024
_SEARCHED = 4 * 1024 * 1024
# A record is written in less than this many tries: a worker beside us hardly ever makes us sleep.
_QUICK_TRIES = 20
_PAUSE_SECONDS = 0.0002
_LOCK = fcntl.LOCK_EX | fcntl.LOCK_NB


def open_file(path: Path) -> int:
    """Open `path` for appending, made owner-only where it is missing. A symbolic link is not followed.

    Raises:
        StartRefused: it cannot be opened, is no regular file, or is not owner-only.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
    try:
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise StartRefused(f"{WHAT} `{path}` is a symbolic link; set `audit.path` to the file itself")
    except OSError:
        pass  # missing, or said better by open()
    try:
        descriptor = os.open(path, flags, PRIVATE_FILE)
    except OSError as error:
        raise StartRefused(f"{WHAT} `{path}` cannot be opened: {reason(error)}; correct `audit.path`") from None
    try:
        require_private(path, os.fstat(descriptor), WHAT)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def remedy(error: OSError) -> str:
    """What helps where the log cannot be written."""
    return _REMEDIES.get(error.errno or 0, "see to its disk and its directory")


def lock(descriptor: int, seconds: float) -> None:
    """Take the file's lock, waiting at most `seconds` for another process that has it: the caller may be the loop.

    Raises:
        OSError: it is not to be had, or there are no locks.
    """
    deadline, tries = None, 0
    while True:
        try:
            return fcntl.flock(descriptor, _LOCK)
        except BlockingIOError:
            now = time.monotonic()
            deadline = now + seconds if deadline is None else deadline
            if now >= deadline:
                raise OSError(errno.EAGAIN, "another program holds its lock") from None
        tries += 1
        if tries > _QUICK_TRIES:
            time.sleep(_PAUSE_SECONDS)


def unlock(descriptor: int) -> None:
    """Give the file's lock back."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def close_off(descriptor: int) -> None:
    """End the last line where it is torn. The caller holds the lock.

    Raises:
        OSError: it cannot be written.
    """
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size and os.pread(descriptor, 1, size - 1) != b"\n" and os.write(descriptor, b"\n") != 1:
        raise OSError(0, "nothing was written")


def last_link(descriptor: int) -> str | None:
    """The digest of the file's last record; all zeros for a file without one. The caller holds the lock.

    None: there are lines, but no record among the last 4 MiB, so the file is no decision log.
    """
    start = size = os.lseek(descriptor, 0, os.SEEK_END)
    tail = b""
    while start > 0 and size - start < _SEARCHED:
        step = min(_CHUNK, start)
        start -= step
        tail = os.pread(descriptor, step, start) + tail
        lines = tail.split(b"\n")
        for line in reversed(lines[1:] if start else lines):
            if as_record(line) is not None:
                return digest(line)
    if start == 0 and all(map(is_torn, tail.splitlines(keepends=True))):
        return FIRST_PREV  # empty, or only a first record that a crash tore
    return None
