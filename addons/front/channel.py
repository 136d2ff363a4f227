"""A client's side of a stream while the chain is asked: what comes from it is read here, not by the waiting layer.

The inbox hands over what comes (`received`, `ended`); the connection sends what is written, and stops reading from the
socket while enough is held (`room`). So both directions are held back by whoever is slower.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, final

from addons.streams import ClientLeft
from grants.decision import Deny

from .events import BodyPiece, Unreadable
from .reader import RequestReader
from .wire import TlsFailed, Wire

_HELD_BYTES: Final = 256 * 1024

type Output = Callable[[bytes], Awaitable[None]]


@final
class Channel:
    """Implements `ClientChannel`.

    Args:
        wire: the connection's.
        reader: takes the body of a request apart; None for a raw stream.
        complete: there is no body.
    """

    def __init__(self, wire: Wire, reader: RequestReader | None, *, complete: bool) -> None:
        self._wire = wire
        self._reader = reader
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._complete = complete
        self.unreadable: Deny | None = None
        self._gone = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._left = asyncio.Event()
        self._output: Output | None = None
        self._sent_at = monotonic()
        self._end: Callable[[], None] | None = None

    # -- the connection's side ----------------------------------------------------------------------------------------

    def attach(self, output: Output, end: Callable[[], None]) -> None:
        """Send by `output`, which waits until the client has taken enough, and half-close by `end`."""
        self._output, self._end = output, end

    @property
    def full(self) -> bool:
        """So much is held that nothing more should be read from the client."""
        return not self._room.is_set()

    async def room(self) -> None:
        """Wait until more may be read from the client."""
        await self._room.wait()

    def received(self, data: bytes) -> bytes:
        """Bytes came. Returns what the wire has to say to the client at once."""
        try:
            plain = self._wire.receive(data)
        except TlsFailed:
            self.ended()
            return self._wire.pending()
        if plain and not self._gone:
            self._take(plain)
        if self._wire.ended or self._wire.failed is not None:
            self.ended()
        return self._wire.pending()

    def resume(self) -> None:
        """Take what the reader holds already."""
        self._take(b"")

    def ended(self) -> None:
        """The client sends nothing more: the end of a raw stream, the client's own within a body.

        Behind a whole request it may be half-closed, or gone: that shows when it is written to.
        """
        if self._reader is None:
            self._complete = True
        elif not self._complete:
            self._gone = True
        self._left.set()
        self._news.set()

    def done(self) -> None:
        """The chain has answered: nothing is held back any more."""
        self._room.set()
        self._output = None

    def gone(self) -> None:
        """The connection is no more."""
        self._gone = True
        self._left.set()
        self._news.set()
        self._room.set()

    def become_raw(self) -> None:
        """The protocol changes: what comes from now on is a raw stream."""
        if self._reader is not None:
            rest, self._reader = self._reader.take_rest(), None
            self._complete = self._left.is_set()
            # What was sent ahead counts as held once, from here on.
            self._held = 0
            self._room.set()
            if rest:
                self._hold(rest)

    @property
    def final(self) -> bool:
        """See `ClientChannel`: the body was not read to its end, or what follows it cannot be told from it."""
        unread = not self._complete or bool(self._pieces)
        return unread or (self._reader is not None and self._reader.ended)

    @property
    def is_raw(self) -> bool:
        """See `ClientChannel`."""
        return self._reader is None

    @property
    def quiet_since(self) -> float:
        """See `ClientChannel`."""
        return self._sent_at

    # -- the chain's side ---------------------------------------------------------------------------------------------

    async def read(self) -> bytes:
        """See `ClientChannel`."""
        while not self._pieces:
            if self._complete:
                return b""
            if self._gone:
                raise ClientLeft
            self._news.clear()
            await self._news.wait()
        piece = self._pieces.popleft()
        self._held -= len(piece)
        if self._held < _HELD_BYTES:
            self._room.set()
        return piece

    async def write(self, data: bytes) -> None:
        """See `ClientChannel`."""
        if self._gone or self._output is None:
            raise ClientLeft
        try:
            wired = self._wire.send(data)
        except TlsFailed:
            raise ClientLeft from None
        await self._output(wired)
        self._sent_at = monotonic()

    async def finish(self) -> None:
        """See `ClientChannel`."""
        if self._gone or self._output is None or self._end is None:
            raise ClientLeft
        if last := self._wire.finish():
            await self._output(last)
        self._end()

    async def left(self) -> None:
        """See `ClientChannel`."""
        await self._left.wait()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _take(self, plain: bytes) -> None:
        reader = self._reader
        if reader is None:
            self._hold(plain)
            return
        reader.feed(plain)
        if self._complete:
            # A request that was sent ahead: it is read when this one is answered. It is bounded by the room here, and
            # behind this by the inbox's, which is told of it.
            self._held += len(plain)
            self._check_room()
            return
        while (event := reader.next_event()) is not None:
            if not isinstance(event, BodyPiece):
                # The body cannot be read on: the request is cut.
                self.unreadable = event.denial if isinstance(event, Unreadable) else None
                self.gone()
                return
            if event.data:
                self._hold(event.data)
            if event.last:
                self._complete = True
                self._news.set()
                return

    def _hold(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._held += len(piece)
        self._check_room()
        self._news.set()

    def _check_room(self) -> None:
        if self._held >= _HELD_BYTES:
            self._room.clear()
