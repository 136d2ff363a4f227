"""SQLite files that somebody removes, empties or replaces while the program has them open.

SQLite goes on in the files that it opened. What another process changes in those that have the names now is then seen
by nobody, least of all that a box was removed.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncTransaction

from grants.broker.declaration import Declaration, Report
from grants.broker.fountain import Kind
from proxy.broker.state import State
from proxy.settings.broker_model import SqliteDatabase
from proxy.store import Store, StoreUnavailable, StoreUnsure
from proxy.store.held import held

EMPTY = Report(declaration=Declaration(broker="lobby"))
REFUSED = Report(declaration=Declaration(broker="lobby"), spend={"month": "2026-11"})
NOW = 1_800_000_000.0
LOG = "its write-ahead log was removed or overwritten; stop every process"
INDEX = r"the index of its write-ahead log \(`-shm`\) was removed or cut short; stop every process"
REMOVE = """
import asyncio, pathlib, sys
from proxy.settings.broker_model import SqliteDatabase
from proxy.store import Store
async def main():
    store = await Store.open(SqliteDatabase(path=pathlib.Path(sys.argv[1])))
    await store.remove_box("one", now=1.0)
    await store.close()
asyncio.run(main())
"""


def _again(path: Path) -> None:
    """The same bytes in another file."""
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.replace(path)


def _overwrite(path: Path, data: bytes, offset: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def both(path: Path) -> None:
    """The log and its index."""
    path.unlink()
    path.with_name("b.db-shm").unlink()


DISTURBED = [
    pytest.param("b.db-wal", Path.unlink, LOG, id="log removed"),
    pytest.param("b.db-wal", both, LOG, id="log and index removed"),
    pytest.param("b.db-wal", _again, LOG, id="log replaced by a copy"),
    pytest.param("b.db-wal", lambda path: os.truncate(path, 0), LOG, id="log emptied"),
    pytest.param("b.db-wal", lambda path: os.truncate(path, path.stat().st_size - 1), LOG, id="log a byte shorter"),
    pytest.param("b.db-wal", lambda path: path.write_text("a text\n" * 100_000), LOG, id="log replaced by text"),
    pytest.param("b.db-wal", lambda path: _overwrite(path, b"another!", 16), LOG, id="log of another time"),
    pytest.param("b.db-shm", Path.unlink, INDEX, id="index removed"),
    pytest.param("b.db-shm", _again, INDEX, id="index replaced by a copy"),
    pytest.param("b.db-shm", lambda path: os.truncate(path, 0), INDEX, id="index emptied"),
    pytest.param("b.db", Path.unlink, "its file was replaced; stop every process", id="file removed"),
    pytest.param("b.db", _again, "its file was replaced; stop every process", id="file replaced by a copy"),
]


def questions(store: Store, token: str) -> dict[str, Callable[[], Coroutine[Any, Any, object]]]:
    """Every kind of question and change."""
    return {
        "token": lambda: store.box_by_token(token.encode(), now=NOW),
        "report": lambda: store.report_of("one"),
        "grant": lambda: store.grant_of(b"g" * 20, "one", now=NOW),
        "owned": lambda: store.owned("one", Kind.VAULT),
        "owners": lambda: store.owners(frozenset({"v-1"})),
        "save": lambda: store.save_report("one", EMPTY, at="after"),
        "learn": lambda: store.learn("one", Kind.VAULT, "v-2"),
        "ready": lambda: store.ready("one"),
    }


@pytest.mark.parametrize(("name", "disturb", "wrong"), DISTURBED)
def test_nothing_is_told_by_files_that_lost_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, disturb: Callable[[Path], object], wrong: str
) -> None:
    """Questions are refused as changes are, again and again, until the program has been started anew."""
    monkeypatch.setattr("proxy.store.intact._TRIES", 3)
    path = tmp_path / "b.db"

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=path))
        token = await store.add_box("one", now=NOW)
        await store.save_report("one", EMPTY, at="before")
        assert await store.report_of("one") is not None
        index = path.with_name("b.db-shm").read_bytes()
        disturb(tmp_path / name)
        for _ in range(2):
            for ask in questions(store, token).values():
                with pytest.raises(StoreUnavailable, match=wrong):
                    await ask()
        if not path.with_name("b.db-shm").exists() or not path.with_name("b.db-shm").stat().st_size:
            path.with_name("b.db-shm").write_bytes(index)  # SQLite has it mapped
        await store.close()
        assert not held

    asyncio.run(work())


@pytest.mark.parametrize(
    ("name", "disturb"),
    [
        pytest.param("b.db-wal", _again, id="log replaced by a copy"),
        pytest.param("b.db-shm", Path.unlink, id="index removed"),
    ],
)
def test_a_box_that_another_process_removed_stays_removed(
    tmp_path: Path, name: str, disturb: Callable[[Path], object]
) -> None:
    """It is not served, and what this process has of the log does not bring it back when it ends."""
    path = tmp_path / "b.db"

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=path))
        token = await store.add_box("one", now=NOW)
        await store.save_report("one#1", EMPTY, at="before")
        disturb(tmp_path / name)
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", REMOVE, str(path)], check=True)
        with pytest.raises(StoreUnavailable):
            await store.box_by_token(token.encode(), now=NOW)
        with pytest.raises(StoreUnavailable):
            await store.save_report("one#1", EMPTY, at="after")
        await store.close()
        store = await Store.open(SqliteDatabase(path=path))
        assert await store.box_by_token(token.encode(), now=NOW) is None
        assert await store.report_of("one#1") is None
        await store.close()

    asyncio.run(work())


def test_what_is_disturbed_before_the_commit_is_not_committed(tmp_path: Path) -> None:
    """A change that is refused is not found by the next start."""
    path = tmp_path / "b.db"

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=path))
        await store.save_report("one", EMPTY, at="before")
        aside = tmp_path / "aside"

        async def change(connection: Any) -> None:
            await connection.exec_driver_sql("UPDATE reports SET at = 'after'")
            path.with_name("b.db-shm").rename(aside)

        with pytest.raises(StoreUnavailable, match=INDEX):
            await store._engines.write(change)
        aside.rename(path.with_name("b.db-shm"))
        found = await store.report_of("one")
        assert found is not None
        assert found.at == "before"
        await store.close()

    asyncio.run(work())


def test_a_checkpoint_that_truncates_the_log_is_no_damage(tmp_path: Path) -> None:
    """Other programs may do that at any time; then it grows again."""
    path = tmp_path / "b.db"
    script = (
        "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchall())"
    )

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=path))
        for at in ("one", "two", "three"):
            await store.save_report("one", EMPTY, at=at)
            done = await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", script, str(path)], check=True, capture_output=True
            )
            assert done.stdout == b"[(0, 0, 0)]\n"
            assert path.with_name("b.db-wal").stat().st_size == 0
            found = await store.report_of("one")
            assert found is not None
            assert found.at == at
        await store.close()
        assert not path.with_name("b.db-wal").exists()  # nothing was wrong, so it is in the file

    asyncio.run(work())


def test_nothing_is_taken_for_damage_while_others_write(tmp_path: Path) -> None:
    """Checkpoints, a log that begins anew and a second writer, while this one asks all the time."""
    path = tmp_path / "b.db"

    async def work() -> None:
        one, two = await Store.open(SqliteDatabase(path=path)), await Store.open(SqliteDatabase(path=path))
        await one.save_report("one", EMPTY, at="0")

        async def write(store: Store, box: str) -> None:
            for number in range(100):
                await store.save_report(box, EMPTY, at=f"{number}" * 2000)

        async with asyncio.TaskGroup() as group:
            writers = [group.create_task(write(one, "one")), group.create_task(write(two, "two"))]
            while not all(writer.done() for writer in writers):
                assert await two.report_of("one") is not None
                await one.ready("one")
        await one.close()
        await two.close()

    asyncio.run(work())


def test_that_it_can_store_is_shown_by_storing(tmp_path: Path) -> None:
    """The log grows, and nothing is left of it."""
    path = tmp_path / "b.db"

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=path))
        before = path.with_name("b.db-wal").stat().st_size
        await store.ready("one")
        assert path.with_name("b.db-wal").stat().st_size > before
        assert await store.owned("one", Kind.CONVERSATION) == frozenset()
        await store.close()

    asyncio.run(work())


@pytest.mark.parametrize("when", ["at the commit", "after it", "when it is read back"])
def test_a_report_that_may_be_stored_is_not_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What was refused allows nothing: the one before does where that is still there, and the next one does."""
    path = tmp_path / "b.db"

    async def work() -> None:
        state = State(tmp_path)
        state.store = store = await Store.open(SqliteDatabase(path=path))
        await state.save_report("one", EMPTY, at="before")
        with monkeypatch.context() as patch:
            if when == "when it is read back":

                async def unread(*_: object) -> None:
                    raise StoreUnsure("it is too slow")

                patch.setattr(store, "_stored", unread)
            else:
                intact = store._engines._intact
                assert intact is not None
                check = intact.check

                async def late(*, written: bool = False) -> None:
                    if written:
                        raise OSError(None, "gone")
                    await check()

                async def fails(*_: object) -> None:
                    raise OSError(None, "gone")

                if when == "after it":
                    patch.setattr(intact, "check", late)
                else:
                    patch.setattr(AsyncTransaction, "__aexit__", fails)
            with pytest.raises(StoreUnsure):
                await state.save_report("one", REFUSED, at="refused")
        assert await state.report_of("one") == (EMPTY if when == "at the commit" else None)
        await state.save_report("one", EMPTY, at="after")
        assert await state.report_of("one") is not None
        await state.close()

    asyncio.run(work())
