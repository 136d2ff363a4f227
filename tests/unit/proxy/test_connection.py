"""Client connections: places, back-pressure and the end, over real sockets in this process."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from support.certificates import Certificates
from support.running import DEFAULT, SECRET, Running, operation, running
from support.talk import FrontFactory, base, both, raw
from support.upstream import HANG, Upstream, answer
from support.waits import until

from addons.front.inbox import Inbox
from addons.front.layer import Limits
from addons.record import EndedBy, Event
from grants.decision import Reason
from proxy.connection import ClientConnection
from proxy.unsent import ClientWriter, Unsent

pytestmark = pytest.mark.usefixtures("freed")

GET = b"GET /things/1 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer @secret:api\r\n\r\n"
LARGE = 24 * 1024 * 1024
LARGE_GRANT = {
    "operations": [
        operation(
            "read-thing",
            response={**DEFAULT["operations"][0]["response"], "maxBytes": 2 * LARGE},  # type: ignore[index]
        )
    ]
}
BIG = answer(body=b'{"a":"' + b"x" * LARGE + b'"}')


@pytest.fixture
def upstream(certificates: Certificates) -> Iterator[Upstream]:
    with Upstream(certificates) as server:
        yield server


@pytest.fixture
def run(tmp_path: Path, upstream: Upstream, certificates: Certificates) -> Callable[..., None]:
    def go(work: Callable[[Running], Coroutine[None, None, None]], **options: object) -> None:
        async def main() -> None:
            async with asyncio.timeout(50), running(tmp_path, upstream, certificates, **options) as proxy:  # type: ignore[arg-type]
                await work(proxy)

        asyncio.run(main())

    return go


def unsent(proxy: Running) -> Unsent:
    return proxy.listeners._unsent


def closing(request: bytes) -> bytes:
    return request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


@asynccontextmanager
async def slow_reader(proxy: Running, buffer: int = 4096) -> AsyncIterator[socket.socket]:
    """A connection to the base URL whose client reads only when it is told to, and holds little."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, proxy.base)
        yield sock


def host(proxy: Running) -> bytes:
    return b"127.0.0.1:%d" % proxy.base[1]


