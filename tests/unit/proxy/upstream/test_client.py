"""Sending over real TLS connections on loopback: scripted bytes against the whole client."""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence, Set
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.peer import Peer, Stream
from support.waits import until

from addons.ports import UpstreamFailed
from addons.record import TlsCause
from grants.decision import Reason, Rule
from grants.message import Fields, Origin, Outgoing, Response
from proxy.upstream import Pool, PoolLimits, Trust, UpstreamClient

type Drive = Callable[[Coroutine[Any, Any, None]], None]

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"Content-Length: 5\r\n\r\nhello"


async def loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def origin_of(peer: Peer, host: str = "api.example") -> Origin:
    return Origin(scheme="https", host=host, port=peer.port)


def client_of(peer: Peer, trust: Trust, pool: Pool | None = None, **options: Any) -> UpstreamClient:
    options = {"resolver": loopback, "allow_inside": True, "connect_timeout": 5.0} | options
    host = options.pop("host", "api.example")
    return UpstreamClient(pool or Pool(), origin_of(peer, host), trust, **options)


def get(
    origin: Origin, method: bytes = b"GET", fields: Fields = (), body: bytes | None = None, target: bytes = b"/a"
) -> Outgoing:
    return Outgoing(origin=origin, method=method, target=target, fields=fields, body=body)


async def send(client: UpstreamClient, request: Outgoing, *, max_body: int = 1000, within: float = 5) -> Response:
    return await client.send(request, max_body=max_body, timeout=within)


async def failure(
    client: UpstreamClient, request: Outgoing, *, max_body: int = 1000, within: float = 5
) -> tuple[Rule, Reason, int]:
    """The words of the failure, which holds nothing of its cause."""
    with pytest.raises(UpstreamFailed) as caught:
        await client.send(request, max_body=max_body, timeout=within)
    failed = caught.value
    assert failed.__cause__ is None
    assert failed.__context__ is None
    assert failed.args == (failed.reason.value,)
    return failed.rule, failed.reason, failed.status


def block() -> None:
    """Keep the event loop from seeing anything while bytes cross the loopback."""
    time.sleep(0.01)


def always(*pieces: bytes) -> Callable[[Stream], Coroutine[Any, Any, None]]:
    """Answer every request of a connection with the same bytes."""

    async def script(stream: Stream) -> None:
        while await stream.request():
            await stream.send(*pieces)

    return script


def once(*pieces: bytes, then: str = "wait") -> Callable[[Stream], Coroutine[Any, Any, None]]:
    """Answer the first request of a connection, and then wait for its end, end it, or cut it."""

    async def script(stream: Stream) -> None:
        await stream.request()
        await stream.send(*pieces)
        if then == "end":
            stream.end()
            await stream.writer.wait_closed()
        elif then == "wait":
            await stream.request()

    return script


# --- what is sent


