"""Rows that are remembered: never beyond a commit, whoever makes it, and a token never beyond its grace."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from grants.broker.declaration import Declaration, Report
from proxy.settings.broker_model import SqliteDatabase
from proxy.store import Store
from proxy.store.recent import Recent

EMPTY = Report(declaration=Declaration(broker="lobby"))
NOW = 1_800_000_000.0
AT = "2027-01-15T08:00:00Z"


def test_an_answer_is_known_at_its_version_alone() -> None:
    """Another version, or none, knows nothing; what is kept later replaces what was known before."""
    recent = Recent()
    recent.keep(b"1", "asked", ())
    assert recent.get(b"1", "asked") == ()
    assert recent.get(b"2", "asked") is None
    assert recent.get(None, "asked") is None
    recent.keep(None, "other", ())
    recent.keep(b"2", "other", ())
    assert recent.get(b"1", "asked") is None
    assert recent.get(b"2", "asked") is None
    assert recent.get(b"2", "other") == ()


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that nobody has are remembered too; they do not fill the memory."""
    monkeypatch.setattr("proxy.store.recent._MOST", 2)
    recent = Recent()
    for number in range(5):
        recent.keep(b"1", number, ())
    assert [number for number in range(5) if recent.get(b"1", number) is not None] == [4]


async def _report(other: Store) -> None:
    await other.save_report("one", EMPTY, at=AT)


async def _remove(other: Store) -> None:
    await other.remove_box("one", now=NOW)


async def _rotate(other: Store) -> None:
    await other.rotate_box("one", now=NOW, grace=0)


@pytest.mark.parametrize("change", [_report, _remove, _rotate])
def test_another_connection_s_commit_is_seen_at_the_next_question(
    tmp_path: Path, change: Callable[[Store], Awaitable[object]]
) -> None:
    """What a box may is asked of the database again as soon as anybody has changed anything in it, and not before."""

    async def work() -> None:
        database = SqliteDatabase(path=tmp_path / "b.db")
        mine, other = await Store.open(database), await Store.open(database)
        token = (await other.add_box("one", now=NOW)).encode()
        asked = 0
        read = mine._engines.read

        async def counted(question: object) -> object:
            nonlocal asked
            asked += 1
            return await read(question)  # type: ignore[arg-type]

        mine._engines.read = counted  # type: ignore[method-assign, assignment]

        async def seen() -> tuple[object, object, object]:
            return (
                await mine.box_by_token(token, now=NOW),
                await mine.box_by_name("one"),
                await mine.report_of("one"),
            )

        await mine.save_report("two", EMPTY, at=AT)
        before = await seen()
        first = asked
        assert await seen() == before
        assert asked == first
        await change(other)
        assert await seen() != before
        assert asked > first
        await mine.close()
        await other.close()

    asyncio.run(work())


def test_a_rotated_token_ends_with_its_grace(tmp_path: Path) -> None:
    """The time is no commit: a row that is remembered is held to the clock all the same."""

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=tmp_path / "b.db"))
        token = (await store.add_box("one", now=NOW)).encode()
        await store.rotate_box("one", now=NOW, grace=60)
        assert await store.box_by_token(token, now=NOW + 59) is not None
        assert await store.box_by_token(token, now=NOW + 61) is None
        await store.close()

    asyncio.run(work())
