"""Opaque connections: where they may lead, and bytes both ways until each side has ended."""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import psutil
import pytest
from support.peer import Peer, Stream

from addons.ports import UpstreamFailed
from grants.decision import Reason, Rule
from proxy.tasks import spawn
from proxy.upstream import Dialler
from proxy.upstream.stream import HELD_BYTES
from proxy.upstream.stream import Stream as Ours

type Drive = Callable[[Coroutine[Any, Any, None]], None]

MEGABYTE = 1 << 20
INCOMPLETE = (Rule.UPSTREAM_ERROR, Reason.INCOMPLETE, 502)
INSIDE = (Rule.DENIED, Reason.INSIDE_ADDRESS, 403)


async def reason_of(work: Coroutine[Any, Any, Any]) -> tuple[Rule, Reason, int]:
    """The words of the failure, which holds nothing of its cause."""
    with pytest.raises(UpstreamFailed) as caught:
        await work
    failed = caught.value
    assert failed.__cause__ is None
    assert failed.__context__ is None
    return failed.rule, failed.reason, failed.status


def answers(*addresses: str) -> Callable[[str, int], Coroutine[Any, Any, Sequence[str]]]:
    async def resolver(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolver


async def dial(peer: Peer, **options: Any) -> Ours:
    """A tunnel to `peer`, which the operator wrote as an address."""
    dialler = Dialler(consented=frozenset({("127.0.0.1", peer.port)}), **options)
    return await dialler.dial("127.0.0.1", peer.port, timeout=5)


async def all_of(stream: Ours) -> bytes:
    pieces = []
    while piece := await stream.read():
        pieces.append(piece)
    return b"".join(pieces)


async def upper(stream: Stream) -> None:
    while data := await stream.reader.read(1000):
        await stream.send(data.upper())
    stream.end()
    await stream.writer.wait_closed()


# --- bytes


def test_bytes_as_they_are(drive: Drive) -> None:
    """Nothing is sent before the client sends, and what it sends arrives as it is; so does what comes back."""

    async def scenario() -> None:
        async with Peer(None, upper) as peer:
            stream = await dial(peer)
            for data in (b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"0\r\n\r\n", b"ssh"):
                await stream.write(data)
                await stream.write(b"")
                assert await stream.read() == data.upper()
            assert await reason_of(stream.head()) == (Rule.FAULT, Reason.FAULT, 500)
            await stream.close()
            await stream.close()

    drive(scenario())


def test_peer_speaks_first(drive: Drive) -> None:
    """What the peer sends before the client has sent anything is passed on."""

    async def scenario() -> None:
        async def script(stream: Stream) -> None:
            await stream.send(b"220 ready\r\n")
            await stream.reader.read()

        async with Peer(None, script) as peer:
            stream = await dial(peer)
            assert await stream.read() == b"220 ready\r\n"
            await stream.close()

    drive(scenario())


@pytest.mark.parametrize("first", ["client", "peer"])
def test_half_close(drive: Drive, first: str) -> None:
    """One side may end and the other go on (RFC 9293, 3.6), whichever ends first."""

    async def scenario() -> None:
        got: list[bytes] = []

        async def script(stream: Stream) -> None:
            if first == "peer":
                await stream.send(b"bye")
                stream.writer.write_eof()
                got.append(await stream.reader.read())
            else:
                got.append(await stream.reader.read())
                await stream.send(b"late")
                stream.end()
                await stream.writer.wait_closed()

        async with Peer(None, script) as peer:
            stream = await dial(peer)
            if first == "peer":
                assert await all_of(stream) == b"bye"
                await stream.write(b"late")
                await stream.finish()
            else:
                await stream.write(b"bye")
                await stream.finish()
                await stream.finish()
                assert await reason_of(stream.write(b"x")) == (Rule.FAULT, Reason.FAULT, 500)
            await stream.close()
            await asyncio.sleep(0.05)
        assert got == [b"late" if first == "peer" else b"bye"]

    drive(scenario())


def test_answer_after_half_close(drive: Drive) -> None:
    """After the client has ended, everything that the peer still sends is read."""

    async def scenario() -> None:
        async def script(stream: Stream) -> None:
            assert await stream.reader.read() == b"question"
            for _ in range(4):
                await stream.send(b"x" * MEGABYTE)
                await stream.writer.drain()
            stream.end()
            await stream.writer.wait_closed()

        async with Peer(None, script) as peer:
            stream = await dial(peer)
            await stream.write(b"question")
            await stream.finish()
            assert len(await all_of(stream)) == 4 * MEGABYTE
            await stream.close()

    drive(scenario())


def test_end_is_after_all_that_was_written(drive: Drive) -> None:
    """The end goes out after the last byte: `finish` waits until the system has them all, so closing loses none."""

    async def scenario() -> None:
        got = asyncio.get_running_loop().create_future()
        go = asyncio.Event()

        async def script(stream: Stream) -> None:
            await go.wait()
            got.set_result(len(await stream.reader.read()))

        async with Peer(None, script) as peer:
            stream = await dial(peer)
            total = 0

            async def upload() -> None:
                nonlocal total
                # The system is full, and what is left is too little for a write to wait.
                while not stream._connection.unsent():
                    await stream.write(b"x" * 16384)
                    total += 16384
                assert not stream._connection.full
                await stream.finish()
                await stream.close()

            task = spawn(upload(), "upload")
            await asyncio.sleep(0.1)
            assert not task.done()
            go.set()
            await task
            assert await got == total

    drive(scenario())


def test_reset(drive: Drive) -> None:
    """A reset is a failure, not an end; what came before it is read."""

    async def scenario() -> None:
        go = asyncio.Event()

        async def script(stream: Stream) -> None:
            await stream.send(b"half")
            await go.wait()
            linger = b"\1\0\0\0\0\0\0\0"
            stream.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            stream.cut()

        async with Peer(None, script) as peer:
            stream = await dial(peer)
            assert await stream.read() == b"half"
            go.set()
            assert await reason_of(stream.read()) == INCOMPLETE
            assert await reason_of(stream.write(b"x")) == INCOMPLETE
            assert await reason_of(stream.finish()) == INCOMPLETE
            await stream.close()

    drive(scenario())


def test_bounded_both_ways(drive: Drive) -> None:
    """Neither a peer that takes nothing nor a client that reads nothing makes the tunnel hold more."""

    async def scenario() -> None:
        async def flood(stream: Stream) -> None:
            while True:
                stream.writer.write(b"x" * MEGABYTE)
                await stream.writer.drain()

        async with Peer(None, flood) as peer:
            stream = await dial(peer)
            written = 0

            async def upload() -> None:
                nonlocal written
                while True:
                    await stream.write(b"x" * MEGABYTE)
                    written += MEGABYTE

            task = asyncio.get_running_loop().create_task(upload())
            before = -1
            while before != written:
                before = written
                await asyncio.sleep(0.1)
            assert stream._held_bytes < 3 * HELD_BYTES
            assert stream._connection.unsent() < MEGABYTE
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await stream.close()

    drive(scenario())


def test_large_both_ways(drive: Drive) -> None:
    """200 MB each way come out whole."""
    total, piece = 200 * MEGABYTE, os.urandom(64 * 1024)

    async def echo(stream: Stream) -> None:
        while data := await stream.reader.read(64 * 1024):
            stream.writer.write(data)
            await stream.writer.drain()
        stream.writer.write_eof()
        await stream.reader.read()
        await stream.writer.wait_closed()

    async def scenario() -> None:
        before = psutil.Process().memory_info().rss
        async with Peer(None, echo) as peer:
            stream = await dial(peer)

            async def upload() -> None:
                for _ in range(total // len(piece)):
                    await stream.write(piece)
                await stream.finish()

            task = spawn(upload(), "upload")
            got = 0
            while data := await stream.read():
                at = got % len(piece)
                assert data[: len(piece) - at] == piece[at : at + len(data)]
                got += len(data)
            await task
            assert got == total
            assert psutil.Process().memory_info().rss - before < 32 * MEGABYTE
            await stream.close()

    drive(scenario())


# --- where it may lead


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        pytest.param("127.0.0.1", [], id="loopback"),
        pytest.param("::1", [], id="loopback, IPv6"),
        pytest.param("169.254.169.254", [], id="metadata"),
        pytest.param("10.0.0.1", [], id="private"),
        pytest.param("::ffff:127.0.0.1", [], id="IPv4-mapped"),
        pytest.param("64:ff9b::7f00:1", [], id="NAT64"),
        pytest.param("2002:7f00:1::", [], id="6to4"),
        pytest.param("fe80::1%lo", [], id="scoped"),
        pytest.param("0.0.0.0", [], id="unspecified"),
        pytest.param("localhost", ["127.0.0.1"], id="localhost"),
        pytest.param("files.example", ["127.0.0.1"], id="a name that leads inside"),
        pytest.param("files.example", ["93.184.215.14", "127.0.0.1"], id="one answer of two"),
        pytest.param("files.example", ["93.184.215.14", "::ffff:10.0.0.1"], id="mapped, one answer of two"),
        pytest.param("127.1", ["127.0.0.1"], id="a short form"),
        pytest.param("2130706433", ["127.0.0.1"], id="a number"),
        pytest.param("0x7f.1", ["127.0.0.1"], id="hexadecimal"),
        pytest.param("files.example", ["files.example"], id="no address"),
    ],
)
def test_inside_is_refused(drive: Drive, host: str, addresses: list[str]) -> None:
    """Every answer is judged, and an inside one refuses the tunnel; nothing is dialled."""

    async def scenario() -> None:
        async with Peer(None, upper) as peer:
            dialler = Dialler(resolver=answers(*addresses))
            assert await reason_of(dialler.dial(host, peer.port, timeout=5)) == INSIDE
            await asyncio.sleep(0.01)
            assert peer.streams == []

    drive(scenario())


