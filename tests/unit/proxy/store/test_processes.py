"""The store among processes: starting at once, dying at any moment, and databases that are not there."""

import asyncio
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect
from sqlalchemy.ext.asyncio import AsyncConnection
from support.postgres import Postgres, running
from support.waits import HANG_SECONDS, until

from grants.broker.declaration import Declaration, Report
from grants.broker.fountain import Kind
from proxy.settings.broker_model import Database, PostgresDatabase, SqliteDatabase
from proxy.state import StartRefused
from proxy.store import Store, StoreUnavailable
from proxy.store.held import held
from proxy.store.schema import METADATA, STEPS

ROOT = Path(__file__).parents[4]
EMPTY = Report(declaration=Declaration(broker="lobby"))
NOW = 1_800_000_000.0


def url(database: Database) -> str:
    return database.url if isinstance(database, PostgresDatabase) else f"sqlite:///{database.path}"


def start(database: Database, box: str, first: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "support.reporter", url(database), "/", box, str(first)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        cwd="/",
        stdout=subprocess.PIPE,
    )


def read(database: Database, box: str) -> str | None:
    async def work() -> str | None:
        store = await Store.open(database)
        try:
            found = await store.report_of(box)
            return None if found is None else found.at
        finally:
            await store.close()

    return asyncio.run(work())


def test_kill_loses_no_acknowledged_report(database: Database) -> None:
    """`kill -9` at any moment: what was said to be stored is there afterwards, and the next process goes on."""
    rounds, acknowledged, seed = 8, -1, random.randrange(1 << 30)
    chance = random.Random(seed)
    for _ in range(rounds):
        process = start(database, "a", acknowledged + 1)
        assert process.stdout is not None
        told = process.stdout.readline()
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        told += process.stdout.read()
        process.stdout.close()
        process.wait()
        acknowledged = int(told.split(b"\n")[-2])
        stored = read(database, "a")
        assert stored is not None, f"seed {seed}"
        # One more may have been stored than there was time to say.
        assert int(stored) in (acknowledged, acknowledged + 1), f"seed {seed}"
        acknowledged = int(stored)


