"""Which of several reports is in force, and what is under whose key."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from grants.broker.declaration import Declaration, Kept, Report
from grants.broker.fountain import Kind
from proxy.settings.broker_model import Database
from proxy.store import Store, StoreUnavailable, StoreUnsure
from proxy.store.reports import Doubts
from proxy.store.schema import STEPS

NOW = 1_800_000_000.0


def declared(word: str) -> Report:
    return Report(declaration=Declaration(broker="lobby", capabilities=(Kept(name="inference", scope=(word,)),)))


def held(store: Store) -> asyncio.Event:
    """Lets no change begin until it is set."""
    gate, write = asyncio.Event(), store._engines.write

    async def later[Result](work: Callable[[AsyncConnection], Awaitable[Result]]) -> Result:
        await gate.wait()
        return await write(work)

    store._engines.write = later  # type: ignore[method-assign]
    return gate


async def begun(store: Store, word: str) -> "asyncio.Task[None]":
    """A report that has seen what it is to replace, and waits."""
    read, seen = store._engines.read, asyncio.Event()

    async def told[Result](work: Callable[[AsyncConnection], Awaitable[Result]]) -> Result:
        try:
            return await read(work)
        finally:
            seen.set()

    store._engines.read = told  # type: ignore[method-assign]
    task = asyncio.get_running_loop().create_task(store.save_report("a", declared(word), at=word))
    await seen.wait()
    await asyncio.sleep(0)
    store._engines.read = read  # type: ignore[method-assign]
    return task


@pytest.mark.parametrize("before", [False, True])
def test_an_older_report_replaces_no_newer_one(database: Database, before: bool) -> None:
    """Of whatever process: it is refused, what was acknowledged stays, and sent again it is the newest."""

    async def work() -> None:
        slow, quick = await Store.open(database), await Store.open(database)
        if before:
            await quick.save_report("a", declared("before"), at="before")
        gate = held(slow)
        older = await begun(slow, "older")
        await quick.save_report("a", declared("newer"), at="newer")
        gate.set()
        with pytest.raises(StoreUnavailable, match="another report of the box was stored meanwhile"):
            await older
        for store in (slow, quick):
            found = await store.report_of("a")
            assert found is not None
            assert found.at == "newer"
        await slow.save_report("a", declared("again"), at="again")
        found = await quick.report_of("a")
        assert found is not None
        assert found.at == "again"
        await slow.close()
        await quick.close()

    asyncio.run(work())


def test_an_older_report_that_is_in_doubt_ends_no_newer_one(database: Database) -> None:
    """It began before the one that was acknowledged, so it cannot have replaced it."""

    async def work() -> None:
        store = await Store.open(database)
        write, gate = store._engines.write, asyncio.Event()

        async def lost(_work: object) -> Any:
            await gate.wait()
            raise StoreUnsure("its answer is lost")

        store._engines.write = lost  # type: ignore[method-assign, assignment]
        older = await begun(store, "older")
        store._engines.write = write  # type: ignore[method-assign]
        await store.save_report("a", declared("newer"), at="newer")
        gate.set()
        with pytest.raises(StoreUnsure):
            await older
        found = await store.report_of("a")
        assert found is not None
        assert found.at == "newer"
        await store.close()

    asyncio.run(work())


def test_a_doubt_ends_with_a_report_that_came_behind_it() -> None:
    """And not with one that came before; one box's is not another's, and what is known of a box is bounded."""
    doubts = Doubts()
    seen = doubts.of("a")
    doubts.add("a", "one")
    doubts.end("a", seen)
    assert doubts.has("a", "one")
    assert not doubts.has("a", "two")
    assert not doubts.has("b", "one")
    doubts.end("a", doubts.of("a"))
    assert not doubts.has("a", "one")
    for number in range(100):
        doubts.add("a", str(number))
    assert len(doubts.of("a")) < 100
    assert doubts.has("a", "of another process")
    doubts.end("a", doubts.of("a"))
    assert not doubts.has("a", "of another process")


@pytest.mark.parametrize("stored", [False, True])
def test_a_report_that_was_refused_is_in_force_nowhere_here(database: Database, stored: bool) -> None:
    """If it is stored all the same, the box has none until the next is taken, by whatever process."""

    async def work() -> None:
        here, there = await Store.open(database), await Store.open(database)
        await here.save_report("a", declared("before"), at="before")
        write = here._engines.write

        async def lost(work: Callable[[AsyncConnection], Awaitable[Any]]) -> Any:
            if stored:
                await write(work)
            raise StoreUnsure("its answer is lost")

        here._engines.write = lost  # type: ignore[method-assign]
        with pytest.raises(StoreUnsure):
            await here.save_report("a", declared("refused"), at="refused")
        here._engines.write = write  # type: ignore[method-assign]
        found = await here.report_of("a")
        assert (found.at if found is not None else None) == (None if stored else "before")
        await there.save_report("a", declared("next"), at="next")
        found = await here.report_of("a")
        assert found is not None
        assert found.at == "next"
        await here.close()
        await there.close()

    asyncio.run(work())


def test_a_report_that_is_damaged_is_replaced(database: Database) -> None:
    """Bytes that are no text stop the question for the report, and not the next report."""

    async def work() -> None:
        store = await Store.open(database)
        await store.save_report("a", declared("one"), at="one")
        damaged = "CAST(x'ff' AS TEXT)" if store._engines.dialect == "sqlite" else "'{'"
        change = f"UPDATE reports SET declaration = {damaged}, spend = {damaged}"
        await store._engines.write(lambda connection: connection.exec_driver_sql(change))
        await store.save_report("a", declared("two"), at="two")
        found = await store.report_of("a")
        assert found is not None
        assert found.at == "two"
        await store.close()

    asyncio.run(work())


def test_what_has_a_key_of_its_own_is_no_later_box_s(database: Database) -> None:
    """What a request leaves behind once its box is removed is nobody's, and goes with the next change of boxes."""

    async def work() -> None:
        store = await Store.open(database)
        await store.add_box("ada", now=NOW)
        first = await store.box_by_name("ada")
        assert first is not None
        await store.remove_box("ada", now=NOW)
        await store.save_report(first.key, declared("late"), at="late")
        assert await store.learn(first.key, Kind.VAULT, "v-1")
        await store.save_report("ada", declared("of the settings"), at="late")
        await store.add_box("ada", now=NOW)
        second = await store.box_by_name("ada")
        assert second is not None
        assert second.key not in (first.key, "ada")
        for key in (first.key, second.key):
            assert await store.report_of(key) is None
            assert await store.owned(key, Kind.VAULT) == frozenset()
        # The settings of another process that shares the database may list a box of that name.
        assert await store.report_of("ada") is not None
        await store.close()

    asyncio.run(work())


