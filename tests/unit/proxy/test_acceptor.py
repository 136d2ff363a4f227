"""Taking connections: one at a time, and never a busy loop."""

import asyncio
import errno
import os
import socket
from collections.abc import Iterator

import pytest

from proxy import acceptor
from proxy.acceptor import Acceptor


class Scripted(socket.socket):
    """A listening socket whose `accept` fails as it is told; counts the calls."""

    failures: list[int]
    calls = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.calls += 1
        if self.failures:
            number = self.failures.pop(0)
            raise OSError(number, os.strerror(number))
        return super().accept()


@pytest.fixture
def listening() -> Iterator[Scripted]:
    with Scripted() as sock:
        sock.failures = []
        sock.bind(("127.0.0.1", 0))
        sock.listen(64)
        sock.setblocking(False)
        yield sock


def connect(sock: socket.socket, count: int) -> list[socket.socket]:
    return [socket.create_connection(sock.getsockname()) for _ in range(count)]


async def until(taken: list[socket.socket], count: int) -> None:
    for _ in range(500):
        if len(taken) >= count:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"{len(taken)} of {count} were taken")


def test_one_each_time_the_socket_is_ready(listening: Scripted) -> None:
    """Between two connections the loop turns once, so that another process may take the next; none blocks."""
    taken: list[socket.socket] = []

    async def work() -> None:
        clients = connect(listening, 5)
        one = Acceptor(listening, taken.append)
        one.start()
        before = 0
        for _ in range(20):
            await asyncio.sleep(0)
            assert len(taken) <= before + 1
            before = len(taken)
        await until(taken, 5)
        assert not any(sock.getblocking() for sock in taken)
        one.stop()
        one.stop()
        clients += connect(listening, 1)
        await asyncio.sleep(0.05)
        assert len(taken) == 5
        for sock in (*clients, *taken):
            sock.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    "number", [errno.EAGAIN, errno.ECONNABORTED, errno.EPROTO, errno.ENETUNREACH], ids=errno.errorcode.get
)
def test_what_only_one_connection_suffers(listening: Scripted, number: int) -> None:
    """Another process was faster, or the client has gone: the next one is taken at once."""
    taken: list[socket.socket] = []

    async def work() -> None:
        listening.failures = [number]
        one = Acceptor(listening, taken.append)
        one.start()
        clients = connect(listening, 1)
        began = asyncio.get_running_loop().time()
        await until(taken, 1)
        assert asyncio.get_running_loop().time() - began < acceptor.PAUSE_SECONDS / 2
        one.stop()
        for sock in (*clients, *taken):
            sock.close()

    asyncio.run(work())


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EINVAL])
@pytest.mark.parametrize("stopped", [False, True], ids=["goes-on", "stopped"])
def test_what_every_connection_suffers(
    listening: Scripted, monkeypatch: pytest.MonkeyPatch, number: int, *, stopped: bool
) -> None:
    """Without descriptors or memory it asks again after a pause, and not in a loop meanwhile."""
    monkeypatch.setattr(acceptor, "PAUSE_SECONDS", 0.2)
    taken: list[socket.socket] = []

    async def work() -> None:
        listening.failures = [number] * 2
        one = Acceptor(listening, taken.append)
        one.start()
        clients = connect(listening, 1)
        await asyncio.sleep(0.1)
        assert listening.calls == 1
        if stopped:
            one.stop()
            await asyncio.sleep(0.3)
            assert listening.calls == 1
        else:
            await until(taken, 1)
            assert listening.calls == 3
            one.stop()
        for sock in (*clients, *taken):
            sock.close()

    asyncio.run(work())


def test_what_may_wait_is_left_to_others(listening: Scripted) -> None:
    """For as long as it is told to; then it is taken here, since nobody else did."""
    taken: list[socket.socket] = []

    async def work() -> None:
        one = Acceptor(listening, taken.append, wait=lambda: 0.1)
        one.start()
        clients = connect(listening, 1)
        await asyncio.sleep(0.05)
        assert taken == []
        await until(taken, 1)
        one.stop()
        for sock in (*clients, *taken):
            sock.close()

    asyncio.run(work())