def test_several_processes_start_at_once(database: Database) -> None:
    """The tables are made once, whoever comes first, and each process writes what it has to."""
    processes = [start(database, f"box-{number}", 0) for number in range(4)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"0\n"
        for number in range(4):
            assert read(database, f"box-{number}") is not None
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_process_sees_what_another_stored(database: Database) -> None:
    """At its next question, not after a while: reports, removed boxes, revoked grants."""

    async def work() -> None:
        one, other = await Store.open(database), await Store.open(database)
        try:
            for number in range(20):
                writer, reader = (one, other) if number % 2 else (other, one)
                await writer.save_report("a", EMPTY, at=str(number))
                found = await reader.report_of("a")
                assert found is not None
                assert found.at == str(number)
            token = (await one.add_box("b", now=NOW)).encode()
            assert await other.box_by_token(token, now=NOW) is not None
            await one.remove_box("b", now=NOW)
            assert await other.box_by_token(token, now=NOW) is None
            grant = await other.issue_grant("a", principal="p", credential="env:K", ttl=60, now=NOW)
            assert await one.grant_of(grant.value.encode(), "a", now=NOW) is not None
            await other.revoke(now=NOW, number=grant.id)
            assert await one.grant_of(grant.value.encode(), "a", now=NOW) is None
        finally:
            await one.close()
            await other.close()

    asyncio.run(work())


def test_the_steps_make_the_tables_that_are_used(database: Database) -> None:
    """After all steps the database has just the tables and columns that the statements name; again is no change."""

    def columns(connection: Connection) -> dict[str, dict[str, bool]]:
        found = inspect(connection)
        return {
            table: {column["name"]: bool(column["nullable"]) for column in found.get_columns(table)}
            for table in found.get_table_names()
        }

    async def work() -> dict[str, dict[str, bool]]:
        await (await Store.open(database)).close()
        store = await Store.open(database)
        try:
            return await store._engines.read(lambda connection: connection.run_sync(columns))
        finally:
            await store.close()

    made = asyncio.run(work())
    if isinstance(database, SqliteDatabase):
        made["boxes"]["id"] = made["visitor_grants"]["id"] = False  # SQLite calls every `INTEGER PRIMARY KEY` nullable
        made["reports"]["box"] = made["schema_version"]["version"] = False
        made.pop("sqlite_sequence", None)
    expected = {
        table.name: {column.name: bool(column.nullable) for column in table.columns}
        for table in METADATA.tables.values()
    }
    assert made == expected


def test_a_database_of_the_first_version_is_brought_up(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What several boxes had learned then is the first one's; all else stays, and no other box learns it."""

    async def work() -> None:
        with monkeypatch.context() as patched:
            patched.setattr("proxy.store.migrate.STEPS", STEPS[:1])
            store = await Store.open(database)

            async def fill(connection: AsyncConnection) -> None:
                for box, identifier in (("b", "v-1"), ("a", "v-1"), ("a", "v-2"), ("c", "v-1")):
                    await connection.exec_driver_sql(f"INSERT INTO owned VALUES ('{box}', 'vault', '{identifier}')")
                await connection.exec_driver_sql("INSERT INTO owned VALUES ('c', 'agent', 'v-1')")

            await store._engines.write(fill)
            await store.close()
        store = await Store.open(database)
        try:
            found = await store.owners(frozenset({"v-1", "v-2"}))
            assert sorted((held.box, held.kind.value, held.id) for held in found) == [
                ("a", "vault", "v-2"),
                ("b", "vault", "v-1"),
                ("c", "agent", "v-1"),
            ]
            assert not await store.learn("a", Kind.VAULT, "v-1")
            assert await store.learn("b", Kind.VAULT, "v-1")
        finally:
            await store.close()

    asyncio.run(work())


def test_a_newer_database_is_left_alone(database: Database) -> None:
    """What a newer version wrote is not read by an older one."""

    async def work() -> None:
        store = await Store.open(database)
        text = f"INSERT INTO schema_version VALUES ({len(STEPS) + 1}, 0)"
        await store._engines.write(lambda connection: connection.exec_driver_sql(text))
        await store.close()
        with pytest.raises(StartRefused, match="was written by a newer grantproxy; use that one"):
            await Store.open(database)

    asyncio.run(work())


# --- SQLite ---


def refused(database: Database) -> str:
    with pytest.raises(StartRefused) as caught:
        asyncio.run(Store.open(database))
    return str(caught.value)


def test_the_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    """Mode 0600, and so are the files beside it; WAL, and every commit on the disk."""
    path = tmp_path / "b.db"

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=path))
        await store.save_report("a", EMPTY, at="")
        modes = {name: stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in os.listdir(tmp_path)}
        assert modes == {"b.db": 0o600, "b.db-wal": 0o600, "b.db-shm": 0o600}

        for pragma, values in (("journal_mode", ["wal"]), ("synchronous", [2]), ("busy_timeout", range(9000, 10001))):
            found = await store._engines.write(
                lambda connection, name=pragma: connection.run_sync(
                    lambda plain: plain.exec_driver_sql(f"PRAGMA {name}").scalar()
                )
            )
            assert found in values, pragma  # the wait for the lock is what is left of the bound once the turn has come
        await store.close()

    old = os.umask(0)
    try:
        asyncio.run(work())
    finally:
        os.umask(old)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """Nothing is repaired behind the operator's back."""
    path = tmp_path / "b.db"
    path.touch(mode=0o644)
    path.chmod(0o644)
    assert refused(SqliteDatabase(path=path)) == (
        f"database `{path}` can be read by others (mode 0644); run `chmod 600 {path}`"
    )
    link = tmp_path / "link.db"
    link.symlink_to(path)
    assert refused(SqliteDatabase(path=link)).startswith(f"database `{link}` is not a regular file")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """It is named, with what SQLite says, and not changed."""
    path = tmp_path / "b.db"
    path.write_bytes(b"something else " * 100)
    path.chmod(0o600)
    text = refused(SqliteDatabase(path=path))
    assert text == (
        f"database `sqlite:///{path}` cannot be used: file is not a database; restore the file or move it away"
    )
    assert path.read_bytes() == b"something else " * 100


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    """With the remedy."""
    path = tmp_path / "none" / "b.db"
    assert refused(SqliteDatabase(path=path)) == (
        f"database `{path}` cannot be made: no such file or directory; make its directory or name another in `database`"
    )


