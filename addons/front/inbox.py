"""What came from a client: held in its order until its layer takes it, bounded, and waited for under one deadline.

While a stream runs its channel gets what comes, so that the chain can read it while the layer waits for the chain.
"""

import asyncio
from collections import deque
from typing import Final, final

from addons.streams import ClientLeft

from .channel import Channel

# What is held of what a client sends ahead while its request is answered: then its socket is read no further.
_AHEAD_BYTES: Final = 256 * 1024


@final
class Inbox:
    """The connection puts in, the layer takes out. Needs a running event loop.

    Attributes:
        channel: the stream that runs.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[bytes] = deque()
        self._held = self._ahead = 0
        self._ended = False
        self.channel: Channel | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._wanted: asyncio.Future[None] | None = None
        self._deadline = self._fires = 0.0
        self._timer: asyncio.Handle | None = None
        # Who waits without a deadline is late.
        self._late = True

    # -- the connection's side ----------------------------------------------------------------------------------------

    def received(self, data: bytes) -> bytes:
        """Bytes came. Returns what the wire has to say to the client at once."""
        if self.channel is not None:
            return self.channel.received(data)
        self._pieces.append(data)
        self._held += len(data)
        self._make_room()
        self._wake()
        return b""

    def end(self) -> None:
        """The client sends nothing more."""
        self._ended = True
        if self.channel is not None:
            self.channel.ended()
        self._wake()

    @property
    def full(self) -> bool:
        """So much is held that nothing more should be read from the client."""
        return not self._room.is_set() or (self.channel is not None and self.channel.full)

    async def room(self) -> None:
        """Wait until more may be read from the client."""
        while self.full:
            await self._room.wait()
            if self.channel is not None:
                await self.channel.room()

    def close(self) -> None:
        """Nobody waits here any more."""
        if self._timer is not None:
            self._timer.cancel()

    # -- the layer's side ---------------------------------------------------------------------------------------------

    def arm(self, seconds: float) -> None:
        """Set the deadline. A timer that fires early is set again, so that most requests need none of their own."""
        self._late = False
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._fires > self._deadline:
            self.close()
            self._set_timer()

    def ahead(self, count: int) -> None:
        """`count` bytes of what was taken wait to be read: they count as held."""
        self._ahead = count
        self._make_room()

    async def take(self) -> bytes:
        """What came next.

        Raises:
            TimeoutError: the deadline has passed.
            ClientLeft: the client sends nothing more.
        """
        while not self._pieces:
            if self._ended:
                raise ClientLeft
            if self._late:
                raise TimeoutError
            self._wanted = self._loop.create_future()
            await self._wanted
        return self._release()

    def divert(self, channel: Channel) -> bytes:
        """Let `channel` have what comes, first of all what is held. Returns what the wire has to say at once."""
        self.channel = channel
        said = b"".join([channel.received(self._release()) for _ in range(len(self._pieces))])
        if self._ended:
            channel.ended()
        return said

    # -- inside -------------------------------------------------------------------------------------------------------

    def _release(self) -> bytes:
        data = self._pieces.popleft()
        self._held -= len(data)
        self._make_room()
        return data

    def _make_room(self) -> None:
        if self._held + self._ahead >= _AHEAD_BYTES:
            self._room.clear()
        else:
            self._room.set()

    def _wake(self) -> None:
        if self._wanted is not None:
            if not self._wanted.done():
                self._wanted.set_result(None)
            self._wanted = None

    def _set_timer(self) -> None:
        self._fires = self._deadline
        self._timer = self._loop.call_at(self._fires, self._look)

    def _look(self) -> None:
        if self._fires < self._deadline:
            self._set_timer()
        else:
            self._timer, self._late = None, True
            self._wake()
