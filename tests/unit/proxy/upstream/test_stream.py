"""Streams over real connections on loopback: scripted bytes, and handshakes instead of clocks."""

import asyncio
import os
import re
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import psutil
import pytest
from support.peer import Peer, Stream
from support.waits import until

from addons.ports import UpstreamFailed
from addons.streams import ResponseHead
from grants.decision import Reason, Rule
from grants.message import Fields, Origin, Outgoing
from proxy.tasks import spawn
from proxy.upstream import Pool, PoolLimits, StreamingClient, Trust, UpstreamClient
from proxy.upstream.answer import MAX_HEAD_BYTES, MAX_INTERIM
from proxy.upstream.stream import HELD_BYTES
from proxy.upstream.stream import Stream as Ours

type Drive = Callable[[Coroutine[Any, Any, None]], None]

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
MEGABYTE = 1 << 20


async def loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def client_of(peer: "Peer | Abrupt", trust: Trust | None, pool: Pool | None = None, **options: Any) -> StreamingClient:
    origin = Origin(scheme="http" if trust is None else "https", host="api.example", port=peer.port)
    return StreamingClient(pool or Pool(), origin, trust, **{"resolver": loopback, "allow_inside": True} | options)


async def start(
    client: StreamingClient,
    method: bytes = b"GET",
    *,
    length: int | None = 0,
    upgrade: bool = False,
    fields: Fields = (),
    target: bytes = b"/a",
) -> Ours:
    request = Outgoing(origin=client.origin, method=method, target=target, fields=fields)
    return await client.open(request, length=length, upgrade=upgrade, connect_timeout=5)


async def body_of(stream: Ours) -> bytes:
    pieces = []
    while piece := await stream.read():
        pieces.append(piece)
    assert await stream.read() == b""
    return b"".join(pieces)


async def reason_of(work: Coroutine[Any, Any, Any]) -> tuple[Rule, Reason, int]:
    """The words of the failure, which holds nothing of its cause."""
    with pytest.raises(UpstreamFailed) as caught:
        await work
    failed = caught.value
    assert failed.__cause__ is None
    assert failed.__context__ is None
    return failed.rule, failed.reason, failed.status


FAULT = (Rule.FAULT, Reason.FAULT, 500)
INCOMPLETE = (Rule.UPSTREAM_ERROR, Reason.INCOMPLETE, 502)
TIMEOUT = (Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504)


def block() -> None:
    """Keep the event loop from seeing anything while bytes cross the loopback."""
    time.sleep(0.01)


def always(*pieces: bytes) -> Callable[[Stream], Coroutine[Any, Any, None]]:
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
            await stream.reader.read()

    return script


@pytest.fixture(params=["https", "http"])
def tls(request: pytest.FixtureRequest, server_tls: ssl.SSLContext, trust: Trust) -> tuple[Any, Trust | None]:
    """Server's context and client's trust, for TLS and for plain TCP."""
    return (server_tls, trust) if request.param == "https" else (None, None)


type Tls = tuple[ssl.SSLContext | None, Trust | None]


# --- what is sent


@pytest.mark.parametrize(
    ("method", "length", "pieces", "framing", "wire"),
    [
        pytest.param(b"GET", 0, [], b"", b"", id="no body"),
        pytest.param(b"POST", 0, [], b"Content-Length: 0\r\n", b"", id="an empty body"),
        pytest.param(b"PUT", 5, [b"he", b"", b"llo"], b"Content-Length: 5\r\n", b"hello", id="length"),
        pytest.param(
            b"POST",
            None,
            [b"he", b"", b"llo, you there"],
            b"Transfer-Encoding: chunked\r\n",
            b"2\r\nhe\r\ne\r\nllo, you there\r\n0\r\n\r\n",
            id="chunked",
        ),
        pytest.param(b"POST", None, [], b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", id="chunked, empty"),
        pytest.param(
            b"GET", None, [b"x"], b"Transfer-Encoding: chunked\r\n", b"1\r\nx\r\n0\r\n\r\n", id="GET, chunked"
        ),
    ],
)
def test_request_on_the_wire(
    drive: Drive, tls: Tls, method: bytes, length: int | None, pieces: list[bytes], framing: bytes, wire: bytes
) -> None:
    """Head and body go out as they are, framed in one way (RFC 9112, 6); an empty piece does not end a chunked body."""

    async def scenario() -> None:
        seen: list[bytes] = []

        async def script(stream: Stream) -> None:
            seen.append(await stream.reader.readuntil(b"\r\n\r\n"))
            seen.append(await stream.reader.readexactly(len(wire)))
            await stream.send(HELLO)
            seen.append(await stream.reader.read())

        async with Peer(tls[0], script) as peer:
            client = client_of(peer, tls[1])
            stream = await start(client, method, length=length, fields=((b"x-A", b"b c"),), target=b"/r?q=%20")
            for piece in pieces:
                await stream.write(piece)
            await stream.finish()
            await stream.finish()
            assert await stream.head() == ResponseHead(
                status=200, reason=b"OK", fields=((b"Content-Length", b"5"),), length=5
            )
            assert await body_of(stream) == b"hello"
            await stream.close()
            await stream.close()
            await client._pool.close()
            await asyncio.sleep(0.02)
        host = b"api.example:%d" % peer.port
        assert seen == [
            method + b" /r?q=%20 HTTP/1.1\r\nHost: " + host + b"\r\nx-A: b c\r\n" + framing + b"\r\n",
            wire,
            b"",
        ]

    drive(scenario())


def test_head_is_sent_at_once(drive: Drive, tls: Tls) -> None:
    """The head goes out when the stream is opened, each piece when it is written: the peer answers one by one."""

    async def scenario() -> None:
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def script(stream: Stream) -> None:
            got.put_nowait(await stream.reader.readuntil(b"\r\n\r\n"))
            for _ in range(3):
                got.put_nowait(await stream.reader.readexactly(6))
            await stream.send(HELLO)

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1]), b"POST", length=None)
            assert (await got.get()).startswith(b"POST /a ")
            for letter in (b"a", b"b", b"c"):
                await stream.write(letter)
                assert await got.get() == b"1\r\n" + letter + b"\r\n"
            await stream.close()

    drive(scenario())