def test_a_locked_file_is_waited_for_and_then_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process writes, a write waits; one that waits too long is told as what it is."""
    path = tmp_path / "b.db"

    async def work() -> None:
        monkeypatch.setattr("proxy.store.engine._WAIT_SECONDS", HANG_SECONDS)
        hasty, patient = await Store.open(SqliteDatabase(path=path)), await Store.open(SqliteDatabase(path=path))
        hasty._engines._turns._seconds = 0.3
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="database is locked"):
            await hasty.save_report("a", EMPTY, at="")
        assert await hasty.report_of("a") is None  # who reads does not wait
        saving = asyncio.gather(patient.save_report("a", EMPTY, at="after"))
        await asyncio.sleep(0.1)
        other.execute("COMMIT")
        await saving
        other.close()
        await hasty.close()
        await patient.close()

    asyncio.run(work())


LOCKED_REPORTS = 50


def test_many_who_wait_for_a_locked_file_wait_one_bound_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told within one bound, not after the others' bounds; what was told so is not stored later on."""
    monkeypatch.setattr("proxy.store.engine._WAIT_SECONDS", 3.0)
    path = tmp_path / "b.db"

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=path))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        # One behind the other they would take longer than a test may.
        reports = (store.save_report(f"box-{number}", EMPTY, at="locked") for number in range(LOCKED_REPORTS))
        told = await asyncio.gather(*reports, return_exceptions=True)
        assert {type(each) for each in told} == {StoreUnavailable}
        other.execute("COMMIT")
        other.close()
        await store.save_report("after", EMPTY, at="free")
        await asyncio.sleep(0.2)
        found = [await store.report_of(f"box-{number}") for number in range(LOCKED_REPORTS)]
        assert found == [None] * LOCKED_REPORTS
        assert await store.report_of("after") is not None
        await store.close()

    asyncio.run(work())


