"""The store, each rule on SQLite and on PostgreSQL."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncConnection

from grants.broker.declaration import Declaration, Kept, Report
from grants.broker.fountain import Kind
from proxy.settings.broker_model import Database, SqliteDatabase
from proxy.store import BoxExists, BoxUnknown, Store, StoredBox, StoredReport, StoreUnavailable

NOW = 1_800_000_000.0


def declared(*words: str) -> Report:
    return Report(declaration=Declaration(broker="lobby", capabilities=(Kept(name="inference", scope=words),)))


@asynccontextmanager
async def opened(database: Database) -> AsyncIterator[Store]:
    store = await Store.open(database)
    try:
        yield store
    finally:
        await store.close()


async def sql(store: Store, text: str) -> list[tuple[object, ...]]:
    """Ask the database itself."""

    async def work(connection: AsyncConnection) -> list[tuple[object, ...]]:
        result = await connection.exec_driver_sql(text)
        return [tuple(row) for row in result] if result.returns_rows else []

    return await store._engines.write(work)


async def key(store: Store, name: str) -> str:
    box = await store.box_by_name(name)
    assert box is not None
    return box.key


async def taken(store: Store, box: str, report: Report, at: str) -> bool:
    try:
        await store.save_report(box, report, at=at)
    except StoreUnavailable:
        return False
    return True


# --- boxes ---


async def _boxes(store: Store) -> None:
    assert await store.list_boxes() == ()
    token = await store.add_box("b", now=NOW, endpoints=["y", "x"], tunnels=True)
    assert re.fullmatch(r"gpx_[A-Za-z0-9_-]{43}", token)
    box = StoredBox(number=1, name="b", endpoints=frozenset({"x", "y"}), tunnels=True, created=NOW)
    assert await store.box_by_token(token.encode(), now=NOW) == box
    assert await store.box_by_name("b") == box
    assert await store.box_by_name("c") is None
    for wrong in (b"", b"gpx_", token.encode() + b"x", token.lower().encode(), b"\0\xff"):
        assert await store.box_by_token(wrong, now=NOW) is None
    with pytest.raises(BoxExists):
        await store.add_box("b", now=NOW)
    assert await store.box_by_token(token.encode(), now=NOW) == box
    await store.add_box("a", now=NOW)
    assert [found.name for found in await store.list_boxes()] == ["a", "b"]


def test_a_box_is_found_by_its_token(database: Database) -> None:
    """A token finds the box that it was made for; anything else finds none; a name is taken once."""

    async def work() -> None:
        async with opened(database) as store:
            await _boxes(store)

    asyncio.run(work())


def test_no_token_is_stored(database: Database) -> None:
    """What stands in the database is a digest: whoever reads it cannot act as a box or a visitor."""

    async def work() -> None:
        async with opened(database) as store:
            token = await store.add_box("a", now=NOW)
            grant = await store.issue_grant("a", principal="p", credential="env:K", ttl=9, now=NOW)
            assert grant.value not in repr(grant)
            for table in ("boxes", "visitor_grants"):
                text = repr(await sql(store, f"SELECT * FROM {table}"))
                assert token not in text
                assert grant.value not in text

    asyncio.run(work())


def test_a_rotated_token_has_its_grace(database: Database) -> None:
    """The token before is good until the grace ends, the one before that no more; no grace, no old token."""

    async def work() -> None:
        async with opened(database) as store:
            first = (await store.add_box("a", now=NOW)).encode()
            second = (await store.rotate_box("a", now=NOW, grace=60)).encode()
            for token, now, known in (
                (first, NOW + 59.9, True),
                (first, NOW + 60, False),
                (second, NOW + 59.9, True),
                (second, NOW + 9999, True),
            ):
                found = await store.box_by_token(token, now=now)
                assert (found is not None) is known
            third = (await store.rotate_box("a", now=NOW + 1, grace=60)).encode()
            found = [await store.box_by_token(token, now=NOW + 2) is not None for token in (first, second, third)]
            assert found == [False, True, True]
            fourth = (await store.rotate_box("a", now=NOW + 2, grace=0)).encode()
            found = [await store.box_by_token(token, now=NOW + 2) is not None for token in (second, third, fourth)]
            assert found == [False, False, True]
            (box,) = await store.list_boxes()
            assert (box.rotated, box.previous_until) == (NOW + 2, None)
            with pytest.raises(BoxUnknown):
                await store.rotate_box("b", now=NOW, grace=0)

    asyncio.run(work())


def test_a_removed_box_leaves_nothing(database: Database) -> None:
    """Its token is refused, also the one in its grace, and a later box of its name has none of what it had."""

    async def work() -> None:
        async with opened(database) as store:
            tokens = [await store.add_box("a", now=NOW, owned=[(Kind.VAULT, "v")])]
            tokens.append(await store.rotate_box("a", now=NOW, grace=60))
            first = await key(store, "a")
            await store.save_report(first, declared("agent"), at="then")
            grant = await store.issue_grant(first, principal="p", credential="env:K", ttl=60, now=NOW)
            await store.remove_box("a", now=NOW + 1)
            assert await store.list_boxes() == ()
            (gone,) = await store.list_boxes(removed=True)
            assert (gone.name, gone.removed) == ("a", NOW + 1)
            with pytest.raises(BoxUnknown):
                await store.remove_box("a", now=NOW)
            assert await store.report_of(first) is None
            await store.learn(first, Kind.VAULT, "late")  # a request that was under way
            await store.add_box("a", now=NOW + 2)
            for token in tokens:
                assert await store.box_by_token(token.encode(), now=NOW + 2) is None
            for each in (first, await key(store, "a")):
                assert await store.report_of(each) is None
                assert await store.owned(each, Kind.VAULT) == frozenset()
                assert await store.grant_of(grant.value.encode(), each, now=NOW + 2) is None

    asyncio.run(work())


# --- reports ---


def test_a_report_replaces_the_last(database: Database) -> None:
    """Each report replaces the last; listing and spend come back unchanged, and are gone when the next has none."""

    async def work() -> None:
        async with opened(database) as store:
            assert await store.report_of("a") is None
            listing = {"published": True, "title": "\0 é \U0001f600 \\u0000", "line": ""}
            spend = {"month": "2026-11", "usd": 0.1, "runs": 3, "unpriced": 0, "byPrincipal": []}
            full = Report(declaration=declared("agent").declaration, listing=listing, spend=spend)
            await store.save_report("a", full, at="one")
            assert await store.report_of("a") == StoredReport(report=full, at="one")
            await store.save_report("a", declared("decide"), at="two")
            assert await store.report_of("a") == StoredReport(report=declared("decide"), at="two")
            assert await store.report_of("b") is None

    asyncio.run(work())


def test_a_damaged_report_allows_nothing(database: Database) -> None:
    """What cannot be read counts as no report."""

    async def work() -> None:
        async with opened(database) as store:
            await store.save_report("a", declared("agent"), at="one")
            await sql(store, "UPDATE reports SET declaration = '{'")
            assert await store.report_of("a") is None

    asyncio.run(work())


def test_many_reports_at_once_lose_none(database: Database) -> None:
    """1,000 boxes report at one time, 100 at once: each has its own report afterwards."""

    async def work() -> None:
        async with opened(database) as store:
            gate = asyncio.Semaphore(100)

            async def report(number: int) -> None:
                async with gate:
                    await store.save_report(f"box-{number}", declared(f"w{number}"), at=str(number))

            await asyncio.gather(*(report(number) for number in range(1000)))
            for number in range(0, 1000, 97):
                expected = StoredReport(report=declared(f"w{number}"), at=str(number))
                assert await store.report_of(f"box-{number}") == expected
            assert await sql(store, "SELECT count(*) FROM reports") == [(1000,)]

    asyncio.run(work())


def test_a_cancelled_request_breaks_nothing(database: Database) -> None:
    """A client that leaves in the middle of a write leaves no lock and no half of it behind."""

    async def work() -> None:
        async with opened(database) as store:
            for number in range(40):
                task = asyncio.get_running_loop().create_task(store.save_report("a", declared("x"), at=str(number)))
                await asyncio.sleep(number * 0.0002)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            # Those that go on without their clients may still come in between.
            while not await taken(store, "a", declared("y"), at="last"):
                pass
            assert await store.report_of("a") == StoredReport(report=declared("y"), at="last")

    asyncio.run(work())


# --- visitor grants ---


def test_a_grant_is_for_one_box_and_a_time(database: Database) -> None:
    """It pays for the box that it was issued for, until it expires or is revoked."""

    async def work() -> None:
        async with opened(database) as store:
            issued = await store.issue_grant("a", principal="github:ada", credential="env:K", ttl=60, now=NOW)
            value = issued.value.encode()
            assert re.fullmatch(rb"gpv_[A-Za-z0-9_-]{43}", value)
            assert issued.expires == NOW + 60
            found = await store.grant_of(value, "a", now=NOW + 59.9)
            assert found is not None
            assert (found.id, found.box, found.principal, found.credential) == (issued.id, "a", "github:ada", "env:K")
            assert (found.issued, found.expires, found.live(NOW + 59.9), found.live(NOW + 60)) == (
                NOW,
                NOW + 60,
                True,
                False,
            )
            for other, box, now in (
                (value, "b", NOW),
                (value, "a", NOW + 60),
                (value + b"x", "a", NOW),
                (b"", "a", NOW),
            ):
                assert await store.grant_of(other, box, now=now) is None
            assert await store.revoke(now=NOW + 60, number=issued.id) == ()
            (ended,) = await store.revoke(now=NOW + 1, number=issued.id)
            assert (ended.id, ended.revoked, ended.live(NOW + 1)) == (issued.id, NOW + 1, False)
            assert await store.grant_of(value, "a", now=NOW + 1) is None

    asyncio.run(work())


def test_grants_are_revoked_by_box_and_person(database: Database) -> None:
    """What is given must all hold; nothing given would be everything, so it is refused."""

    async def work() -> None:
        async with opened(database) as store:
            for box, principal in (("a", "p"), ("a", "q"), ("b", "p"), ("b", "q")):
                await store.issue_grant(box, principal=principal, credential="file:/k", ttl=60, now=NOW)
            ended = await store.revoke(now=NOW, box="a", principal="q")
            assert [(grant.box, grant.principal) for grant in ended] == [("a", "q")]
            ended = await store.revoke(now=NOW, principal="p")
            assert [(grant.box, grant.principal) for grant in ended] == [("a", "p"), ("b", "p")]
            with pytest.raises(ValueError, match="which grants"):
                await store.revoke(now=NOW)
            live = [grant for grant in await store.list_grants() if grant.live(NOW)]
            assert [(grant.box, grant.principal) for grant in live] == [("b", "q")]
            assert [grant.principal for grant in await store.list_grants("a")] == ["p", "q"]

    asyncio.run(work())


def test_old_grants_are_forgotten(database: Database) -> None:
    """A month after its end a grant is gone, and its number is not used again."""

    async def work() -> None:
        async with opened(database) as store:
            first = await store.issue_grant("a", principal="p", credential="env:K", ttl=60, now=NOW)
            later = NOW + 31 * 86400
            second = await store.issue_grant("a", principal="p", credential="env:K", ttl=60, now=later)
            assert [grant.id for grant in await store.list_grants()] == [second.id]
            assert second.id > first.id

    asyncio.run(work())


def test_a_database_starts_no_command(database: Database) -> None:
    """`exec:` is refused when a grant is made, and a row that has one all the same is no grant."""

    async def work() -> None:
        async with opened(database) as store:
            with pytest.raises(ValueError, match="env"):
                await store.issue_grant("a", principal="p", credential="exec:id", ttl=60, now=NOW)
            issued = await store.issue_grant("a", principal="p", credential="env:K", ttl=60, now=NOW)
            await sql(store, "UPDATE visitor_grants SET credential = 'exec:id'")
            assert await store.grant_of(issued.value.encode(), "a", now=NOW) is None

    asyncio.run(work())


# --- what a box owns ---


def test_a_box_owns_what_it_learned(database: Database) -> None:
    """An id is one box's, of one kind; learning it twice is no error."""

    async def work() -> None:
        async with opened(database) as store:
            for _ in range(2):
                assert await store.learn("a", Kind.CONVERSATION, "c-1")
            await store.learn("a", Kind.CONVERSATION, "c-2")
            assert await store.owned("a", Kind.CONVERSATION) == {"c-1", "c-2"}
            assert await store.owns("a", Kind.CONVERSATION, "c-1")
            assert not await store.owns("a", Kind.SANDBOX, "c-1")
            assert not await store.owns("b", Kind.CONVERSATION, "c-1")
            assert await store.owned("b", Kind.CONVERSATION) == frozenset()

    asyncio.run(work())


