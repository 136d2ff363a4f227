"""What was written to clients and is not taken yet: bounded in time for each, and in bytes over all of them.

One look a second goes over the clients that are owed something. A client is cut off that took nothing for a while, or
takes so little that it would hold its place for hours; while it takes, a large answer may last as long as it needs.
Beyond the budget of all clients together those go first whose answers have waited longest.

What the kernel holds for a client counts as not taken: on loopback that is megabytes, which hide a steady reader.
"""

import asyncio
import contextlib
import fcntl
import logging
import socket
import struct
import termios
from typing import Final, final

log = logging.getLogger(__name__)

_LOOKS: Final = 8
_LOOK_SECONDS: Final = 1.0
_DROP: Final = struct.pack("ii", 1, 0)


@final
class Unsent:
    """Watches over the clients of one program. Needs a running event loop only once something is written.

    Args:
        budget: bytes that may be held for all clients together.
        patience: seconds that a client may take nothing while it is owed something.
        rate: bytes a second that it must take on average, once its patience is over.
    """

    def __init__(self, *, budget: int = 256 * 1024 * 1024, patience: float = 30.0, rate: int = 1024) -> None:
        self.budget = budget
        self.patience = patience
        self.rate = rate
        self._owed: set[ClientWriter] = set()
        self._held = 0
        self._look: asyncio.TimerHandle | None = None

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        return sum(writer.unsent for writer in self._owed)

    def wrote(self, writer: "ClientWriter", count: int) -> None:
        """`count` bytes were written to `writer`, and not all of them are sent."""
        self._owed.add(writer)
        # An upper bound between two counts, so that a write costs no count.
        self._held += count
        if self._held > self.budget:
            self._relieve()
        if self._look is None:
            self._look_later()

    def _relieve(self) -> None:
        """Count, and cut off who waits longest until the rest is within the budget."""
        self._held = self.held
        for writer in sorted(self._owed, key=lambda writer: writer.owed_since):
            if self._held <= self.budget:
                return
            self._held -= writer.unsent
            self._owed.discard(writer)
            log.warning("a client was cut off: over %d bytes are held for clients that read slowly", self.budget)
            writer.abort()

    def _look_later(self) -> None:
        seconds = min(_LOOK_SECONDS, self.patience / _LOOKS)
        self._look = asyncio.get_running_loop().call_later(seconds, self._look_over)

    def _look_over(self) -> None:
        self._look = None
        now = asyncio.get_running_loop().time()
        for writer in list(self._owed):
            if not writer.unsent:
                self._owed.discard(writer)
            elif writer.stalls(now, self.patience, self.rate):
                self._owed.discard(writer)
                log.info("a client was cut off: it did not read its answer")
                writer.abort()
        self._held = self.held
        if self._owed:
            self._look_later()


@final
class ClientWriter:
    """The writing side of one client connection, with its part of `Unsent`: a `StreamWriter`, as far as it is needed.

    Attributes:
        is_closing: as `StreamWriter.is_closing`.
    """

    def __init__(self, writer: asyncio.StreamWriter, unsent: Unsent) -> None:
        self._writer = writer
        self._send = writer.transport.write
        self._size = writer.transport.get_write_buffer_size
        self.is_closing = writer.transport.is_closing
        self._all = unsent
        self._now = asyncio.get_running_loop().time
        self._written = 0
        self._taken = 0
        self._moved = 0.0
        self._taken_before = 0
        self._looked = False
        self.owed_since = 0.0

    @property
    def unsent(self) -> int:
        """Bytes that this process holds for the client."""
        return self._size()

    def write(self, data: bytes) -> None:
        """As `StreamWriter.write`."""
        if not self._size():
            self.owed_since = self._moved = self._now()
            # The first look finds out: a system call for each answer would be too much.
            self._looked = False
        self._send(data)
        self._written += len(data)
        if self._size():
            self._all.wrote(self, len(data))

    def stalls(self, now: float, patience: float, rate: int) -> bool:
        """Whether the client takes nothing, or too little to be waited for."""
        taken = self._written - self.unsent - self._queued()
        if not self._looked:
            self._looked = True
            self._taken_before = self._taken = taken
        if taken > self._taken:
            self._taken, self._moved = taken, now
        if now - self._moved >= patience:
            return True
        return self._taken - self._taken_before < rate * (now - self.owed_since - patience)

    async def drain(self) -> None:
        """As `StreamWriter.drain`. A client that is cut off ends the wait."""
        await self._writer.drain()

    def pause_reading(self) -> None:
        """Read nothing from the client for now."""
        if not self.is_closing():
            self._writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream transport has it

    def resume_reading(self) -> None:
        """Read again."""
        if not self.is_closing():
            self._writer.transport.resume_reading()  # type: ignore[attr-defined]  # a stream transport has it

    def can_write_eof(self) -> bool:
        """As `StreamWriter.can_write_eof`."""
        return self._writer.can_write_eof()

    def write_eof(self) -> None:
        """As `StreamWriter.write_eof`."""
        self._writer.write_eof()

    def close(self) -> None:
        """As `StreamWriter.close`: what was written is still sent."""
        self._writer.close()

    def abort(self) -> None:
        """Close now, whatever was written; the kernel drops what it holds too."""
        sock = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError, ValueError, AttributeError):  # it is closed already, or a Unix socket
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP)
        self._writer.transport.abort()

    async def wait_closed(self) -> None:
        """As `StreamWriter.wait_closed`."""
        await self._writer.wait_closed()

    def address(self, which: str) -> tuple[str, int]:
        """`peername` or `sockname`. A Unix socket has empty ones, and mitmproxy has no type for that: None."""
        return self._writer.get_extra_info(which) or None  # type: ignore[return-value]

    def _queued(self) -> int:
        """Bytes that the kernel holds and the client's has not taken; 0 where the system does not tell."""
        sock = self._writer.get_extra_info("socket")
        try:
            return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0])
        except (OSError, ValueError, AttributeError):
            return 0
