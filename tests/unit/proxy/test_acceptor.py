"""Taking connections: one at a time, and never a busy loop."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

import pytest
from support.waits import SkippingLoop, turns, until

from proxy import acceptor
from proxy.acceptor import Acceptor

type Run = Callable[[Callable[[SkippingLoop], Coroutine[Any, Any, None]]], None]

HOUR: Final = 3600.0


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
        await until(lambda: len(taken) >= 5)
        assert not any(sock.getblocking() for sock in taken)
        one.stop()
        one.stop()
        clients += connect(listening, 1)
        await asyncio.sleep(0.05)
        assert len(taken) == 5
        for sock in (*clients, *taken):
            sock.close()

    asyncio.run(work())


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs on a loop with a pause of an hour, so that only who puts the clock forward sees its end."""
    monkeypatch.setattr(acceptor, "PAUSE_SECONDS", HOUR)

    def go(work: Callable[[SkippingLoop], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SkippingLoop)
            await work(loop)

        with asyncio.Runner(loop_factory=SkippingLoop) as runner:
            runner.run(main())

    return go


@pytest.mark.parametrize(
    "number", [errno.EAGAIN, errno.ECONNABORTED, errno.EPROTO, errno.ENETUNREACH], ids=errno.errorcode.get
)
def test_what_only_one_connection_suffers(run: Run, listening: Scripted, number: int) -> None:
    """Another process was faster, or the client has gone: the next one is taken at once."""
    taken: list[socket.socket] = []

    async def work(_loop: SkippingLoop) -> None:
        listening.failures = [number]
        one = Acceptor(listening, taken.append)
        one.start()
        clients = connect(listening, 1)
        await until(lambda: len(taken) >= 1)
        one.stop()
        for sock in (*clients, *taken):
            sock.close()

    run(work)


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM], ids=errno.errorcode.get)
def test_what_every_connection_suffers(run: Run, listening: Scripted, number: int, *, stopped: bool) -> None:
    """Without descriptors or memory it asks again after a pause, and not in a loop meanwhile."""
    taken: list[socket.socket] = []

    async def work(loop: SkippingLoop) -> None:
        listening.failures = [number] * 2
        one = Acceptor(listening, taken.append)
        one.start()
        clients = connect(listening, 1)
        await until(lambda: listening.calls > 0)
        await turns()
        assert listening.calls == 1
        if stopped:
            one.stop()
        loop.skip(HOUR)
        await turns()
        assert listening.calls == (1 if stopped else 2)
        loop.skip(HOUR)
        await turns()
        assert (listening.calls, len(taken)) == ((1, 0) if stopped else (3, 1))
        one.stop()
        for sock in (*clients, *taken):
            sock.close()

    run(work)


def test_what_may_wait_is_left_to_others(run: Run, listening: Scripted) -> None:
    """For as long as it is told to; then it is taken here, since nobody else did."""
    taken: list[socket.socket] = []

    async def work(loop: SkippingLoop) -> None:
        one = Acceptor(listening, taken.append, wait=lambda: HOUR)
        one.start()
        clients = connect(listening, 1)
        await asyncio.sleep(0.05)
        await turns()
        assert taken == []
        loop.skip(HOUR)
        await until(lambda: len(taken) >= 1)
        one.stop()
        for sock in (*clients, *taken):
            sock.close()

    run(work)