def test_only_so_many_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes beyond those is told at once; those before it are stored once the lock is gone."""
    monkeypatch.setattr("proxy.store.engine._WAITING", 3)
    path = tmp_path / "b.db"

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=path))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        # One has its turn and waits for the lock, three wait for theirs.
        waiting = asyncio.gather(*(store.save_report(f"box-{number}", EMPTY, at="") for number in range(4)))
        await until(lambda: store._engines._turns._waiting == 3)
        with pytest.raises(StoreUnavailable, match="too many changes wait for it already"):
            await store.save_report("beyond", EMPTY, at="")
        other.execute("COMMIT")
        other.close()
        await waiting
        assert [await store.report_of(f"box-{number}") is not None for number in range(4)] == [True] * 4
        assert await store.report_of("beyond") is None
        await store.close()

    asyncio.run(work())


# --- a file that is damaged while it is open ---


def _cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def _overwrite(path: Path, data: bytes, offset: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


OVERWRITTEN, SHORT = "its file was overwritten; stop every process", "its file was cut short; stop every process"
LOG = "its write-ahead log was removed or overwritten; stop every process"
DAMAGE = [
    pytest.param(lambda path, _size: _cut(path, 0), OVERWRITTEN, id="truncated to nothing"),
    pytest.param(lambda path, _size: _cut(path, 50), OVERWRITTEN, id="truncated within the header"),
    pytest.param(lambda path, _size: _cut(path, 1000), SHORT, id="truncated within the first page"),
    pytest.param(lambda path, size: _cut(path, size // 2), SHORT, id="truncated to half"),
    pytest.param(lambda path, size: _cut(path, size - 1), SHORT, id="truncated by a byte"),
    pytest.param(lambda path, _size: _overwrite(path, bytes(100)), OVERWRITTEN, id="header of zeros"),
    pytest.param(lambda path, _size: _overwrite(path, b"\x03\x01", 16), OVERWRITTEN, id="page size of nonsense"),
    pytest.param(lambda path, _size: path.write_text("a text\n" * 10_000), OVERWRITTEN, id="replaced by text"),
    pytest.param(lambda path, size: path.write_bytes(bytes(size)), OVERWRITTEN, id="replaced by zeros"),
    pytest.param(lambda path, size: _overwrite(path, bytes(size - 4096), 4096), "malformed", id="all but the header"),
    pytest.param(lambda path, _size: path.with_name("b.db-wal").unlink(), LOG, id="log removed"),
]
LOG_DAMAGE = [
    pytest.param(lambda path, _size: path.with_name("b.db-wal").write_text("a text"), LOG, id="log overwritten"),
    pytest.param(lambda path, _size: _cut(path.with_name("b.db-wal"), 0), LOG, id="log truncated"),
]


@pytest.mark.parametrize(
    ("damage", "wrong", "logged"),
    [
        pytest.param(*case.values, logged, id=f"{case.id}, {'log' if logged else 'no log'}")
        for logged in (True, False)
        for case in (*DAMAGE, *(LOG_DAMAGE if logged else ()))
    ],
)
def test_a_file_that_is_damaged_while_it_is_open_takes_no_report(
    tmp_path: Path, damage: Callable[[Path, int], None], wrong: str, logged: bool
) -> None:
    """SQLite goes on in what it has in memory and in its log: a report that only those have is not one that is stored.

    An empty log is written from its beginning, so that what somebody wrote there is no damage.
    """
    path = tmp_path / "b.db"

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=path))
        for number in range(60):
            await store.save_report(f"box-{number}", EMPTY, at="x" * 1000)
        plain = sqlite3.connect(path)
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        plain.close()
        if logged:
            await store.save_report("box-0", EMPTY, at="again")
        assert await store.report_of("box-59") is not None
        damage(path, path.stat().st_size)
        for at in ("first", "second"):
            with pytest.raises(StoreUnavailable, match=wrong):
                await store.save_report("box-0", EMPTY, at=at)
        await store.close()

    asyncio.run(work())


def test_a_checkpoint_under_way_is_no_damage(tmp_path: Path) -> None:
    """The first page may say more pages than there are yet, for as long as a checkpoint takes."""
    path = tmp_path / "b.db"

    async def work() -> None:
        store = await Store.open(SqliteDatabase(path=path))
        await store.save_report("a", EMPTY, at="")
        plain = sqlite3.connect(path)
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        plain.close()
        whole = path.read_bytes()
        _cut(path, len(whole) - 4096)
        saving = asyncio.gather(store.save_report("a", EMPTY, at="later"))
        await asyncio.sleep(0.1)
        _overwrite(path, whole[-4096:], len(whole) - 4096)
        await saving
        found = await store.report_of("a")
        assert found is not None
        assert found.at == "later"
        await store.close()

    asyncio.run(work())


def test_one_store_that_closes_leaves_another_s_locks(tmp_path: Path) -> None:
    """Closing a descriptor of a file drops every lock that the process has on it: the last one to go closes it."""
    path = tmp_path / "b.db"
    # Ends WAL mode, for which the file has to be nobody else's; it waits for no lock.
    script = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('PRAGMA journal_mode=DELETE')"

    async def work() -> None:
        one, two = await Store.open(SqliteDatabase(path=path)), await Store.open(SqliteDatabase(path=path))
        await one.save_report("a", EMPTY, at="")
        await two.save_report("a", EMPTY, at="")
        await one.close()
        asked = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(path), stderr=asyncio.subprocess.PIPE
        )
        assert b"database is locked" in (await asked.communicate())[1]
        there = path.stat()
        assert (there.st_dev, there.st_ino) in held
        await two.close()
        assert (there.st_dev, there.st_ino) not in held

    asyncio.run(work())


# --- PostgreSQL ---


@pytest.mark.xdist_group("postgres")
def test_a_server_that_refuses_is_named_without_its_password(postgres: Postgres) -> None:
    """One line: the URL without the password, what is wrong, and the remedy."""
    remedy = "start it, or correct `database` in the settings"
    own, why = f"broker:***@127.0.0.1:{postgres.port}", "cannot be used:"
    for database, wrong in (
        (postgres.url(password="hunter2-wrong"), f"{own}/postgres` {why} it refuses the user or the password"),
        (postgres.url("none"), f"{own}/none` {why} it has no database of that name"),
        ("postgresql://u:hunter2-x@127.0.0.1:1/b", "u:***@127.0.0.1:1/b` cannot be used: connection refused"),
        (f"{postgres.url()}?sslmode=hunter2", f"{own}/postgres` {why} its URL has a part that cannot be used"),
        (f"{postgres.url()}?sslmode=require", f"{own}/postgres` {why} it cannot be reached as the URL says"),
    ):  # fmt: skip
        assert refused(PostgresDatabase(url=database)) == f"database `postgresql://{wrong}; {remedy}"


@pytest.mark.xdist_group("postgres")
def test_a_socket_and_the_environment_s_password_do(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL is read as libpq's programs read it."""
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    name = postgres.create().rpartition("/")[2]
    database = PostgresDatabase(url=f"postgresql://broker@/{name}?host={postgres.directory}&port={postgres.port}")
    assert read(database, "a") is None


