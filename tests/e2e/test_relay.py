"""Relays of the running program: events as they come, bodies of any size, WebSockets, and answers of every shape."""

# ruff: noqa: E501 - one case is one row

import gzip
import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Certificates
from support.client import Answer
from support.proxyproc import Proxy
from support.relays import (
    ENVIRONMENT,
    FRONTS,
    SECRET,
    Front,
    TlsPort,
    events,
    name_inside,
    peak,
    records,
    relay,
    settle,
)
from support.upstream import CLOSE, HANG, Received, Upstream, answer
from support.waits import wait_for
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

both = pytest.mark.parametrize("front", FRONTS)
schemes = pytest.mark.parametrize("scheme", ["https", "http"])
curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
AUTHORIZATION = "Authorization: Bearer @secret:api"
GIB = 1 << 30


@dataclass(slots=True)
class Relays:
    """The proxy, with a relay to TLS and one to plain http."""

    proxy: Proxy
    endpoints: dict[str, dict[str, Any]]
    upstreams: dict[str, Upstream]

    def front(self, front: str, scheme: str = "https", **options: Any) -> Front:
        return Front(self.proxy, front, self.endpoints[scheme], **options)

    def answers(self, scripted: Any) -> None:
        """What both upstreams answer to every request."""
        for upstream in self.upstreams.values():
            upstream.handler = lambda _request: scripted

    def ask(self, front: str, target: str = "/a", *fields: str, method: str = "GET", scheme: str = "https") -> Answer:
        """One request without a body, and its answer."""
        with self.front(front, scheme) as wire:
            return wire.client.exchange(wire.request(target, AUTHORIZATION, *fields, method=method), method)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Relays]:
    with ExitStack() as exits:
        upstreams = {"https": exits.enter_context(Upstream(certificates)), "http": exits.enter_context(Upstream(None))}
        endpoints = {
            "https": relay("https", upstreams["https"], certificates),
            "http": relay("http", upstreams["http"], None),
        }
        settings = {"endpoints": list(endpoints.values())}
        proxy = exits.enter_context(Proxy(tmp_path_factory.mktemp("relays"), settings, ENVIRONMENT))
        yield Relays(proxy, endpoints, upstreams)


@pytest.fixture
def relays(running: Relays) -> Relays:
    """The module's proxy, with nothing recorded yet."""
    for upstream in running.upstreams.values():
        upstream.clear()
        upstream.handler = lambda _request: answer()
    settle(running.proxy)
    return running


# -- events ------------------------------------------------------------------------------------------------------------

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def event_steps(gates: list[threading.Event], *, chunked: bool) -> list[Any]:
    """A stream of events, each sent only once its gate is open; without chunks it ends with the connection."""
    head = STREAM + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"\r\n")
    steps: list[Any] = [head]
    for index, gate in enumerate(gates):
        data = b"data: %d\n\n" % index
        steps += [gate, b"%x\r\n%b\r\n" % (len(data), data) if chunked else data]
    return [*steps, b"0\r\n\r\n" if chunked else CLOSE]


@both
@schemes
@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "until-close"])
def test_each_event_arrives_before_the_next_is_sent(relays: Relays, front: str, scheme: str, chunked: bool) -> None:
    """Server-sent events arrive as they are sent: the upstream sends the next only when the last one was read."""
    gates = [threading.Event() for _ in range(5)]
    relays.answers(event_steps(gates, chunked=chunked))
    with relays.front(front, scheme) as wire:
        wire.client.send(wire.request("/events", AUTHORIZATION, "Accept: text/event-stream"))
        head = wire.head()
        assert b"Content-Type: text/event-stream\r\n" in head
        # The head is here while nothing of the body has been sent.
        assert relays.proxy.new_records()[0]["event"] == "broker_request_allow"
        for index, gate in enumerate(gates):
            gate.set()
            assert wire.until(b"\n\n\r\n") == b"9\r\ndata: %d\n\n\r\n" % index
        assert wire.until(b"0\r\n\r\n") == b"0\r\n\r\n"
        # A stream that ended in order leaves the connection in step.
        relays.answers(answer())
        assert wire.client.exchange(wire.request("/a")).status == 200
    found = records(relays.proxy, 3)
    assert (found[0]["event"], found[0]["bytes_in"]) == ("broker_request_end", 45)
    assert found[0]["labels"] == ["ended-by-upstream"]


