"""The decision log on a descriptor that is only written: `audit.path: stdout`, for containers.

A reader that stalls must not stop the loop. So each write is asked for first and is no longer than a ready pipe takes
at once (`select.PIPE_BUF`), and where the system lets us, pipe and terminal are opened once more, without blocking:
whoever shares the descriptor keeps it as it was. A file stays as it is given, as another opening has a place of its own
in it and would write over what the shared one writes.
"""

import errno
import logging
import os
import select
import stat
import time
from typing import final

from addons.ports import LogUnavailable
from addons.record import Record
from proxy.state import reason

from .chain import Chain
from .files import WHAT
from .torn import CUT

log = logging.getLogger(__name__)

_WAIT_SECONDS = 0.05
_PAUSE_SECONDS = 0.0005
_REMEDY = "see to the program that reads it"
_STALLED = "its reader takes nothing"
_CUT = CUT + b"\n"


@final
class StreamLog:
    """The log on a stream (see `addons.ports.DecisionLog`).

    A line that was cut is ended before the next one, and a new chain begins: `verify` reports the torn line.
    """

    def __init__(self, descriptor: int = 1) -> None:
        own = _opened_again(descriptor)
        self._owned = own is not None
        self._fd = descriptor if own is None else own
        self._poller = select.poll()
        self._poller.register(self._fd, select.POLLOUT)
        self._chain = Chain()
        self._failed = False
        self._torn = False
        self._why = ""

    @property
    def head(self) -> str:
        """The digest of this chain's last line, for `verify --head`."""
        return self._chain.prev

    @property
    def writable(self) -> bool:
        """False from a failed write until one succeeds, or until the reader takes bytes again."""
        if self._failed:
            self._failed = [event for _, event in self._poller.poll(0)] != [select.POLLOUT]
        return not self._failed

    @property
    def trouble(self) -> str:
        """Why it cannot be written now, and what helps; empty where it can."""
        return "" if self.writable else self._why

    def write(self, record: Record) -> None:
        """Append one record. Waits for the reader at most 50 ms, and not at all after it was waited for in vain.

        Raises:
            LogUnavailable: it is not in the log, or only a part of it.
        """
        line = self._chain.next(record)
        try:
            self._send(_CUT + line + b"\n" if self._torn else line + b"\n")
        except OSError as error:
            self._failed = True
            why = f"{WHAT} on standard output cannot be written: {reason(error)}"
            if not self._why:
                log.error("%s; %s; until it can be, requests are refused", why, _REMEDY)  # noqa: TRY400 - one line is enough
            self._why = f"{why}; {_REMEDY}"
            raise LogUnavailable(why) from None
        self._torn = self._failed = False
        self._why = ""
        self._chain.written(line)

    def reopen(self) -> None:
        """Nothing to do: the stream is not ours to open."""

    def close(self) -> None:
        """Close what was opened here; the stream itself is not ours to close."""
        if self._owned:
            self._owned = False
            os.close(self._fd)

    def _send(self, data: bytes) -> None:
        deadline = time.monotonic() + (0.0 if self._failed else _WAIT_SECONDS)
        rest = memoryview(data)
        try:
            while rest:
                # An end that is closed shows as an event too: the write then says why.
                if not self._poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    raise OSError(errno.EAGAIN, _STALLED)
                try:
                    written = os.write(self._fd, rest[: select.PIPE_BUF])
                except BlockingIOError:  # somebody else filled it since
                    written = 0
                rest = rest[written:]
                if not written:
                    if time.monotonic() >= deadline:
                        raise OSError(errno.EAGAIN, _STALLED)
                    time.sleep(_PAUSE_SECONDS)
        except OSError:
            if len(rest) < len(data):
                self._torn = True
                self._chain.begin(self._chain.prev)
            raise


def _opened_again(descriptor: int) -> int | None:
    """The same pipe or terminal with flags of its own; None for anything else, and where it cannot be opened."""
    try:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
            return None
        return os.open(
            f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_APPEND
        )
    except OSError:
        return None