@pytest.mark.parametrize(
    ("length", "written", "finish"),
    [
        pytest.param(0, b"x", False, id="no body was announced"),
        pytest.param(3, b"four", False, id="more than was announced"),
        pytest.param(3, b"ab", True, id="less than was announced"),
    ],
)
def test_body_is_what_was_announced(drive: Drive, tls: Tls, length: int, written: bytes, finish: bool) -> None:
    """A body of another length than announced would be read as another request: a fault, and the connection ends."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], once(then="wait")) as peer:
            stream = await start(client_of(peer, tls[1], pool), b"POST", length=length)
            if finish:
                await stream.write(written)
                assert await reason_of(stream.finish()) == FAULT
            else:
                assert await reason_of(stream.write(written)) == FAULT
            assert await reason_of(stream.head()) == FAULT
            await stream.close()
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


def test_nothing_after_the_body(drive: Drive, tls: Tls) -> None:
    """What is written after the end of the body would be another request."""

    async def scenario() -> None:
        async with Peer(tls[0], once(then="wait")) as peer:
            stream = await start(client_of(peer, tls[1]), b"POST", length=None)
            await stream.finish()
            assert await reason_of(stream.write(b"GET / HTTP/1.1\r\n\r\n")) == FAULT
            await stream.close()

    drive(scenario())


def test_faulty_request_is_not_dialled(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """What could be read in two ways is a fault before a connection is made; so is http for an https endpoint."""

    async def scenario() -> None:
        async with Peer(server_tls, always(HELLO)) as peer:
            secure = client_of(peer, trust)
            plain = client_of(peer, None)
            both = ((b"Upgrade", b"websocket"),)
            for client, options in (
                (secure, {"target": b"/a b"}),
                (secure, {"fields": ((b"X", b"a\r\nY: b"),)}),
                (secure, {"fields": ((b"Transfer-Encoding", b"chunked"),)}),
                (secure, {"fields": both}),
                (secure, {"fields": ((b"Connection", b"close"),)}),
                (secure, {"upgrade": True}),
                (secure, {"upgrade": True, "fields": both * 2}),
                (secure, {"upgrade": True, "fields": ((b"Upgrade", b"a b"),)}),
                (secure, {"upgrade": True, "fields": (*both, (b"Connection", b"Upgrade, close"))}),
                (secure, {"upgrade": True, "fields": both, "length": 1}),
                (secure, {"upgrade": True, "fields": both, "length": None}),
                (plain, {"method": b"CONNECT"}),
            ):
                assert await reason_of(start(client, **options)) == FAULT  # type: ignore[arg-type]
            secured, unsecured = secure.origin, plain.origin
            for client, origin in ((secure, unsecured), (plain, secured)):
                request = Outgoing(origin=origin, method=b"GET", target=b"/", fields=())
                opened = client.open(request, length=0, upgrade=False, connect_timeout=1)
                assert await reason_of(opened) == FAULT
            assert peer.streams == []

    drive(scenario())


# --- what comes back


@pytest.mark.parametrize(
    ("method", "data", "length", "body", "connections"),
    [
        pytest.param(b"GET", HELLO, 5, b"hello", 1, id="length"),
        pytest.param(b"GET", OK + b"Content-Length: 0\r\n\r\n", 0, b"", 1, id="length 0"),
        pytest.param(
            b"GET", CHUNKED + b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nX: y\r\n\r\n", None, b"hello", 1, id="chunked, trailers"
        ),
        pytest.param(b"GET", CHUNKED + b"0\r\n\r\n", None, b"", 1, id="chunked, empty"),
        pytest.param(
            b"GET", b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\n" + HELLO, 5, b"hello", 1, id="100 and 103"
        ),
        pytest.param(b"HEAD", OK + b"\r\n", 0, b"", 1, id="HEAD"),
        pytest.param(b"HEAD", OK + b"Content-Length: 5\r\n\r\n", 0, b"", 3, id="HEAD that announces a body"),
        pytest.param(b"HEAD", CHUNKED, 0, b"", 3, id="HEAD that announces chunks"),
        pytest.param(b"GET", b"HTTP/1.1 204 N\r\n\r\n", 0, b"", 1, id="204"),
        pytest.param(b"GET", b"HTTP/1.1 304 N\r\n\r\n", 0, b"", 1, id="304"),
        pytest.param(b"GET", b"HTTP/1.1 304 N\r\nContent-Length: 5\r\n\r\n", 0, b"", 3, id="304 that announces a body"),
        pytest.param(
            b"GET",
            b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-4/9\r\nContent-Length: 5\r\n\r\nhello",
            5,
            b"hello",
            1,
            id="206",
        ),
        pytest.param(b"GET", OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello", 5, b"hello", 3, id="close"),
        pytest.param(b"GET", b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 5, b"hello", 3, id="HTTP/1.0"),
        pytest.param(b"GET", HELLO + b"x", 5, b"hello", 3, id="left over"),
        pytest.param(b"GET", HELLO + HELLO, 5, b"hello", 3, id="a second answer"),
        pytest.param(b"GET", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n\r\n", None, b"hello", 3, id="left over after chunks"),
        pytest.param(b"HEAD", HELLO, 0, b"", 3, id="HEAD with a body"),
        pytest.param(b"GET", b"HTTP/1.1 204 N\r\n\r\nhello", 0, b"", 3, id="204 with a body"),
        pytest.param(
            b"GET",
            OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
            5,
            b"hello",
            1,
            id="the content coding stays",
        ),
    ],
)
def test_answers_and_reuse(
    drive: Drive, tls: Tls, method: bytes, data: bytes, length: int | None, body: bytes, connections: int
) -> None:
    """The body is what its framing says; the connection goes on only at the end of a whole answer without a rest."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], always(data)) as peer:
            client = client_of(peer, tls[1], pool)
            for _ in range(3):
                stream = await start(client, method)
                assert (await stream.head()).length == length
                assert await body_of(stream) == body
                await stream.close()
                await asyncio.sleep(0.005)
            assert len(peer.streams) == connections
            assert pool.idle_connections == (1 if connections == 1 else 0)
            await pool.close()
            assert pool.open_connections == 0

    drive(scenario())