def test_the_grants_of_a_box_are_found_by_its_name(database: Database) -> None:
    """Of that name alone, whatever it has of a pattern, and each is told with the name."""

    async def work() -> None:
        store = await Store.open(database)
        keys = ["a_b", "a_b#7", "axb#8", "a_b.c#9", "a_b.c", "A_B#10", "A_B"]
        for key in keys:
            await store.issue_grant(key, principal="github:ada", credential="env:K", ttl=60, now=NOW)
        assert [grant.box for grant in await store.list_grants()] == [key.partition("#")[0] for key in keys]
        assert [grant.id for grant in await store.list_grants("a_b")] == [1, 2]
        assert [grant.id for grant in await store.revoke(now=NOW, box="a_b.c")] == [4, 5]
        await store.close()

    asyncio.run(work())


def test_a_database_with_boxes_by_name_is_brought_up(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a box that was added has, it has by its key from then on; a box of the settings as before."""

    async def work() -> None:
        with monkeypatch.context() as patched:
            patched.setattr("proxy.store.migrate.STEPS", STEPS[:2])
            store = await Store.open(database)

            async def fill(connection: AsyncConnection) -> None:
                for name, removed in (("gone", "1"), ("a", "NULL")):
                    await connection.exec_driver_sql(
                        "INSERT INTO boxes (name, endpoints, tunnels, created, removed)"
                        f" VALUES ('{name}', '[]', 0, 1, {removed})"
                    )
                declaration = declared("old").declaration.to_json()
                for box in ("a", "settings"):
                    await connection.exec_driver_sql(
                        f"INSERT INTO reports (box, declaration, at) VALUES ('{box}', '{declaration}', 'old')"
                    )
                    await connection.exec_driver_sql(
                        f"INSERT INTO owned (box, kind, id) VALUES ('{box}', 'vault', 'v-{box}')"
                    )
                    await connection.exec_driver_sql(
                        "INSERT INTO visitor_grants (digest, box, principal, credential, issued, expires)"
                        f" VALUES ('{box}', '{box}', 'p', 'env:K', 1, 2)"
                    )

            await store._engines.write(fill)
            await store.close()
        store = await Store.open(database)
        added = await store.box_by_name("a")
        assert added is not None
        for key, name in ((added.key, "a"), ("settings", "settings")):
            assert await store.report_of(key) is not None
            assert await store.owned(key, Kind.VAULT) == {f"v-{name}"}
            assert [grant.box for grant in await store.list_grants(name)] == [name]
            await store.save_report(key, declared("new"), at="new")
        assert await store.report_of("a") is None
        await store.close()

    asyncio.run(work())


def test_a_question_that_waits_is_judged_when_it_is_answered(database: Database) -> None:
    """A token whose grace ends meanwhile is nobody's."""

    async def work() -> None:
        store = await Store.open(database)
        token = (await store.add_box("a", now=NOW)).encode()
        await store.rotate_box("a", now=NOW, grace=60)
        now, read = NOW + 59, store._engines.read

        async def slow[Result](work: Callable[[AsyncConnection], Awaitable[Result]]) -> Result:
            nonlocal now
            found = await read(work)
            now = NOW + 61
            return found

        store._engines.read = slow  # type: ignore[method-assign]
        assert await store.boxes_by_tokens([token], clock=lambda: now) == {}
        await store.close()

    asyncio.run(work())


def test_a_question_of_many_tokens_is_not_remembered(database: Database) -> None:
    """Clients choose what is asked: memory for that is bounded by more than the number of questions."""

    async def work() -> None:
        store = await Store.open(database)
        own = (await store.add_box("a", now=NOW)).encode()
        for number in (1, 7, 8, 500):
            asked = [own, *(f"gpx_{each:043}".encode() for each in range(number))]
            found = await store.boxes_by_tokens(asked, clock=lambda: NOW)
            assert {token: box.name for token, box in found.items()} == {own: "a"}
        remembered = [asked for _, asked in store._recent._answers]
        assert all(len(digests) <= 8 for digests in remembered)
        await store.close()

    asyncio.run(work())
