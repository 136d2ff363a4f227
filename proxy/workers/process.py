"""One worker as its supervisor has it, and the fork that makes it."""

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final, final

from proxy.state import StartRefused
from proxy.workers.ledger import Ledger
from proxy.workers.line import LineBroken, Message, pair, send

log = logging.getLogger(__name__)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_ALONE_SECONDS: Final = 1.0


class Phase(Enum):
    """Of a worker's life."""

    STARTING = auto()
    READY = auto()


@final
@dataclass(slots=True, kw_only=True, eq=False)
class Worker:
    """A living worker.

    Attributes:
        index: which of the workers it is; the one that takes its place has the same.
        end: of the line to it.
        began: on the monotonic clock.
        closed: it has closed its end of the line.
    """

    index: int
    pid: int
    end: socket.socket
    ledger: Ledger
    began: float = field(default_factory=time.monotonic)
    phase: Phase = Phase.STARTING
    closed: bool = False

    def tell(self, message: Message) -> None:
        """Send a message. A worker that takes none is killed: another one takes its place."""
        try:
            send(self.end, message)
        except LineBroken as broken:
            if not self.closed:
                log.warning("worker %d takes no message: %s", self.index, broken)
                self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal. It is our own child and not waited for yet, so the id is its."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


def hold_alone() -> None:
    """Make sure that this process has one thread: what others hold would be held for ever in a copy of it.

    Raises:
        StartRefused: it has more.
    """
    tasks = Path("/proc/self/task")
    end = time.monotonic() + _ALONE_SECONDS
    while True:
        # One that was just joined may still be seen for a moment.
        count = max(threading.active_count(), len(list(tasks.iterdir())) if tasks.exists() else 1)
        if count == 1:
            return
        if time.monotonic() > end:
            raise StartRefused(f"the process has {count} threads and cannot fork; use `workers: 1`")
        time.sleep(0.001)


def fork(index: int, ledger: Ledger, work: Callable[[socket.socket], int]) -> Worker:
    """Start a worker: `work` is what it does, with its end of the line, and gives its exit code.

    Raises:
        StartRefused: this process has another thread, or the system makes no further process.
    """
    hold_alone()
    ours, theirs = pair()
    _flush()
    # No signal may find the handlers of the one in the other.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            ours.close()
            _run(theirs, work, before)
    except OSError as error:
        ours.close()
        theirs.close()
        raise StartRefused(f"a worker cannot be started: {os.strerror(error.errno or 0).lower()}") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return Worker(index=index, pid=pid, end=ours, ledger=ledger)


def _run(end: socket.socket, work: Callable[[socket.socket], int], mask: Iterable[int]) -> None:
    """In the worker. Never returns into what the supervisor was doing."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGHUP):
            # Not ignored: that would be inherited by the commands that give secrets.
            signal.signal(number, _leave)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = work(end)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException as error:
        log.error("a worker failed: %s", type(error).__name__)  # noqa: TRY400 - its text may hold a value
    finally:
        _flush()
        os._exit(code)


def _flush() -> None:
    """What is still in a buffer would be written by both."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()


def _leave(_number: int, _frame: object) -> None:
    """The supervisor has got it too."""