@pytest.mark.parametrize("then", ["end", "cut"])
@pytest.mark.parametrize(
    ("data", "body", "complete"),
    [
        pytest.param(OK + b"\r\nhello", b"hello", {"end"}, id="ends with the connection"),
        pytest.param(HELLO, b"hello", {"end", "cut"}, id="length"),
        pytest.param(OK + b"Content-Length: 9\r\n\r\nhello", b"hello", set(), id="short of its length"),
        pytest.param(CHUNKED + b"5\r\nhello\r\n", b"hello", set(), id="without the last chunk"),
        pytest.param(CHUNKED + b"9\r\nhello", b"hello", set(), id="in a chunk"),
    ],
)
def test_end_of_connection(drive: Drive, tls: Tls, then: str, data: bytes, body: bytes, complete: set[str]) -> None:
    """What came is read; then a body is complete only if its framing says so, and by its end only if TLS does too."""

    async def scenario() -> None:
        pool = Pool()
        got = asyncio.Event()

        async def script(stream: Stream) -> None:
            await stream.request()
            await stream.send(data)
            await got.wait()
            if then == "end":
                stream.end()
            elif tls[0] is None:
                # A reset: the end that plain TCP can tell from the other.
                stream.writer.transport.get_extra_info("socket").setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")
                stream.cut()
            else:
                stream.cut()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1], pool))
            assert (await stream.head()).status == 200
            assert await stream.read() == body
            got.set()
            if then in complete:
                assert await stream.read() == b""
            else:
                assert await reason_of(stream.read()) == INCOMPLETE
                assert await reason_of(stream.read()) == INCOMPLETE
            await stream.close()
            if data is not HELLO:
                await until(lambda: pool.open_connections == 0)

    drive(scenario())