@pytest.mark.parametrize(
    ("consented", "host", "addresses", "allowed"),
    [
        pytest.param("127.0.0.1", "127.0.0.1", [], True, id="the address as written"),
        pytest.param("localhost", "localhost", ["127.0.0.1"], True, id="localhost as written"),
        pytest.param("localhost", "localhost", ["10.0.0.1"], False, id="localhost that is not loopback"),
        pytest.param("127.0.0.1", "files.example", ["127.0.0.1"], False, id="a name for a written address"),
        pytest.param("files.example", "files.example", ["127.0.0.1"], False, id="a written name is no consent"),
        pytest.param("127.0.0.1", "127.0.0.2", [], False, id="another address"),
    ],
)
def test_consent(drive: Drive, consented: str, host: str, addresses: list[str], allowed: bool) -> None:
    """An address, or `localhost`, that the operator wrote is consent for exactly that, and that port."""

    async def scenario() -> None:
        async with Peer(None, upper) as peer, Peer(None, upper) as other:
            dialler = Dialler(consented=frozenset({(consented, peer.port)}), resolver=answers(*addresses))
            if allowed:
                stream = await dialler.dial(host, peer.port, timeout=5)
                await stream.write(b"a")
                assert await stream.read() == b"A"
                await stream.close()
            else:
                assert await reason_of(dialler.dial(host, peer.port, timeout=5)) == INSIDE
            assert await reason_of(dialler.dial(host, other.port, timeout=5)) == INSIDE

    drive(scenario())