@pytest.mark.xdist_group("postgres")
def test_commits_wait_for_the_disk_whatever_the_server_s_rule(postgres: Postgres) -> None:
    """Where a server's commits return before they are on the disk, ours still wait; a stricter rule stays."""

    def asked(database: str) -> object:
        async def work() -> object:
            store = await Store.open(PostgresDatabase(url=database))
            try:
                return await store._engines.write(
                    lambda connection: connection.run_sync(
                        lambda plain: plain.exec_driver_sql("SHOW synchronous_commit").scalar()
                    )
                )
            finally:
                await store.close()

        return asyncio.run(work())

    for rule, expected in (("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")):
        assert asked(f"{postgres.create()}?synchronous_commit={rule}") == expected


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """One that the test may stop."""
    with running() as server:
        yield server


@pytest.mark.xdist_group("postgres")
def test_a_server_that_goes_is_told_and_one_that_comes_back_is_used(own_server: Postgres) -> None:
    """At run time there is one error; connections that died are replaced without one."""

    async def work() -> None:
        store = await Store.open(PostgresDatabase(url=own_server.create()))
        await store.save_report("a", EMPTY, at="one")
        own_server.run(
            "psql", "-h", "127.0.0.1", "-p", str(own_server.port), "-U", "broker", "-d", "postgres",
            "-c", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'grantproxy'",
        )  # fmt: skip
        found = await store.report_of("a")
        assert found is not None
        assert found.at == "one"
        own_server.process.send_signal(signal.SIGINT)  # a fast shutdown: clients are not waited for
        own_server.process.wait()
        for question in (store.report_of("a"), store.save_report("a", EMPTY, at="two"), store.list_boxes()):
            with pytest.raises(StoreUnavailable) as caught:
                await question
            assert own_server.password not in str(caught.value)
        await store.close()

    asyncio.run(work())