REFUSED = [
    pytest.param(b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", Reason.UPGRADE, id="101"),
    pytest.param(OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", Reason.MALFORMED, id="CL and TE"),
    pytest.param(OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", Reason.MALFORMED, id="two lengths"),
    pytest.param(OK + b"Content-Length: +5\r\n\r\nhello", Reason.MALFORMED, id="signed length"),
    pytest.param(OK + b"Content-Length: 05\r\n\r\nhello", Reason.MALFORMED, id="leading zero"),
    pytest.param(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", Reason.MALFORMED, id="another coding"),
    pytest.param(OK + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="obs-fold"),
    pytest.param(OK + b"X : a\r\n\r\n", Reason.MALFORMED, id="space before the colon"),
    pytest.param(OK + b"X: a\nY: b\r\n\r\n", Reason.MALFORMED, id="bare line feed"),
    pytest.param(OK + b"X: a\rb\r\n\r\n", Reason.MALFORMED, id="bare carriage return"),
    pytest.param(OK + b"X: a\0b\r\n\r\n", Reason.MALFORMED, id="NUL"),
    pytest.param(b"HTTP/2.0 200 OK\r\n\r\n", Reason.MALFORMED, id="another version"),
    pytest.param(b"SSH-2.0-OpenSSH\r\n", Reason.MALFORMED, id="another protocol"),
    pytest.param(b"HTTP/1.1 102 P\r\n\r\n" * (MAX_INTERIM + 1), Reason.MALFORMED, id="too many 1xx"),
    pytest.param(OK + b"X: " + b"x" * MAX_HEAD_BYTES, Reason.RESPONSE_HEAD_TOO_LARGE, id="large head"),
    pytest.param(OK + b"A: b\r\n" * 300 + b"\r\n", Reason.RESPONSE_HEAD_TOO_LARGE, id="300 fields"),
]


@pytest.mark.parametrize(("data", "reason"), REFUSED)
def test_refused_head(drive: Drive, tls: Tls, data: bytes, reason: Reason) -> None:
    """A head that can be read in two ways is no answer; the connection ends at once."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], once(data)) as peer:
            stream = await start(client_of(peer, tls[1], pool))
            assert (await reason_of(stream.head()))[1] is reason
            await until(lambda: pool.open_connections == 0)
            assert (await reason_of(stream.read()))[1] is reason
            await stream.close()

    drive(scenario())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"0_2\r\nxx\r\n", id="size"),
        pytest.param(b"2\r\nhixx", id="no line end after a chunk"),
        pytest.param(b"2\nhi\r\n", id="bare line feed"),
        pytest.param(b"0\r\nX : y\r\n\r\n", id="trailer"),
    ],
)
def test_refused_chunk(drive: Drive, tls: Tls, data: bytes) -> None:
    """What came before a broken chunk is read, and then the failure; the connection ends at once."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], once(CHUNKED + b"5\r\nhello\r\n" + data)) as peer:
            stream = await start(client_of(peer, tls[1], pool))
            await stream.head()
            assert (await stream.read())[:5] == b"hello"
            assert await reason_of(body_of(stream)) == (Rule.UPSTREAM_ERROR, Reason.MALFORMED, 502)
            await until(lambda: pool.open_connections == 0)
            await stream.close()

    drive(scenario())


def test_trailers_are_bounded(drive: Drive, tls: Tls) -> None:
    """Trailers are dropped, not held: too many of them end the stream."""

    async def scenario() -> None:
        trailers = b"".join(b"F%d: v\r\n" % n for n in range(300))
        async with Peer(tls[0], once(CHUNKED + b"0\r\n" + trailers + b"\r\n")) as peer:
            stream = await start(client_of(peer, tls[1]))
            failed = await reason_of(body_of(stream))
            assert failed == (Rule.RESPONSE_SIZE, Reason.RESPONSE_HEAD_TOO_LARGE, 502)
            await stream.close()

    drive(scenario())


@pytest.mark.parametrize("chunked", [True, False])
def test_each_event_at_once(drive: Drive, tls: Tls, chunked: bool) -> None:
    """A server-sent event is read before the server sends the next: it waits until the reader has the one before."""

    async def scenario() -> None:
        seen: asyncio.Queue[int] = asyncio.Queue()

        async def script(stream: Stream) -> None:
            await stream.request()
            await stream.send(CHUNKED if chunked else OK + b"\r\n")
            for number in range(20):
                event = b"data: %d\n\n" % number
                await stream.send(b"%x\r\n%b\r\n" % (len(event), event) if chunked else event)
                assert await seen.get() == number
            await stream.send(b"0\r\n\r\n" if chunked else b"")
            stream.end()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1]))
            assert (await stream.head()).length is None
            for number in range(20):
                assert await stream.read() == b"data: %d\n\n" % number
                seen.put_nowait(number)
            assert await stream.read() == b""
            await stream.close()

    drive(scenario())


# --- size and back-pressure


@asynccontextmanager
async def bounded(limit: int) -> AsyncIterator[None]:
    """Nothing inside holds more than `limit` bytes more at any time, by the allocator and by the system."""
    process = psutil.Process()
    before, most, done = process.memory_info().rss, 0, False

    async def sample() -> None:
        nonlocal most
        while not done:
            most = max(most, process.memory_info().rss - before)
            await asyncio.sleep(0.02)

    tracemalloc.start()
    task = spawn(sample(), "memory")
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        done = True
        await task
    assert peak < limit
    assert most < 4 * limit


@pytest.mark.timeout(120)
@pytest.mark.parametrize("chunked", [True, False])
def test_large_both_ways(drive: Drive, tls: Tls, chunked: bool) -> None:
    """200 MB each way, at once, pass in bounded memory and come out whole."""
    total, piece = 200 * MEGABYTE, os.urandom(64 * 1024)

    async def echo(stream: Stream) -> None:
        await stream.reader.readuntil(b"\r\n\r\n")
        stream.writer.write(CHUNKED if chunked else OK + b"Content-Length: %d\r\n\r\n" % total)
        while True:
            size = 0
            if chunked:
                size = int(await stream.reader.readuntil(b"\r\n"), 16)
                data = await stream.reader.readexactly(size)
                await stream.reader.readexactly(2)
            else:
                data = await stream.reader.read(64 * 1024)
            stream.writer.write(b"%x\r\n%b\r\n" % (size, data) if chunked else data)
            await stream.writer.drain()
            if not data:
                break
        await stream.reader.read()

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], echo) as peer, bounded(8 * MEGABYTE):
            stream = await start(client_of(peer, tls[1], pool), b"POST", length=None if chunked else total)

            async def upload() -> None:
                for _ in range(total // len(piece)):
                    await stream.write(piece)
                await stream.finish()

            task = spawn(upload(), "upload")
            assert (await stream.head()).length == (None if chunked else total)
            got, rest = 0, b""
            while data := await stream.read():
                got += len(data)
                rest += data
                while len(rest) >= len(piece):
                    assert rest.startswith(piece)
                    rest = rest[len(piece) :]
            assert got == total
            await task
            await stream.close()
            assert pool.idle_connections == 1
            await pool.close()

    drive(scenario())


def test_slow_reader(drive: Drive, tls: Tls) -> None:
    """While nobody reads, the upstream is not read either; it goes on when the first piece is taken, and ends whole."""
    total = 64 * MEGABYTE

    async def scenario() -> None:
        sent = 0

        async def script(stream: Stream) -> None:
            nonlocal sent
            await stream.request()
            stream.writer.write(OK + b"\r\n")
            for _ in range(total // MEGABYTE):
                stream.writer.write(b"x" * MEGABYTE)
                await stream.writer.drain()
                sent += MEGABYTE
            stream.end()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1]))
            await stream.head()
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.1)
            assert sent < total
            assert stream._held_bytes < 3 * HELD_BYTES
            assert stream._paused
            got = 0
            while data := await stream.read():
                got += len(data)
            assert got == total
            await stream.close()

    drive(scenario())


class Abrupt:
    """An upstream in a thread, so that what it does is done before the event loop sees any of it: it sends and ends."""

    def __init__(self, context: ssl.SSLContext | None, data: bytes) -> None:
        self._context = context
        self._data = data
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.go = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self._thread.join()
        self._listener.close()

    def done(self) -> None:
        """Let it send and end, and wait for that, the event loop standing still."""
        self.go.set()
        self._thread.join()

    def _run(self) -> None:
        connection, _ = self._listener.accept()
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True)
        with connection:
            connection.recv(1000)
            self.go.wait()
            connection.sendall(self._data)


