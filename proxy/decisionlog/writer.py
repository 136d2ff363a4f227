"""Writing the decision log: a record is one write of one whole line, or it is not in the log.

The chain is linked when its first line is written, under the file's lock, to the line that is then the last. A line of
which only a part could be written is taken back at once, so the file stays JSON lines. After any failure the log is not
writable until a write goes through; the state of the disk is asked again at most once a second, so that a program that
sends no more requests comes back by itself.

Times, on the developers' machine: a record costs about 9 µs; with `sync: always` also what the disk takes for an fsync,
on the event loop, which is some milliseconds on a disk without a write cache.
"""

import contextlib
import errno
import fcntl
import os
import select
import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import final

from addons.ports import LogUnavailable
from addons.record import Record
from proxy.state import StartRefused, reason

from .chain import Chain
from .files import WHAT, close_off, last_link, open_file

STDOUT = "stdout"
_INTERVAL_SECONDS = 1.0
_PROBE_SECONDS = 1.0
_PROBE = b"\n" * 4096
_CUT = b"!\n"
"""Ends a line that was cut, so that it is no record even when only its line end was missing."""


class Sync(StrEnum):
    """When the log is forced to the disk: after each record, each second, or when the system likes to."""

    ALWAYS = "always"
    INTERVAL = "interval"
    OFF = "off"


