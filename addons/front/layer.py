"""What the layers of judged connections share: deadlines, back-pressure, and an end that the client gets to see.

mitmproxy runs a layer as a generator of commands. It is paused while a hook is answered; what comes from the client
meanwhile is held, and bounded. That is done here and not left to mitmproxy's base class, which does the same in more
steps: most of a connection's events are data and answers.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, final

from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import Layer

from addons.exchange import Exchange
from addons.hooks import ExchangeHook
from addons.record import EndedBy
from addons.reply import BARE_500

from .channel import Channel
from .wire import Plain, TlsFailed, Wire

log = logging.getLogger(__name__)

type Commands = Generator[commands.Command, Any]

# After a refusal the rest of a request is read and dropped for this long, so that a client which is still sending sees
# the answer and no reset (RFC 9112, 9.6).
_LINGER_SECONDS: Final = 1.0
_LINGER_BYTES: Final = 1024 * 1024
# What is held of what a client sends ahead while its request is answered: then its socket is read no further.
_AHEAD_BYTES: Final = 256 * 1024


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


class FrontLayer(Layer):
    """Base of the layers whose requests the chain answers. Opens no connection and sends nothing but replies."""

    def __init__(self, context: Context, limits: Limits) -> None:
        super().__init__(context)
        self.limits = limits
        self.wire: Wire = Plain()
        self._deadline: float | None = None
        # The one wake-up that counts, and when it comes. Those before it still come, and are nothing.
        self._wake: commands.RequestWakeup | None = None
        self._wakes_at = 0.0
        self._lingering: int | None = None
        self._closed = False
        # The hook that is answered now, what goes on behind it, what came meanwhile, and the client's bytes of that.
        self._asked: ExchangeHook | None = None
        self._work: Commands | None = None
        self._held: deque[bytes | events.Event] = deque()
        self._ahead = 0
        self._room = asyncio.Event()
        self._room.set()
        self.channel: Channel | None = None

    # -- what a subclass does -----------------------------------------------------------------------------------------

    def received(self, data: bytes) -> Commands:
        """Bytes came from the client, as the wire understands them."""
        raise NotImplementedError

    def late(self) -> Commands:
        """The deadline has passed."""
        raise NotImplementedError

    def left(self) -> Commands:
        """The client sends nothing more."""
        raise NotImplementedError

    def crashed(self) -> Commands:
        """The layer itself has failed: record the request that it was at."""
        raise NotImplementedError

    # -- mitmproxy's side ---------------------------------------------------------------------------------------------

    def handle_event(self, event: events.Event) -> Commands:
        """Go on with what happened. While a hook is answered, it waits for that."""
        if isinstance(event, events.DataReceived):
            yield from self.data(event.data)
        elif self._asked is None:
            yield from self._handle_event(event)
        elif isinstance(event, events.HookCompleted) and event.command is self._asked:
            yield from self.answered()
        else:
            if self.channel is not None and isinstance(event, events.ConnectionClosed):
                self.channel.ended()
            self._held.append(event)

    def _handle_event(self, event: events.Event) -> Commands:
        return self._run(self._react(event))

    def data(self, data: bytes) -> Iterable[commands.Command]:
        """Bytes came. While a hook is answered: hand a stream what belongs to it, and bound what else is held."""
        if self._asked is None:
            return self._run(self._react(data))
        if self.channel is not None:
            pending = self.channel.received(data)
            return (commands.SendData(self.context.client, pending),) if pending else ()
        self._held.append(data)
        self._ahead += len(data)
        if self._ahead >= _AHEAD_BYTES:
            self._room.clear()
        return ()

    def answered(self) -> Commands:
        """The hook is answered: go on behind it, then with what came meanwhile."""
        work, self._asked, self._work = self._work, None, None
        if work is not None:
            yield from self._run(work)
        while self._asked is None and self._held:
            yield from self._run(self._react(self._release()))

    def _run(self, work: Commands) -> Commands:
        """Go on with `work` until it ends or asks the chain. Fail closed: an error is recorded and ends all."""
        try:
            for command in work:
                if isinstance(command, ExchangeHook):
                    command.blocking = self
                    self._asked, self._work = command, work
                    yield command
                    return
                yield command
        except Exception as error:
            log.error("%s in a front; the connection is closed", type(error).__name__)  # noqa: TRY400 - values may be secret
        else:
            return
        yield from self._run(self._crash())

    def _crash(self) -> Commands:
        try:
            yield from self.crashed()
        except Exception as again:
            log.error("%s while that was recorded", type(again).__name__)  # noqa: TRY400 - values may be secret
        yield from self.close()

    def _react(self, came: bytes | events.Event) -> Commands:
        if self._closed:
            return
        if isinstance(came, bytes):
            if self._lingering is not None:
                yield from self._drop(len(came))
            else:
                yield from self.received(came)
        elif isinstance(came, events.Wakeup):
            if came.command is self._wake:
                self._wake = None
                yield from self._check_deadline()
        elif isinstance(came, events.ConnectionClosed):
            if self._lingering is None:
                yield from self.left()
            yield from self.close()
        elif isinstance(came, events.Start):
            yield from self.arm(self.limits.idle)

    def _release(self) -> bytes | events.Event:
        """The first of what was held while a hook was answered is held no more."""
        came = self._held.popleft()
        if isinstance(came, bytes):
            self._ahead -= len(came)
            if self._ahead < _AHEAD_BYTES:
                self._room.set()
        return came

    # -- the connection's side, while a judged request is answered -----------------------------------------------------

    def attach(self, output: object, end: object) -> None:
        """See `ClientSide`: a judged request has one reply, which the layer sends."""

    @property
    def full(self) -> bool:
        """See `ClientSide`."""
        return not self._room.is_set()

    async def room(self) -> None:
        """See `ClientSide`."""
        await self._room.wait()

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def hand_over(self, channel: Channel | None) -> Commands:
        """Let `channel` have what comes from the client, first of all what came while the hook before was answered."""
        self.channel = channel
        if channel is None:
            return
        for _ in range(len(self._held)):
            came = self._release()
            if isinstance(came, bytes):
                if pending := channel.received(came):
                    yield commands.SendData(self.context.client, pending)
            else:
                if isinstance(came, events.ConnectionClosed):
                    channel.ended()
                self._held.append(came)

    def send(self, data: bytes) -> Commands:
        """Send `data` over the wire; where that is broken, the connection has ended."""
        try:
            wired = self.wire.send(data)
        except TlsFailed:
            yield from self.close()
            return
        yield commands.SendData(self.context.client, wired)

    def arm(self, seconds: float) -> Commands:
        """Set the deadline. A wake-up that comes early asks again, so that most requests need none of their own."""
        self._deadline = monotonic() + seconds
        if self._wake is None or self._wakes_at > self._deadline:
            yield self._wake_up(self._deadline, seconds)

    def _wake_up(self, at: float, seconds: float) -> commands.RequestWakeup:
        self._wake, self._wakes_at = commands.RequestWakeup(seconds), at
        return self._wake

    def disarm(self) -> None:
        """No deadline: a hook has its own."""
        self._deadline = None

    def _check_deadline(self) -> Commands:
        if self._deadline is None:
            return
        remaining = self._deadline - monotonic()
        if remaining > 0:
            yield self._wake_up(self._deadline, remaining)
        elif self._lingering is not None:
            yield from self.close()
        else:
            yield from self.late()

    def close(self) -> Commands:
        """End the connection now."""
        if not self._closed:
            self._closed = True
            yield commands.CloseConnection(self.context.client)

    def finish(self) -> Commands:
        """Say that nothing more comes, then wait shortly for the client to end."""
        if self._lingering is None:
            self._lingering = 0
            if last := self.wire.finish():
                yield commands.SendData(self.context.client, last)
            yield commands.CloseTcpConnection(self.context.client, half_close=True)
            yield from self.arm(_LINGER_SECONDS)

    @property
    def finished(self) -> bool:
        """Nothing more is read from the client."""
        return self._closed or self._lingering is not None

    def _drop(self, count: int) -> Commands:
        self._lingering = (self._lingering or 0) + count
        if self._lingering > _LINGER_BYTES:
            yield from self.close()

    def reply(self, exchange: Exchange) -> Commands:
        """Send what the chain set, and end the connection where it says so.

        Without a reply the chain did not get to its end: the request has no record, so nothing of it is shown.
        """
        if exchange.opened:
            # What there was to send was sent. A stream that broke is no answer, so its end must not look like one.
            if exchange.ended_by is not EndedBy.UPSTREAM:
                yield from self.close()
                return
        elif exchange.reply is None:
            exchange.close = True
            yield from self.send(BARE_500)
        else:
            yield from self.send(exchange.reply)
        if exchange.close:
            yield from self.finish()