def test_end_while_paused(drive: Drive, tls: Tls) -> None:
    """What the peer sent before it ended is all read, also if it ended while nobody read."""
    total = 2 * HELD_BYTES + 200_000

    async def scenario() -> None:
        with Abrupt(tls[0], OK + b"Content-Length: %d\r\n\r\n" % total + b"x" * total) as peer:
            stream = await start(client_of(peer, tls[1]))
            peer.go.set()
            await stream.head()
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert stream._paused
            assert len(await body_of(stream)) == total
            await stream.close()

    drive(scenario())


def test_many_small_pieces_are_bounded(drive: Drive, tls: Tls) -> None:
    """Single bytes that nobody reads are bounded by their number."""

    async def scenario() -> None:
        enough, stopped = asyncio.Event(), asyncio.Event()

        async def script(stream: Stream) -> None:
            await stream.request()
            await stream.send(OK + b"\r\n")
            while not enough.is_set():
                await stream.send(b"x")
            stopped.set()
            await stream.reader.read()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1]))
            for _ in range(500):
                if not stream._paused:
                    await asyncio.sleep(0.01)
            enough.set()
            await stopped.wait()
            assert stream._paused
            assert len(stream._held) <= 1025
            await stream.close()

    drive(scenario())


def test_slow_upstream(drive: Drive, tls: Tls) -> None:
    """A write waits while the upstream takes nothing, and goes on when it does."""

    async def scenario() -> None:
        go = asyncio.Event()

        async def script(stream: Stream) -> None:
            await stream.reader.readuntil(b"\r\n\r\n")
            await go.wait()
            await stream.reader.readexactly(32 * MEGABYTE)
            await stream.send(HELLO)

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1]), b"POST", length=32 * MEGABYTE)
            written = 0

            async def upload() -> None:
                nonlocal written
                for _ in range(32):
                    await stream.write(b"x" * MEGABYTE)
                    written += 1
                await stream.finish()

            task = spawn(upload(), "upload")
            before = -1
            while before != written:
                before = written
                await asyncio.sleep(0.1)
            assert written < 32
            assert stream._connection.unsent() < 3 * MEGABYTE
            go.set()
            await task
            assert await body_of(stream) == b"hello"
            await stream.close()

    drive(scenario())


# --- an answer before the request is complete

EARLY = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n"


@pytest.mark.parametrize("ends", [False, True])
def test_early_answer(drive: Drive, tls: Tls, ends: bool) -> None:
    """An answer before the body is read while the body is on its way; the connection is not used again."""

    async def scenario() -> None:
        pool = Pool()

        async def script(stream: Stream) -> None:
            await stream.reader.readuntil(b"\r\n\r\n")
            await stream.send(EARLY)
            if ends:
                stream.end()
            await stream.writer.wait_closed()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1], pool), b"POST", length=64 * MEGABYTE)

            async def upload() -> None:
                for _ in range(64):
                    await stream.write(b"x" * MEGABYTE)

            task = spawn(upload(), "upload")
            assert (await stream.head()).status == 413
            assert await body_of(stream) == b"no\n"
            # What nobody takes is dropped, so that the one who sends comes to an end too.
            await task
            await stream.close()
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


def test_early_answer_is_not_thrown_away(drive: Drive, tls: Tls) -> None:
    """An answer that is with the system already is read before more is written to a peer that has closed."""

    async def scenario() -> None:
        with Abrupt(tls[0], EARLY) as peer:
            stream = await start(client_of(peer, tls[1]), b"POST", length=None)
            await asyncio.sleep(0.05)
            peer.done()
            for _ in range(4):
                await stream.write(b"x" * 1000)
                block()
            assert (await stream.head()).status == 413
            assert await body_of(stream) == b"no\n"
            await stream.close()

    drive(scenario())


@pytest.mark.parametrize(
    ("status", "finished_first", "size", "reused"),
    [
        pytest.param(200, False, 10, True, id="200, head before the end of the request"),
        pytest.param(400, False, 10, False, id="400, head before the end of the request"),
        pytest.param(400, True, 10, True, id="400 after it"),
        pytest.param(400, True, 100_000, False, id="400 after a large one"),
        pytest.param(200, True, 100_000, True, id="200 after a large one"),
    ],
)
def test_reuse_after_a_body(drive: Drive, tls: Tls, status: int, finished_first: bool, size: int, reused: bool) -> None:
    """Used again only where the peer has surely read the request to its end."""

    async def scenario() -> None:
        pool = Pool()
        written = asyncio.Event()

        async def script(stream: Stream) -> None:
            await stream.reader.readuntil(b"\r\n\r\n")
            head, body = b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n" % status, b"hi"
            if not finished_first:
                await stream.send(head)
                head = b""
                await written.wait()
            await stream.reader.readexactly(size)
            await stream.send(head + body)
            await stream.reader.read()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1], pool), b"POST", length=size)
            if not finished_first:
                await stream.head()
            await stream.write(b"x" * size)
            await stream.finish()
            written.set()
            assert await body_of(stream) == b"hi"
            await stream.close()
            await asyncio.sleep(0.01)
            assert pool.idle_connections == int(reused)
            await pool.close()

    drive(scenario())


def test_answer_complete_before_the_request(drive: Drive, tls: Tls) -> None:
    """A whole answer before the end of the request ends the connection, whatever is written afterwards."""

    async def scenario() -> None:
        pool = Pool()

        async def script(stream: Stream) -> None:
            await stream.reader.readuntil(b"\r\n\r\n")
            await stream.send(HELLO)
            await stream.reader.read()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1], pool), b"POST", length=3)
            assert await body_of(stream) == b"hello"
            await stream.write(b"abc")
            await stream.finish()
            await stream.close()
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


