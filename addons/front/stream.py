"""HTTP/1.1 requests of one judged connection, one after another: each is read whole, asked about once, and answered.

A request with a body is asked about twice: its head first, so that no byte of a body is read that the operation does
not allow, and no `100 Continue` goes out for it.
"""

from collections.abc import Callable

from addons.exchange import Arrival, Exchange, client_left
from addons.hooks import Hook
from addons.policy import Policies
from addons.record import Mode
from addons.streams import ClientLeft
from grants.decision import Deny, Reason, Rule
from grants.message import RequestHead

from .channel import Channel
from .events import BodyRead, HeadRead, ReadEvent, Unreadable, too_large
from .layer import FrontLayer
from .reader import RequestReader

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Stream:
    """The requests of one connection. `layer` sends and keeps the time."""

    def __init__(self, layer: FrontLayer, policies: Policies, arrival: Callable[[], Arrival]) -> None:
        self._layer = layer
        self._policies = policies
        self._arrival = arrival
        self._reader = RequestReader(max_head=layer.limits.head_bytes)
        # The request whose body is read, and the one that is being answered.
        self._exchange: Exchange | None = None
        self._current: Exchange | None = None

    @property
    def reading(self) -> bool:
        """More requests may come."""
        return not self._layer.finished

    def feed(self, data: bytes) -> None:
        """Take what came before this stream is run."""
        self._reader.feed(data)

    async def run(self) -> None:
        """Read and answer, until nothing more is read."""
        try:
            while self.reading:
                await self._step()
        finally:
            self._reader.close()

    async def _step(self) -> None:
        """Go on with one thing that happens. Nothing of it is held while the next is waited for."""
        try:
            event = await self._event()
        except TimeoutError:
            await self._late()
        except ClientLeft:
            await self._left()
        else:
            match event:
                case HeadRead():
                    await self._head(event)
                case BodyRead(body=body):
                    await self._complete(body)
                case Unreadable(denial=denial):
                    await self.refuse(denial)
                case None:
                    self._layer.finish()
                case _:
                    raise ValueError("part of a streamed body, outside of a stream")

    async def _event(self) -> ReadEvent | None:
        """The next event. None while the program ends: no request is begun then, and one that was begun goes on.

        Each deadline is set once, so that a slow client does not buy time with each byte.
        """
        self._current = self._exchange
        reader, limits, inbox = self._reader, self._layer.limits, self._layer.client.inbox
        timed: bool | None = None
        while self._exchange is not None or not self._policies.draining:
            started = reader.started
            if started and (event := reader.next_event()) is not None:
                inbox.ahead(reader.buffered)
                return event
            if self._exchange is None and started is not timed:
                timed = started
                self._layer.arm(limits.head if started else limits.idle)
            # Part of a message has bounds of its own, and is to be read on.
            inbox.ahead(0)
            reader.feed(await self._layer.more())
        return None

    def begin(self, head: RequestHead | None) -> Exchange:
        """A new exchange under the policy in force now."""
        self._current = Exchange(arrival=self._arrival(), policy=self._policies.current, head=head)
        return self._current

    async def _head(self, event: HeadRead) -> None:
        exchange = self.begin(event.head)
        exchange.close = not event.keep_alive or self._policies.draining
        if event.body == 0:
            await self._answer(exchange, self._whole(exchange))
            return
        exchange.announced = event.body
        # A refused head leaves its body unread, so the connection cannot go on.
        exchange.close = True
        await self._layer.client.ask(Hook.HEAD, exchange)
        if exchange.denial is None and exchange.relayed:
            exchange.close = not event.keep_alive
            await self._stream(exchange, event)
            return
        limit = exchange.body_limit
        if exchange.denial is not None or limit is None:
            self._layer.reply(exchange)
            return
        exchange.close = not event.keep_alive
        if event.body is not None and event.body > limit:
            await self._refuse(exchange, too_large(limit))
            return
        self._exchange = exchange
        self._reader.read_body(limit)
        if event.continues and not self._reader.buffered:
            self._layer.send(_CONTINUE)
        self._layer.arm(self._layer.limits.body)

    async def _complete(self, body: bytes) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            raise ValueError("a body without a head")
        exchange.body = body
        await self._answer(exchange, self._whole(exchange))

    async def _stream(self, exchange: Exchange, event: HeadRead) -> None:
        """The body goes on while it comes. What has come already goes first."""
        self._reader.stream_body()
        channel = self._channel(complete=False)
        if event.continues and not self._reader.buffered:
            self._layer.send(_CONTINUE)
        channel.resume()
        await self._answer(exchange, channel)

    def _whole(self, exchange: Exchange) -> Channel | None:
        """The client's side for an answer that may be streamed to a request that was read whole."""
        arrival = exchange.arrival
        streamed = arrival.mode is Mode.BROKER or exchange.policy.relays(arrival.service)
        return self._channel(complete=True) if streamed else None

    def _channel(self, *, complete: bool) -> Channel:
        return Channel(self._layer.wire, self._reader, complete=complete)

    async def _answer(self, exchange: Exchange, channel: Channel | None = None) -> None:
        if channel is None:
            await self._layer.client.ask(Hook.REQUEST, exchange)
        else:
            await self._carry(exchange, channel, Hook.REQUEST)
            exchange.close = exchange.close or channel.final
        exchange.close = exchange.close or self._reader.ended
        self._layer.reply(exchange)

    async def _carry(self, exchange: Exchange, channel: Channel, hook: Hook) -> None:
        """Ask, with the client's side of a stream at hand while the answer is made."""
        client = self._layer.client
        exchange.client = channel
        channel.attach(client.write, client.finish)
        if pending := client.inbox.divert(channel):
            client.send(pending)
        await client.ask(hook, exchange)
        channel.done()
        client.inbox.channel = None

    async def record(self, denial: Deny, *labels: str) -> None:
        """Record a refusal that cannot be sent any more."""
        exchange = self.begin(None)
        exchange.labels = labels
        exchange.deny(denial)
        await self._layer.client.ask(Hook.REQUEST, exchange)

    async def refuse(self, denial: Deny) -> None:
        """Refuse the request that is being read, and end the connection behind it."""
        exchange, self._exchange = self._exchange, None
        await self._refuse(exchange or self.begin(None), denial)

    async def _refuse(self, exchange: Exchange, denial: Deny) -> None:
        exchange.deny(denial)
        exchange.close = True
        await self._answer(exchange)

    async def _late(self) -> None:
        """A deadline has passed: within a request it is refused (RFC 9110, 15.5.9), between requests it is the end."""
        if self._exchange is not None:
            await self.refuse(_slow(Reason.BODY_TOO_SLOW, "the request body did not come in time"))
        elif self._reader.started:
            await self.refuse(_slow(Reason.HEAD_TOO_SLOW, "the request head did not come in time"))
        else:
            self._layer.finish()

    async def crashed(self) -> None:
        """Our own error: a 500, and a record. Where the request has its record already, only the connection ends."""
        exchange = self._current or self.begin(None)
        if exchange.opened or exchange.reply is not None:
            self._layer.close()
            return
        exchange.fault()
        await self._answer(exchange)

    async def _left(self) -> None:
        """The client sends nothing more: a request that it began is refused, for the record."""
        if self._exchange is not None or self._reader.started:
            await self.refuse(client_left())
        self._layer.finish()


def _slow(reason: Reason, detail: str) -> Deny:
    return Deny(rule=Rule.BAD_REQUEST, reason=reason, status=408, detail=detail)
