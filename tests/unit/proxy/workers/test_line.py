"""The line between supervisor and worker: whole messages with their descriptors, or none."""

import array
import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from proxy.workers.line import MOST_BYTES, Do, LineBroken, Message, pair, receive, send

type Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    one, other = pair()
    with one, other:
        yield one, other


def test_a_message_comes_as_it_was_sent(ends: Ends) -> None:
    """All fields, and sockets that are the same ones."""
    one, other = ends
    assert receive(other) is None
    with socket.create_server(("127.0.0.1", 0)) as server:
        message = Message(
            do=Do.SOCKETS, round=3, lines=("a", "ü"), files=("f",), names=("proxy x",), mark="m", began_ns=7
        )
        send(one, Message(**{**_fields(message), "sockets": (server,)}))
        send(one, Message(do=Do.REOPEN))
        found = receive(other)
        assert found is not None
        assert _fields(found) == _fields(message)
        (sock,) = found.sockets
        assert sock.getsockname() == server.getsockname()
        assert not sock.getblocking()
        assert not os.get_inheritable(sock.fileno())
        sock.close()
    assert receive(other) == Message(do=Do.REOPEN)
    assert receive(other) is None


def _fields(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in ("do", "round", "lines", "files", "names", "mark", "began_ns")}


GOOD = {"do": "ready", "round": 0, "lines": [], "files": [], "names": [], "mark": "", "began_ns": 0}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"{", id="no-json"),
        pytest.param(b"[]", id="no-object"),
        pytest.param(b"[" * 60000, id="deep"),
        pytest.param(json.dumps({**GOOD, "do": "other"}).encode(), id="unknown"),
        pytest.param(json.dumps({**GOOD, "round": "1"}).encode(), id="text-for-a-number"),
        pytest.param(json.dumps({**GOOD, "round": True}).encode(), id="truth-for-a-number"),
        pytest.param(json.dumps({**GOOD, "lines": "x"}).encode(), id="text-for-a-list"),
        pytest.param(json.dumps({**GOOD, "lines": [1]}).encode(), id="number-for-a-text"),
        pytest.param(json.dumps({**GOOD, "names": ["x"]}).encode(), id="a-name-without-its-socket"),
        pytest.param(json.dumps({**GOOD, "lines": ["x" * MOST_BYTES]}).encode(), id="too-long"),
        pytest.param(b"", id="empty"),
    ],
)
def test_what_is_no_message_breaks_the_line(ends: Ends, data: bytes) -> None:
    """It is not guessed at."""
    ends[0].send(data)
    with pytest.raises(LineBroken):
        receive(ends[1])


def test_a_socket_that_nobody_named_is_closed(ends: Ends) -> None:
    """Nothing is left open by a message that is refused."""
    before = len(os.listdir("/proc/self/fd"))
    with socket.socket() as sock:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sock.fileno()]))]
        ends[0].sendmsg([json.dumps(GOOD).encode()], ancillary)
    with pytest.raises(LineBroken):
        receive(ends[1])
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_other_side_is_gone(ends: Ends) -> None:
    """Both ways."""
    ends[0].close()
    with pytest.raises(LineBroken, match="has ended"):
        receive(ends[1])
    with pytest.raises(LineBroken, match="broken pipe"):
        send(ends[1], Message(do=Do.READY))


def test_nobody_waits_for_a_side_that_takes_nothing(ends: Ends) -> None:
    """It is as good as gone."""

    def fill() -> None:
        for _ in range(10000):
            send(ends[0], Message(do=Do.ABORT, lines=("x" * 400,) * 40))

    with pytest.raises(LineBroken):
        fill()


@pytest.mark.parametrize("text", ["x", "é", "\U0001f600", "\x01", "\udc80"], ids=ascii)
def test_whatever_goes_wrong_can_be_told(ends: Ends, text: str) -> None:
    """Long lines are cut, and of very many it says how many are left out."""
    send(ends[0], Message(do=Do.REFUSED, lines=(text * 2000,) * 700, files=(text * 4096,) * 700))
    found = receive(ends[1])
    assert found is not None
    shown = found.lines[:-1]
    assert shown == (text * 500,) * len(shown)
    assert len(shown) >= 5
    assert found.lines[-1] == f"and {700 - len(shown)} more"


def test_what_cannot_be_cut_is_not_sent(ends: Ends) -> None:
    """Half a message would be another one."""
    with pytest.raises(LineBroken, match="too large"):
        send(ends[0], Message(do=Do.REFUSED, mark="x" * MOST_BYTES))