# --- reuse, and who may use what


def test_stray_bytes_before_close(drive: Drive, tls: Tls) -> None:
    """Bytes after a complete answer, before the stream is closed, end the connection; the answer counts."""

    async def scenario() -> None:
        pool = Pool()
        go = asyncio.Event()

        async def script(stream: Stream) -> None:
            await stream.request()
            await stream.send(HELLO)
            await go.wait()
            await stream.send(HELLO)
            await stream.reader.read()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1], pool))
            await stream.head()
            go.set()
            await until(lambda: pool.open_connections == 0)
            assert await body_of(stream) == b"hello"
            await stream.close()
            assert pool.idle_connections == 0

    drive(scenario())


@pytest.mark.parametrize("unread", [True, False])
def test_closed_by_the_peer_while_idle(drive: Drive, tls: Tls, unread: bool) -> None:
    """A complete answer may be left unread; a connection that its peer ended is not used for the next request."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], once(HELLO, then="end")) as peer:
            client = client_of(peer, tls[1], pool)
            for _ in range(2):
                stream = await start(client)
                await stream.head()
                if not unread:
                    assert await body_of(stream) == b"hello"
                await stream.close()
                await asyncio.sleep(0.02)
            assert len(peer.streams) == 2
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


def test_shared_with_whole_exchanges(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Streams and whole exchanges with one upstream share its connections; plain and TLS ones are never mixed."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(server_tls, always(HELLO)) as peer, Peer(None, always(HELLO)) as plain:
            client = client_of(peer, trust, pool)
            whole = UpstreamClient(pool, client.origin, trust, allow_inside=True, resolver=loopback)
            request = Outgoing(origin=client.origin, method=b"GET", target=b"/", fields=())
            for _ in range(3):
                stream = await start(client)
                assert await body_of(stream) == b"hello"
                await stream.close()
                assert (await whole.send(request, max_body=5, timeout=5)).body == b"hello"
            assert len(peer.streams) == 1
            insecure = client_of(plain, None, pool)
            stream = await start(insecure)
            assert await body_of(stream) == b"hello"
            await stream.close()
            assert pool.idle_connections == 2
            await pool.close()

    drive(scenario())


def test_no_place(drive: Drive, tls: Tls) -> None:
    """A stream holds its place until it is closed; who finds none in time is told so."""

    async def scenario() -> None:
        pool = Pool(PoolLimits(per_group=1))
        async with Peer(tls[0], once(CHUNKED)) as peer:
            client = client_of(peer, tls[1], pool)
            stream = await start(client)
            request = Outgoing(origin=client.origin, method=b"GET", target=b"/", fields=())
            second = client.open(request, length=0, upgrade=False, connect_timeout=0.05)
            assert await reason_of(second) == (Rule.UPSTREAM_ERROR, Reason.CAPACITY, 503)
            await stream.close()
            third = await start(client)
            await third.close()
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"allow_inside": True}, None, id="allowed"),
        pytest.param({"allow_inside": False}, Reason.INSIDE_ADDRESS, id="not allowed"),
    ],
)
def test_inside_names(drive: Drive, tls: Tls, options: dict[str, Any], reason: Reason | None) -> None:
    """A name that leads inside is dialled only where the endpoint allows it; no connection is made otherwise."""

    async def scenario() -> None:
        async with Peer(tls[0], always(HELLO)) as peer:
            client = client_of(peer, tls[1], **options)
            if reason is None:
                stream = await start(client)
                assert await body_of(stream) == b"hello"
                await stream.close()
                await client._pool.close()
            else:
                assert await reason_of(start(client)) == (Rule.DENIED, reason, 403)
                await asyncio.sleep(0.01)
                assert peer.streams == []

    drive(scenario())


def test_not_trusted(drive: Drive, server_tls: ssl.SSLContext) -> None:
    """A certificate that the endpoint does not trust ends the dial; nothing is left."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(server_tls, always(HELLO)) as peer:
            failed = await reason_of(start(client_of(peer, Trust.system(), pool)))
            assert failed == (Rule.TRANSPORT, Reason.TLS, 502)
            assert pool.open_connections == 0

    drive(scenario())


# --- ends


def test_idle_upstream(drive: Drive, tls: Tls) -> None:
    """An upstream that does nothing while it is waited for is given up; one that goes on slowly is not."""

    async def scenario() -> None:
        pool = Pool()

        async def script(stream: Stream) -> None:
            await stream.request()
            await stream.send(CHUNKED)
            for _ in range(5):
                await asyncio.sleep(0.1)
                await stream.send(b"1\r\nx\r\n")
            await stream.reader.read()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1], pool, idle=0.25))
            for _ in range(5):
                assert await stream.read() == b"x"
            # Nobody waits for the upstream: the clock stands still.
            await asyncio.sleep(0.4)
            assert await reason_of(stream.read()) == TIMEOUT
            await until(lambda: pool.open_connections == 0)
            await stream.close()

    drive(scenario())


@pytest.mark.parametrize("waits", ["head", "write"])
def test_idle_before_the_answer(drive: Drive, tls: Tls, waits: str) -> None:
    """Neither an answer that does not come nor a body that is not taken holds a stream for ever."""

    async def scenario() -> None:
        async def script(stream: Stream) -> None:
            await stream.reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(30)

        async with Peer(tls[0], script) as peer:
            client = client_of(peer, tls[1], idle=0.1)
            stream = await start(client, b"POST", length=64 * MEGABYTE)
            if waits == "head":
                assert await reason_of(stream.head()) == TIMEOUT
            else:
                assert await reason_of(stream.write(b"x" * 64 * MEGABYTE)) == TIMEOUT
            await stream.close()
            await until(lambda: client._pool.open_connections == 0)

    drive(scenario())


