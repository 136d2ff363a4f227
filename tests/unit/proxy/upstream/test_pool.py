"""The pool: bounded, aged, fair, and drained at the end."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from support.peer import Peer, Stream
from support.waits import until

from addons.ports import UpstreamFailed
from grants.decision import Reason
from grants.message import Origin, Outgoing, Response
from proxy.upstream import Pool, PoolLimits, Trust, UpstreamClient

type Drive = Callable[[Coroutine[Any, Any, None]], None]

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


async def loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


class Sender:
    """One client, and a short way to send with it."""

    def __init__(self, pool: Pool, peer: Peer, trust: Trust, host: str = "api.example") -> None:
        self.origin = Origin(scheme="https", host=host, port=peer.port)
        self.client = UpstreamClient(pool, self.origin, trust, allow_inside=True, resolver=loopback)

    async def __call__(self, within: float = 10, origin: Origin | None = None) -> Response:
        request = Outgoing(origin=origin or self.origin, method=b"GET", target=b"/", fields=())
        return await self.client.send(request, max_body=100, timeout=within)

    def soon(self, within: float = 10) -> asyncio.Task[Response]:
        return asyncio.get_running_loop().create_task(self(within))


async def answering(stream: Stream) -> None:
    while await stream.request():
        await stream.send(HELLO)


class Gate:
    """Requests wait until the gate is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, stream: Stream) -> None:
        while await stream.request():
            await self.opened.wait()
            await stream.send(HELLO)