def test_what_one_box_owns_no_other_learns(database: Database) -> None:
    """An id of one kind is learned by one box; what the operator gives may be several boxes'."""

    async def work() -> None:
        async with opened(database) as store:
            assert await store.learn("a", Kind.VAULT, "v-1")
            assert not await store.learn("b", Kind.VAULT, "v-1")
            assert await store.learn("b", Kind.SANDBOX, "v-1")
            for name in ("c", "d"):
                await store.add_box(name, now=NOW, owned=[(Kind.VAULT, "v-1"), (Kind.AGENT, "shared")])
                assert await store.learn(await key(store, name), Kind.AGENT, "shared")
            assert not await store.learn("a", Kind.AGENT, "shared")
            assert {(held.box, held.kind) for held in await store.owners(frozenset({"v-1", "x", "", "a\0"}))} == {
                *(("a", Kind.VAULT), ("b", Kind.SANDBOX), ("c#1", Kind.VAULT), ("d#2", Kind.VAULT))
            }
            assert await store.owners(frozenset()) == ()

    asyncio.run(work())


def test_of_boxes_that_learn_at_once_one_does(database: Database) -> None:
    """Also from stores of several processes."""

    async def work() -> None:
        async with opened(database) as one, opened(database) as two:
            for number in range(20):
                boxes = [(store, f"{name}{each}") for name, store in (("a", one), ("b", two)) for each in range(3)]
                learned = await asyncio.gather(*(store.learn(box, Kind.VAULT, f"v-{number}") for store, box in boxes))
                assert sum(learned) == 1
                (held,) = await one.owners(frozenset({f"v-{number}"}))
                assert held.box == boxes[learned.index(True)][1]

    asyncio.run(work())