def test_lost_before_the_answer(drive: Drive, tls: Tls) -> None:
    """Without an answer, everybody who waits hears that the connection is gone, and every later call too."""

    async def scenario() -> None:
        pool = Pool()
        go = asyncio.Event()

        async def script(stream: Stream) -> None:
            await stream.reader.readuntil(b"\r\n\r\n")
            await go.wait()
            stream.cut()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1], pool), b"POST", length=64 * MEGABYTE)
            tasks = [
                asyncio.get_running_loop().create_task(reason_of(work))
                for work in (stream.head(), stream.write(b"x" * 32 * MEGABYTE))
            ]
            await asyncio.sleep(0.05)
            go.set()
            assert await asyncio.gather(*tasks) == [INCOMPLETE, INCOMPLETE]
            for work in (stream.head(), stream.read(), stream.write(b"x"), stream.write(b"y" * 1000)):
                assert await reason_of(work) == INCOMPLETE
            await stream.close()
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


@pytest.mark.parametrize("where", ["open", "head", "read", "write", "place"])
def test_cancelled(drive: Drive, tls: Tls, where: str) -> None:
    """Whatever a cancelled task waited for: after `close` there is no connection, no place taken and no task left."""

    async def scenario() -> None:
        pool = Pool(PoolLimits(per_group=1))

        async def stuck(host: str, port: int) -> Sequence[str]:
            await asyncio.sleep(30)
            return []

        async def script(stream: Stream) -> None:
            await stream.reader.readuntil(b"\r\n\r\n")
            if where == "read":
                await stream.send(CHUNKED)
            await asyncio.sleep(30)

        tasks = len(asyncio.all_tasks())
        async with Peer(tls[0], script) as peer:
            client = client_of(peer, tls[1], pool, **({"resolver": stuck} if where == "open" else {}))
            stream = None if where == "open" else await start(client, b"POST", length=64 * MEGABYTE)
            work: Coroutine[Any, Any, Any] = {
                "open": lambda: start(client),
                "place": lambda: start(client),
                "head": lambda: stream.head(),  # type: ignore[union-attr]
                "read": lambda: stream.read(),  # type: ignore[union-attr]
                "write": lambda: stream.write(b"x" * 64 * MEGABYTE),  # type: ignore[union-attr]
            }[where]()
            task = asyncio.get_running_loop().create_task(work)
            await asyncio.sleep(0.05)
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            if stream is not None:
                assert not stream._waiters
                await stream.close()
                assert stream._timer is None
            await until(lambda: pool.open_connections == 0)
        assert len(asyncio.all_tasks()) == tasks

    drive(scenario())


def test_cancelled_at_any_turn_of_opening(drive: Drive, tls: Tls) -> None:
    """Opening may be cancelled at any turn of the loop: what is open afterwards is the caller's stream, or nothing."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], once()) as peer:
            client = client_of(peer, tls[1], pool)
            for turns in range(40):
                task = asyncio.get_running_loop().create_task(start(client))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await (await task).close()
                await until(lambda: pool.open_connections == 0)
        assert psutil.Process().num_fds() < 200

    drive(scenario())


def test_closed_while_others_wait(drive: Drive, tls: Tls) -> None:
    """Who waits when the stream is closed is told that it is incomplete."""

    async def scenario() -> None:
        async with Peer(tls[0], once(CHUNKED)) as peer:
            stream = await start(client_of(peer, tls[1]))
            task = asyncio.get_running_loop().create_task(reason_of(body_of(stream)))
            await stream.head()
            await asyncio.sleep(0)
            await stream.close()
            assert await task == INCOMPLETE
            assert await reason_of(stream.write(b"x")) == FAULT

    drive(scenario())


def test_closed_pool(drive: Drive, tls: Tls) -> None:
    """A pool that closes ends the streams over it, and opens no others."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], once(CHUNKED)) as peer:
            client = client_of(peer, tls[1], pool)
            stream = await start(client)
            await stream.head()
            await pool.close(grace=0.01)
            assert await reason_of(stream.read()) == INCOMPLETE
            await stream.close()
            assert await reason_of(start(client)) == (Rule.UPSTREAM_ERROR, Reason.SHUTDOWN, 503)

    drive(scenario())


