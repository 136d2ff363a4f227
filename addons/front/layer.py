"""What the layers of judged connections share: how they read and send, and an end that the client gets to see.

mitmproxy knows them as the layers that `next_layer` sets. It feeds them no events: a connection runs its layer as one
coroutine, which reads a request, asks the chain about it, sends what the chain set, and goes on.
"""

import logging
from dataclasses import dataclass
from typing import Any, Final, Protocol, final

from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import Layer

from addons.causes import forget
from addons.exchange import Exchange
from addons.record import EndedBy
from addons.reply import BARE_500
from addons.streams import ClientLeft

from .client import Client
from .wire import Plain, TlsFailed, Wire

log = logging.getLogger(__name__)

# After a refusal the rest of a request is read and dropped for this long, so that a client which is still sending sees
# the answer and no reset (RFC 9112, 9.6).
_LINGER_SECONDS: Final = 1.0
_LINGER_BYTES: Final = 1024 * 1024


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a client connection.

    Attributes:
        head_bytes: a request head.
        idle: seconds between requests.
        head: seconds for a head, from its first byte.
        body: seconds for a body, and for a TLS handshake.
    """

    head_bytes: int = 64 * 1024
    idle: float = 75.0
    head: float = 10.0
    body: float = 60.0


class Requests(Protocol):
    """What reads the requests of a connection."""

    async def crashed(self) -> None:
        """Our own error: record the request that it hit."""
        ...


class FrontLayer(Layer):
    """Base of the layers whose requests the chain answers. Opens no connection and sends nothing but replies.

    It refers to what refers back to it only while it is served: so all that a connection holds, TLS state above all, is
    free as soon as it has ended, and not at some later collection.

    Attributes:
        client: the connection.
        wire: the bytes between it and the requests.
        requests: what reads them now.
        finished: nothing more is read from the client.
    """

    client: Client

    def __init__(self, context: Context, limits: Limits) -> None:
        super().__init__(context)
        # `Layer` has put it there.
        context.layers.remove(self)
        self.limits = limits
        self.wire: Wire = Plain()
        self.requests: Requests | None = None
        self.finished = False
        self._closed = False

    def _handle_event(self, event: object) -> Any:
        """See `Layer`. None comes."""
        raise NotImplementedError

    # -- what a subclass does -----------------------------------------------------------------------------------------

    async def converse(self) -> None:
        """Answer what the client asks, until the connection is finished."""
        raise NotImplementedError

    # -- the connection's side ----------------------------------------------------------------------------------------

    async def serve(self, client: Client) -> None:
        """Answer `client`; when this returns, its connection is to be closed. An error is recorded and ends it."""
        self.client = client
        try:
            await self.converse()
        except Exception as error:
            forget(error)
            log.error("%s in a front; the connection is closed", type(error).__name__)  # noqa: TRY400 - values may be secret
            await self._crash()
        finally:
            self.requests = None
        if not self._closed:
            await self._linger()

    async def _crash(self) -> None:
        try:
            if self.requests is not None:
                await self.requests.crashed()
        except Exception as again:
            log.error("%s while that was recorded", type(again).__name__)  # noqa: TRY400 - values may be secret
            self.close()

    async def _linger(self) -> None:
        """Say that nothing more comes, then wait shortly for the client to end."""
        if last := self.wire.finish():
            self.client.send(last)
        self.client.finish()
        inbox, dropped = self.client.inbox, 0
        inbox.arm(_LINGER_SECONDS)
        try:
            while dropped <= _LINGER_BYTES:
                dropped += len(await inbox.take())
        except (TimeoutError, ClientLeft):
            return

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def arm(self, seconds: float) -> None:
        """Set the deadline of what is read next. The chain has deadlines of its own."""
        self.client.inbox.arm(seconds)

    async def more(self) -> bytes:
        """What the client says next, as the wire understands it.

        Raises:
            TimeoutError: the deadline has passed.
            ClientLeft: it says nothing more, or what it says cannot be read any more.
        """
        client, wire = self.client, self.wire
        while not wire.ended and wire.failed is None:
            plain = wire.receive(await client.inbox.take())
            if pending := wire.pending():
                client.send(pending)
            if plain:
                return plain
        raise ClientLeft

    def send(self, data: bytes) -> None:
        """Send `data` over the wire; where that is broken, the connection has ended."""
        try:
            wired = self.wire.send(data)
        except TlsFailed:
            self.close()
            return
        self.client.send(wired)

    def finish(self) -> None:
        """Read nothing more, and let the client see the end of what was sent."""
        self.finished = True

    def close(self) -> None:
        """End the connection as it is."""
        self.finished = self._closed = True

    def reply(self, exchange: Exchange) -> None:
        """Send what the chain set, and end the connection where it says so.

        Without a reply the chain did not get to its end: the request has no record, so nothing of it is shown.
        """
        if exchange.opened:
            # What there was to send was sent. A stream that broke is no answer, so its end must not look like one.
            if exchange.ended_by is not EndedBy.UPSTREAM:
                self.close()
                return
        elif exchange.reply is None:
            exchange.close = True
            self.send(BARE_500)
        else:
            self.send(exchange.reply)
        if exchange.close:
            self.finish()