def test_sent_as_authorized(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """The bytes on the wire are the request and no more; TLS is at least 1.2, for HTTP/1.1, to the origin's name."""

    async def scenario() -> None:
        names: list[str | None] = []
        server_tls.sni_callback = lambda _object, name, _context: names.append(name)
        async with Peer(server_tls, always(HELLO)) as peer:
            client = client_of(peer, trust)
            request = get(client.origin, b"POST", ((b"x-Token", b"a b"), (b"Accept", b"*/*")), b"{}", b"/r?q=%20")
            response = await send(client, request)
            host = b"api.example:%d" % peer.port
            assert peer.requests == [
                b"POST /r?q=%20 HTTP/1.1\r\nHost: "
                + host
                + b"\r\nx-Token: a b\r\nAccept: */*\r\nContent-Length: 2\r\n\r\n{}"
            ]
            assert response == Response(
                status=200, reason=b"OK", fields=((b"Content-Length", b"5"),), body=b"hello", trailers=()
            )
            channel = peer.streams[0].writer.get_extra_info("ssl_object")
            assert channel.selected_alpn_protocol() == "http/1.1"
            assert channel.version() in ("TLSv1.2", "TLSv1.3")
        assert names == ["api.example"]
        server_tls.sni_callback = None

    drive(scenario())


def test_environment_is_not_read(
    drive: Drive, server_tls: ssl.SSLContext, trust: Trust, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No proxy and no key log of the environment is used."""
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            client = client_of(peer, Trust.only(trust.bundle or b""))
            assert (await send(client, get(client.origin))).status == 200

    drive(scenario())
    assert not (tmp_path / "keys").exists()


def test_faulty_request_is_not_dialled(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """A request that could be read as two is a fault before a connection is made, and so is plain HTTP."""

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            client = client_of(peer, trust)
            for request in (
                get(client.origin, target=b"/a b"),
                get(client.origin, fields=((b"X", b"a\r\nY: b"),)),
                get(Origin(scheme="http", host="api.example", port=peer.port)),
            ):
                assert await failure(client, request) == (Rule.FAULT, Reason.FAULT, 500)
            assert peer.streams == []

    drive(scenario())


# --- what comes back

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "data", "body", "connections"),
    [
        pytest.param(b"GET", HELLO, b"hello", 1, id="length"),
        pytest.param(b"GET", CHUNKED, b"hello", 1, id="chunked"),
        pytest.param(
            b"GET", b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\n" + HELLO, b"hello", 1, id="100 and 103"
        ),
        pytest.param(b"HEAD", OK + b"\r\n", b"", 1, id="HEAD"),
        pytest.param(b"HEAD", OK + b"Content-Length: 5\r\n\r\n", b"", 3, id="HEAD that announces a body"),
        pytest.param(b"HEAD", OK + b"Transfer-Encoding: chunked\r\n\r\n", b"", 3, id="HEAD that announces chunks"),
        pytest.param(b"GET", b"HTTP/1.1 204 N\r\n\r\n", b"", 1, id="204"),
        pytest.param(b"GET", b"HTTP/1.1 304 N\r\n\r\n", b"", 1, id="304"),
        pytest.param(b"GET", b"HTTP/1.1 304 N\r\nContent-Length: 5\r\n\r\n", b"", 3, id="304 that announces a body"),
        pytest.param(b"GET", OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello", b"hello", 3, id="close"),
        pytest.param(b"GET", b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", 3, id="HTTP/1.0"),
        pytest.param(b"GET", HELLO + b"x", b"hello", 3, id="left over"),
        pytest.param(b"GET", HELLO + HELLO, b"hello", 3, id="a second answer"),
        pytest.param(b"GET", CHUNKED + b"\r\n", b"hello", 3, id="left over after chunks"),
        pytest.param(b"HEAD", HELLO, b"", 3, id="HEAD with a body"),
        pytest.param(b"GET", b"HTTP/1.1 204 N\r\n\r\nhello", b"", 3, id="204 with a body"),
    ],
)
def test_reuse(
    drive: Drive, server_tls: ssl.SSLContext, trust: Trust, method: bytes, data: bytes, body: bytes, connections: int
) -> None:
    """A connection carries the next request only if it is at the end of a whole answer and nothing came after it."""

    async def scenario() -> None:
        async with Peer(server_tls, always(data)) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool)
            for _ in range(3):
                assert (await send(client, get(client.origin, method))).body == body
            assert len(peer.requests) == 3
            assert len(peer.streams) == pool.dialled == connections
            await pool.close()
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(HELLO, id="length"),
        pytest.param(CHUNKED, id="chunked"),
        pytest.param(b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n" + HELLO, id="103"),
    ],
)
def test_split_over_tls_records(drive: Drive, server_tls: ssl.SSLContext, trust: Trust, data: bytes) -> None:
    """An answer in a TLS record a byte, and cut in two anywhere, is the same answer."""

    async def scenario() -> None:
        cuts = iter(
            [[data[at : at + 1] for at in range(len(data))]] + [[data[:n], data[n:]] for n in range(1, len(data))]
        )

        async def script(stream: Stream) -> None:
            while await stream.request():
                await stream.send(*next(cuts))

        async with Peer(server_tls, script) as peer:
            client = client_of(peer, trust)
            for _ in range(len(data)):
                assert (await send(client, get(client.origin))).body == b"hello"
            assert len(peer.streams) == 1

    drive(scenario())


@pytest.mark.parametrize(
    ("data", "rule", "reason"),
    [
        pytest.param(
            b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            Rule.UPSTREAM_ERROR,
            Reason.UPGRADE,
            id="101",
        ),
        pytest.param(
            OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            Rule.UPSTREAM_ERROR,
            Reason.MALFORMED,
            id="length and coding",
        ),
        pytest.param(
            OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            Rule.UPSTREAM_ERROR,
            Reason.MALFORMED,
            id="two lengths",
        ),
        pytest.param(OK + b"X: a\r\n b\r\n\r\n", Rule.UPSTREAM_ERROR, Reason.MALFORMED, id="folded field"),
        pytest.param(b"SSH-2.0-x\r\n", Rule.UPSTREAM_ERROR, Reason.MALFORMED, id="no HTTP"),
        pytest.param(
            OK + b"Content-Length: 1001\r\n\r\n", Rule.RESPONSE_SIZE, Reason.RESPONSE_TOO_LARGE, id="too large"
        ),
        pytest.param(
            OK + b"\r\n" + b"x" * 1001, Rule.RESPONSE_SIZE, Reason.RESPONSE_TOO_LARGE, id="too large, by count"
        ),
        pytest.param(
            OK + b"".join(b"F%d: v\r\n" % n for n in range(300)) + b"\r\n",
            Rule.RESPONSE_SIZE,
            Reason.RESPONSE_HEAD_TOO_LARGE,
            id="300 fields",
        ),
        pytest.param(OK + b"X: " + b"x" * 70_000, Rule.RESPONSE_SIZE, Reason.RESPONSE_HEAD_TOO_LARGE, id="large head"),
    ],
)
def test_refused_answer_closes_at_once(
    drive: Drive, server_tls: ssl.SSLContext, trust: Trust, data: bytes, rule: Rule, reason: Reason
) -> None:
    """An answer that is refused ends the connection, though the upstream keeps it open and has more to say."""

    async def scenario() -> None:
        async with Peer(server_tls, once(data)) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool)
            assert await failure(client, get(client.origin)) == (rule, reason, 502)
            await until(lambda: pool.open_connections == 0)
            assert len(peer.requests) == 1

    drive(scenario())


def test_endless_body_is_cut(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """A body without end is read up to its limit, not until it ends."""
    sent = 0

    async def endless(stream: Stream) -> None:
        nonlocal sent
        await stream.request()
        await stream.send(OK + b"\r\n")
        while not stream.writer.is_closing():
            stream.writer.write(b"x" * 65536)
            sent += 65536
            await stream.writer.drain()
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with Peer(server_tls, endless) as peer:
            client = client_of(peer, trust)
            words = await failure(client, get(client.origin), max_body=100_000)
            assert words == (Rule.RESPONSE_SIZE, Reason.RESPONSE_TOO_LARGE, 502)
        assert sent < 16 << 20

    drive(scenario())


@pytest.mark.parametrize(
    ("data", "then", "body"),
    [
        pytest.param(OK + b"\r\nhello", "end", b"hello", id="ends with TLS"),
        pytest.param(OK + b"\r\nhello", "cut", None, id="cut without close_notify"),
        pytest.param(OK + b"Content-Length: 6\r\n\r\nhello", "end", None, id="short of its length"),
        pytest.param(OK + b"Content-Length: 6\r\n\r\nhello", "cut", None, id="short of its length, cut"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "end", None, id="without the last chunk"
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "cut", None, id="without the last chunk, cut"
        ),
        pytest.param(b"HTTP/1.1 100 C\r\n\r\n", "end", None, id="only 100"),
        pytest.param(OK, "end", None, id="half a head"),
        pytest.param(b"", "end", None, id="nothing"),
        pytest.param(b"", "cut", None, id="nothing, cut"),
    ],
)
def test_end_of_connection(
    drive: Drive, server_tls: ssl.SSLContext, trust: Trust, data: bytes, then: str, body: bytes | None
) -> None:
    """A short answer is none, whatever the method, and its request is never sent again."""

    async def scenario() -> None:
        async with Peer(server_tls, once(*([data] if data else []), then=then)) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool)
            request = get(client.origin)
            if body is None:
                assert await failure(client, request) == (Rule.UPSTREAM_ERROR, Reason.INCOMPLETE, 502)
            else:
                assert (await send(client, request)).body == body
            assert len(peer.requests) == 1
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


def test_early_answer(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """An answer that comes before its request is written whole counts; the rest of the request hits nobody else."""

    async def early(stream: Stream) -> None:
        await stream.reader.readuntil(b"\r\n\r\n")
        await stream.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        stream.writer.transport.pause_reading()
        await asyncio.sleep(1)

    async def scenario() -> None:
        async with Peer(server_tls, early) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool)
            response = await send(client, get(client.origin, b"POST", body=bytes(32 << 20)))
            assert response.status == 413
            assert pool.idle_connections == 0
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


# --- at most once


def test_stale_connection_seen_by_the_loop(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """A kept connection that the peer ended is dropped, and the next request goes to another."""

    async def scenario() -> None:
        async with Peer(server_tls, once(HELLO, then="end")) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool)
            for _ in range(3):
                assert (await send(client, get(client.origin, b"POST", body=b"x"))).status == 200
                await until(lambda: pool.open_connections == 0)
            assert len(peer.streams) == len(peer.requests) == 3

    drive(scenario())


def test_stale_connection_not_yet_seen(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """An end that has reached the system but not the loop is found before a byte is written."""

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool)
            for _ in range(3):
                await send(client, get(client.origin, b"POST", body=b"x"))
                connection = next(iter(pool._of))
                peer.streams[-1].cut()
                await asyncio.sleep(0)  # the peer's turn
                block()
                assert pool.idle_connections == 1
                assert not connection.lost
            assert (await send(client, get(client.origin, b"POST", body=b"x"))).status == 200
            assert len(peer.streams) == len(peer.requests) == 4

    drive(scenario())


def test_answer_before_its_request(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Bytes that lie on an idle connection are never the answer to the next request, seen by the loop or not."""
    poison = OK + b"Content-Length: 6\r\n\r\npoison"

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool)
            for pause in (0.0, 0.05):
                await send(client, get(client.origin))
                peer.streams[-1].writer.write(poison)
                if pause:
                    await asyncio.sleep(pause)
                    assert pool.idle_connections == 0
                else:
                    block()
                    assert pool.idle_connections == 1
                assert (await send(client, get(client.origin))).body == b"hello"
            assert len(peer.streams) == 3

    drive(scenario())


def test_peer_that_speaks_first(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """An answer that comes with the handshake is nobody's, and is never returned."""

    async def first(stream: Stream) -> None:
        await stream.send(OK + b"Content-Length: 6\r\n\r\npoison")
        while await stream.request():
            await stream.send(HELLO)

    async def scenario() -> None:
        async with Peer(server_tls, first) as peer:
            client = client_of(peer, trust)
            try:
                response = await send(client, get(client.origin))
            except UpstreamFailed as failed:
                reason: Reason | None = failed.reason
            else:
                # The bytes came after the request was written: no client can tell.
                reason = None
                assert response.status == 200
            assert reason in (None, Reason.CONNECT, Reason.INCOMPLETE)

    drive(scenario())


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"PUT", b"DELETE", b"POST"])
def test_written_is_never_written_again(drive: Drive, server_tls: ssl.SSLContext, trust: Trust, method: bytes) -> None:
    """A kept connection that drops after the request was written is a failure, for idempotent methods too."""

    async def scenario() -> None:
        async def script(stream: Stream) -> None:
            await stream.request()
            await stream.send(OK + b"Content-Length: 0\r\n\r\n")
            await stream.request()

        async with Peer(server_tls, script) as peer:
            client = client_of(peer, trust)
            await send(client, get(client.origin, method))
            words = await failure(client, get(client.origin, method))
            assert words == (Rule.UPSTREAM_ERROR, Reason.INCOMPLETE, 502)
            assert len(peer.streams) == 1
            assert len(peer.requests) == 2

    drive(scenario())


