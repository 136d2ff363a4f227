"""The layers where sockets seldom take them: driven by mitmproxy's events, without a connection."""

import contextlib
import ssl
from pathlib import Path

import pytest
import trustme
from mitmproxy.connection import Client
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context

from addons.exchange import Arrival, Exchange
from addons.front.channel import Channel
from addons.front.connect import ConnectLayer
from addons.front.layer import Commands, FrontLayer, Limits
from addons.front.stream import Stream
from addons.front.wire import Plain, Tls
from addons.hooks import BrokerRequestHook
from addons.policy import Policies, Policy
from addons.record import Mode

ARRIVAL = Arrival(mode=Mode.TERMINATE, peer=None)


class Talkative(Plain):  # type: ignore[misc]  # only what it has to say differs
    """A wire that always has something to say."""

    def pending(self) -> bytes:
        return b"!"


class Echo(FrontLayer):
    """Fails at what it gets, and at recording that."""

    def received(self, data: bytes) -> Commands:
        yield from ()
        raise KeyError(data)

    def crashed(self) -> Commands:
        yield from ()
        raise KeyError("again")


def context() -> Context:
    """Of a client that is not there."""
    return Context(Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2)), Options())


def test_an_error_while_an_error_is_recorded_still_closes() -> None:
    """Nothing is left hanging, whatever fails."""
    layer = Echo(context(), Limits())
    given = list(layer.handle_event(events.DataReceived(layer.context.client, b"x")))
    assert [type(command) for command in given] == [commands.CloseConnection]
    assert list(layer.handle_event(events.DataReceived(layer.context.client, b"x"))) == []


def test_a_wake_up_without_a_deadline_is_nothing() -> None:
    """While a hook is answered there is none."""
    layer = Echo(context(), Limits())
    (asked,) = layer.handle_event(events.Start())
    assert isinstance(asked, commands.RequestWakeup)
    layer.disarm()
    assert list(layer.handle_event(events.Wakeup(asked))) == []