def test_reused_by_all_clients(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """A connection is kept and serves the next request of any client of that origin."""

    async def scenario() -> None:
        async with Peer(server_tls, answering) as peer:
            pool = Pool()
            senders = [Sender(pool, peer, trust), Sender(pool, peer, trust)]
            for _ in range(50):
                for sender in senders:
                    await sender()
            assert (len(peer.streams), pool.dialled) == (1, 1)
            assert (pool.open_connections, pool.idle_connections) == (1, 1)
            await pool.close()

    drive(scenario())


def test_bound_of_a_group(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """200 requests at once share the few connections there may be, and all are answered."""

    async def scenario() -> None:
        async def slow(stream: Stream) -> None:
            while await stream.request():
                await asyncio.sleep(0.001)
                await stream.send(HELLO)

        async with Peer(server_tls, slow) as peer:
            pool = Pool(PoolLimits(per_group=8))
            sender = Sender(pool, peer, trust)
            most = 0

            async def one() -> None:
                nonlocal most
                await sender()
                most = max(most, pool.open_connections)

            await asyncio.gather(*(one() for _ in range(200)))
            assert len(peer.requests) == 200
            assert len(peer.streams) == peer.most_open == most == 8
            assert pool.waiting == 0
            await pool.close()

    drive(scenario())


def test_no_place_in_time(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Who finds no place within its timeout gets a 503, and leaves the queue."""

    async def scenario() -> None:
        gate = Gate()
        async with Peer(server_tls, gate) as peer:
            pool = Pool(PoolLimits(per_group=1))
            sender = Sender(pool, peer, trust)
            first = sender.soon()
            await until(lambda: len(peer.requests) == 1)
            with pytest.raises(UpstreamFailed) as caught:
                await sender(within=0.1)
            assert (caught.value.reason, caught.value.status) == (Reason.CAPACITY, 503)
            assert caught.value.__context__ is None
            assert pool.waiting == 0
            gate.opened.set()
            assert (await first).status == 200
            assert (await sender()).status == 200
            assert len(peer.streams) == 1
            await pool.close()

    drive(scenario())


def test_queue_is_in_order(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Those who wait are served in their order, each on the connection that became free."""

    async def scenario() -> None:
        gate = Gate()
        async with Peer(server_tls, gate) as peer:
            pool = Pool(PoolLimits(per_group=1))
            sender = Sender(pool, peer, trust)
            done: list[int] = []

            async def one(number: int) -> None:
                await sender()
                done.append(number)

            tasks = []
            for number in range(6):
                tasks.append(asyncio.get_running_loop().create_task(one(number)))
                await asyncio.sleep(0)
            await until(lambda: pool.waiting == 5)
            gate.opened.set()
            await asyncio.gather(*tasks)
            assert done == list(range(6))
            assert len(peer.streams) == 1
            await pool.close()

    drive(scenario())


def test_place_of_a_failed_connection(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """The place of a connection that ends badly goes to the next who waits."""

    async def scenario() -> None:
        async def cutting(stream: Stream) -> None:
            await stream.request()
            await asyncio.sleep(0.005)

        async with Peer(server_tls, cutting) as peer:
            pool = Pool(PoolLimits(per_group=1))
            sender = Sender(pool, peer, trust)
            results = await asyncio.gather(*(sender() for _ in range(5)), return_exceptions=True)
            assert [r.reason for r in results if isinstance(r, UpstreamFailed)] == [Reason.INCOMPLETE] * 5
            assert len(peer.streams) == 5
            assert peer.most_open == 1
            await until(lambda: pool.open_connections == 0)

    drive(scenario())


def test_cancelled_in_the_queue(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """A waiter that is cancelled loses neither a place nor a connection, also at the moment it gets one."""

    async def scenario() -> None:
        gate = Gate()
        async with Peer(server_tls, gate) as peer:
            pool = Pool(PoolLimits(per_group=1))
            sender = Sender(pool, peer, trust)
            first, second, third = sender.soon(), sender.soon(), sender.soon()
            await until(lambda: pool.waiting == 2)
            second.cancel()
            await asyncio.sleep(0)
            assert pool.waiting == 1
            gate.opened.set()
            await first
            # The connection was handed to the third, which has not run since.
            third.cancel()
            await asyncio.gather(second, third, return_exceptions=True)
            await until(lambda: pool.open_connections == pool.idle_connections)
            assert (await sender()).status == 200
            await pool.close()
            assert pool.open_connections == 0

    drive(scenario())


def test_handed_and_cancelled(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """A connection that was handed to a waiter who no longer wants it is idle again."""

    async def scenario() -> None:
        async with Peer(server_tls, answering) as peer:
            pool = Pool(PoolLimits(per_group=1))
            sender = Sender(pool, peer, trust)
            await sender()
            group = sender.client._groups.of(sender.client.origin)
            connection = pool.take(group)
            assert connection is not None
            loop = asyncio.get_running_loop()
            waiter = loop.create_task(pool.place(group, loop.time() + 5))
            await asyncio.sleep(0)
            pool.give_back(connection)
            assert pool.idle_connections == 0
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
            assert pool.idle_connections == 1
            await pool.close()

    drive(scenario())


def test_total_bound(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """The bound over all origins holds: an idle connection of one makes room for another, a busy one is waited for."""

    async def scenario() -> None:
        gate = Gate()
        gate.opened.set()
        async with Peer(server_tls, gate) as peer:
            pool = Pool(PoolLimits(total=2))
            one, two = Sender(pool, peer, trust), Sender(pool, peer, trust, "other.example")
            await asyncio.gather(one(), one())
            assert pool.idle_connections == 2
            assert (await two()).status == 200
            assert pool.open_connections == 2
            gate.opened.clear()
            busy = [one.soon(), two.soon()]
            await until(lambda: len(peer.requests) == 5)
            late = two.soon()
            await until(lambda: pool.waiting == 1)
            assert pool.open_connections == 2
            gate.opened.set()
            await asyncio.gather(*busy, late)
            assert peer.most_open <= 3
            await pool.close()

    drive(scenario())


def test_waiter_for_another_origin(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """At the total bound a connection that became free is closed where only other origins are waited for."""

    async def scenario() -> None:
        gate = Gate()
        async with Peer(server_tls, gate) as peer:
            pool = Pool(PoolLimits(total=1))
            one, two = Sender(pool, peer, trust), Sender(pool, peer, trust, "other.example")
            first = one.soon()
            await until(lambda: len(peer.requests) == 1)
            second = two.soon()
            await until(lambda: pool.waiting == 1)
            gate.opened.set()
            assert (await first).status == (await second).status == 200
            assert len(peer.streams) == 2
            await pool.close()

    drive(scenario())


@pytest.mark.parametrize(
    ("limits", "pause", "connections"),
    [
        pytest.param(PoolLimits(exchanges=2), 0.0, 2, id="number of requests"),
        pytest.param(PoolLimits(total_age=0.05), 0.06, 4, id="total age"),
        pytest.param(PoolLimits(idle_age=0.05), 0.06, 4, id="idle age"),
        pytest.param(PoolLimits(idle=0), 0.0, 4, id="none idle"),
        pytest.param(PoolLimits(), 0.01, 1, id="young"),
    ],
)
def test_age(
    drive: Drive, server_tls: ssl.SSLContext, trust: Trust, limits: PoolLimits, pause: float, connections: int
) -> None:
    """A connection that is too old, too long idle, or has carried enough, carries no more."""

    async def scenario() -> None:
        async with Peer(server_tls, answering) as peer:
            pool = Pool(limits)
            sender = Sender(pool, peer, trust)
            for _ in range(4):
                await sender()
                await asyncio.sleep(pause)
            assert len(peer.streams) == connections
            await pool.close()

    drive(scenario())


def test_sweep(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Idle connections are closed in time without another request."""

    async def scenario() -> None:
        async with Peer(server_tls, answering) as peer:
            pool = Pool(PoolLimits(idle_age=0.1))
            sender = Sender(pool, peer, trust)
            await asyncio.gather(sender(), sender(), sender())
            assert pool.idle_connections == 3
            await asyncio.sleep(0.02)
            await sender()
            await until(lambda: pool.open_connections == pool.idle_connections == 0)
            await until(lambda: peer.open == 0)
            assert pool._sweeper is None or pool.idle_connections == 0

    drive(scenario())


def test_many_idle(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """No more connections than allowed are kept idle."""

    async def scenario() -> None:
        async with Peer(server_tls, answering) as peer:
            pool = Pool(PoolLimits(idle=2))
            sender = Sender(pool, peer, trust)
            await asyncio.gather(*(sender() for _ in range(6)))
            await until(lambda: pool.open_connections == 2)
            assert pool.idle_connections == 2
            await pool.close()

    drive(scenario())


@pytest.mark.parametrize("grace", [pytest.param(5.0, id="ends in time"), pytest.param(0.05, id="does not")])
def test_close(drive: Drive, server_tls: ssl.SSLContext, trust: Trust, grace: float) -> None:
    """Closing refuses what is new or waits, lets what is on its way end within the grace, and leaves nothing open."""

    async def scenario() -> None:
        gate = Gate()
        async with Peer(server_tls, gate) as peer:
            pool = Pool(PoolLimits(per_group=1))
            sender = Sender(pool, peer, trust)
            busy, queued = sender.soon(), sender.soon()
            await until(lambda: pool.waiting == 1 and len(peer.requests) == 1)
            closing = asyncio.get_running_loop().create_task(pool.close(grace=grace))
            await asyncio.sleep(0)
            for refused in (queued, sender.soon()):
                with pytest.raises(UpstreamFailed) as caught:
                    await refused
                assert (caught.value.reason, caught.value.status) == (Reason.SHUTDOWN, 503)
            if grace > 1:
                gate.opened.set()
                assert (await busy).status == 200
            else:
                with pytest.raises(UpstreamFailed) as caught:
                    await busy
                assert caught.value.reason is Reason.INCOMPLETE
            await closing
            assert (pool.open_connections, pool.idle_connections) == (0, 0)
            await pool.close()

    drive(scenario())


def test_closed_while_dialling(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """A connection that is made after the pool was closed is closed too."""

    async def scenario() -> None:
        async with Peer(server_tls, answering) as peer:
            pool = Pool()
            sender = Sender(pool, peer, trust)
            dialling = sender.soon()
            await asyncio.sleep(0)
            await pool.close()
            with pytest.raises(UpstreamFailed) as caught:
                await dialling
            assert caught.value.reason is Reason.SHUTDOWN
            await until(lambda: pool.open_connections == peer.open == 0)

    drive(scenario())


def test_groups_do_not_pile_up(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Origins that nobody uses any more leave nothing in the pool."""

    async def scenario() -> None:
        async with Peer(server_tls, answering) as peer:
            pool = Pool(PoolLimits(idle=0))
            sender = Sender(pool, peer, trust)
            for origin in (
                sender.origin,
                *(Origin(scheme="https", host=n, port=peer.port) for n in ("other.example", "localhost")),
            ):
                await sender(origin=origin)
            await until(lambda: pool.open_connections == 0)
            assert [group.origin for group in pool._groups.values()] == [sender.origin]

    drive(scenario())


def test_handed_on_and_stale(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """A connection that ends between being handed on and being written to is replaced by another."""

    async def scenario() -> None:
        gate = Gate()
        async with Peer(server_tls, gate) as peer:
            pool = Pool(PoolLimits(per_group=1))
            sender = Sender(pool, peer, trust)
            first = sender.soon()
            await until(lambda: len(peer.requests) == 1)
            second = sender.soon()
            await until(lambda: pool.waiting == 1)
            connection = next(iter(pool._of))
            give_back = pool.give_back

            def cutting(given: Any) -> None:
                give_back(given)
                given.abort()

            connection.keep(_Keeper(pool, cutting))
            gate.opened.set()
            assert (await first).status == (await second).status == 200
            assert len(peer.streams) == len(peer.requests) == 2
            await pool.close()

    drive(scenario())


class _Keeper:
    """A pool that does one thing more when a connection is given back."""

    def __init__(self, pool: Pool, give_back: Callable[[Any], None]) -> None:
        self.give_back = give_back
        self.forget = pool.forget


def test_no_time_to_dial(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """Without time left nothing is dialled."""

    async def scenario() -> None:
        async with Peer(server_tls, answering) as peer:
            pool = Pool()
            with pytest.raises(UpstreamFailed) as caught:
                await Sender(pool, peer, trust)(within=0)
            assert (caught.value.reason, caught.value.status) == (Reason.TIMEOUT, 504)
            assert peer.streams == []
            assert pool.open_connections == 0

    drive(scenario())


def test_place_and_cancelled(drive: Drive, server_tls: ssl.SSLContext, trust: Trust) -> None:
    """A place that was handed to a waiter who is cancelled in the same turn is free again."""

    async def scenario() -> None:
        async with Peer(server_tls, answering) as peer:
            pool = Pool(PoolLimits(per_group=1))
            client = Sender(pool, peer, trust).client
            group = client._groups.of(client.origin)
            loop = asyncio.get_running_loop()
            assert await pool.place(group, loop.time() + 5) is None
            waiter = loop.create_task(pool.place(group, loop.time() + 5))
            await asyncio.sleep(0)
            pool.release(group)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
            assert (pool.open_connections, pool.waiting) == (0, 0)

    drive(scenario())
