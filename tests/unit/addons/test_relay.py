"""Relays and tunnels through both fronts, with real servers on both sides."""

import asyncio
import base64
import re
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.certificates import Certificates, make_certificates
from support.running import SECRET, FixedVault, MemoryLog, Running, running
from support.talk import FrontFactory, base, both, raw, tunnel
from support.upstream import CLOSE, HANG, DarkPort, Upstream, answer
from support.waits import HANG_SECONDS

from addons.audit import Audit
from addons.boxes import Box, Boxes, take_token
from addons.causes import forget, leaves
from addons.exchange import Arrival, Exchange
from addons.front.channel import Channel
from addons.front.reader import RequestReader
from addons.gate import Gate
from addons.policy import Policy, Relayed, Tunnels
from addons.ports import UpstreamFailed
from addons.pump import pump
from addons.record import EndedBy, Event, Mode
from addons.relay import Relay
from addons.relay_rules import TRUSTED
from addons.tunnel import Tunnel
from addons.who import Who
from grants.decision import Reason, Rule
from grants.message import Authority, Origin, RequestHead
from proxy.upstream import Dialler, Pool, StreamingClient, Trust

pytestmark = pytest.mark.usefixtures("freed")

GET = b"GET /anything?at=all HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer @secret:api\r\n\r\n"
POST = b"POST /upload HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer @secret:api\r\n"

type Run = Callable[..., None]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("upstream"))


@pytest.fixture
def upstream(certificates: Certificates) -> Iterator[Upstream]:
    with Upstream(certificates) as server:
        yield server


def relays(**changes: object) -> Callable[[Policy, Pool, Trust], Policy]:
    """The policy in which the endpoint is a relay."""

    def make(policy: Policy, pool: Pool, trust: Trust) -> Policy:
        service = policy.services["api"]
        origin = service.upstream
        options = {key: changes[key] for key in ("websocket", "idle") if key in changes}
        way = Relayed(
            upstream=StreamingClient(pool, origin, trust, consented=frozenset({(origin.host, origin.port)})),
            **options,  # type: ignore[arg-type]
        )
        others = {key: value for key, value in changes.items() if key not in ("websocket", "idle", "boxes", "tunnels")}
        made = replace(service, way=way, **others)  # type: ignore[arg-type]
        return Policy.of([made], boxes=changes.get("boxes"), tunnels=changes.get("tunnels"))  # type: ignore[arg-type]

    return make


