"""Writing the decision log: a record is one write of one whole line, or it is not in the log.

The chain is linked when its first line is written, under the file's lock, to the line that is then the last. A line of
which only a part could be written is taken back at once, so the file stays JSON lines. After any failure the log is not
writable until a write goes through; the state of the disk is asked again at most once a second, so that a program that
sends no more requests comes back by itself.

A file that was moved away, removed, or that another took the place of, is noticed before each record, which then goes
into the file that the path names, made anew where there is none. What goes in between is noticed behind the record: it
counts only when the file that it is in still has a name. A record that counts stays where it is, so that no chain has
one twice: it may be the last one in a file that was just moved. Each process that shares the file moves on with its own
next record, and no chain comes back. Where the path cannot be opened anew, a file that was moved away is still written
to, and the path tried again once a second: whoever rotates may be about to make it.

Times, on the developers' machine: a record costs about 15 µs, nearly half of it system calls; with `sync: always` also
what the disk takes for an fsync, on the event loop, which is some milliseconds on a disk without a write cache.
"""

import contextlib
import errno
import logging
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import final

from addons.ports import LogUnavailable
from addons.record import Record
from proxy.settings.model import Sync
from proxy.state import StartRefused, reason

from .chain import Chain
from .files import WHAT, close_off, last_link, lock, open_file, remedy, unlock
from .stream import StreamLog

log = logging.getLogger(__name__)

STDOUT = "stdout"
_INTERVAL_SECONDS = 1.0
_PROBE_SECONDS = 1.0
_PROBE = b"\n" * 4096
_TRIES = 2
_TOLD_AT = 2
_REPORT = "report it, with what happened before"
# Long enough for a worker that has the lock and was not given a processor for a while.
_LOCK_SECONDS = 1.0
_LOCK_SECONDS_AT_START = 5.0


