"""HTTP/1.1 requests of one judged connection, one after another: each is read whole, asked about once, and answered.

A request with a body is asked about twice: its head first, so that no byte of a body is read that the operation does
not allow, and no `100 Continue` goes out for it.
"""

from collections.abc import Callable

from mitmproxy.proxy.commands import StartHook

from addons.exchange import Arrival, Exchange, client_left
from addons.hooks import BrokerHeadHook, BrokerRequestHook
from addons.policy import Policies
from addons.record import Mode
from grants.decision import Deny, Reason, Rule
from grants.message import RequestHead

from .channel import Channel
from .layer import Commands, FrontLayer
from .reader import BodyRead, HeadRead, RequestReader, Unreadable, too_large

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Stream:
    """The requests of one connection. `layer` sends and keeps the time."""

    def __init__(self, layer: FrontLayer, policies: Policies, arrival: Callable[[], Arrival]) -> None:
        self._layer = layer
        self._policies = policies
        self._arrival = arrival
        self._reader = RequestReader(max_head=layer.limits.head_bytes)
        self._exchange: Exchange | None = None
        self._head_timed = False

    @property
    def reading(self) -> bool:
        """More requests may come; a request that was begun goes on while the program ends."""
        return not self._layer.finished and (self._exchange is not None or not self._policies.draining)

    def received(self, data: bytes) -> Commands:
        """Read on, and answer every request that is complete."""
        reader = self._reader
        reader.feed(data)
        while self.reading and (event := reader.next_event()) is not None:
            match event:
                case HeadRead():
                    self._head_timed = False
                    yield from self._head(event)
                case BodyRead(body=body):
                    yield from self._complete(body)
                case Unreadable(denial=denial):
                    yield from self.refuse(denial)
                case _:
                    raise ValueError("part of a streamed body, outside of a stream")
        if self.reading:
            yield from self._await_more()
        elif self._policies.draining:
            yield from self._layer.finish()

    def _await_more(self) -> Commands:
        """Each deadline is set once, so that a slow client does not buy time with each byte."""
        limits = self._layer.limits
        if self._exchange is not None or self._head_timed:
            return
        if self._reader.started:
            self._head_timed = True
            yield from self._layer.arm(limits.head)
        else:
            yield from self._layer.arm(limits.idle)

    def begin(self, head: RequestHead | None) -> Exchange:
        """A new exchange under the policy in force now."""
        return Exchange(arrival=self._arrival(), policy=self._policies.current, head=head)

    def _head(self, event: HeadRead) -> Commands:
        exchange = self.begin(event.head)
        exchange.close = not event.keep_alive or self._policies.draining
        if event.body == 0:
            yield from self._answer(exchange, self._whole(exchange))
            return
        exchange.announced = event.body
        self._layer.disarm()
        # A refused head leaves its body unread, so the connection cannot go on.
        exchange.close = True
        yield BrokerHeadHook(exchange)
        if exchange.denial is None and exchange.relayed:
            exchange.close = not event.keep_alive
            yield from self._stream(exchange, event)
            return
        limit = exchange.body_limit
        if exchange.denial is not None or limit is None:
            yield from self._layer.reply(exchange)
            return
        exchange.close = not event.keep_alive
        if event.body is not None and event.body > limit:
            yield from self._refuse(exchange, too_large(limit))
            return
        self._exchange = exchange
        self._reader.read_body(limit)
        if event.continues and not self._reader.buffered:
            yield from self._layer.send(_CONTINUE)
        yield from self._layer.arm(self._layer.limits.body)

    def _complete(self, body: bytes) -> Commands:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            raise ValueError("a body without a head")
        exchange.body = body
        yield from self._answer(exchange, self._whole(exchange))

    def _stream(self, exchange: Exchange, event: HeadRead) -> Commands:
        """The body goes on while it comes. What has come already goes first."""
        self._reader.stream_body()
        channel = self._channel(complete=False)
        if event.continues and not self._reader.buffered:
            yield from self._layer.send(_CONTINUE)
        channel.resume()
        yield from self._answer(exchange, channel)

    def _whole(self, exchange: Exchange) -> Channel | None:
        """The client's side for an answer that may be streamed to a request that was read whole."""
        arrival = exchange.arrival
        streamed = arrival.mode is Mode.BROKER or exchange.policy.relays(arrival.service)
        return self._channel(complete=True) if streamed else None

    def _channel(self, *, complete: bool) -> Channel:
        return Channel(self._layer.wire, self._reader, complete=complete)

    def _answer(self, exchange: Exchange, channel: Channel | None = None) -> Commands:
        yield from self._carry(exchange, channel, BrokerRequestHook(exchange))
        if channel is not None and channel.final:
            exchange.close = True
        exchange.close = exchange.close or self._reader.ended
        yield from self._layer.reply(exchange)

    def _carry(self, exchange: Exchange, channel: Channel | None, hook: StartHook) -> Commands:
        """Ask, with the client's side of a stream at hand while the answer is made."""
        layer = self._layer
        layer.disarm()
        exchange.client, exchange.side = channel, channel or layer
        yield from layer.hand_over(channel)
        yield hook
        if channel is not None:
            channel.done()
            layer.channel = None

    def record(self, denial: Deny, *labels: str) -> Commands:
        """Record a refusal that cannot be sent any more."""
        exchange = self.begin(None)
        exchange.labels = labels
        exchange.deny(denial)
        self._layer.disarm()
        yield BrokerRequestHook(exchange)

    def refuse(self, denial: Deny) -> Commands:
        """Refuse the request that is being read, and end the connection behind it."""
        exchange, self._exchange = self._exchange, None
        yield from self._refuse(exchange or self.begin(None), denial)

    def _refuse(self, exchange: Exchange, denial: Deny) -> Commands:
        exchange.deny(denial)
        exchange.close = True
        yield from self._answer(exchange)

    def late(self) -> Commands:
        """A deadline has passed: within a request it is refused (RFC 9110, 15.5.9), between requests it is the end."""
        if self._exchange is not None:
            yield from self.refuse(_slow(Reason.BODY_TOO_SLOW, "the request body did not come in time"))
        elif self._reader.started:
            yield from self.refuse(_slow(Reason.HEAD_TOO_SLOW, "the request head did not come in time"))
        else:
            yield from self._layer.finish()

    def crashed(self) -> Commands:
        """Our own error: a 500, and a record."""
        exchange, self._exchange = self._exchange or self.begin(None), None
        exchange.fault()
        yield from self._answer(exchange)

    def left(self) -> Commands:
        """The client sends nothing more: a request that it began is refused, for the record."""
        if self._exchange is not None or self._reader.started:
            yield from self.refuse(client_left())


def _slow(reason: Reason, detail: str) -> Deny:
    return Deny(rule=Rule.BAD_REQUEST, reason=reason, status=408, detail=detail)