def test_a_place_is_free_only_when_the_hook_has_ended(run: Callable[..., None], upstream: Upstream) -> None:
    """A client that leaves keeps its place for as long as its request is still answered."""

    async def work(proxy: Running) -> None:
        release = threading.Event()
        upstream.handler = lambda _request: [release, answer()]
        async with base(proxy) as talk:
            await talk.send(GET % talk.host)
            await until(lambda: len(upstream.requests) == 1)
            talk.writer.transport.abort()
            await asyncio.sleep(0.1)
            assert (proxy.listeners.open, proxy.listeners.active) == (1, 1)
            async with raw(proxy.base) as other:
                assert await other.rest() == b""
            release.set()
            await until(lambda: proxy.listeners.open == 0)
        async with base(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 200
        assert [r.event for r in proxy.log.records] == [Event.ALLOW] * 2

    run(work, clients=1)


@pytest.mark.parametrize("before", [0, 1])
def test_what_is_sent_ahead_in_one_turn_of_the_loop_is_bounded(
    tmp_path: Path, upstream: Upstream, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """uvloop brings megabytes before any task runs: also on a new connection only so many are held."""
    uvloop = pytest.importorskip("uvloop")
    most = 0
    takes = Inbox.received

    def received(inbox: Inbox, piece: bytes) -> bytes:
        nonlocal most
        said = takes(inbox, piece)
        most = max(most, inbox._held)
        return said

    monkeypatch.setattr(Inbox, "received", received)

    async def work() -> None:
        async with asyncio.timeout(50), running(tmp_path, upstream, certificates) as proxy:
            release = threading.Event()
            upstream.handler = lambda _request: answer()
            with socket.create_connection(proxy.base) as sock:
                one = (GET % host(proxy))[:-2] + b"X-Pad: " + b"x" * 8000 + b"\r\n\r\n"
                for _ in range(before):
                    sock.sendall(one)
                    await until(lambda: len(proxy.log.records) == 1)
                upstream.handler = lambda _request: [release, answer()]
                sock.setblocking(False)
                flood, sent = GET % host(proxy) + one * 2000, 0
                with contextlib.suppress(BlockingIOError):
                    while sent < len(flood):
                        sent += sock.send(flood[sent:])
                assert sent > 1024 * 1024
                await until(lambda: len(upstream.requests) == 1)
                await asyncio.sleep(0.3)
                assert 0 < most <= 256 * 1024 + 256 * 1024  # the bound, and one read of the event loop's
                release.set()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


def test_a_connection_that_was_ended_waits_for_its_hook(run: Callable[..., None], upstream: Upstream) -> None:
    """Also where nothing is left of the connection itself."""

    async def work(proxy: Running) -> None:
        release = threading.Event()
        upstream.handler = lambda _request: [release, answer()]
        async with base(proxy) as talk:
            await talk.send(GET % talk.host)
            await until(lambda: len(upstream.requests) == 1)
            ((connection, _),) = proxy.listeners._open.values()
            connection.end()
            assert await talk.rest() == b""
            assert (proxy.listeners.open, proxy.listeners.active) == (1, 1)
            release.set()
            await until(lambda: proxy.listeners.open == 0)
        assert [r.event for r in proxy.log.records] == [Event.ALLOW]

    run(work)


def test_a_place_is_free_only_when_the_answer_is_sent(run: Callable[..., None], upstream: Upstream) -> None:
    """A connection that has ended keeps its place for as long as its answer is held; a silent client is cut off."""

    async def work(proxy: Running) -> None:
        unsent(proxy).patience = 3600
        upstream.handler = lambda _request: BIG
        loop = asyncio.get_running_loop()
        async with slow_reader(proxy) as sock:
            await loop.sock_sendall(sock, closing(GET % host(proxy)))
            await until(lambda: unsent(proxy).held > LARGE // 2)
            async with raw(proxy.base) as other:
                assert await other.rest() == b""
            assert proxy.listeners.open == 1
            unsent(proxy).patience = 0.2
            await until(lambda: proxy.listeners.open == 0)
            assert unsent(proxy).held == 0

    run(work, clients=1, grant=LARGE_GRANT)


def test_what_is_queued_behind_a_client_that_was_cut_off_is_not_sent(
    run: Callable[..., None], upstream: Upstream
) -> None:
    """Nobody waits for those answers any more: they are refused, for the record."""

    async def work(proxy: Running) -> None:
        unsent(proxy).patience = 0.4
        upstream.handler = lambda _request: BIG
        async with slow_reader(proxy) as sock:
            await asyncio.get_running_loop().sock_sendall(sock, (GET % host(proxy)) * 5)
            await until(lambda: proxy.listeners.open == 0 and len(proxy.log.records) >= 2)
        assert len(upstream.requests) == 1
        assert [(r.event, r.reason) for r in proxy.log.records] == [
            (Event.ALLOW, None),
            (Event.DENY, Reason.CLIENT_LEFT),
        ]

    run(work, grant=LARGE_GRANT)


@pytest.mark.parametrize("ends", [False, True], ids=["keep-alive", "close"])
def test_a_slow_but_steady_reader_gets_its_whole_answer(
    run: Callable[..., None], upstream: Upstream, *, ends: bool
) -> None:
    """Progress counts, not the time in all; the connection's idle time ends no answer."""

    async def work(proxy: Running) -> None:
        # In between the kernel takes nothing from us for longer than that: it still holds megabytes for the client.
        unsent(proxy).patience = 0.3
        size = LARGE // 3
        upstream.handler = lambda _request: answer(body=b'{"a":"' + b"x" * size + b'"}')
        loop = asyncio.get_running_loop()
        async with slow_reader(proxy, 65536) as sock:
            await loop.sock_sendall(sock, closing(GET % host(proxy)) if ends else GET % host(proxy))
            began, total = loop.time(), 0
            while total < size:
                piece = await loop.sock_recv(sock, 65536)
                assert piece, f"cut after {total} bytes"
                total += len(piece)
                await asyncio.sleep(0.015)
            assert loop.time() - began > 1

    run(work, grant=LARGE_GRANT, limits=Limits(idle=0.3))


def test_too_little_is_as_good_as_nothing(run: Callable[..., None], upstream: Upstream) -> None:
    """Who takes less than the rate on average is cut off, although it takes something each time."""

    async def work(proxy: Running) -> None:
        unsent(proxy).patience, unsent(proxy).rate = 0.5, 1 << 30
        upstream.handler = lambda _request: BIG
        loop = asyncio.get_running_loop()
        async with slow_reader(proxy, 65536) as sock:
            await loop.sock_sendall(sock, GET % host(proxy))
            await until(lambda: proxy.listeners.open == 1)
            while proxy.listeners.open:
                await loop.sock_recv(sock, 65536)
                await asyncio.sleep(0.02)

    run(work, grant=LARGE_GRANT)


def test_over_the_budget_the_oldest_answers_go(run: Callable[..., None], upstream: Upstream) -> None:
    """What is held for all clients together is bounded."""

    async def work(proxy: Running) -> None:
        unsent(proxy).budget = 2 * LARGE
        upstream.handler = lambda _request: BIG
        async with AsyncExitStack() as exits:
            for number in range(4):
                sock = await exits.enter_async_context(slow_reader(proxy))
                await asyncio.get_running_loop().sock_sendall(sock, GET % host(proxy))
                await until(lambda wanted=number: len(proxy.log.records) > wanted)  # type: ignore[misc]
                await asyncio.sleep(0.1)
                assert unsent(proxy).held <= 2 * LARGE
            await until(lambda: proxy.listeners.open == 2)

    run(work, grant=LARGE_GRANT)


@both
def test_active_has_no_gap_between_pipelined_requests(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """A request counts from the moment at which it was read."""

    async def work(proxy: Running) -> None:
        count = 60
        async with front(proxy) as talk:
            gaps = 0

            async def look() -> None:
                nonlocal gaps
                while len(proxy.log.records) < count:
                    gaps += bool(proxy.log.records) and proxy.listeners.active == 0
                    await asyncio.sleep(0)

            looking = asyncio.get_running_loop().create_task(look())
            await talk.send((GET % talk.host) * count)
            for _ in range(count):
                assert (await talk.answer())[0] == 200
            await looking
            # One moment: the last record is written, the look comes before its answer.
            assert gaps == 0
            await until(lambda: proxy.listeners.active == 0)

    run(work)


@both
def test_requests_that_were_sent_ahead_let_others_go_first(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """Also those that need nothing of the world: the loop turns between two of them."""

    async def work(proxy: Running) -> None:
        count = 60
        async with front(proxy) as talk:
            seen = [0]

            async def look() -> None:
                while seen[-1] < count:
                    seen.append(len(proxy.log.records))
                    await asyncio.sleep(0)

            looking = asyncio.get_running_loop().create_task(look())
            await talk.send((GET.replace(b"/1 ", b"/3 ") % talk.host) * count)
            for _ in range(count):
                assert (await talk.answer())[0] == 403
            await looking
            assert max(after - before for before, after in pairwise(seen)) == 1

    run(work)


def test_a_connection_for_which_nobody_has_a_layer_is_closed(run: Callable[..., None]) -> None:
    """Nothing reads it."""

    async def work(proxy: Running) -> None:
        async with base(proxy) as talk:
            assert await talk.rest() == b""
        assert proxy.log.records == []

    run(work, arrange=lambda addons: addons[1:])


def test_an_error_where_bytes_come_in_ends_the_connection(
    run: Callable[..., None], upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was at is still recorded."""

    def fail(*_args: object) -> bytes:
        raise KeyError(SECRET)

    async def work(proxy: Running) -> None:
        release = threading.Event()
        upstream.handler = lambda _request: [release, answer()]
        async with base(proxy) as talk:
            await talk.send(GET % talk.host)
            await until(lambda: len(upstream.requests) == 1)
            monkeypatch.setattr(Inbox, "received", fail)
            await talk.send(b"GET")
            with contextlib.suppress(ConnectionError):
                assert await talk.rest() == b""
            release.set()
            await until(lambda: proxy.listeners.open == 0)
        assert [r.event for r in proxy.log.records] == [Event.ALLOW]

    run(work)


@pytest.mark.parametrize("error", [KeyError, asyncio.CancelledError])
def test_an_error_before_the_chain_is_a_fault(
    run: Callable[..., None], upstream: Upstream, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Whatever it is, the request that waits there has its answer and its one record, and nothing went upstream."""

    def fail(_self: object) -> int:
        raise error(SECRET)

    async def work(proxy: Running) -> None:
        async with base(proxy) as talk:
            monkeypatch.setattr(ClientWriter, "unsent", property(fail))
            monkeypatch.setattr(ClientConnection, "received", lambda self, data: self.inbox.received(data))
            head = await talk.ask(GET % talk.host)
            assert head[0] in (500, 400)
            monkeypatch.undo()
        assert [r.event for r in proxy.log.records] == [Event.DENY]
        assert upstream.connections == 0

    run(work)


def test_an_error_behind_an_answer_is_no_other_answer(
    run: Callable[..., None], upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request has its answer and its record: only the connection ends."""
    sends = ClientConnection.send

    def fail(connection: ClientConnection, data: bytes) -> None:
        sends(connection, data)
        raise KeyError(SECRET)

    async def work(proxy: Running) -> None:
        async with base(proxy) as talk:
            monkeypatch.setattr(ClientConnection, "send", fail)
            assert (await talk.ask(GET % talk.host))[0] == 200
            assert await talk.rest() == b""
        assert [r.event for r in proxy.log.records] == [Event.ALLOW]

    run(work)


@both
def test_the_end_cuts_what_runs_with_a_record(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """When `close` returns, everything is recorded, also for a client that has left."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [HANG]
        async with front(proxy) as stays, front(proxy) as leaves:
            await stays.send(GET % stays.host)
            await leaves.send(GET % leaves.host)
            await until(lambda: len(upstream.requests) == 2)
            leaves.writer.transport.abort()
            await proxy.listeners.close(grace=0.1)
            assert [(r.event, r.reason, r.status) for r in proxy.log.records] == [
                (Event.DENY, Reason.SHUTDOWN, 503)
            ] * 2
            assert (proxy.listeners.open, proxy.listeners.active) == (0, 0)
            assert b" 503 " in await stays.rest()
        assert all(SECRET not in repr(record) for record in proxy.log.records)

    run(work)


def test_hurry_ends_the_wait(run: Callable[..., None], upstream: Upstream) -> None:
    """A second signal ends the grace."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [HANG]
        async with base(proxy) as talk:
            await talk.send(GET % talk.host)
            await until(lambda: len(upstream.requests) == 1)
            hurry, loop = asyncio.Event(), asyncio.get_running_loop()
            loop.call_later(0.2, hurry.set)
            await proxy.listeners.close(3600, hurry)
        assert [r.reason for r in proxy.log.records] == [Reason.SHUTDOWN]
        assert not [r for r in proxy.log.records if r.labels == (EndedBy.CLIENT,)]

    run(work)


def test_a_client_that_left_before_its_request_began_is_refused(run: Callable[..., None], upstream: Upstream) -> None:
    """A reset while an answer before is still asked for: the next request is not sent."""

    async def work(proxy: Running) -> None:
        release = threading.Event()
        upstream.handler = lambda _request: [release, answer()]
        async with base(proxy) as talk:
            await talk.send((GET % talk.host) * 2)
            await until(lambda: len(upstream.requests) == 1)
            talk.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            talk.writer.transport.abort()
            await asyncio.sleep(0.1)
            release.set()
            await until(lambda: len(proxy.log.records) == 2)
        assert [r.reason for r in proxy.log.records] == [None, Reason.CLIENT_LEFT]
        assert len(upstream.requests) == 1

    run(work)