def test_descriptors_stay_flat(drive: Drive, tls: Tls) -> None:
    """Streams that are given up half-way leave no descriptor."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], once(CHUNKED + b"5\r\nhello\r\n")) as peer:
            client = client_of(peer, tls[1], pool)
            counts = []
            for _ in range(3):
                for _ in range(30):
                    stream = await start(client)
                    assert await stream.read() == b"hello"
                    await stream.close()
                await until(lambda: pool.open_connections == 0)
                await asyncio.sleep(0.05)
                counts.append(psutil.Process().num_fds())
            assert counts[2] <= counts[0] + 2

    drive(scenario())


# --- upgrades

WEBSOCKET: Fields = ((b"Upgrade", b"websocket"), (b"Sec-WebSocket-Version", b"13"))
SWITCHED = b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n"


@pytest.mark.parametrize("connection", [(), ((b"Connection", b"Upgrade"),)])
def test_upgrade(drive: Drive, tls: Tls, connection: Fields) -> None:
    """After a 101 that was asked for, bytes go both ways as they are, also those that came with it."""

    async def scenario() -> None:
        pool = Pool()

        async def script(stream: Stream) -> None:
            await stream.request()
            await stream.send(b"HTTP/1.1 100 C\r\n\r\n" + SWITCHED + b"HTTP/1.1 first")
            while data := await stream.reader.read(100):
                await stream.send(data.upper())

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1], pool), upgrade=True, fields=(*connection, *WEBSOCKET))
            head = await stream.head()
            assert (head.status, head.length) == (101, None)
            assert await stream.read() == b"HTTP/1.1 first"
            for data in (b"ping", b"0\r\n\r\n"):
                await stream.write(data)
                assert await stream.read() == data.upper()
            sent = peer.streams[0].requests[0]
            assert sent.count(b"Connection: Upgrade\r\n") == 1
            assert sent.lower().count(b"upgrade: websocket\r\n") == 1
            assert b"Content-Length" not in sent
            await stream.close()
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(SWITCHED.replace(b"WebSocket", b"h2c"), Reason.UPGRADE, id="another protocol"),
        pytest.param(b"HTTP/1.1 101 S\r\n\r\n", Reason.MALFORMED, id="no protocol"),
        pytest.param(SWITCHED.replace(b"Connection: upgrade\r\n", b""), Reason.MALFORMED, id="no Connection"),
        pytest.param(SWITCHED[:-2] + b"Upgrade: h2c\r\n\r\n", Reason.UPGRADE, id="two protocols"),
        pytest.param(SWITCHED[:-2] + b"Content-Length: 5\r\n\r\n", Reason.MALFORMED, id="a length"),
        pytest.param(SWITCHED[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", Reason.MALFORMED, id="a coding"),
        pytest.param(SWITCHED.replace(b"1.1", b"1.0", 1), Reason.MALFORMED, id="HTTP/1.0"),
        pytest.param(SWITCHED[:-2] + b"X: a\r\n b\r\n\r\n", Reason.MALFORMED, id="obs-fold"),
    ],
)
def test_refused_upgrade(drive: Drive, tls: Tls, data: bytes, reason: Reason) -> None:
    """101 to anything but what was asked for is no answer (RFC 9110, 7.8)."""

    async def scenario() -> None:
        async with Peer(tls[0], once(data)) as peer:
            stream = await start(client_of(peer, tls[1]), upgrade=True, fields=WEBSOCKET)
            assert (await reason_of(stream.head()))[1] is reason
            await stream.close()

    drive(scenario())


def test_declined_upgrade(drive: Drive, tls: Tls) -> None:
    """An upstream that does not change protocols answers as to any request, and its connection goes on."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], always(HELLO)) as peer:
            client = client_of(peer, tls[1], pool)
            stream = await start(client, upgrade=True, fields=WEBSOCKET)
            assert (await stream.head()).status == 200
            assert await reason_of(stream.write(b"x")) == FAULT
            await stream.close()
            stream = await start(client, upgrade=True, fields=WEBSOCKET)
            assert await body_of(stream) == b"hello"
            await stream.close()
            assert pool.idle_connections == 1
            await pool.close()

    drive(scenario())


@pytest.mark.parametrize("then", ["end", "cut"])
def test_end_of_an_upgraded_stream(drive: Drive, tls: Tls, then: str) -> None:
    """The peer's end is an end where TLS says so; a cut is a failure. Plain TCP has only its own end."""

    async def scenario() -> None:
        pool = Pool()
        async with Peer(tls[0], once(SWITCHED + b"bye", then=then)) as peer:
            stream = await start(client_of(peer, tls[1], pool), upgrade=True, fields=WEBSOCKET)
            await stream.head()
            assert await stream.read() == b"bye"
            if then == "end" or tls[0] is None:
                assert await stream.read() == b""
                if tls[0] is None:
                    await stream.finish()
            else:
                assert await reason_of(stream.read()) == INCOMPLETE
            await stream.close()
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


def test_client_ends_an_upgraded_stream(drive: Drive, tls: Tls, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain TCP is half-closed; under TLS the peer gets a short time to end by itself."""
    monkeypatch.setattr("proxy.upstream.stream._LINGER_SECONDS", 0.1)

    async def scenario() -> None:
        async def script(stream: Stream) -> None:
            await stream.request()
            await stream.send(SWITCHED)
            got = await stream.reader.readexactly(4)
            if tls[0] is None:
                got += await stream.reader.read()
            await stream.send(got.upper())
            if tls[0] is None:
                stream.end()
            else:
                await stream.reader.read()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1]), upgrade=True, fields=WEBSOCKET)
            await stream.head()
            waiting = asyncio.get_running_loop().create_task(stream.read())
            await stream.write(b"ping")
            await asyncio.sleep(0)
            await stream.finish()
            assert await waiting == b"PING"
            if tls[0] is None:
                assert await stream.read() == b""
            else:
                assert await reason_of(stream.read()) == TIMEOUT
            await stream.close()

    drive(scenario())


def test_both_sides_end_an_upgraded_stream(drive: Drive, tls: Tls) -> None:
    """After both sides have ended nothing is left."""

    async def scenario() -> None:
        pool = Pool()
        go = asyncio.Event()

        async def script(stream: Stream) -> None:
            await stream.request()
            await stream.send(SWITCHED)
            await go.wait()
            assert await stream.reader.readexactly(4) == b"ping"
            stream.end()
            await stream.writer.wait_closed()

        async with Peer(tls[0], script) as peer:
            stream = await start(client_of(peer, tls[1], pool), upgrade=True, fields=WEBSOCKET)
            await stream.head()
            await stream.write(b"ping")
            await stream.finish()
            go.set()
            assert await stream.read() == b""
            await stream.close()
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


def test_fields_are_not_shown() -> None:
    """A head prints no field and no reason phrase."""
    head = ResponseHead(status=200, reason=b"secret", fields=((b"Set-Cookie", b"secret"),), length=None)
    assert re.search("secret", repr(head)) is None
