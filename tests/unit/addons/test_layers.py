"""The layers where sockets seldom take them: driven by a client that is not there."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import trustme
from mitmproxy.connection import Client
from mitmproxy.options import Options
from mitmproxy.proxy.context import Context
from support.waits import HANG_SECONDS

from addons.exchange import Arrival, Exchange
from addons.front.channel import Channel
from addons.front.connect import ConnectLayer, Opening
from addons.front.inbox import Inbox
from addons.front.layer import FrontLayer, Limits
from addons.front.stream import Stream
from addons.front.wire import Plain, Tls
from addons.hooks import Hook
from addons.policy import Policies, Policy
from addons.record import Mode
from addons.streams import ClientLeft

ARRIVAL = Arrival(mode=Mode.TERMINATE, peer=None)


@dataclass
class Scripted:
    """A client connection: keeps what is done, in its order. `answer` stands in for the chain."""

    answer: Callable[[Hook, Exchange], None] = lambda _hook, _exchange: None
    inbox: Inbox = field(default_factory=Inbox)
    done: list[object] = field(default_factory=list)

    def send(self, data: bytes) -> None:
        self.done.append(data)

    async def write(self, data: bytes) -> None:
        self.done.append(data)

    def finish(self) -> None:
        self.done.append("finish")

    async def ask(self, hook: Hook, exchange: Exchange) -> None:
        self.done.append(hook)
        self.answer(hook, exchange)
        await asyncio.sleep(0)


def context() -> Context:
    """Of a client that is not there."""
    return Context(Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2)), Options())


class Asking(FrontLayer):
    """Asks about each piece of data, then says what it was."""

    async def converse(self) -> None:
        self.requests = self
        self.arm(10)
        while True:
            try:
                data = await self.more()
            except ClientLeft:
                self.finish()
                return
            await self.client.ask(Hook.REQUEST, Exchange(arrival=ARRIVAL, policy=Policy.of([])))
            self.send(data)
            if data == b"bad":
                raise KeyError(data)

    async def crashed(self) -> None:
        await self.client.ask(Hook.REQUEST, Exchange(arrival=ARRIVAL, policy=Policy.of([])))
        self.send(b"recorded")


class Failing(Asking):
    """Fails at what it gets, and at recording that."""

    async def crashed(self) -> None:
        raise KeyError("again")


def served(kind: type[FrontLayer], came: list[bytes | None], later: list[bytes | None]) -> list[object]:
    """What is done for what came before, and for what comes while the chain is asked; None is an end."""

    async def work() -> list[object]:
        def put(pieces: list[bytes | None]) -> None:
            while pieces:
                piece = pieces.pop(0)
                if piece is None:
                    client.inbox.end()
                else:
                    assert client.inbox.received(piece) == b""

        client = Scripted(lambda _hook, _exchange: put(later))
        put(came)
        await kind(context(), Limits()).serve(client)
        client.inbox.close()
        return client.done

    return asyncio.run(work())


def test_an_error_while_an_error_is_recorded_still_ends() -> None:
    """Nothing is left hanging, whatever fails; the client is not waited for."""
    assert served(Failing, [b"bad"], []) == [Hook.REQUEST, b"bad"]


@pytest.mark.parametrize(
    ("came", "later", "done"),
    [
        pytest.param([b"a", None], [], [Hook.REQUEST, b"a", "finish"], id="one"),
        pytest.param([b"a"], [None], [Hook.REQUEST, b"a", "finish"], id="an-end-waits-too"),
        pytest.param([b"a"], [b"b", None], [Hook.REQUEST, b"a", Hook.REQUEST, b"b", "finish"], id="in-their-order"),
        pytest.param(
            [b"a", b"b", None], [], [Hook.REQUEST, b"a", Hook.REQUEST, b"b", "finish"], id="what-was-sent-ahead"
        ),
        pytest.param(
            [b"bad"], [None], [Hook.REQUEST, b"bad", Hook.REQUEST, b"recorded", "finish"], id="an-error-is-recorded"
        ),
        pytest.param(
            [b"bad"],
            [b"b", None],
            [Hook.REQUEST, b"bad", Hook.REQUEST, b"recorded", "finish"],
            id="nothing-behind-it",
        ),
    ],
)
def test_what_comes_while_the_chain_is_asked_waits(
    came: list[bytes | None], later: list[bytes | None], done: list[object]
) -> None:
    """One after another, the end last; behind an error nothing is answered."""
    assert served(Asking, came, later) == done


def test_the_rest_is_dropped_up_to_a_bound() -> None:
    """A client that sends on and on behind its refusal is not listened to for ever."""
    piece = b"x" * 1024 * 512

    async def work() -> None:
        client = Scripted()
        for _ in range(5):
            client.inbox.received(piece)
        layer = Asking(context(), Limits())
        layer.client = client
        await layer._linger()
        assert client.done == ["finish"]
        # What goes beyond a MiB is the last that is looked at.
        assert len(client.inbox._pieces) == 2
        client.inbox.close()

    asyncio.run(work())


def test_a_client_that_stays_is_left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind its refusal it has a moment to end."""
    monkeypatch.setattr("addons.front.layer._LINGER_SECONDS", 0.01)

    async def work() -> None:
        client = Scripted()
        layer = Asking(context(), Limits())
        layer.client = client
        async with asyncio.timeout(HANG_SECONDS):
            await layer._linger()
        assert client.done == ["finish"]

    asyncio.run(work())