def curl_command(relays: Relays, front: str, target: str, *arguments: str) -> list[str]:
    """curl as a person runs it."""
    command = ["curl", "-sS", "--max-time", "20", "-H", AUTHORIZATION, *arguments]
    if front == "base":
        host, port = relays.proxy.endpoint("https")
        return [*command, f"http://{host}:{port}{target}"]
    host, port = relays.proxy.proxy
    command += ["--noproxy", "", "--proxy", f"http://{host}:{port}", "--cacert", str(relays.proxy.ca)]
    return [*command, relays.endpoints["https"]["upstream"] + target]


@curl
@both
def test_curl_shows_each_event_before_the_next_is_sent(relays: Relays, front: str) -> None:
    """`curl -N` prints an event while the upstream holds the next one back."""
    gates = [threading.Event() for _ in range(3)]
    relays.answers(event_steps(gates, chunked=True))
    command = curl_command(relays, front, "/events", "-N")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        for index, gate in enumerate(gates):
            gate.set()
            assert os.read(process.stdout.fileno(), 100) == b"data: %d\n\n" % index
        assert process.wait(10) == 0
    assert relays.upstreams["https"].requests[0].get("Authorization") == b"Bearer " + SECRET.encode()


@both
def test_a_client_that_leaves_ends_the_stream(relays: Relays, front: str) -> None:
    """The upstream is let go as soon as nobody reads, and the end record says who ended it."""
    relays.answers([STREAM + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", HANG])
    with relays.front(front) as wire:
        wire.client.send(wire.request("/events", AUTHORIZATION))
        wire.until(b"abc")
    # A client that only half-closed would still be read to: that it is gone counts after five seconds of nothing.
    found = records(relays.proxy, 2)
    assert events(found) == ["allow", "end"]
    assert (found[1]["labels"], found[1]["bytes_in"]) == (["ended-by-client"], 3)


@both
def test_a_request_body_arrives_while_it_is_sent(relays: Relays, front: str, certificates: Certificates) -> None:
    """Request bodies stream too: the upstream has read a piece before the client sends the next."""
    upstream = relays.upstreams["https"]

    def arrived(end: bytes) -> bool:
        return any(bytes(raw).endswith(end) for raw in list(upstream.raw.values()))

    with relays.front(front) as wire:
        wire.client.send(wire.request("/up", AUTHORIZATION, "Transfer-Encoding: chunked", method="POST"))
        for piece in (b"one", b"two", b"six"):
            wire.client.send(b"3\r\n%b\r\n" % piece)
            wait_for(partial(arrived, piece + b"\r\n"))
        assert wire.client.exchange(b"0\r\n\r\n").status == 200
    assert upstream.requests[-1].body == b"onetwosix"
    assert records(relays.proxy, 2)[1]["bytes_out"] == 9


# -- size --------------------------------------------------------------------------------------------------------------


class Bulk(TlsPort):
    """Takes a body of `size` bytes, then sends one as large."""

    def __init__(self, size: int, certificates: Certificates | None) -> None:
        super().__init__(certificates)
        self.size = size
        self.taken = 0

    def _talk(self, connection: socket.socket) -> None:
        buffer = bytearray(1 << 20)
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536)
        self.taken = len(head.partition(b"\r\n\r\n")[2])
        while self.taken < self.size and (count := connection.recv_into(buffer)):
            self.taken += count
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self.size)
        for _ in range(self.size // len(buffer)):
            connection.sendall(buffer)


@pytest.mark.parametrize(
    ("front", "tls", "size"),
    [
        pytest.param("base", False, GIB, id="plain-1GiB"),
        pytest.param("proxy", True, GIB, id="TLS-1GiB"),
        pytest.param("base", True, 8 * GIB, id="TLS-upstream-8GiB", marks=pytest.mark.soak),
    ],
)
def test_a_large_body_passes_both_ways_in_bounded_memory(
    front: str, tls: bool, size: int, tmp_path: Path, certificates: Certificates
) -> None:
    """A body of any size passes without being held: the most memory the program ever had grows by less than 64 MiB."""
    with Bulk(size, certificates if tls else None) as bulk:
        endpoint = relay("bulk", bulk.port, certificates if tls else None)
        with Proxy(tmp_path, {"endpoints": [endpoint]}, ENVIRONMENT) as proxy:
            before = peak(proxy)
            with Front(proxy, front, endpoint, timeout=60) as wire:
                piece = bytes(1 << 20)
                wire.client.send(wire.request("/bulk", AUTHORIZATION, f"Content-Length: {size}", method="POST"))
                for _ in range(size // len(piece)):
                    wire.client.socket.sendall(piece)
                wire.head()
                received, buffer = len(wire.client.pending), bytearray(1 << 20)
                while received < size and (count := wire.client.socket.recv_into(buffer)):
                    received += count
            assert (bulk.taken, received) == (size, size)
            assert peak(proxy) - before < 64 << 20
            end = records(proxy, 2)[1]
            assert (end["bytes_out"], end["bytes_in"], end["labels"]) == (size, size, ["ended-by-upstream"])


@pytest.mark.parametrize("front", FRONTS)
def test_a_client_that_does_not_read_holds_no_memory(front: str, relays: Relays) -> None:
    """What the client does not take, the upstream does not get to send."""
    sent = 0
    piece = bytes(1 << 20)

    def flood() -> Iterator[bytes]:
        nonlocal sent
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % GIB
        for _ in range(GIB // len(piece)):
            yield piece
            sent += len(piece)

    relays.answers(flood())
    before = peak(relays.proxy)
    with relays.front(front) as wire:
        wire.client.send(wire.request("/flood", AUTHORIZATION))
        wire.head()
        time.sleep(1.5)
        assert sent < 64 << 20
        assert peak(relays.proxy) - before < 64 << 20
    relays.upstreams["https"].drop()
    assert records(relays.proxy, 2)[1]["labels"] == ["ended-by-client"]


# -- shapes ------------------------------------------------------------------------------------------------------------


@both
@schemes
def test_a_range_is_relayed(relays: Relays, front: str, scheme: str) -> None:
    """A range goes up as it was asked for and comes back as it was answered (RFC 9110, 14)."""
    relays.answers(answer(206, b"cd", ("Content-Range", "bytes 2-3/9"), ("ETag", '"v"'), content_type="text/plain"))
    shown = relays.ask(front, "/file", "Range: bytes=2-3", 'If-Range: "v"', scheme=scheme)
    assert (shown.status, shown.body) == (206, b"cd")
    assert (shown.get("Content-Range"), shown.get("ETag")) == (b"bytes 2-3/9", b'"v"')
    request = relays.upstreams[scheme].requests[0]
    assert (request.get("Range"), request.get("If-Range")) == (b"bytes=2-3", b'"v"')


@both
@pytest.mark.parametrize(
    ("method", "scripted", "status", "fields"),
    [
        pytest.param("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 812\r\nX: 1\r\n\r\n", 200, {"content-length": b"812", "x": b"1"}, id="HEAD"),
        pytest.param("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, {"transfer-encoding": None}, id="HEAD-of-chunks"),
        pytest.param("GET", b"HTTP/1.1 204 No Content\r\nETag: \"1\"\r\n\r\n", 204, {"etag": b'"1"', "content-length": None}, id="204"),
        pytest.param("GET", b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nContent-Length: 99\r\n\r\n", 304, {"etag": b'"1"'}, id="304"),
        pytest.param("GET", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, {"link": None}, id="103-is-dropped"),
        pytest.param("GET", b"HTTP/1.1 299 Whatever It Says\r\nContent-Length: 0\r\n\r\n", 299, {}, id="unusual-status"),
        pytest.param("DELETE", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: a\r\n\r\n", 200, {"x-hop": None, "keep-alive": None, "connection": None}, id="hop-by-hop-is-dropped"),
    ],
)  # fmt: skip
def test_answers_of_every_shape_leave_the_connection_in_step(
    relays: Relays, front: str, method: str, scripted: bytes, status: int, fields: dict[str, bytes | None]
) -> None:
    """What an answer is, its method and status say (RFC 9112, 6.3); the next one on the connection is its own."""
    with relays.front(front) as wire:
        relays.answers(scripted)
        shown = wire.client.exchange(wire.request("/a", AUTHORIZATION, method=method), method)
        assert (shown.status, shown.informational) == (status, ())
        assert {name: shown.get(name) for name in fields} == fields
        relays.answers(answer(body=b"next"))
        assert wire.client.exchange(wire.request("/b", AUTHORIZATION)).body == b"next"


@both
def test_trailers_are_dropped(relays: Relays, front: str) -> None:
    """Trailers are not relayed (RFC 9110, 6.5.1: they may be discarded)."""
    relays.answers(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Late: 1\r\n\r\n")
    with relays.front(front) as wire:
        wire.client.send(wire.request("/a", AUTHORIZATION))
        assert b"chunked" in wire.head()
        assert wire.chunked() == b"ab"
        relays.answers(answer())
        assert wire.client.exchange(wire.request("/a")).status == 200


@both
def test_large_headers_pass_both_ways(relays: Relays, front: str) -> None:
    """Some forty KiB of fields, in one field and in many, each way."""
    many = [(f"X-{index}", "v" * 400) for index in range(50)]
    relays.answers(answer(200, b"{}", ("X-Long", "w" * 20000), *many))
    fields = [f"X-Long: {'w' * 20000}", *(f"{name}: {value}" for name, value in many)]
    shown = relays.ask(front, "/a?" + "q" * 6000, *fields)
    assert shown.status == 200
    assert shown.get("X-Long") == b"w" * 20000
    assert shown.get("X-49") == b"v" * 400
    request = relays.upstreams["https"].requests[0]
    assert request.target == b"/a?" + b"q" * 6000
    assert (request.get("X-Long"), request.get("X-49")) == (b"w" * 20000, b"v" * 400)


@both
def test_a_content_coding_is_passed_through(relays: Relays, front: str) -> None:
    """Nothing is decoded or asked for: the coding is the client's and the upstream's business."""
    packed = gzip.compress(b"hello " * 100)
    relays.answers(answer(200, packed, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")))
    shown = relays.ask(front, "/a", "Accept-Encoding: gzip;q=1.0, br")
    assert shown.body == packed
    assert (shown.get("Content-Encoding"), shown.get("Vary")) == (b"gzip", b"Accept-Encoding")
    assert relays.upstreams["https"].requests[0].get("Accept-Encoding") == b"gzip;q=1.0, br"


@both
def test_an_unasked_upgrade_is_refused(relays: Relays, front: str) -> None:
    """A 101 that nobody asked for is a 502, and nothing of it is shown."""
    relays.answers([b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX-Told: 1\r\n\r\nraw", HANG])
    shown = relays.ask(front)
    assert (shown.status, shown.get("X-Told")) == (502, None)
    (record,) = records(relays.proxy, 1)
    assert (record["verdict"], record["reason"], record["assurance"]) == ("deny", "unasked-upgrade", "trusted-upstream")


@both
def test_what_a_relay_does_not_look_at(relays: Relays, front: str) -> None:
    """Nothing is checked: any status, type, method and text pass, the credential itself too; the records say so."""
    relays.answers(answer(500, SECRET.encode(), ("X-Sent", SECRET), content_type="text/html"))
    shown = relays.ask(front, "/a/../b//%2e?x=[1]|", method="PATCH")
    assert (shown.status, shown.body, shown.get("X-Sent")) == (500, SECRET.encode(), SECRET.encode())
    assert relays.upstreams["https"].requests[0].target == b"/a/../b//%2e?x=[1]|"
    found = records(relays.proxy, 2)
    assert {record["assurance"] for record in found} == {"trusted-upstream"}
    assert SECRET not in str(found)


# -- redirects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@schemes
def test_redirects_go_back_to_the_client(relays: Relays, status: int, scheme: str) -> None:
    """Nothing is followed: the proxy front shows `Location` as it came, the base URL leads it back to itself."""
    own = relays.endpoints[scheme]["upstream"]
    for location, shown_on_base in (
        (f"{own}/next?a=b#c", "$BASE/next?a=b#c"),
        ("/next", "$BASE/next"),
        ("https://other.example/next", "https://other.example/next"),
        ("next", "next"),
    ):
        relays.answers(answer(status, b"", ("Location", location)))
        host, port = relays.proxy.endpoint(scheme)
        base = f"http://{host}:{port}"
        assert relays.ask("base", scheme=scheme).get("Location") == shown_on_base.replace("$BASE", base).encode()
        assert relays.ask("proxy", scheme=scheme).get("Location") == location.encode()
    assert len(relays.upstreams[scheme].requests) == 8


@curl
def test_curl_follows_a_redirect_by_the_base_url(relays: Relays) -> None:
    """A client that follows comes back through the proxy, with its reference."""

    def respond(request: Received) -> bytes:
        return answer(302, b"", ("Location", f"{own}/b")) if request.target == b"/a" else answer(200, b"there")

    own = relays.endpoints["https"]["upstream"]
    relays.upstreams["https"].handler = respond
    done = subprocess.run(curl_command(relays, "base", "/a", "-L"), capture_output=True, check=True)
    assert done.stdout == b"there"
    sent = [(request.target, request.get("Authorization")) for request in relays.upstreams["https"].requests]
    assert sent == [(b"/a", b"Bearer " + SECRET.encode()), (b"/b", b"Bearer " + SECRET.encode())]


# -- WebSocket ---------------------------------------------------------------------------------------------------------


class EchoSocket(TlsPort):
    """A WebSocket server that sends messages back, by wsproto."""

    def __init__(self, certificates: Certificates | None) -> None:
        super().__init__(certificates)
        self.handshakes: list[Request] = []

    def _talk(self, connection: socket.socket) -> None:
        protocol = WSConnection(ConnectionType.SERVER)
        while data := connection.recv(65536):
            protocol.receive_data(data)
            for event in protocol.events():
                if isinstance(event, Request):
                    self.handshakes.append(event)
                    connection.sendall(protocol.send(AcceptConnection(subprotocol="chat")))
                elif isinstance(event, TextMessage | BytesMessage):
                    connection.sendall(protocol.send(type(event)(event.data, message_finished=event.message_finished)))
                elif isinstance(event, Ping | CloseConnection):
                    connection.sendall(protocol.send(event.response()))
                    if isinstance(event, CloseConnection):
                        return


class SocketClient:
    """A WebSocket client by wsproto, on a connection to a front."""

    def __init__(self, wire: Front, target: str) -> None:
        self.wire = wire
        self.protocol = WSConnection(ConnectionType.CLIENT)
        asked = Request(
            host=wire.host.decode(),
            target=wire.url.decode() + target,
            subprotocols=["chat"],
            extra_headers=[(b"Authorization", b"Bearer @secret:api")],
        )
        wire.client.send(self.protocol.send(asked))

    def next(self) -> Event:
        while True:
            for event in self.protocol.events():
                return event
            self.wire.more()
            self.protocol.receive_data(self.wire.client.pending)
            self.wire.client.pending = b""

    def ask(self, event: Event) -> Event:
        self.wire.client.send(self.protocol.send(event))
        return self.next()


@both
@schemes
def test_a_websocket_is_relayed(front: str, scheme: str, tmp_path: Path, certificates: Certificates) -> None:
    """With `websocket: true` the handshake and everything behind it pass, through both fronts."""
    tls = certificates if scheme == "https" else None
    with EchoSocket(tls) as server:
        endpoint = relay("ws", server.port, tls, websocket=True)
        with Proxy(tmp_path, {"endpoints": [endpoint]}, ENVIRONMENT) as proxy:
            with Front(proxy, front, endpoint) as wire:
                client = SocketClient(wire, "/chat?room=1")
                accepted = client.next()
                assert isinstance(accepted, AcceptConnection)
                assert accepted.subprotocol == "chat"
                for size in (1, 1000, 200_000):
                    text = "é" * size
                    got = client.ask(TextMessage(text))
                    while isinstance(got, TextMessage) and not got.message_finished:
                        more = client.next()
                        assert isinstance(more, TextMessage)
                        got = TextMessage(got.data + more.data, message_finished=more.message_finished)
                    assert got == TextMessage(text)
                assert client.ask(Ping(b"p")) == Pong(b"p")
                assert client.ask(CloseConnection(code=1000)) == CloseConnection(code=1000, reason="")
                assert wire.rest() == b""
            (handshake,) = server.handshakes
            assert handshake.target == "/chat?room=1"
            assert (b"authorization", b"Bearer " + SECRET.encode()) in [
                (name.lower(), value) for name, value in handshake.extra_headers
            ]
            found = records(proxy, 2)
            assert events(found) == ["allow", "end"]
            assert [record["status"] for record in found] == [101, 101]
            assert found[1]["bytes_out"] > 400_000
            assert found[1]["bytes_in"] > 400_000
            # The server of this test ends TLS without a close_notify: where that is seen first, it broke off.
            broke_off = {"ended-by-proxy"} if scheme == "https" else set()
            assert found[1]["labels"][0] in {"ended-by-client", "ended-by-upstream"} | broke_off


@both
def test_a_websocket_is_refused_where_the_endpoint_does_not_say_so(relays: Relays, front: str) -> None:
    """`websocket: true` is never a default; nothing is dialled."""
    before = relays.upstreams["https"].connections
    with relays.front(front) as wire:
        rejected = SocketClient(wire, "/chat").next()
    assert isinstance(rejected, RejectConnection)
    assert rejected.status_code == 403
    assert relays.upstreams["https"].connections == before
    (record,) = records(relays.proxy, 1)
    assert (record["verdict"], record["reason"]) == ("deny", "unasked-upgrade")


# -- limits ------------------------------------------------------------------------------------------------------------


def test_the_limits_of_a_stream(tmp_path: Path, certificates: Certificates) -> None:
    """`timeout.idle` ends a stream that says nothing, `timeout.total` one that goes on; the record says who did."""
    with Upstream(certificates) as upstream, Upstream(certificates) as endless:
        upstream.handler = lambda _request: [STREAM + b"Content-Length: 9\r\n\r\nabc", HANG]
        endless.handler = lambda _request: [STREAM + b"\r\n", *[step for _ in range(900) for step in (b"x", 0.1)]]
        endpoints = [
            relay("idle", upstream, certificates, timeout={"idle": "500ms"}),
            relay("total", endless, certificates, timeout={"total": "1s"}),
        ]
        with Proxy(tmp_path, {"endpoints": endpoints}, ENVIRONMENT) as proxy:
            for endpoint in endpoints:
                started = time.monotonic()
                with Front(proxy, "base", endpoint) as wire:
                    wire.client.send(wire.request("/a", AUTHORIZATION))
                    assert b"200 OK" in wire.head()
                    # What was cut does not look complete.
                    assert not wire.rest().endswith(b"0\r\n\r\n")
                assert time.monotonic() - started > 0.4
                found = records(proxy, 2)
                assert events(found) == ["allow", "end"]
                assert found[1]["labels"] == ["ended-by-proxy"]


# -- addresses ---------------------------------------------------------------------------------------------------------


class Hello(http.server.BaseHTTPRequestHandler):
    """Answers everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize("allowed", [True, False])
def test_a_name_that_leads_inside(tmp_path: Path, allowed: bool) -> None:
    """`allowInside` lets an upstream's name resolve to an inside address; without it nothing is dialled."""
    name, inside = name_inside()
    if not inside:
        pytest.skip("this machine's own name does not lead inside")
    family = socket.AF_INET6 if ":" in inside[0] else socket.AF_INET
    server_type = type("Server", (http.server.ThreadingHTTPServer,), {"address_family": family})
    with server_type((inside[0], 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        endpoint = relay("named", 0, None, allowInside=allowed) | {"upstream": f"http://{name}:{server.server_port}"}
        try:
            with (
                Proxy(tmp_path, {"endpoints": [endpoint]}, ENVIRONMENT) as proxy,
                Front(proxy, "base", endpoint) as wire,
            ):
                shown = wire.client.exchange(wire.request("/a", AUTHORIZATION))
                found = records(proxy, 2 if allowed else 1)
        finally:
            server.shutdown()
            thread.join()
    if allowed:
        assert (shown.status, shown.body) == (200, b"hello")
        assert events(found) == ["allow", "end"]
    else:
        assert shown.status == 403
        assert [(record["reason"], record["signals"]) for record in found] == [
            ("inside-address", ["denied", "inside-address"])
        ]
