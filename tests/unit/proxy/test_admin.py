"""The admin listener alone: few connections, none that is silent, and how the last reload went."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.running import MemoryLog
from support.talk import Talk, raw

from proxy.admin import Admin
from proxy.reload import Outcome, Result
from proxy.settings.model import Audit, Limits, Settings, TcpListen
from proxy.sockets import bind

SETTINGS = Settings(state=Path("state"), directory=Path(), endpoints=(), audit=Audit(path=None), limits=Limits())


def run(
    work: Callable[[tuple[str, int], MemoryLog], Coroutine[None, None, None]],
    *,
    last: Result | None = None,
    draining: bool = False,
    silent: float = 10.0,
    most: int = 64,
) -> None:
    async def main() -> None:
        listener = bind(TcpListen(host="127.0.0.1", port=0), setting="admin")
        log = MemoryLog()
        admin = Admin(
            settings=lambda: SETTINGS,
            decisions=log,
            listeners=lambda: (listener,),
            draining=lambda: draining,
            reloaded=lambda: last,
            silent=silent,
            most=most,
        )
        async with asyncio.timeout(20):
            server = await admin.start(listener)
            try:
                await work(listener.sock.getsockname(), log)
            finally:
                await server.close()
                listener.remove()

    asyncio.run(main())


async def ask(talk: Talk, address: tuple[str, int], path: str) -> tuple[int, dict[str, object]]:
    status, _, body = await talk.ask(f"GET {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n\r\n".encode())
    document: dict[str, object] = json.loads(body)
    return status, document


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_why_the_log_cannot_be_written_is_a_problem() -> None:
    """The operator is told the file, the cause and what helps, for as long as it lasts."""

    async def work(address: tuple[str, int], log: MemoryLog) -> None:
        async with raw(address) as talk:
            assert (await ask(talk, address, "/readyz"))[0] == 200
            log._failed = True
            status, document = await ask(talk, address, "/readyz")
            assert (status, document["problems"]) == (503, [log.trouble])

    run(work)


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        pytest.param(None, None, id="none"),
        pytest.param(
            Result(at=AT, outcome=Outcome.APPLIED),
            {"at": "2026-01-02T03:04:05Z", "outcome": "applied", "problems": []},
            id="applied",
        ),
        pytest.param(
            Result(at=AT, outcome=Outcome.REFUSED, problems=("a", "b")),
            {"at": "2026-01-02T03:04:05Z", "outcome": "refused", "problems": ["a", "b"]},
            id="refused",
        ),
    ],
)
def test_the_last_reload(last: Result | None, shown: object) -> None:
    """Its time, its outcome and what was wrong. A refused one leaves the program ready."""

    async def work(address: tuple[str, int], _log: MemoryLog) -> None:
        async with raw(address) as talk:
            status, document = await ask(talk, address, "/readyz")
        assert (status, document["reload"]) == (200, shown)

    run(work, last=last)


def test_not_ready_while_it_ends() -> None:
    """A program that stops is sent no more requests."""

    async def work(address: tuple[str, int], _log: MemoryLog) -> None:
        async with raw(address) as talk:
            assert (await ask(talk, address, "/readyz"))[0] == 503
            assert (await ask(talk, address, "/healthz"))[0] == 200

    run(work, draining=True)


def test_connections_are_few_and_none_is_silent() -> None:
    """One that asks nothing is closed, also if it sends a byte now and then; one that asks is kept."""

    async def work(address: tuple[str, int], _log: MemoryLog) -> None:
        async with AsyncExitStack() as exits:
            silent, slow, asks = [await exits.enter_async_context(raw(address)) for _ in range(3)]
            over = await exits.enter_async_context(raw(address))
            assert await over.rest() == b""
            for _ in range(6):
                if not slow.writer.is_closing():
                    slow.writer.write(b"G")
                assert (await ask(asks, address, "/healthz"))[0] == 200
                await asyncio.sleep(0.1)
            assert await silent.rest() == b""
            assert await slow.rest() == b""
            again = await exits.enter_async_context(raw(address))
            assert (await ask(again, address, "/healthz"))[0] == 200

    run(work, silent=0.4, most=3)