def test_many_ids_are_asked_for_at_once(database: Database) -> None:
    """More than a database takes parameters in one statement."""

    async def work() -> None:
        async with opened(database) as store:
            for number in (0, 1500, 39_999):
                await store.learn("a", Kind.VAULT, f"v-{number}")
            found = await store.owners(frozenset(f"v-{number}" for number in range(40_000)))
            assert {held.id for held in found} == {"v-0", "v-1500", "v-39999"}

    asyncio.run(work())


@pytest.mark.parametrize(
    "text", ["", "a\0b", "\ud800", "a\nb", "x" * 513], ids=["empty", "nul", "surrogate", "line", "long"]
)
def test_what_cannot_be_an_id_is_nobody_s(database: Database, text: str) -> None:
    """It is neither learned nor owned, and no database is asked."""

    async def work() -> None:
        async with opened(database) as store:
            assert not await store.learn("a", Kind.VAULT, text)
            assert not await store.owns("a", Kind.VAULT, text)

    asyncio.run(work())


@given(st.lists(st.text(max_size=20), max_size=5))
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_id_is_learned_or_refused(database: Database, identifiers: list[str]) -> None:
    """Nothing that an upstream or a client calls an id makes the store fail, and none becomes another."""

    async def work() -> None:
        async with opened(database) as store:
            before = await store.owned("h", Kind.VAULT)
            learned = {text for text in identifiers if await store.learn("h", Kind.VAULT, text)}
            assert await store.owned("h", Kind.VAULT) == before | learned
            for text in identifiers:
                assert await store.owns("h", Kind.VAULT, text) is (text in learned)

    asyncio.run(work())


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_is_no_longer_there_answers_nothing(tmp_path: Path, how: str) -> None:
    """SQLite would go on in it: what others do then is not seen, and what is done is lost."""

    async def scenario() -> None:
        path = tmp_path / "broker.db"
        store = await Store.open(SqliteDatabase(path=path))
        token = await store.add_box("one", now=1.0)
        assert await store.box_by_token(token.encode() if isinstance(token, str) else token, now=2.0) is not None
        path.rename(tmp_path / "moved")
        if how == "replaced":
            path.touch()
        with pytest.raises(StoreUnavailable):
            await store.list_boxes()
        with pytest.raises(StoreUnavailable):
            await store.add_box("two", now=1.0)
        await store.close()

    asyncio.run(scenario())
