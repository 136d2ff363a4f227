"""What a box is told while the broker's database is locked or damaged: 503, and nothing is half done."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from support.brokers import ENVIRONMENT, Answer, Running, brokers

from grants.decision import Reason

REPORTS = 50
DAMAGE = [
    pytest.param(lambda path: os.truncate(path, 0), id="truncated to nothing"),
    pytest.param(lambda path: os.truncate(path, path.stat().st_size // 2), id="truncated to half"),
    pytest.param(lambda path: path.write_text("a text\n" * 10_000), id="replaced by text"),
    pytest.param(lambda path: path.write_bytes(bytes(path.stat().st_size)), id="replaced by zeros"),
    pytest.param(lambda path: path.unlink(), id="removed"),
]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


async def report(broker: Running, word: str) -> Answer:
    entry = {"name": "inference", "broker": "lobby", "scope": [word]}
    return await broker.ask("POST", "/api/box/declaration", body={"capabilities": [entry]})


def refused(answer: Answer) -> bool:
    return (answer.status, answer.all("retry-after")) == (503, ["1"])


def test_reports_at_a_locked_database_share_one_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for itself no second time: one behind the other they would take longer than a test may.

    What was refused is not stored later; then everything works again.
    """
    monkeypatch.setattr("proxy.store.engine._WAIT_SECONDS", 3.0)

    async def work() -> None:
        async with brokers(tmp_path) as broker:
            assert (await report(broker, "before")).status == 200
            other = sqlite3.connect(tmp_path / "state" / "broker.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            told = await asyncio.gather(*(report(broker, f"locked-{number}") for number in range(REPORTS)))
            assert all(refused(answer) for answer in told)
            assert broker.reasons()[-1] is Reason.STATE
            other.execute("COMMIT")
            other.close()
            await asyncio.sleep(0.3)
            kept = await broker.state.report_of("one")
            assert kept is not None
            assert kept.declaration.scope("inference") == ("before",)
            assert (await report(broker, "after")).status == 200

    asyncio.run(work())


@pytest.mark.parametrize("damage", DAMAGE)
def test_no_report_is_taken_into_a_damaged_file(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """Nor is anything allowed by what was in memory. The probe that needs no token is no statement about it."""

    async def work() -> None:
        async with brokers(tmp_path) as broker:
            assert (await report(broker, "agent")).status == 200
            damage(tmp_path / "state" / "broker.db")
            assert refused(await report(broker, "agent"))
            assert refused(await broker.ask("POST", "/llm/anthropic/v1/messages", body={}))
            assert not broker.api.got
            assert (await broker.ask("GET", "/llm/anthropic/api/hello", token=None)).status == 200

    asyncio.run(work())