def test_rebinding() -> None:
    """A name is resolved once a dial, and the answer that was judged is dialled: a later answer leads nowhere."""

    async def scenario() -> None:
        asked: list[str] = []

        async def rebinding(host: str, port: int) -> Sequence[str]:
            asked.append(host)
            # Nobody is at the first one: a documentation address would be inside, so it is one of the public ones.
            return ["93.184.215.14"] if len(asked) == 1 else ["127.0.0.1"]

        dialled: list[Any] = []
        loop = asyncio.get_running_loop()

        async def connect(_sock: socket.socket, address: Any) -> None:
            dialled.append(address)
            raise OSError

        async with Peer(None, upper) as peer:
            dialler = Dialler(resolver=rebinding)
            with pytest.MonkeyPatch.context() as patch:
                # The one place that reaches the network: a public address is not dialled by a test.
                patch.setattr(type(loop), "sock_connect", lambda _loop, sock, address: connect(sock, address))
                failed = await reason_of(dialler.dial("files.example", peer.port, timeout=5))
                assert failed == (Rule.UPSTREAM_ERROR, Reason.CONNECT, 502)
                assert dialled == [("93.184.215.14", peer.port)]
                assert asked == ["files.example"]
                assert await reason_of(dialler.dial("files.example", peer.port, timeout=5)) == INSIDE
                assert dialled == [("93.184.215.14", peer.port)]
            assert peer.streams == []

    asyncio.run(scenario())