@final
class FileLog:
    """The log in a file (see `addons.ports.DecisionLog`). Each process opens its own; several may share the file.

    Raises:
        StartRefused: the file cannot be opened or written, is not owner-only, or is no decision log.
    """

    def __init__(self, path: Path, *, sync: str = Sync.INTERVAL) -> None:
        self._path = path
        self._sync = Sync(sync)
        self._chain = Chain()
        self._end = -1
        self._failed = False
        self._linked = False
        self._unsynced = False
        self._sync_failed = False
        self._gone = False
        self._probed = 0.0
        self._swap = threading.Lock()
        self._fd = self._open()
        self._closed = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="decision-log", daemon=True)
        self._keeper.start()

    @property
    def path(self) -> Path:
        """Where the records go."""
        return self._path

    @property
    def head(self) -> str:
        """The digest of this chain's last line, for `verify --head`."""
        return self._chain.prev

    @property
    def writable(self) -> bool:
        """False from a failed write until one succeeds. While it is False, tries one (at most once a second)."""
        if (self._failed or self._sync_failed) and time.monotonic() - self._probed >= _PROBE_SECONDS:
            self._probed = time.monotonic()
            with contextlib.suppress(OSError, StartRefused):
                self._probe()
                self._failed = False
        return not (self._failed or self._sync_failed)

    def write(self, record: Record) -> None:
        """Append one record.

        Raises:
            LogUnavailable: it is not in the log.
        """
        try:
            if self._gone:
                self.reopen()
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                self._append(record)
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        except (OSError, StartRefused) as error:
            self._failed = True
            self._probed = time.monotonic()
            cause = reason(error) if isinstance(error, OSError) else "it was removed and cannot be made again"
            raise LogUnavailable(f"{WHAT} `{self._path}` cannot be written: {cause}") from None
        self._failed = False

    def reopen(self) -> None:
        """Open the path anew (SIGHUP, after the file was moved away). The chain goes on in the new file.

        Raises:
            StartRefused: it cannot be opened; the log goes on in the file that it had.
        """
        fresh = self._open()
        with self._swap:
            old, self._fd = self._fd, fresh
            self._end = -1
            self._gone = False
        with contextlib.suppress(OSError):  # what cannot be synced now would have shown before
            if self._sync is not Sync.OFF:
                os.fsync(old)
        os.close(old)

    def close(self) -> None:
        """Sync, and close the file. Nothing may be written after it."""
        self._closed.set()
        self._keeper.join()
        with contextlib.suppress(OSError):
            if self._sync is not Sync.OFF:
                os.fsync(self._fd)
        os.close(self._fd)

    def _open(self) -> int:
        descriptor = open_file(self._path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if last_link(descriptor) is None:
                raise StartRefused(f"{WHAT} `{self._path}` holds something else; set `audit.path` to another file")
            close_off(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        except OSError as error:
            os.close(descriptor)
            raise StartRefused(
                f"{WHAT} `{self._path}` cannot be written: {reason(error)}; make room or set `audit.path`"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _append(self, record: Record) -> None:
        end = os.lseek(self._fd, 0, os.SEEK_END)
        if end != self._end:  # another process wrote, or the file is new to us: its last line may be torn
            close_off(self._fd)
            end = os.lseek(self._fd, 0, os.SEEK_END)
        if not self._linked:
            link = last_link(self._fd)
            if link is None:
                raise OSError(errno.EBADF, "the file holds something else")
            self._chain.begin(link)
            self._linked = True
        line = self._chain.next(record)
        try:
            if os.write(self._fd, line + b"\n") != len(line) + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._sync is Sync.ALWAYS or self._sync_failed:
                os.fsync(self._fd)
                self._sync_failed = False
        except OSError:
            self._take_back(end)
            raise
        self._end = end + len(line) + 1
        self._chain.written(line)
        self._unsynced = True

    def _take_back(self, end: int) -> None:
        """Nothing of a line that failed may stay. Where that fails too, a new chain begins after what is there."""
        self._end = -1
        try:
            os.ftruncate(self._fd, end)
        except OSError:
            self._linked = False

    def _probe(self) -> None:
        if self._gone:
            self.reopen()
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            close_off(self._fd)
            end = os.lseek(self._fd, 0, os.SEEK_END)
            try:
                if os.write(self._fd, _PROBE) != len(_PROBE):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if self._sync is not Sync.OFF:
                    os.fsync(self._fd)
                self._sync_failed = False
            finally:
                self._take_back(end)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _keep(self) -> None:
        """In a thread, each second: sync what was written, and see whether the file still has a name."""
        while not self._closed.wait(_INTERVAL_SECONDS):
            self._look_after()

    def _look_after(self) -> None:
        with self._swap:
            descriptor = os.dup(self._fd)
        try:
            if os.fstat(descriptor).st_nlink == 0:
                self._gone = True
            if self._sync is Sync.INTERVAL and self._unsynced:
                self._unsynced = False
                os.fsync(descriptor)
        except OSError:
            self._sync_failed = True
        finally:
            os.close(descriptor)


@final
class StreamLog:
    """The log on a descriptor that is only written: `audit.path: stdout`, for containers.

    A line that was cut is ended before the next one, and a new chain begins: `verify` reports the torn line.
    """

    def __init__(self, descriptor: int = 1) -> None:
        self._fd = descriptor
        self._chain = Chain()
        self._failed = False
        self._torn = False

    @property
    def head(self) -> str:
        """The digest of this chain's last line, for `verify --head`."""
        return self._chain.prev

    @property
    def writable(self) -> bool:
        """False from a failed write until one succeeds, or until the reader takes bytes again."""
        if self._failed:
            poller = select.poll()
            poller.register(self._fd, select.POLLOUT)
            self._failed = [event for _, event in poller.poll(0)] != [select.POLLOUT]
        return not self._failed

    def write(self, record: Record) -> None:
        """Append one record.

        Raises:
            LogUnavailable: it is not in the log, or only a part of it.
        """
        line = self._chain.next(record)
        whole = _CUT + line + b"\n" if self._torn else line + b"\n"
        try:
            written = os.write(self._fd, whole)
            if written != len(whole):
                self._torn = self._torn or written > 0
                self._chain.begin(self._chain.prev)
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        except OSError as error:
            self._failed = True
            raise LogUnavailable(f"{WHAT} on standard output cannot be written: {reason(error)}") from None
        self._torn = self._failed = False
        self._chain.written(line)

    def reopen(self) -> None:
        """Nothing to do: the stream is not ours to open."""

    def close(self) -> None:
        """Nothing to do: the stream is not ours to close."""


def open_log(path: str | Path, *, state: Path, sync: str = Sync.INTERVAL) -> FileLog | StreamLog:
    """The log that `audit: {path, sync}` names: `stdout`, or a file, relative to the state directory.

    Raises:
        StartRefused: the file cannot be opened or written, is not owner-only, or is no decision log.
    """
    return StreamLog() if str(path) == STDOUT else FileLog(state / path, sync=sync)
