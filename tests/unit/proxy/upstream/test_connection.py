"""What a connection does when the loop calls in an order that sockets seldom show."""

import asyncio
import ssl
from typing import Any

import pytest

from addons.ports import UpstreamFailed
from grants.decision import Reason
from proxy.upstream.connection import Connection

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Channel:
    """A TLS object whose next read ends in a given way."""

    def __init__(self, end: Exception | bytes) -> None:
        self._end = end

    def read(self, size: int) -> bytes:
        if isinstance(self._end, Exception):
            raise self._end
        return self._end


class Transport(asyncio.Transport):
    """Keeps what is written; never loses the connection by itself."""

    def __init__(self, channel: Channel | None = None) -> None:
        super().__init__({"ssl_object": channel})
        self.written = b""
        self.aborted = False

    def write(self, data: Any) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


class Keeper:
    """Counts what it hears."""

    def __init__(self) -> None:
        self.given = self.forgotten = 0

    def give_back(self, connection: Connection) -> None:
        self.given += 1

    def forget(self, connection: Connection) -> None:
        self.forgotten += 1


async def _made(channel: Channel | None = None) -> tuple[Connection, Transport, Keeper]:
    connection, transport, keeper = Connection(asyncio.get_running_loop()), Transport(channel), Keeper()
    connection.tls_made(transport, Transport())
    connection.keep(keeper)
    return connection, transport, keeper


async def _exchange(connection: Connection, within: float = 5) -> asyncio.Task[Any]:
    loop = asyncio.get_running_loop()
    task = loop.create_task(connection.exchange(b"GET", b"GET", 100, loop.time() + within))
    await asyncio.sleep(0)
    return task


async def _reason(task: asyncio.Task[Any]) -> Reason:
    with pytest.raises(UpstreamFailed) as caught:
        await task
    assert caught.value.__context__ is None
    return caught.value.reason


def test_lost_before_writing() -> None:
    """Nothing is written to a connection that is lost or was never made."""

    async def scenario() -> None:
        connection, transport, _ = await _made()
        connection.abort()
        assert not connection.quiet()
        assert await _reason(await _exchange(connection)) is Reason.CONNECT
        assert transport.written == b""
        unmade = Connection(asyncio.get_running_loop())
        assert not unmade.quiet()
        assert await _reason(await _exchange(unmade)) is Reason.CONNECT

    asyncio.run(scenario())


def test_made_after_it_was_given_up() -> None:
    """A connection that is given up while it is dialled ends as soon as it is there."""

    async def scenario() -> None:
        connection, transport = Connection(asyncio.get_running_loop()), Transport()
        connection.abort()
        connection.connection_made(transport)
        assert transport.aborted

    asyncio.run(scenario())


def test_forgotten_once() -> None:
    """The keeper hears of the end once."""

    async def scenario() -> None:
        connection, _, keeper = await _made()
        connection.connection_lost(None)
        connection.connection_lost(None)
        assert keeper.forgotten == 1

    asyncio.run(scenario())


def test_answer_to_a_request_given_up() -> None:
    """An answer that comes after its request was given up is not kept, and neither is its connection."""

    async def scenario() -> None:
        connection, transport, keeper = await _made()
        task = await _exchange(connection)
        task.cancel()
        connection.data_received(HELLO)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transport.aborted
        assert keeper.given == 0

    asyncio.run(scenario())


def test_answer_after_the_end() -> None:
    """An answer on a connection that is already ending counts, but the connection is not kept."""

    async def scenario() -> None:
        connection, transport, keeper = await _made()
        task = await _exchange(connection)
        transport.aborted = True
        connection.data_received(HELLO)
        assert (await task).body == b"hello"
        assert keeper.given == 0

    asyncio.run(scenario())


def test_timer_of_an_idle_connection() -> None:
    """A deadline that passes after its answer came ends nothing."""

    async def scenario() -> None:
        connection, transport, keeper = await _made()
        task = await _exchange(connection, within=0.02)
        connection.data_received(HELLO)
        await task
        await asyncio.sleep(0.05)
        assert not transport.aborted
        assert keeper.given == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("channel", "complete"),
    [
        pytest.param(Channel(b""), True, id="close_notify"),
        pytest.param(Channel(ssl.SSLZeroReturnError()), True, id="close_notify both ways"),
        pytest.param(Channel(ssl.SSLWantReadError()), False, id="TCP ended"),
        pytest.param(Channel(ssl.SSLEOFError()), False, id="TCP ended, as OpenSSL may say it"),
        pytest.param(Channel(ValueError("no data")), False, id="no TLS any more"),
        pytest.param(Channel(b"x"), False, id="more to read"),
        pytest.param(None, False, id="no TLS"),
    ],
)
def test_how_it_ended(channel: Channel | None, complete: bool) -> None:
    """Only close_notify ends a body that has no other end."""

    async def scenario() -> None:
        connection, _, keeper = await _made(channel)
        task = await _exchange(connection)
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nhello")
        connection.eof_received()
        if complete:
            assert (await task).body == b"hello"
        else:
            assert await _reason(task) is Reason.INCOMPLETE
        assert keeper.given == 0

    asyncio.run(scenario())