def test_unresolved(drive: Drive) -> None:
    """A name without an address is no tunnel."""

    async def scenario() -> None:
        failed = await reason_of(Dialler(resolver=answers()).dial("files.example", 443, timeout=5))
        assert failed == (Rule.UPSTREAM_ERROR, Reason.RESOLVE, 502)

    drive(scenario())


def test_nobody_listens(drive: Drive) -> None:
    """A refused connection is said to be one."""

    async def scenario() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            dialler = Dialler(consented=frozenset({("127.0.0.1", port)}))
            failed = await reason_of(dialler.dial("127.0.0.1", port, timeout=5))
        assert failed == (Rule.UPSTREAM_ERROR, Reason.CONNECT, 502)

    drive(scenario())


# --- ends


def test_time_to_connect(drive: Drive) -> None:
    """The timeout includes the resolver."""

    async def scenario() -> None:
        async def stuck(host: str, port: int) -> Sequence[str]:
            await asyncio.sleep(30)
            return []

        failed = await reason_of(Dialler(resolver=stuck).dial("files.example", 443, timeout=0.05))
        assert failed == (Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504)

    drive(scenario())


def test_idle(drive: Drive) -> None:
    """A tunnel in which nothing moves ends; bytes in either direction keep it."""

    async def scenario() -> None:
        async with Peer(None, lambda stream: stream.reader.read()) as peer:  # type: ignore[arg-type,return-value]
            stream = await dial(peer, idle=0.25)
            reading = asyncio.get_running_loop().create_task(reason_of(stream.read()))
            for _ in range(4):
                await asyncio.sleep(0.1)
                await stream.write(b"x")
            assert not reading.done()
            assert await reading == (Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504)
            await stream.close()

    drive(scenario())


@pytest.mark.parametrize("turns", range(12))
def test_cancelled_dial(drive: Drive, turns: int) -> None:
    """A dial that is cancelled at any turn of the loop leaves no connection."""

    async def scenario() -> None:
        async with Peer(None, upper) as peer:
            task = asyncio.get_running_loop().create_task(dial(peer))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                stream = await task
            except asyncio.CancelledError:
                pass
            else:
                await stream.close()
            await asyncio.sleep(0.03)
            assert peer.open == 0

    drive(scenario())


@pytest.mark.parametrize("where", ["read", "write", "finish"])
def test_cancelled(drive: Drive, where: str) -> None:
    """A cancelled wait leaves nothing once the tunnel is closed: no descriptor, no timer, nobody waiting."""

    async def scenario() -> None:
        async def script(stream: Stream) -> None:
            await asyncio.sleep(30)

        async with Peer(None, script) as peer:
            before = psutil.Process().num_fds()
            stream = await dial(peer)
            if where == "finish":
                # More than the system takes for a peer that does not read.
                stream._connection.write(b"x" * 32 * MEGABYTE)
            work: Coroutine[Any, Any, Any] = {
                "read": lambda: stream.read(),
                "write": lambda: stream.write(b"x" * 16 * MEGABYTE),
                "finish": lambda: stream.finish(),
            }[where]()
            task = asyncio.get_running_loop().create_task(work)
            await asyncio.sleep(0.05)
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not stream._waiters
            await stream.close()
            assert stream._timer is None
            await asyncio.sleep(0.02)
            # The server's end of the connection is there until it sees the end.
            assert psutil.Process().num_fds() <= before + 1

    drive(scenario())


def test_descriptors_stay_flat(drive: Drive) -> None:
    """Tunnels that were given up leave no descriptor."""

    async def scenario() -> None:
        async with Peer(None, upper) as peer:
            counts = []
            for _ in range(3):
                for _ in range(50):
                    stream = await dial(peer)
                    await stream.write(b"a")
                    assert await stream.read() == b"A"
                    await stream.close()
                await asyncio.sleep(0.05)
                counts.append(psutil.Process().num_fds())
            assert counts[2] <= counts[0] + 2

    drive(scenario())