@final
class FileLog:
    """The log in a file (see `addons.ports.DecisionLog`). Each process opens its own; several may share the file.

    Why it cannot be written is told once until a record goes through, on stderr, unless it is `quiet`.

    Raises:
        StartRefused: the file cannot be opened or written, is not owner-only, or is no decision log.
    """

    def __init__(self, path: Path, *, sync: str = Sync.INTERVAL, quiet: bool = False) -> None:
        self._path = path
        self._quiet = quiet
        self._why = ""
        self._sync = Sync(sync)
        self._chain = Chain()
        self._end = -1
        self._failed = False
        self._linked = False
        self._unsynced = False
        self._sync_failed = False
        self._gone = False
        self._probed = 0.0
        self._misses = 0
        self._missed = 0.0
        self._name = os.fspath(path)
        self._file = (-1, -1)
        self._retired: deque[int] = deque()
        self._fd = self._open(_LOCK_SECONDS_AT_START)
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
        if self._troubled and time.monotonic() - self._probed >= _PROBE_SECONDS:
            self._probed = time.monotonic()
            try:
                self._probe()
                self._failed = False
            except (OSError, StartRefused) as error:
                self._note(error)
        return not self._troubled and self._keeper.is_alive()

    @property
    def trouble(self) -> str:
        """Why it cannot be written now, and what helps; empty where it can."""
        if self.writable:
            return ""
        if not self._keeper.is_alive():
            self._note(_no_keeper())
        return self._why

    @property
    def _troubled(self) -> bool:
        return self._failed or self._sync_failed or self._gone

    def _note(self, error: Exception) -> str:
        """Keep why the log cannot be written, tell it if it is the first time, and return the cause."""
        first = not self._why
        if isinstance(error, StartRefused):
            cause, self._why = "it was removed and cannot be made again", str(error)
        else:
            cause = reason(error) if isinstance(error, OSError) else type(error).__name__
            helps = remedy(error) if isinstance(error, OSError) else _REPORT
            self._why = f"{WHAT} `{self._path}` cannot be written: {cause}; {helps}"
        if first and not self._quiet:
            log.error("%s; until it can be, requests are refused", self._why)
        return cause

    def write(self, record: Record) -> None:
        """Append one record.

        Raises:
            LogUnavailable: it is not in the log.
        """
        try:
            if not self._keeper.is_alive():
                raise _no_keeper()
            for _ in range(_TRIES):
                if self._gone:
                    self.reopen()
                elif self._moved():
                    self._move_on()
                if self._append(record):
                    break
                self._gone = True  # the record is needed once more, where it can be found
            else:
                raise OSError(errno.ESTALE, "it was removed again and again")
        except (OSError, StartRefused) as error:
            self._failed = True
            self._probed = time.monotonic()
            raise LogUnavailable(f"{WHAT} `{self._path}` cannot be written: {self._note(error)}") from None
        self._failed = False
        self._why = ""

    def reopen(self) -> None:
        """Open the path anew (SIGHUP, or the file was moved away). The chain goes on in the new file.

        The keeper syncs and closes the old one.

        Raises:
            StartRefused: it cannot be opened; the log goes on in the file that it had.
        """
        fresh = self._open(self._patience())
        old, self._fd = self._fd, fresh
        self._end = -1
        self._gone = False
        self._misses = 0
        self._retired.append(old)

    def _moved(self) -> bool:
        """Whether the path names another file than the one that is written to, or none."""
        try:
            found = os.stat(self._name)
        except OSError as error:
            return error.errno == errno.ENOENT
        return (found.st_dev, found.st_ino) != self._file

    def _move_on(self) -> None:
        """Go on in the file that the path names. Where that fails, the one that was moved away is not lost: it holds
        the records, and from the second failure on the operator is told so.
        """
        now = time.monotonic()
        if self._misses and now - self._missed < _PROBE_SECONDS:
            return
        self._missed = now
        try:
            self.reopen()
        except StartRefused as refused:
            self._misses += 1
            if self._misses == _TOLD_AT:
                log.warning("records go on in the file that was moved away from the path of the log: %s", refused)

    def close(self) -> None:
        """Sync, and close the file. Nothing may be written after it."""
        self._closed.set()
        self._keeper.join()
        self._retired.append(self._fd)
        self._let_go()

    def _patience(self) -> float:
        """Seconds to wait for the lock, on the loop: none where the last write already waited in vain."""
        return 0.0 if self._failed else _LOCK_SECONDS

    def _open(self, seconds: float) -> int:
        descriptor = open_file(self._path)
        try:
            lock(descriptor, seconds)
            if last_link(descriptor) is None:
                raise StartRefused(f"{WHAT} `{self._path}` holds something else; set `audit.path` to another file")
            close_off(descriptor)
            unlock(descriptor)
            found = os.fstat(descriptor)
            self._file = (found.st_dev, found.st_ino)
        except OSError as error:
            os.close(descriptor)
            raise StartRefused(
                f"{WHAT} `{self._path}` cannot be written: {reason(error)}; make room or set `audit.path`"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _append(self, record: Record) -> bool:
        """Write the line and go on in the chain; False where the file has lost its name: the line does not count."""
        descriptor, chain = self._fd, self._chain
        lock(descriptor, self._patience())
        try:
            end = os.lseek(descriptor, 0, os.SEEK_END)
            if end != self._end:  # another process wrote, or the file is new to us: its last line may be torn
                close_off(descriptor)
                end = os.lseek(descriptor, 0, os.SEEK_END)
            if not self._linked or not chain.seq:  # others may have written since a first record failed
                self._link(descriptor)
            line = chain.next(record)
            try:
                written = os.write(descriptor, line + b"\n")
                if written != len(line) + 1:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if self._sync is Sync.ALWAYS or self._sync_failed:
                    os.fsync(descriptor)
                    self._sync_failed = False
            except OSError:
                self._take_back(end)
                raise
            self._end = end + written
            if os.fstat(descriptor).st_nlink == 0:
                return False
            chain.written(line)
            self._unsynced = True
            return True
        finally:
            unlock(descriptor)

    def _link(self, descriptor: int) -> None:
        link = last_link(descriptor)
        if link is None:
            raise OSError(errno.EBADF, "the file holds something else")
        self._chain.begin(link)
        self._linked = True

    def _take_back(self, end: int) -> None:
        """Nothing of a line that failed may stay. Where that fails too, a new chain begins after what is there."""
        self._end = -1
        try:
            os.ftruncate(self._fd, end)
        except OSError:
            self._linked = False

    def _probe(self) -> None:
        if self._gone or os.fstat(self._fd).st_nlink == 0:
            self.reopen()
        lock(self._fd, 0.0)
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
            unlock(self._fd)

    def _keep(self) -> None:
        """In a thread, each second: sync what was written, and see whether the file still has a name.

        It outlives whatever goes wrong: a log that nobody looks after would seem well.
        """
        while not self._closed.wait(_INTERVAL_SECONDS):
            try:
                self._look_after()
            except Exception as error:
                self._note(error)
                self._sync_failed = True

    def _look_after(self) -> None:
        self._let_go()
        descriptor = self._fd  # open for as long as this runs: what takes its place hands it to `_let_go`
        if os.fstat(descriptor).st_nlink == 0:
            self._gone = self._fd == descriptor
        if self._sync is Sync.INTERVAL and self._unsynced:
            self._unsynced = False
            os.fsync(descriptor)

    def _let_go(self) -> None:
        """Sync and close the files that are no longer written to. Only one thread at a time comes here."""
        while self._retired:
            descriptor = self._retired.popleft()
            with contextlib.suppress(OSError):  # what cannot be synced now would have shown before
                if self._sync is not Sync.OFF:
                    os.fsync(descriptor)
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _no_keeper() -> OSError:
    return OSError(errno.ESRCH, "its keeper is not running")


def open_log(path: str | Path, *, state: Path, sync: str = Sync.INTERVAL, quiet: bool = False) -> FileLog | StreamLog:
    """The log that `audit: {path, sync}` names: `stdout`, or a file, relative to the state directory.

    A `quiet` file leaves it to the caller to tell why it cannot be written.

    Raises:
        StartRefused: the file cannot be opened or written, is not owner-only, or is no decision log.
    """
    return StreamLog() if str(path) == STDOUT else FileLog(state / path, sync=sync, quiet=quiet)