class Talkative(Plain):  # type: ignore[misc]  # only what it has to say differs
    """A wire that always has something to say."""

    def pending(self) -> bytes:
        return b"!"


class Telling(Asking):
    """One with such a wire."""

    def __init__(self, context: Context, limits: Limits) -> None:
        super().__init__(context, limits)
        self.wire = Talkative()


def test_what_the_wire_has_to_say_is_sent_at_once() -> None:
    """An alert, say."""
    assert served(Telling, [b"a", None], []) == [b"!", Hook.REQUEST, b"a", "finish"]


def test_mitmproxy_s_events_are_nothing() -> None:
    """A layer is run as a coroutine, and by nothing else."""
    with pytest.raises(NotImplementedError):
        Asking(context(), Limits())._handle_event(object())


def stream() -> Stream:
    """Of a layer that is not run."""
    return Stream(Asking(context(), Limits()), Policies(Policy.of([])), lambda: ARRIVAL)


def test_what_came_before_a_stream_is_its_own() -> None:
    """What the wire has to say of it is sent before the chain is asked; behind the stream nothing goes to it."""

    async def work() -> None:
        made, client = stream(), Scripted()
        made._layer.client = client
        client.inbox.received(b"a")
        channel = Channel(Talkative(), None, complete=False)
        exchange = Exchange(arrival=ARRIVAL, policy=Policy.of([]))
        await made._carry(exchange, channel, Hook.TUNNEL)
        assert client.done == [b"!", Hook.TUNNEL]
        assert exchange.client is channel
        assert client.inbox.channel is None
        assert await channel.read() == b"a"

    asyncio.run(work())


def test_a_body_needs_a_head() -> None:
    """What cannot be is an error, which the layer turns into a refusal."""
    with pytest.raises(ValueError, match="a body without a head"):
        asyncio.run(stream()._complete(b""))


def test_part_of_a_stream_needs_one() -> None:
    """As here."""
    made = stream()
    made._reader.feed(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\na")
    made._reader.next_event()
    made._reader.stream_body()

    async def work() -> None:
        made._layer.client = Scripted()
        await made.run()

    with pytest.raises(ValueError, match="outside of a stream"):
        asyncio.run(work())


def test_a_tunnel_needs_a_handshake() -> None:
    """What cannot be is an error here too."""
    layer = ConnectLayer(context(), Limits(), Policies(Policy.of([])), None, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no tunnel"):
        layer._inside(Opening(layer, Policies(Policy.of([])), lambda: ARRIVAL))


class Unready(FrontLayer):
    """Fails before it reads."""

    async def converse(self) -> None:
        raise KeyError("early")


def test_an_error_before_there_are_requests_ends_the_connection() -> None:
    """There is none to record."""
    assert served(Unready, [b"a", None], []) == ["finish"]


def connected() -> tuple[ssl.SSLObject, Tls, ssl.MemoryBIO]:
    """A client and a server behind their handshake, and what the client writes."""
    authority = trustme.CA()
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server_context)
    client_context = ssl.create_default_context()
    authority.configure_trust(client_context)
    came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(came, goes, server_hostname="localhost")
    server = Tls(server_context)
    for _ in range(3):
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        server.receive(goes.read())
        came.write(server.pending())
    return client, server, goes


def test_close_notify_is_an_end() -> None:
    """RFC 8446, 6.1. What comes behind it is not kept."""
    client, server, goes = connected()
    client.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        client.unwrap()
    assert server.receive(goes.read()) == b"last"
    assert server.ended
    assert server.receive(b"x" * 100_000) == b""
    assert not server._in.pending
    assert server.finish() != b""


def test_what_follows_a_broken_record_is_not_held() -> None:
    """Nothing is read behind it, so nothing of it is kept."""
    client, server, goes = connected()
    client.write(b"last")
    assert server.receive(goes.read() + b"\x17\x03\x03\x00\x20" + b"x" * 32) == b"last"
    server.receive(b"")
    assert server.failed is not None
    assert server.receive(b"x" * 100_000) == b""
    assert server._in.pending < 100