def test_wake_ups_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose heads come in pieces moves the deadline to and fro; of the wake-ups only the last one counts."""
    now = 0.0
    monkeypatch.setattr("addons.front.layer.monotonic", lambda: now)
    layer = Echo(context(), Limits())
    pending = [(75.0, one) for one in layer.handle_event(events.Start()) if isinstance(one, commands.RequestWakeup)]
    for turn in range(2000):
        now = turn * 0.5
        given = list(layer.arm(10 if turn % 2 else 75))
        for at, one in [due for due in pending if due[0] <= now]:
            pending.remove((at, one))
            given += layer.handle_event(events.Wakeup(one))
        pending += [(now + one.delay, one) for one in given if isinstance(one, commands.RequestWakeup)]
        assert all(isinstance(one, commands.RequestWakeup) for one in given)
        assert len(pending) < 12
        assert any(at <= now + 75 for at, _ in pending)


def test_an_event_of_another_kind_is_nothing() -> None:
    """mitmproxy has events that mean nothing here."""
    assert list(Echo(context(), Limits()).handle_event(events.Event())) == []


def test_what_came_before_a_stream_is_handed_over_first() -> None:
    """Data in its order, an end as an end; what the wire has to say is sent."""
    layer = Echo(context(), Limits())
    client = layer.context.client
    channel = Channel(Talkative(), None, complete=False)
    wake = events.Wakeup(commands.RequestWakeup(1))
    layer._held.extend([b"a", wake, b"b", events.ConnectionClosed(client)])
    given = list(layer.hand_over(channel))
    assert [command.data for command in given if isinstance(command, commands.SendData)] == [b"!", b"!"]
    assert list(channel._pieces) == [b"a", b"b"]
    assert channel._complete
    assert [type(event) for event in layer._held] == [events.Wakeup, events.ConnectionClosed]


def test_what_is_handed_over_may_need_no_word_from_the_wire() -> None:
    """Plain bytes are only passed on, each in its turn."""
    layer = Echo(context(), Limits())
    channel = Channel(Plain(), None, complete=False)
    layer._held.extend([b"a", b"b"])
    assert list(layer.hand_over(channel)) == []
    assert list(channel._pieces) == [b"a", b"b"]


def test_what_comes_while_a_stream_runs_goes_to_it() -> None:
    """Not into the queue of the paused layer."""
    layer = Echo(context(), Limits())
    layer.channel = Channel(Talkative(), None, complete=False)
    layer._asked = BrokerRequestHook(Exchange(arrival=ARRIVAL, policy=Policy.of([]), head=None))
    (sent,) = layer.handle_event(events.DataReceived(layer.context.client, b"a"))
    assert isinstance(sent, commands.SendData)
    assert sent.data == b"!"
    assert list(layer.channel._pieces) == [b"a"]


class Asking(FrontLayer):
    """Asks about each piece of data, then says what it was."""

    said: tuple[object, ...] = ()

    def received(self, data: bytes) -> Commands:
        yield BrokerRequestHook(Exchange(arrival=ARRIVAL, policy=Policy.of([]), head=None))
        self.said += (data,)
        if data == b"bad":
            raise KeyError(data)

    def crashed(self) -> Commands:
        self.said += ("crashed",)
        yield BrokerRequestHook(Exchange(arrival=ARRIVAL, policy=Policy.of([]), head=None))
        self.said += ("recorded",)

    def left(self) -> Commands:
        self.said += ("left",)
        yield from ()


HOOK, CLOSE = BrokerRequestHook, commands.CloseConnection


@pytest.mark.parametrize(
    ("came", "asked", "said"),
    [
        pytest.param([b"a"], [HOOK], (b"a",), id="one"),
        pytest.param([b"a", b"b", b"c"], [HOOK] * 3, (b"a", b"b", b"c"), id="in-their-order"),
        pytest.param([b"a", "end"], [HOOK, CLOSE], (b"a", "left"), id="an-end-waits-too"),
        pytest.param([b"a", "other"], [HOOK], (b"a",), id="another-event-waits-and-is-nothing"),
        pytest.param([b"a", "another's"], [HOOK], (b"a",), id="an-answer-that-was-not-asked-for"),
        pytest.param([b"bad"], [HOOK, HOOK, CLOSE], (b"bad", "crashed", "recorded"), id="an-error-is-recorded"),
        pytest.param([b"bad", b"b"], [HOOK, HOOK, CLOSE], (b"bad", "crashed", "recorded"), id="nothing-behind-it"),
    ],
)
@pytest.mark.parametrize("way", ["events", "data"])
def test_what_comes_while_the_chain_is_asked_waits(
    came: list[object], asked: list[type], said: tuple[object, ...], way: str
) -> None:
    """As in mitmproxy's layers, whose way in is the other one."""
    layer = Asking(context(), Limits())
    client = layer.context.client
    given: list[commands.Command] = []
    other = BrokerRequestHook(Exchange(arrival=ARRIVAL, policy=Policy.of([]), head=None))
    kinds = {
        "end": events.ConnectionClosed(client),
        "other": events.Event(),
        "another's": events.HookCompleted(other),
    }
    for one in came:
        if isinstance(one, bytes):
            data = one
            given += layer.data(data) if way == "data" else layer.handle_event(events.DataReceived(client, data))
        else:
            given += layer.handle_event(kinds[str(one)])
    assert [type(command) for command in given] == [HOOK]
    while isinstance(last := given[-1], BrokerRequestHook) and layer._asked is last:
        assert last.blocking is layer
        given += layer.answered() if way == "data" else layer.handle_event(events.HookCompleted(last))
    assert [type(command) for command in given] == asked
    assert layer.said == said
    assert not layer._ahead
    assert list(layer.answered()) == []


def stream() -> Stream:
    """Of a layer that is not run."""
    return Stream(Echo(context(), Limits()), Policies(Policy.of([])), lambda: ARRIVAL)


def test_a_body_needs_a_head() -> None:
    """What cannot be is an error, which the layer turns into a refusal."""
    with pytest.raises(ValueError, match="a body without a head"):
        list(stream()._complete(b""))


def test_part_of_a_stream_needs_one() -> None:
    """As here."""
    made = stream()
    made._reader.feed(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n")
    made._reader.next_event()
    made._reader.stream_body()
    with pytest.raises(ValueError, match="outside of a stream"):
        list(made.received(b"a"))


def test_a_tunnel_needs_a_handshake() -> None:
    """What cannot be is an error here too."""
    layer = ConnectLayer(context(), Limits(), Policies(Policy.of([])), None, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no tunnel"):
        layer._inside()


def test_close_notify_is_an_end(tmp_path: Path) -> None:
    """RFC 8446, 6.1."""
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
    client.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        client.unwrap()
    assert server.receive(goes.read()) == b"last"
    assert server.ended
    assert server.finish() != b""