# --- deadlines


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="no answer"),
        pytest.param(OK, id="half a head"),
        pytest.param(OK + b"Content-Length: 9\r\n\r\nhello", id="half a body"),
        pytest.param(OK + b"\r\nhello", id="no end"),
    ],
)
def test_total_deadline(drive: Drive, server_tls: ssl.SSLContext, trust: Trust, data: bytes) -> None:
    """The whole exchange has one deadline; at it the connection is closed."""

    async def scenario() -> None:
        async with Peer(server_tls, once(*([data] if data else []))) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool)
            words = await failure(client, get(client.origin), within=0.15)
            assert words == (Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504)
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


def test_deadline_of_a_later_exchange(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Each exchange has its own deadline: an earlier one's neither cuts it short nor lets it run on."""

    async def scenario() -> None:
        async def script(stream: Stream) -> None:
            await stream.request()
            await stream.send(HELLO)
            await stream.request()
            await asyncio.sleep(2.1)
            await stream.send(HELLO)
            await stream.request()
            await asyncio.sleep(3600)

        async with Peer(server_tls, script) as peer:
            client = client_of(peer, trust)
            await send(client, get(client.origin), within=2)
            await send(client, get(client.origin), within=3600)
            assert await failure(client, get(client.origin), within=0.1) == (
                Rule.UPSTREAM_ERROR,
                Reason.TIMEOUT,
                504,
            )
            assert len(peer.streams) == 1

    drive(scenario())


def test_dripping_answer(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Progress does not move the deadline."""

    async def drip(stream: Stream) -> None:
        await stream.request()
        await stream.send(OK + b"\r\n")
        while True:
            await stream.send(b"x")
            await asyncio.sleep(0.01)

    async def scenario() -> None:
        async with Peer(server_tls, drip) as peer:
            client = client_of(peer, trust)
            assert (await failure(client, get(client.origin), within=0.15))[1] is Reason.TIMEOUT

    drive(scenario())


@pytest.mark.parametrize("timeouts", [pytest.param((0.1, 3600), id="connect"), pytest.param((3600, 0.1), id="total")])
def test_connect_deadline(drive: Drive, trust: Trust, timeouts: tuple[float, float]) -> None:
    """A handshake that does not end is cut at the deadline to connect, or of the whole."""

    async def scenario() -> None:
        async def mute(stream: Stream) -> None:
            await asyncio.sleep(3600)

        async with Peer(None, mute) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool, connect_timeout=timeouts[0])
            words = await failure(client, get(client.origin), within=timeouts[1])
            assert words == (Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504)
            assert pool.open_connections == 0

    drive(scenario())


def test_resolver_deadline(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Resolving is part of connecting."""

    async def slow(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(5)
        return ["127.0.0.1"]

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            client = client_of(peer, trust, connect_timeout=0.1, resolver=slow)
            assert await failure(client, get(client.origin)) == (Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504)

    drive(scenario())


@pytest.mark.parametrize("after", [pytest.param(0.0, id="at once"), pytest.param(0.05, id="while it waits")])
def test_cancelled(drive: Drive, server_tls: ssl.SSLContext, trust: Trust, after: float) -> None:
    """A request that is given up closes its connection, dialled or written."""

    async def scenario() -> None:
        async with Peer(server_tls, once()) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool)
            task = asyncio.get_running_loop().create_task(send(client, get(client.origin)))
            await asyncio.sleep(after)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


# --- transport


def test_nobody_listens(drive: Drive, trust: Trust) -> None:
    """No address takes the connection: `connect`."""

    async def scenario() -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            origin = Origin(scheme="https", host="api.example", port=closed.getsockname()[1])
            client = UpstreamClient(Pool(), origin, trust, allow_inside=True, resolver=loopback)
            assert await failure(client, get(origin)) == (Rule.UPSTREAM_ERROR, Reason.CONNECT, 502)

    drive(scenario())


def test_next_address(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Where the first address takes no connection, the next is tried."""

    async def two(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            client = client_of(peer, trust, resolver=two)
            assert (await send(client, get(client.origin))).status == 200

    drive(scenario())


async def _unknown(host: str, port: int) -> Sequence[str]:
    raise socket.gaierror(socket.EAI_NONAME, "secret-name.internal not known")


async def _none(host: str, port: int) -> Sequence[str]:
    return []


async def _broken(host: str, port: int) -> Sequence[str]:
    raise UnicodeError("label too long")


@pytest.mark.parametrize("resolver", [_unknown, _none, _broken])
def test_unresolved(drive: Drive, server_tls: ssl.SSLContext, trust: Trust, resolver: Any) -> None:
    """A name without an address, and a name that cannot be asked for: `resolve`."""

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool, resolver=resolver)
            assert await failure(client, get(client.origin)) == (Rule.UPSTREAM_ERROR, Reason.RESOLVE, 502)
            assert pool.open_connections == 0

    drive(scenario())


def _server_of(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, key_type=trustme.KeyType.ECDSA).configure_cert(context)
    return context


def _common_name_only(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("other.example", common_name="api.example").configure_cert(context)
    return context


def _in_time(authority: trustme.CA, *, before: int, after: int) -> ssl.SSLContext:
    """A certificate that is valid from `before` to `after`, in days from now."""
    context, now = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), datetime.now(UTC)
    start, end = now + timedelta(days=before), now + timedelta(days=after)
    authority.issue_cert("api.example", not_before=start, not_after=end).configure_cert(context)
    return context


def _for_known_clients(authority: trustme.CA) -> ssl.SSLContext:
    """A server that wants a client's certificate, and TLS 1.2, where the handshake waits for it."""
    context = _server_of(authority, "api.example")
    context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_2
    return context


def _without_ciphers(authority: trustme.CA) -> ssl.SSLContext:
    """A server that has no cipher in common with anybody who is careful."""
    context = _server_of(authority, "api.example")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("NULL-SHA256:@SECLEVEL=0")
    return context


NAME, CA = frozenset({TlsCause.NAME_MISMATCH}), frozenset({TlsCause.UNKNOWN_CA})
TLS_FAILURES = [
    pytest.param(lambda ca: _server_of(ca, "other.example"), "api.example", NAME, id="another name"),
    pytest.param(lambda ca: _server_of(ca, "*.api.example"), "api.example", NAME, id="wildcard below the name"),
    pytest.param(_common_name_only, "api.example", NAME, id="name only as common name"),
    pytest.param(lambda ca: _server_of(trustme.CA(), "api.example"), "api.example", CA, id="another authority"),
    pytest.param(lambda ca: _server_of(ca, "127.0.0.2"), "127.0.0.1", NAME, id="another address"),
    pytest.param(lambda ca: _server_of(ca, "localhost"), "127.0.0.1", NAME, id="a name for an address"),
    pytest.param(lambda ca: _in_time(ca, before=-9, after=-1), "api.example", {TlsCause.EXPIRED}, id="expired"),
    pytest.param(lambda ca: _in_time(ca, before=1, after=9), "api.example", {TlsCause.NOT_YET_VALID}, id="too early"),
    pytest.param(
        _for_known_clients, "api.example", {TlsCause.ALERT, TlsCause.CLOSED}, id="a client's certificate is wanted"
    ),
    pytest.param(_without_ciphers, "api.example", {TlsCause.ALERT, TlsCause.CLOSED}, id="no cipher in common"),
    pytest.param(lambda ca: None, "api.example", {TlsCause.NO_TLS, TlsCause.CLOSED}, id="no TLS"),
]


async def _greeting(stream: Stream) -> None:
    stream.writer.write(b"220 hello\r\n")
    await stream.request()


@pytest.mark.parametrize(("context", "host", "causes"), TLS_FAILURES)
def test_tls_failures(
    authority: trustme.CA,
    trust: Trust,
    context: Callable[[trustme.CA], ssl.SSLContext | None],
    host: str,
    causes: Set[TlsCause],
) -> None:
    """A certificate that is not the origin's, or not vouched for, ends it before a byte of the request. The failure
    has a word for why: of the record's fixed list, never text of the other side.
    """

    async def scenario() -> None:
        async with Peer(context(authority), _greeting) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool, host=host, consented=frozenset({("127.0.0.1", peer.port)}))
            with pytest.raises(UpstreamFailed) as caught:
                await client.send(get(client.origin), max_body=1000, timeout=5)
            assert (caught.value.rule, caught.value.reason, caught.value.status) == (Rule.TRANSPORT, Reason.TLS, 502)
            assert caught.value.tls in causes
            assert caught.value.__cause__ is caught.value.__context__ is None
            assert peer.requests == []
            assert pool.open_connections == 0

    # What the scripted upstream's own loop says about a failed handshake is not the client's.
    asyncio.run(scenario())


def test_old_tls(authority: trustme.CA, trust: Trust) -> None:
    """TLS below 1.2 is refused; so is an authority of the system when a bundle is given, and the other way round."""
    assert trust.context.minimum_version is ssl.TLSVersion.TLSv1_2
    context = _server_of(authority, "api.example")

    async def scenario() -> None:
        async with Peer(context, always(HELLO)) as peer:
            client = client_of(peer, Trust.system())
            assert await failure(client, get(client.origin)) == (Rule.TRANSPORT, Reason.TLS, 502)

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_address_literal(drive: Drive, server_tls: ssl.SSLContext, trust: Trust, host: str) -> None:
    """An upstream written as an address is dialled as it is, verified by address, without a server name."""
    if host == "::1" and not _has_ipv6():
        pytest.skip("no IPv6 loopback here")

    async def scenario() -> None:
        names: list[str | None] = []
        server_tls.sni_callback = lambda _object, name, _context: names.append(name)
        async with Peer(server_tls, always(HELLO), host) as peer:
            client = client_of(
                peer, trust, host=host, consented=frozenset({(host, peer.port)}), allow_inside=False, resolver=_unknown
            )
            assert (await send(client, get(client.origin))).status == 200
            written = f"[{host}]" if ":" in host else host
            assert f"\r\nHost: {written}:{peer.port}\r\n".encode() in peer.requests[0]
        assert names == [None]
        server_tls.sni_callback = None

    drive(scenario())


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


# --- inside addresses

PUBLIC = ["8.8.8.8", "2606:4700::1111"]


@pytest.mark.parametrize(
    ("host", "answers", "consented", "allow_inside"),
    [
        pytest.param("api.example", ["127.0.0.1"], None, False, id="name that is loopback"),
        pytest.param("api.example", ["169.254.169.254"], None, False, id="name that is metadata"),
        pytest.param("api.example", ["fd00:ec2::254"], None, False, id="name that is v6 metadata"),
        pytest.param("api.example", ["::ffff:10.0.0.1"], None, False, id="name that is mapped private"),
        pytest.param("api.example", [*PUBLIC, "10.0.0.1"], None, False, id="one inside among public ones"),
        pytest.param("api.example", ["10.0.0.1", *PUBLIC], None, False, id="one inside before public ones"),
        pytest.param("api.example", ["fe80::1%lo"], None, False, id="scoped"),
        pytest.param("api.example", ["nonsense"], None, False, id="answer that is no address"),
        pytest.param("api.example", ["127.0.0.1"], "api.example", False, id="a name is no consent"),
        pytest.param("127.0.0.1", [], None, False, id="literal without consent"),
        pytest.param("127.0.0.1", [], None, True, id="literal without consent, names may be inside"),
        pytest.param("::ffff:127.0.0.1", [], "127.0.0.1", False, id="consent for another form"),
        pytest.param("localhost", ["127.0.0.1"], None, False, id="localhost without consent"),
        pytest.param("localhost", ["10.0.0.1"], "localhost", False, id="localhost that is elsewhere"),
    ],
)
def test_inside_addresses(
    drive: Drive,
    server_tls: ssl.SSLContext,
    trust: Trust,
    host: str,
    answers: list[str],
    consented: str | None,
    allow_inside: bool,
) -> None:
    """Every answer of the resolver is judged; one inside address without consent refuses, and nothing is dialled."""
    asked = 0

    async def resolver(name: str, port: int) -> Sequence[str]:
        nonlocal asked
        asked += 1
        return answers

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            pool = Pool()
            client = client_of(
                peer,
                trust,
                pool,
                host=host,
                resolver=resolver,
                allow_inside=allow_inside,
                consented=frozenset({(consented, peer.port)} if consented else ()),
            )
            assert await failure(client, get(client.origin)) == (Rule.DENIED, Reason.INSIDE_ADDRESS, 403)
            assert peer.streams == []
            assert pool.open_connections == 0
            assert asked <= 1

    drive(scenario())


def test_consent_is_for_exactly_that(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """An address that the operator wrote may be dialled, also as a hop; the same address with another port may not."""

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer, Peer(server_tls, always(HELLO)) as other:
            client = client_of(
                peer,
                trust,
                host="localhost",
                allow_inside=False,
                consented=frozenset({("127.0.0.1", peer.port), ("localhost", peer.port)}),
            )
            assert (await send(client, get(client.origin))).status == 200
            assert (await send(client, get(origin_of(peer, "127.0.0.1")))).status == 200
            for hop in (origin_of(other, "127.0.0.1"), origin_of(other, "localhost"), origin_of(peer, "other.example")):
                assert await failure(client, get(hop)) == (Rule.DENIED, Reason.INSIDE_ADDRESS, 403)
            assert other.streams == []

    drive(scenario())


def test_guard_is_part_of_the_pool_key(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """A connection that one endpoint may have is not used by another that may not, nor across trusts."""

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            pool = Pool()
            open_ = client_of(peer, trust, pool)
            await send(open_, get(open_.origin))
            guarded = client_of(peer, trust, pool, allow_inside=False)
            assert (await failure(guarded, get(guarded.origin)))[1] is Reason.INSIDE_ADDRESS
            foreign = client_of(peer, Trust.system(), pool)
            assert foreign._groups.of(foreign.origin) is not open_._groups.of(open_.origin)
            same = client_of(peer, Trust.only(trust.bundle or b""), pool)
            await send(same, get(same.origin))
            assert len(peer.streams) == 1

    drive(scenario())


class _Routed(asyncio.SelectorEventLoop):
    """An event loop on which every address leads to 127.0.0.1, and is written down."""

    dialled: list[str]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self.dialled.append(address[0])
        await super().sock_connect(sock, ("127.0.0.1", address[1]))


def test_rebinding(server_tls: ssl.SSLContext, trust: Trust) -> None:
    """The address that was judged is the one dialled: a name is asked for once a connection, and judged each time."""
    answers = iter([["8.8.8.8"], ["127.0.0.1"], ["9.9.9.9"]])
    asked = 0

    async def resolver(host: str, port: int) -> Sequence[str]:
        nonlocal asked
        asked += 1
        return next(answers)

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            pool = Pool()
            client = client_of(peer, trust, pool, allow_inside=False, resolver=resolver)
            await send(client, get(client.origin))
            await send(client, get(client.origin))
            assert asked == 1
            next(iter(pool._of)).abort()
            await asyncio.sleep(0.01)
            assert await failure(client, get(client.origin)) == (Rule.DENIED, Reason.INSIDE_ADDRESS, 403)
            await send(client, get(client.origin))
            assert asked == 3

    loop = _Routed()
    loop.dialled = []
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario())
    assert loop.dialled == ["8.8.8.8", "9.9.9.9"]


def test_system_resolver(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Without a resolver of its own the client asks the system, and judges that answer too."""

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            origin = origin_of(peer, "localhost")
            denied = UpstreamClient(Pool(), origin, trust)
            assert (await failure(denied, get(origin)))[1] is Reason.INSIDE_ADDRESS
            allowed = UpstreamClient(Pool(), origin, trust, consented=frozenset({("localhost", peer.port)}))
            assert (await send(allowed, get(origin))).status == 200

    drive(scenario())


# --- descriptors


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_descriptors_stay_flat(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Thousands of requests, some of them failing in every way, leave no descriptor behind."""

    async def mixed(stream: Stream) -> None:
        count = 0
        while await stream.request():
            count += 1
            if count == 20:
                match stream.number % 4:
                    case 0:
                        return
                    case 1:
                        stream.end()
                        return
                    case 2:
                        await stream.send(HELLO + b"left over")
                        continue
                    case _:
                        await stream.send(b"garbage\r\n\r\n")
                        continue
            await stream.send(HELLO)

    async def scenario() -> None:
        async with Peer(server_tls, mixed) as peer:
            pool = Pool(PoolLimits(per_group=4))
            client = client_of(peer, trust, pool)
            failed = 0

            async def many() -> None:
                nonlocal failed
                for _ in range(250):
                    try:
                        await send(client, get(client.origin))
                    except UpstreamFailed:
                        failed += 1

            await asyncio.gather(*(many() for _ in range(4)))
            middle = _descriptors()
            await asyncio.gather(*(many() for _ in range(8)))
            assert abs(_descriptors() - middle) <= 8
            assert failed > 20
            assert peer.most_open <= 8
            await pool.close()
            assert pool.open_connections == 0

    before = _descriptors()
    drive(scenario())
    assert _descriptors() <= before + 1