@pytest.fixture
def run(tmp_path: Path, upstream: Upstream, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a test's coroutine against a proxy whose endpoint is a relay."""
    monkeypatch.setattr("addons.relay.HALF_CLOSED_SECONDS", 0.1)

    def go(work: Callable[[Running], Coroutine[None, None, None]], **changes: object) -> None:
        async def main() -> None:
            options = {"policy": relays(**changes)}
            async with asyncio.timeout(60), running(tmp_path, upstream, certificates, **options) as proxy:  # type: ignore[arg-type]
                await work(proxy)

        asyncio.run(main())

    return go


def events(proxy: Running) -> list[tuple[Event, int | None, tuple[str, ...]]]:
    """What the log says, in its order."""
    return [(record.event, record.status, record.labels) for record in proxy.log.records]


DONE = [(Event.ALLOW, 200, ()), (Event.END, 200, (EndedBy.UPSTREAM,))]


@both
def test_a_relay_takes_anything_and_says_so_in_its_records(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """`trusted-upstream` preserves the broad response relay; the decision's assurance field reports that."""

    async def work(proxy: Running) -> None:
        shown = answer(418, SECRET.encode(), ("Set-Cookie", "a=b"), ("X-Key", SECRET), content_type="text/html")
        upstream.handler = lambda _request: shown
        async with front(proxy) as talk:
            for _ in range(2):
                status, head, body = await talk.ask(GET % talk.host)
                assert status == 418
                assert b"Set-Cookie: a=b" in head
                assert body == SECRET.encode()
        request = upstream.requests[0]
        assert (request.method, request.target) == (b"GET", b"/anything?at=all")
        assert request.get("Authorization") == b"Bearer " + SECRET.encode()
        assert request.get("Host") == b"localhost:%d" % upstream.port
        assert upstream.connections == 1
        await asyncio.sleep(0.05)
        assert events(proxy) == [(Event.ALLOW, 418, ()), (Event.END, 418, (EndedBy.UPSTREAM,))] * 2
        records = proxy.log.records
        assert {record.assurance for record in records} == {"trusted-upstream"}
        assert {record.upstream_status for record in records} == {418}
        assert records[0].id == records[1].id
        assert (records[1].bytes_in, records[1].secret_refs) == (len(SECRET), ("api",))
        assert SECRET not in repr(records)

    run(work)


@both
def test_single_events_arrive_as_they_are_sent(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """Server-sent events arrive as they are sent: each is read before the upstream sends the next."""

    async def work(proxy: Running) -> None:
        gates = [threading.Event() for _ in range(3)]
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        sent = [step for index, gate in enumerate(gates) for step in (gate, b"9\r\ndata: %d\n\n\r\n" % index)]
        upstream.handler = lambda _request: [head, *sent, b"0\r\n\r\n"]
        async with front(proxy) as talk:
            await talk.send(GET % talk.host)
            assert b"Transfer-Encoding: chunked" in await talk.reader.readuntil(b"\r\n\r\n")
            for index, gate in enumerate(gates):
                gate.set()
                async with asyncio.timeout(HANG_SECONDS):
                    assert await talk.reader.readexactly(14) == b"9\r\ndata: %d\n\n\r\n" % index
            assert await talk.reader.readexactly(5) == b"0\r\n\r\n"
            upstream.handler = lambda _request: answer()
            assert (await talk.ask(GET % talk.host))[0] == 200
        assert events(proxy)[:2] == DONE

    run(work)


@both
@pytest.mark.parametrize(
    ("sent", "bodies"),
    [
        pytest.param([answer(body=b"{}")], [b"{}"], id="whole"),
        pytest.param([answer(body=b"")], [b""], id="empty"),
        pytest.param([answer(body=b"{}")[:-2], 0.1, b"{}"], [b"", b"{}"], id="the head first"),
        pytest.param([answer(body=b"{}")[:-1], 0.1, b"}"], [b"{", b"}"], id="part of the body"),
    ],
)
def test_a_head_goes_with_what_is_there_of_its_body(
    run: Run,
    upstream: Upstream,
    front: FrontFactory,
    monkeypatch: pytest.MonkeyPatch,
    sent: list[object],
    bodies: list[bytes],
) -> None:
    """One write for an answer that has come whole; a head without a body yet is not held back."""
    written: list[bytes] = []
    write = Channel.write

    async def noted(channel: Channel, data: bytes) -> None:
        written.append(data.partition(b"\r\n\r\n")[2] if data.startswith(b"HTTP/1.1 200 ") else data)
        await write(channel, data)

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: sent
        async with front(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 200
        assert written == bodies

    monkeypatch.setattr(Channel, "write", noted)
    run(work)


@both
@pytest.mark.parametrize(
    ("framing", "expected"),
    [
        pytest.param(b"Content-Length: 7\r\n\r\nab{}cde", b"Content-Length", id="Content-Length"),
        pytest.param(
            b"Transfer-Encoding: chunked\r\n\r\n3\r\nab{\r\n4\r\n}cde\r\n0\r\n\r\n", b"Transfer-Encoding", id="chunked"
        ),
    ],
)
def test_a_request_body_is_streamed(
    run: Run, upstream: Upstream, front: FrontFactory, framing: bytes, expected: bytes
) -> None:
    """Request bodies stream too; what they are is nobody's business here."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            assert (await talk.ask(POST % talk.host + framing))[0] == 200
            assert (await talk.ask(GET % talk.host))[0] == 200
        request = upstream.requests[0]
        assert request.body == b"ab{}cde"
        assert request.get(expected.decode()) is not None
        assert proxy.log.records[1].bytes_out == 7

    run(work)


def test_a_large_body_passes_both_ways_in_bounded_memory(run: Run) -> None:
    """A body of any size is not held: what one side does not take, the other side does not get to send."""
    size, piece = 64 * 1024 * 1024, b"x" * 65536

    async def work(proxy: Running) -> None:
        with Bulk(size) as bulk:
            proxy.policies.current = plain(proxy, bulk.port)
            async with base(proxy) as talk:
                await talk.send(POST % talk.host + b"Content-Length: %d\r\n\r\n" % size)
                for _ in range(size // len(piece)):
                    await talk.send(piece)
                await talk.reader.readuntil(b"\r\n\r\n")
                received = 0
                while received < size:
                    received += len(await talk.reader.read(1 << 20))
            await asyncio.sleep(0.1)
            assert received == size
        assert (proxy.log.records[1].bytes_out, proxy.log.records[1].bytes_in) == (size, size)

    tracemalloc.start()
    try:
        run(work)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * 1024 * 1024


class Bulk(DarkPort):
    """Takes a body of so many bytes, then sends one."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def _serve(self, connection: socket.socket, number: int) -> None:
        _, _, rest = connection.recv(65536).partition(b"\r\n\r\n")
        left = self._size - len(rest)
        while left and (data := connection.recv(65536)):
            left -= len(data)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self._size)
        for _ in range(self._size // 65536):
            connection.sendall(b"y" * 65536)


@both
def test_expect_is_answered_for_a_relay(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """RFC 9110, 10.1.1."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            assert (await talk.ask(POST % talk.host + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"))[0] == 100
            assert (await talk.ask(b"ab"))[0] == 200
        assert upstream.requests[0].get("Expect") is None

    run(work)


@both
def test_an_early_answer_ends_the_upload(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """An upstream may refuse without reading the body; the client's connection then ends behind the answer."""

    async def work(proxy: Running) -> None:
        early = threading.Event()
        with EarlyUpstream() as refusing:
            proxy.policies.current = plain(proxy, refusing.port)
            async with base(proxy) as talk:
                await talk.send(POST % talk.host + b"Content-Length: 1000000\r\n\r\nab")
                status, _, _ = await talk.answer()
                assert status == 413
                assert await talk.rest() == b""
        early.set()
        await asyncio.sleep(0.05)
        assert events(proxy) == [(Event.ALLOW, 413, ()), (Event.END, 413, (EndedBy.UPSTREAM,))]

    run(work)


class EarlyUpstream(DarkPort):
    """Answers as soon as a head has come."""

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        while connection.recv(65536):
            pass


def plain(proxy: Running, port: int, **changes: object) -> Policy:
    """The policy in which the endpoint is a relay to plain http on a port."""
    origin = Origin(scheme="http", host="127.0.0.1", port=port)
    client = StreamingClient(proxy.pool, origin, None, consented=frozenset({("127.0.0.1", port)}))
    return Policy.of([replace(proxy.service, upstream=origin, way=Relayed(upstream=client), **changes)])  # type: ignore[arg-type]


def test_plain_http_is_relayed_to_a_plain_http_endpoint(run: Run) -> None:
    """In absolute form on the forward proxy, and on the base URL; to any other host it is refused."""

    async def work(proxy: Running) -> None:
        with Upstream(None) as server:
            proxy.policies.current = plain(proxy, server.port)
            host = b"127.0.0.1:%d" % server.port
            async with raw(proxy.proxy) as talk:
                for _ in range(2):
                    request = (GET % host).replace(b" /any", b" http://" + host + b"/any")
                    assert (await talk.ask(request))[0] == 200
                assert (await talk.ask(request.replace(b"Host: 127", b"Host: 128")))[0] == 421
            async with base(proxy) as talk:
                assert (await talk.ask(GET % talk.host))[0] == 200
            async with raw(proxy.proxy) as talk:
                assert (await talk.ask(b"GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n"))[0] == 403
            assert [request.target for request in server.requests] == [b"/anything?at=all"] * 3
            assert server.requests[0].get("Authorization") == b"Bearer " + SECRET.encode()
        assert [r.mode for r in proxy.log.records if r.event is Event.ALLOW] == [Mode.PROXY, Mode.PROXY, Mode.TERMINATE]

    run(work)


@both
@pytest.mark.parametrize(
    ("scripted", "shown"),
    [
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", CLOSE], b"abc", id="Content-Length"),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", CLOSE], b"3\r\nabc\r\n", id="chunked"
        ),
    ],
)
def test_an_answer_that_is_cut_does_not_look_complete(
    run: Run, upstream: Upstream, front: FrontFactory, scripted: list[object], shown: bytes
) -> None:
    """A stream that breaks ends without looking complete, and its end record says that it broke."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: scripted
        async with front(proxy) as talk:
            await talk.send(GET % talk.host)
            await talk.reader.readuntil(b"\r\n\r\n")
            assert await talk.rest() == shown
        await asyncio.sleep(0.05)
        assert events(proxy) == [(Event.ALLOW, 200, ()), (Event.END, 200, (EndedBy.PROXY,))]

    run(work)


@both
@pytest.mark.parametrize(
    ("scripted", "reason"),
    [
        pytest.param([CLOSE], Reason.INCOMPLETE, id="no answer"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", Reason.UPGRADE, id="unasked 101"),
        pytest.param(b"rubbish\r\n\r\n", Reason.MALFORMED, id="rubbish"),
    ],
)
def test_an_upstream_that_does_not_answer_is_a_502(
    run: Run, upstream: Upstream, front: FrontFactory, scripted: object, reason: Reason
) -> None:
    """Nothing was shown yet, so the client gets a refusal, and there is one record."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: scripted  # type: ignore[return-value]
        async with front(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 502
        assert [(r.event, r.reason, r.assurance) for r in proxy.log.records] == [
            (Event.DENY, reason, "trusted-upstream")
        ]

    run(work)


@both
def test_a_client_that_leaves_ends_the_upstream_too(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """The client's end ends the upstream's, also while neither says anything."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", HANG]
        async with front(proxy) as talk:
            await talk.send(GET % talk.host)
            await talk.reader.readuntil(b"abc")
        await asyncio.sleep(0.3)
        assert events(proxy) == [(Event.ALLOW, 200, ()), (Event.END, 200, (EndedBy.CLIENT,))]
        assert proxy.pool.open_connections == 0
        assert proxy.listeners.open == 0

    run(work)


@both
def test_a_client_that_leaves_before_the_answer_leaves_one_record(
    run: Run, upstream: Upstream, front: FrontFactory
) -> None:
    """Exactly one decision record a request."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [HANG]
        async with front(proxy) as talk:
            await talk.send(POST % talk.host + b"Content-Length: 10\r\n\r\nab")
            await asyncio.sleep(0.2)
        await asyncio.sleep(0.3)
        assert [(r.event, r.reason) for r in proxy.log.records] == [(Event.DENY, Reason.CLIENT_LEFT)]
        assert proxy.pool.open_connections == 0

    run(work)


@both
def test_a_broken_chunk_ends_the_upload(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """What cannot be read in one way is not passed on."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            await talk.send(POST % talk.host + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\nxx\r\n")
            await talk.rest()
        await asyncio.sleep(0.1)
        assert [r.reason for r in proxy.log.records] == [Reason.FRAMING]
        assert upstream.requests == []

    run(work)


@both
def test_without_a_record_nothing_is_relayed(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """A relay writes its record before the first byte."""

    async def work(proxy: Running) -> None:
        proxy.log.failing = lambda _record: True
        async with front(proxy) as talk:
            status, _, body = await talk.ask(GET % talk.host)
            assert status == 503
            assert body != b"{}"
        assert proxy.log.records == []
        sent = len(upstream.requests)
        async with front(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 503
        assert len(upstream.requests) == sent

    run(work)


@both
def test_what_is_injected_replaces_what_the_client_sent(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """Attach by host: a sandbox that holds no placeholder at all is served."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            fields = b"authorization: mine\r\nX_tenant_ID: mine\r\nX-Tenant_Id: mine\r\nX-Own: kept\r\n"
            await talk.ask(b"GET /a HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (talk.host, fields))
        request = upstream.requests[0]
        assert request.get("Authorization") == b"token " + SECRET.encode()
        assert request.get("X-Tenant-Id") == b"acme"
        assert b"mine" not in request.head
        assert request.get("X-Own") == b"kept"
        assert proxy.log.records[0].secret_refs == ("api",)

    run(work, inject=((b"Authorization", b"token @secret:api"), (b"X-Tenant-Id", b"acme")))


@both
def test_no_more_requests_than_the_gate_lets_in(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """Requests in flight an endpoint: a 503 with `Retry-After` over the limit."""

    async def work(proxy: Running) -> None:
        release = threading.Event()
        upstream.handler = lambda _request: [release, answer()]
        async with front(proxy) as one, front(proxy) as two:
            await one.send(GET % one.host)
            await asyncio.sleep(0.1)
            status, head, _ = await two.ask(GET % two.host)
            assert status == 503
            assert b"Retry-After" in head
            release.set()
            assert (await one.answer())[0] == 200
            assert (await two.ask(GET % two.host))[0] == 200
            await asyncio.sleep(0.1)
        assert proxy.service.gate.inside == 0

    run(work, gate=Gate(1))


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        pytest.param(b"%(upstream)b/next?a=b", b"%(base)b/next?a=b", id="own origin"),
        pytest.param(b"%(upstream)b", b"%(base)b/", id="own origin without a path"),
        pytest.param(b"/next", b"%(base)b/next", id="path"),
        pytest.param(b"https://other.example/next", b"https://other.example/next", id="another origin"),
        pytest.param(b"//other.example/next", b"//other.example/next", id="another host"),
        pytest.param(b"next", b"next", id="relative"),
    ],
)
def test_a_location_on_the_upstream_s_origin_leads_back_to_the_base_url(
    run: Run, upstream: Upstream, location: bytes, shown: bytes
) -> None:
    """Redirects go back to the client untouched but for that."""

    async def work(proxy: Running) -> None:
        names = {b"upstream": b"https://localhost:%d" % upstream.port, b"base": b"http://127.0.0.1:%d" % proxy.base[1]}
        upstream.handler = lambda _request: answer(302, b"", ("Location", (location % names).decode()))
        async with base(proxy) as talk:
            _, head, _ = await talk.ask(GET % talk.host)
            assert b"Location: " + shown % names + b"\r\n" in head
        async with tunnel(proxy) as talk:
            _, head, _ = await talk.ask(GET % talk.host)
            assert b"Location: " + location % names + b"\r\n" in head

    run(work)


@both
def test_requests_sent_ahead_are_bounded_for_the_connection(
    run: Run, upstream: Upstream, front: FrontFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that asks faster than a relay answers is read no further, however many answers it has had."""
    most = 0
    feed = RequestReader.feed

    def fed(reader: RequestReader, data: bytes) -> None:
        nonlocal most
        feed(reader, data)
        most = max(most, reader.buffered)

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            one, count = b"GET /x HTTP/1.1\r\nHost: %s\r\nX-Pad: %s\r\n\r\n" % (talk.host, b"x" * 4000), 500

            async def flood() -> None:
                for _ in range(count // 100):
                    await talk.send(one * 100)

            sending = asyncio.get_running_loop().create_task(flood())
            for _ in range(count):
                head = await talk.reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                await talk.reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))  # type: ignore[index]
            await sending
        assert len(upstream.requests) == count
        # the bound of what waits and that of one request's stream, each with one read of the event loop's
        assert 256 * 1024 < most < 1024 * 1024

    monkeypatch.setattr(RequestReader, "feed", fed)
    run(work)


@both
@pytest.mark.parametrize("allowed", [True, False])
def test_a_websocket_is_relayed_where_the_endpoint_says_so(
    run: Run, upstream: Upstream, front: FrontFactory, allowed: bool
) -> None:
    """WebSocket when `websocket: true`, refused otherwise; after the 101 both ways are raw."""

    async def work(proxy: Running) -> None:
        accepted = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Key: k\r\n\r\n"
        with EchoUpstream(accepted) as echo:
            proxy.policies.current = relayed_plain(proxy, echo.port, websocket=allowed)
            async with base(proxy) as talk:
                asked = GET % talk.host
                upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"
                await talk.send(asked[:-2] + upgrade)
                head = await talk.reader.readuntil(b"\r\n\r\n")
                if not allowed:
                    assert head.startswith(b"HTTP/1.1 403")
                    assert echo.connections == 0
                    return
                assert head.startswith(b"HTTP/1.1 101")
                assert b"Upgrade: websocket" in head
                assert b"X-Key: k" in head
                for frame in (b"\x81\x02hi", b"\x00" * 100_000):
                    await talk.send(frame)
                    assert await talk.reader.readexactly(len(frame)) == frame
                talk.writer.write_eof()
                assert await talk.rest() == b""
        await asyncio.sleep(0.1)
        assert [(r.event, r.labels) for r in proxy.log.records] == [
            (Event.ALLOW, ()),
            (Event.END, (EndedBy.CLIENT,)),
        ]
        assert proxy.log.records[1].bytes_in == proxy.log.records[1].bytes_out == 100_004

    if front is base:
        run(work)


class EchoUpstream(DarkPort):
    """Accepts with some bytes what comes first, then sends back whatever comes."""

    def __init__(self, accepted: bytes = b"") -> None:
        super().__init__()
        self._accepted = accepted

    def _serve(self, connection: socket.socket, number: int) -> None:
        if self._accepted:
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            connection.sendall(self._accepted)
        while data := connection.recv(65536):
            self.bytes_received += len(data)
            connection.sendall(data)


def relayed_plain(proxy: Running, port: int, **options: object) -> Policy:
    """A relay to plain http with options of its own."""
    policy = plain(proxy, port)
    service = policy.services["api"]
    return Policy.of([replace(service, way=replace(service.way, **options))])  # type: ignore[arg-type]


# -- tunnels -----------------------------------------------------------------------------------------------------------


def tunnels(port: int, **options: float) -> Tunnels:
    """Tunnels to one port of this machine."""
    return Tunnels(
        allows=lambda authority: authority == Authority(host="127.0.0.1", port=port),
        dialler=Dialler(consented=frozenset({("127.0.0.1", port)})),
        **options,  # type: ignore[arg-type]
    )


def with_tunnels(proxy: Running, made: Tunnels, **changes: object) -> None:
    """Put tunnels in force."""
    proxy.policies.current = replace(proxy.policies.current, tunnels=made, **changes)  # type: ignore[arg-type]


def test_a_tunnel_carries_bytes_both_ways(run: Run) -> None:
    """Opaque CONNECT to listed hosts; a record when it opens and an end record with bytes and duration."""

    async def work(proxy: Running) -> None:
        with EchoUpstream() as echo:
            with_tunnels(proxy, tunnels(echo.port))
            async with raw(proxy.proxy) as talk:
                status, _, _ = await talk.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\nearly" % echo.port)
                assert status == 200
                assert await talk.reader.readexactly(5) == b"early"
                data = bytes(range(256)) * 4096
                await asyncio.gather(talk.send(data), talk.reader.readexactly(len(data)))
                talk.writer.write_eof()
                assert await talk.rest() == b""
            await asyncio.sleep(0.1)
        records = proxy.log.records
        assert [(r.event, r.mode, r.assurance, r.host, r.status) for r in records] == [
            (Event.ALLOW, Mode.CONNECT, "tunnel", "127.0.0.1", 200),
            (Event.END, Mode.CONNECT, "tunnel", "127.0.0.1", 200),
        ]
        assert records[0].id == records[1].id
        assert records[1].bytes_out == records[1].bytes_in == 256 * 4096 + 5
        assert records[1].labels == (EndedBy.CLIENT,)
        assert proxy.listeners.open == 0

    run(work)


@pytest.mark.parametrize(
    ("host", "rule", "reason", "status"),
    [
        pytest.param("127.0.0.2", Rule.DENIED, Reason.HOST_UNKNOWN, 403, id="not listed"),
        pytest.param("localhost", Rule.DENIED, Reason.HOST_UNKNOWN, 403, id="another name of the same"),
    ],
)
def test_a_tunnel_leads_only_to_what_is_listed(run: Run, host: str, rule: Rule, reason: Reason, status: int) -> None:
    """Never anything that was not written down."""

    async def work(proxy: Running) -> None:
        with DarkPort() as dark:
            with_tunnels(proxy, tunnels(dark.port))
            async with raw(proxy.proxy) as talk:
                assert (await talk.ask(b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (host.encode(), dark.port)))[0] == status
            assert dark.connections == 0
        assert [(r.rule, r.reason) for r in proxy.log.records] == [(rule, reason)]

    run(work)


def test_a_tunnel_to_an_inside_address_is_refused(run: Run) -> None:
    """A listed name that resolves to an inside address: `denied` and `inside-address`, and nothing is dialled."""

    async def work(proxy: Running) -> None:
        with DarkPort() as dark:
            made = Tunnels(allows=lambda _authority: True, dialler=Dialler(resolver=inside))
            with_tunnels(proxy, made)
            async with raw(proxy.proxy) as talk:
                assert (await talk.ask(b"CONNECT rebound.example:%d HTTP/1.1\r\n\r\n" % dark.port))[0] == 403
            assert dark.connections == 0
        record = proxy.log.records[0]
        assert (record.reason, record.assurance) == (Reason.INSIDE_ADDRESS, None)
        assert "inside-address" in record.signals

    async def inside(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    run(work)


def test_a_tunnel_that_cannot_be_dialled_is_a_502(run: Run) -> None:
    """One record, and no end record: nothing was opened."""

    async def work(proxy: Running) -> None:
        with DarkPort() as dark:
            port = dark.port
        with_tunnels(proxy, tunnels(port))
        async with raw(proxy.proxy) as talk:
            assert (await talk.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port))[0] == 502
        assert [(r.event, r.reason) for r in proxy.log.records] == [(Event.DENY, Reason.CONNECT)]

    run(work)


class InFlight:
    """What is in flight."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def begin(self, exchange: Exchange) -> None:
        self.ids.add(exchange.id)

    def opened(self, exchange: Exchange) -> None:
        return

    def done(self, exchange: Exchange) -> None:
        self.ids.discard(exchange.id)


def test_a_tunnel_without_a_record_is_not_opened(run: Run) -> None:
    """Its record is written before the client hears of it."""

    async def work(proxy: Running) -> None:
        with EchoUpstream() as echo:
            with_tunnels(proxy, tunnels(echo.port))
            proxy.log.failing = lambda record: record.event is Event.ALLOW
            flights = proxy.listeners.flights = InFlight()
            async with raw(proxy.proxy) as talk:
                assert (await talk.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % echo.port))[0] == 503
                assert [record.event for record in proxy.log.records] == [Event.DENY]
                assert not flights.ids
            assert echo.bytes_received == 0

    run(work)


@pytest.mark.parametrize("limits", [{"idle": 0.2}, {"total": 0.2}])
def test_a_tunnel_ends_at_its_limits(run: Run, limits: dict[str, float]) -> None:
    """Idle and total limits; the proxy ended it."""

    async def work(proxy: Running) -> None:
        with EchoUpstream() as echo:
            with_tunnels(proxy, tunnels(echo.port, **limits))
            async with raw(proxy.proxy) as talk:
                await talk.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % echo.port)
                assert await talk.rest() == b""
        await asyncio.sleep(0.05)
        assert proxy.log.records[1].labels == (EndedBy.PROXY,)

    run(work)


# -- boxes -------------------------------------------------------------------------------------------------------------

TOKENS = {"one": "token-of-box-one", "two": "token-of-box-two"}


BOX_ONE = b"/box/" + TOKENS["one"].encode()


def boxes() -> Boxes:
    """Box `one` may use the endpoint and tunnels, box `two` nothing."""
    return Boxes(
        [Box(name="one", endpoints=frozenset({"api"}), tunnels=True), Box(name="two", endpoints=frozenset())],
        FixedVault(**TOKENS),
    )


def basic(token: str) -> bytes:
    """Basic credentials with any user name."""
    return b"Basic " + base64.b64encode(b"user:" + token.encode())


@pytest.mark.parametrize(
    ("credentials", "status", "box", "reason"),
    [
        pytest.param(basic(TOKENS["one"]), 200, "one", None, id="Basic"),
        pytest.param(b"Bearer " + TOKENS["one"].encode(), 200, "one", None, id="Bearer"),
        pytest.param(basic(TOKENS["two"]), 403, "two", Reason.BOX_ENDPOINT, id="not for this endpoint"),
        pytest.param(basic("another token"), 407, None, Reason.BOX_UNKNOWN, id="unknown"),
        pytest.param(b"Bearer", 407, None, Reason.BOX_UNKNOWN, id="empty"),
        pytest.param(b"Digest x", 407, None, Reason.BOX_UNKNOWN, id="another scheme"),
        pytest.param(b"Basic !", 407, None, Reason.BOX_UNKNOWN, id="no base64"),
        pytest.param(None, 407, None, Reason.BOX_UNKNOWN, id="none"),
    ],
)
def test_a_box_shows_its_token_to_the_forward_proxy(
    run: Run, upstream: Upstream, credentials: bytes | None, status: int, box: str | None, reason: Reason | None
) -> None:
    """`Proxy-Authorization`, Basic or Bearer; 407 with a challenge."""

    async def work(proxy: Running) -> None:
        async with raw(proxy.proxy) as talk:
            field = b"" if credentials is None else b"Proxy-Authorization: " + credentials + b"\r\n"
            host = b"localhost:%d" % upstream.port
            got, head, _ = await talk.ask(b"CONNECT %s HTTP/1.1\r\n" % host + field + b"\r\n")
            assert got == status
            assert (b"Proxy-Authenticate: Basic" in head) == (status == 407)
        if reason is not None:
            record = proxy.log.records[0]
            assert (record.reason, record.box) == (reason, box)
        assert all(token not in repr(proxy.log.records) for token in TOKENS.values())

    run(work, boxes=boxes())


def test_a_box_s_requests_in_its_tunnel_are_its_own(run: Run, upstream: Upstream) -> None:
    """The box's name stands in each record, and the token goes nowhere."""

    async def work(proxy: Running) -> None:
        async with tunnel(proxy, b"Proxy-Authorization: Bearer " + TOKENS["one"].encode() + b"\r\n") as talk:
            assert (await talk.ask(GET % talk.host))[0] == 200
            proxy.policies.current = replace(
                proxy.policies.current,
                boxes=Boxes([Box(name="two", endpoints=frozenset())], FixedVault(two=TOKENS["two"])),
            )
            assert (await talk.ask(GET % talk.host))[0] == 407
        await asyncio.sleep(0.05)
        assert [r.box for r in proxy.log.records] == ["one", "one", None]
        assert TOKENS["one"].encode() not in b"".join(bytes(raw) for raw in upstream.raw.values())

    run(work, boxes=boxes())


@pytest.mark.parametrize(
    ("prefix", "field", "status"),
    [
        pytest.param(BOX_ONE, b"", 200, id="in the path"),
        pytest.param(b"", b"Proxy-Authorization: " + basic(TOKENS["one"]) + b"\r\n", 200, id="in a field"),
        pytest.param(b"", b"", 407, id="nowhere"),
        pytest.param(b"/box/wrong", b"", 407, id="another token"),
        pytest.param(
            BOX_ONE,
            b"Proxy-Authorization: " + basic(TOKENS["one"]) + b"\r\n",
            407,
            id="twice",
        ),
        pytest.param(
            BOX_ONE,
            b"X-Other: a " + TOKENS["one"].encode() + b"\r\n",
            403,
            id="also elsewhere",
        ),
        pytest.param(
            BOX_ONE,
            b"X-Other: " + basic(TOKENS["one"]) + b"\r\n",
            403,
            id="also elsewhere, in base64",
        ),
        pytest.param(BOX_ONE + b"/%74oken-of-box-one", b"", 403, id="also elsewhere, percent-encoded"),
    ],
)
def test_a_box_shows_its_token_to_a_base_url(
    run: Run, upstream: Upstream, prefix: bytes, field: bytes, status: int
) -> None:
    """A header, or a path prefix that is removed before matching and put back in a rewritten `Location`."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: answer(200, b"{}", ("Location", "/next"))
        async with base(proxy) as talk:
            request = (GET % talk.host).replace(b" /anything", b" " + prefix + b"/anything")
            got, head, _ = await talk.ask(request[:-2] + field + b"\r\n")
            assert got == status
            if status == 200:
                assert b"Location: http://" + talk.host + prefix + b"/next\r\n" in head
        assert len(upstream.requests) == (status == 200)
        for request_seen in upstream.requests:
            assert request_seen.target == b"/anything?at=all"
            assert TOKENS["one"].encode() not in request_seen.head
            assert request_seen.get("Proxy-Authorization") is None
        assert TOKENS["one"] not in repr(proxy.log.records)

    run(work, boxes=boxes())


@pytest.mark.parametrize(("box", "status"), [("one", 200), ("two", 403)])
def test_which_boxes_may_tunnel(run: Run, box: str, status: int) -> None:
    """`boxes[].tunnels`."""

    async def work(proxy: Running) -> None:
        with EchoUpstream() as echo:
            with_tunnels(proxy, tunnels(echo.port))
            async with raw(proxy.proxy) as talk:
                field = b"Proxy-Authorization: Bearer " + TOKENS[box].encode() + b"\r\n"
                connect = b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % echo.port + field + b"\r\n"
                assert (await talk.ask(connect))[0] == status
                if status == 200:
                    await talk.send(b"x")
                    assert await talk.reader.readexactly(1) == b"x"
            assert echo.connections == (status == 200)
        assert proxy.log.records[0].box == box

    run(work, boxes=boxes())


# -- capture -----------------------------------------------------------------------------------------------------------


class Captured:
    """Keeps what is captured, or fails."""

    def __init__(self, *, failing: bool = False) -> None:
        self.requests: list[dict[str, object]] = []
        self._failing = failing

    def write(self, request: dict[str, object]) -> None:
        if self._failing:
            raise OSError(SECRET)
        self.requests.append(request)


@both
def test_a_relayed_request_is_captured_as_it_came(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """References in place; the body's first 64 KiB, marked when cut; no answer."""
    sink = Captured()

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: answer(body=b'{"shown":1}')
        async with front(proxy) as talk:
            await talk.ask(GET % talk.host)
            await talk.ask(POST % talk.host + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000)
        await asyncio.sleep(0.05)
        get, post = sink.requests
        assert (get["method"], get["target"], get["body"], get["cut"]) == ("GET", "/anything?at=all", "", False)
        assert ["Authorization", "Bearer @secret:api"] in get["fields"]  # type: ignore[operator]
        assert (base64.b64decode(str(post["body"])), post["cut"]) == (b"x" * 65536, True)
        assert SECRET not in repr(sink.requests)
        assert "shown" not in repr(sink.requests)
        assert get["id"] == proxy.log.records[0].id

    run(work, capture=sink)


def test_a_captured_request_holds_no_box_token(run: Run, upstream: Upstream) -> None:
    """Box tokens are taken out; a request that shows one in another place is not captured at all."""
    sink = Captured()

    async def work(proxy: Running) -> None:
        async with base(proxy) as talk:
            request = (GET % talk.host).replace(b" /anything", b" " + BOX_ONE + b"/anything")
            assert (await talk.ask(request))[0] == 200
            leaking = request[:-2] + b"X-Other: " + TOKENS["one"].encode() + b"\r\n\r\n"
            assert (await talk.ask(leaking))[0] == 403
        await asyncio.sleep(0.05)
        assert len(sink.requests) == 1
        assert TOKENS["one"] not in repr(sink.requests)

    run(work, boxes=boxes(), capture=sink)


@both
def test_a_capture_that_fails_refuses_nothing(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """The decision log is the record; a capture is a help."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 200

    run(work, capture=Captured(failing=True))


# -- where the fronts cannot put a step --------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [Relay(Audit(MemoryLog(), b"k")), Tunnel(Audit(MemoryLog(), b"k")), Who()])
@pytest.mark.parametrize("hook", ["broker_connect", "broker_request", "broker_tunnel"])
def test_a_step_that_lacks_what_it_needs_fails_closed(step: object, hook: str) -> None:
    """What cannot be is refused, not passed on."""
    if not hasattr(step, hook):
        return
    made = Exchange(arrival=Arrival(mode=Mode.CONNECT, peer="127.0.0.1"), policy=Policy.of([], boxes=boxes()))
    made.relayed = True
    asyncio.run(getattr(step, hook)(made))
    assert made.denial is not None
    assert made.denial.rule is Rule.FAULT


def test_a_relay_without_a_client_fails_closed(run: Run) -> None:
    """A stream needs both sides."""

    async def work(proxy: Running) -> None:
        made = Exchange(arrival=Arrival(mode=Mode.PROXY, peer=None), policy=proxy.policies.current)
        made.relayed, made.service = True, proxy.service
        await Relay(Audit(MemoryLog(), b"k")).broker_request(made)
        assert made.denial is not None
        assert made.denial.rule is Rule.FAULT
        assert proxy.service.gate.inside == 0

    run(work)


@both
@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        pytest.param(b"OPTIONS * HTTP/1.1", 403, id="asterisk"),
        pytest.param(b"GET /a HTTP/1.1\r\nX: @secret:missing", 502, id="unknown reference"),
    ],
)
def test_a_relay_refuses_before_it_opens(
    run: Run, upstream: Upstream, front: FrontFactory, request_line: bytes, status: int
) -> None:
    """Nothing goes upstream, and there is one record."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            assert (await talk.ask(request_line + b"\r\nHost: %s\r\n\r\n" % talk.host))[0] == status
        assert [r.event for r in proxy.log.records] == [Event.DENY]
        assert upstream.connections == 0

    run(work)


def test_an_upstream_that_cannot_be_reached_is_a_502(run: Run) -> None:
    """Before anything was opened."""

    async def work(proxy: Running) -> None:
        with DarkPort() as dark:
            port = dark.port
        proxy.policies.current = plain(proxy, port)
        async with base(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 502
        assert [r.reason for r in proxy.log.records] == [Reason.CONNECT]

    run(work)


@pytest.mark.parametrize("begun", [False, True])
def test_a_relay_ends_at_its_total_time(run: Run, upstream: Upstream, begun: bool) -> None:
    """`timeout.total`: a 504 before the answer began, afterwards an end that does not look complete."""

    async def work(proxy: Running) -> None:
        head = [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"] if begun else []
        upstream.handler = lambda _request: [*head, HANG]
        async with base(proxy) as talk:
            await talk.send(GET % talk.host)
            shown = await talk.rest() if begun else (await talk.answer())[1]
            assert shown.startswith(b"HTTP/1.1 200" if begun else b"HTTP/1.1 504")
        await asyncio.sleep(0.05)
        if begun:
            assert events(proxy) == [(Event.ALLOW, 200, ()), (Event.END, 200, (EndedBy.PROXY,))]
        else:
            assert [r.reason for r in proxy.log.records] == [Reason.TIMEOUT]

    run(work, timeout=0.3)


def test_an_end_that_cannot_be_recorded_stops_what_comes_next(run: Run, upstream: Upstream) -> None:
    """What was carried is gone; nothing more goes upstream until the log can be written."""

    async def work(proxy: Running) -> None:
        proxy.log.failing = lambda record: record.event is Event.END
        async with base(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 200
            await asyncio.sleep(0.05)
            assert (await talk.ask(GET % talk.host))[0] == 503
        assert len(upstream.requests) == 1

    run(work)


def test_while_the_log_fails_no_tunnel_is_dialled(run: Run) -> None:
    """As for requests."""

    async def work(proxy: Running) -> None:
        with DarkPort() as dark:
            with_tunnels(proxy, tunnels(dark.port))
            proxy.log.failing = lambda _record: True
            for _ in range(2):
                async with raw(proxy.proxy) as talk:
                    assert (await talk.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % dark.port))[0] == 503
            await asyncio.sleep(0.1)
            assert dark.connections == 1

    run(work)


@pytest.mark.parametrize("side", ["client", "upstream"])
def test_a_tunnel_that_breaks_ends_both_ways(run: Run, side: str) -> None:
    """A reset of one side is the end of the other."""

    async def work(proxy: Running) -> None:
        with EchoUpstream() as echo:
            with_tunnels(proxy, tunnels(echo.port))
            async with raw(proxy.proxy) as talk:
                await talk.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % echo.port)
                await talk.send(b"x")
                assert await talk.reader.readexactly(1) == b"x"
                if side == "client":
                    talk.writer.transport.abort()
                else:
                    echo.drop()
                    await talk.rest()
            await asyncio.sleep(0.2)
            assert proxy.listeners.open == 0
        assert [r.event for r in proxy.log.records] == [Event.ALLOW, Event.END]

    run(work)


def test_boxes_print_their_names_alone() -> None:
    """No token in any text."""
    assert repr(boxes()) == "<boxes one, two>"
    assert TOKENS["one"] not in repr(take_token(RequestHead(method=b"GET", target=BOX_ONE, fields=()), from_path=True))


def test_a_token_needs_a_slash_behind_it() -> None:
    """`/box/TOKEN` alone leaves no path."""
    shown = take_token(RequestHead(method=b"GET", target=BOX_ONE, fields=()), from_path=True)
    assert (shown.token, shown.prefix) == (TOKENS["one"].encode(), b"")


ELSEWHERE, REPEATED = b"in another place of the request", b"give it the endpoint's base URL"
SHOWN = b"Proxy-Authorization: " + basic(TOKENS["one"])


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        pytest.param(b"X-Leak: " + TOKENS["one"].encode(), ELSEWHERE, id="a field"),
        pytest.param(b"X-Leak: a Bearer " + TOKENS["one"].encode(), ELSEWHERE, id="a word of a field"),
        pytest.param(SHOWN, REPEATED, id="where the proxy has it"),
        pytest.param(b"Proxy-Authorization: Bearer " + TOKENS["one"].encode(), REPEATED, id="there as a bearer"),
        pytest.param(SHOWN.replace(b"Proxy-A", b"proxy-a"), REPEATED, id="there in small letters"),
        pytest.param(SHOWN + b"\r\n" + SHOWN, REPEATED, id="there twice"),
        pytest.param(SHOWN + b"\r\nX-Leak: " + TOKENS["one"].encode(), ELSEWHERE, id="there and in a field"),
    ],
)
def test_a_box_s_token_does_not_go_through_its_tunnel(
    run: Run, upstream: Upstream, fields: bytes, detail: bytes
) -> None:
    """The token never goes upstream: also not from within the tunnel that it opened; the refusal says what to do."""

    async def work(proxy: Running) -> None:
        token = TOKENS["one"].encode()
        async with tunnel(proxy, b"Proxy-Authorization: Bearer " + token + b"\r\n") as talk:
            status, _, body = await talk.ask((GET % talk.host)[:-2] + fields + b"\r\n\r\n")
            assert status == 403
            assert detail in body
            assert token not in body
            assert (await talk.ask(GET % talk.host))[0] == 200
        assert [r.reason for r in proxy.log.records if r.event is not Event.END] == [Reason.BOX_TOKEN_LEAK, None]
        assert len(upstream.requests) == 1

    run(work, boxes=boxes())


def test_a_plain_endpoint_is_not_called_through_connect(run: Run) -> None:
    """TLS to the proxy and none behind it is nothing that a client can see."""

    async def work(proxy: Running) -> None:
        with DarkPort() as dark:
            proxy.policies.current = plain(proxy, dark.port)
            async with raw(proxy.proxy) as talk:
                assert (await talk.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % dark.port))[0] == 403
            assert dark.connections == 0
        assert [r.reason for r in proxy.log.records] == [Reason.PLAIN_HTTP]

    run(work)


# -- what is left unread -----------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("then", ["close", "wait", "rubbish"])
def test_a_refused_request_ends_the_connection_with_its_body_unread(
    run: Run, upstream: Upstream, front: FrontFactory, then: str
) -> None:
    """One decision record, `Connection: close`, and nothing of the rest is read as a request."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            head = (POST % talk.host).replace(b"@secret:api", b"@secret:missing")
            await talk.send(head + b"Content-Length: 100000\r\n\r\nabc")
            status, shown, _ = await talk.answer()
            assert status == 502
            assert b"Connection: close" in shown
            if then == "rubbish":
                await talk.send(b"0\r\n\r\nGET /after HTTP/1.1\r\nHost: x\r\n\r\n")
            if then != "close":
                assert await talk.rest() == b""
        await asyncio.sleep(0.1)
        assert [r.status for r in proxy.log.records] == [502]

    run(work)


@both
def test_what_follows_a_chunked_body_in_one_piece_is_left_and_said_so(
    run: Run, upstream: Upstream, front: FrontFactory
) -> None:
    """`Connection: close` tells the client that its next request was not read."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            chunked = b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
            await talk.send(POST % talk.host + chunked + GET % talk.host)
            status, head, _ = await talk.answer()
            assert status == 200
            assert b"Connection: close" in head
            assert await talk.rest() == b""
        assert len(upstream.requests) == 1

    run(work)


def test_a_half_closed_client_gets_its_answer(run: Run, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 9112, 9.6: what was asked is answered, and recorded as that."""
    monkeypatch.setattr("addons.relay.HALF_CLOSED_SECONDS", 5)

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [0.3, answer(body=b'{"late":1}')]
        async with base(proxy) as talk:
            await talk.send(POST % talk.host + b"Content-Length: 2\r\n\r\nab")
            talk.writer.write_eof()
            assert (await talk.answer())[0::2] == (200, b'{"late":1}')
        await asyncio.sleep(0.1)
        assert events(proxy) == DONE

    run(work)


def test_a_client_that_leaves_behind_a_whole_request_is_recorded_as_allowed(run: Run, upstream: Upstream) -> None:
    """The upstream has it: that is no refusal, and the end says who ended it."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [HANG]
        async with base(proxy) as talk:
            await talk.send(POST % talk.host + b"Content-Length: 2\r\n\r\nab")
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.4)
        assert events(proxy) == [(Event.ALLOW, None, ()), (Event.END, None, (EndedBy.CLIENT,))]
        assert proxy.pool.open_connections == 0

    run(work)


def test_a_websocket_takes_what_was_sent_ahead_and_what_comes_behind_an_end(run: Run) -> None:
    """Nothing is lost before the 101, nor behind the client's half-close."""

    async def work(proxy: Running) -> None:
        accepted = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        with LateEcho(accepted) as echo:
            proxy.policies.current = relayed_plain(proxy, echo.port, websocket=True)
            async with base(proxy) as talk:
                upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                ahead = bytes(range(256)) * 4000
                sending = asyncio.get_running_loop().create_task(talk.send((GET % talk.host)[:-2] + upgrade + ahead))
                assert b" 101 " in await talk.reader.readuntil(b"\r\n\r\n")
                assert await talk.reader.readexactly(len(ahead)) == ahead
                await sending
                talk.writer.write_eof()
                await asyncio.sleep(0.3)
                assert await talk.rest() == b"END"

    run(work)


class LateEcho(EchoUpstream):
    """Waits before it accepts, and says something behind the client's end."""

    def _serve(self, connection: socket.socket, number: int) -> None:
        time.sleep(0.2)
        super()._serve(connection, number)
        time.sleep(0.5)
        connection.sendall(b"END")


class Ends:
    """A side that says nothing more."""

    async def read(self) -> bytes:
        return b""


class Stays:
    """A side that says nothing, and does not take leave when the other has ended."""

    async def read(self) -> bytes:
        await asyncio.sleep(60)
        return b""

    async def finish(self) -> None:
        raise UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504)


def test_who_ended_is_told_although_the_other_side_fails_then() -> None:
    """The client ended its WebSocket, and the upstream did not take leave in time."""
    head = RequestHead(method=b"GET", target=b"/", fields=())
    made = Exchange(arrival=Arrival(mode=Mode.TERMINATE, peer=None), policy=Policy.of([]), head=head)
    assert asyncio.run(pump(made, Ends(), Stays(), idle=5, total=None)) is EndedBy.CLIENT  # type: ignore[arg-type]


class Faulty:
    """A side that fails in a way that is nobody's end."""

    async def read(self) -> bytes:
        raise KeyError(SECRET)

    async def write(self, data: bytes) -> None:
        await asyncio.sleep(5)

    async def finish(self) -> None:
        return


def test_an_error_of_our_own_is_no_end_of_a_stream() -> None:
    """It goes on to the guard, which records a fault."""
    made = Exchange(arrival=Arrival(mode=Mode.CONNECT, peer=None), policy=Policy.of([]))

    async def work() -> None:
        try:
            await pump(made, Faulty(), Faulty(), idle=1, total=None)  # type: ignore[arg-type]
        except BaseExceptionGroup as error:
            forget(error)
            failed.append(type(leaves(error)[0]))

    failed: list[type[BaseException]] = []
    asyncio.run(work())
    assert failed == [KeyError]


@both
def test_an_error_while_a_stream_runs_is_a_fault(
    run: Run, upstream: Upstream, front: FrontFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One decision record, and the connection ends."""

    def fail(*_args: object, **_options: object) -> None:
        raise KeyError(SECRET)

    async def work(proxy: Running) -> None:
        monkeypatch.setattr("addons.relay.answer_head", fail)
        async with front(proxy) as talk:
            await talk.send(GET % talk.host)
            assert await talk.rest() == b""
        await asyncio.sleep(0.05)
        assert [(r.event, r.rule) for r in proxy.log.records] == [(Event.ALLOW, None), (Event.END, Rule.FAULT)]

    run(work)


def test_without_tokens_in_the_settings_there_is_none_to_find() -> None:
    """Boxes may all be of the broker's store."""
    assert asyncio.run(Boxes((), None).find(b"token")) is None


def test_trusted_rules_need_a_head(run: Run) -> None:
    """What cannot be fails closed."""

    async def work(proxy: Running) -> None:
        made = Exchange(arrival=Arrival(mode=Mode.PROXY, peer=None), policy=proxy.policies.current)
        way = proxy.service.way
        assert isinstance(way, Relayed)
        with pytest.raises(ValueError, match="without a head"):
            await TRUSTED.ready(made, proxy.service, way)

    run(work)


@both
def test_a_client_that_leaves_while_the_log_fails_is_refused(run: Run, upstream: Upstream, front: FrontFactory) -> None:
    """Nothing is recorded, so nothing is said to have been allowed."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [HANG]
        async with front(proxy) as talk:
            await talk.send(GET % talk.host)
            await asyncio.sleep(0.1)
            proxy.log.failing = lambda record: record.event is Event.ALLOW
        await asyncio.sleep(0.4)
        assert [r.reason for r in proxy.log.records] == [Reason.LOG]

    run(work)
