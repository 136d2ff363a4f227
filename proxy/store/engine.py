"""The two databases behind one pair of doors: `read` for single statements, `write` for a transaction.

SQLite: a file for its owner alone, in WAL mode. One connection a process writes, so its requests queue up here in
order instead of polling the file's lock; other processes wait by `busy_timeout`. `synchronous=FULL` puts a commit on
the disk before it returns. Readers see what was committed last, by any process.

PostgreSQL: asyncpg, which reads the URL itself, with all that it takes from libpq (`sslmode`, `PGPASSWORD` and
so on). A connection that died while it was idle is replaced.
"""

import asyncio
import errno
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any, Final, final

from sqlalchemy import URL, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from proxy.settings.broker_model import Database, PostgresDatabase, SqliteDatabase
from proxy.state import PRIVATE_FILE, StartRefused, reason, require_private
from proxy.tasks import spawn

from .errors import StoreUnavailable, cause
from .migrate import SchemaNewer, migrate

_BUSY_SECONDS: Final = 10.0
_QUEUE_SECONDS: Final = 30.0
_READERS: Final = 4
_CONNECT_SECONDS: Final = 10.0
_COMMAND_SECONDS: Final = 15.0
_WAL_TRIES: Final = 200
_WAL_PAUSE: Final = 0.05

TROUBLES: Final[tuple[type[Exception], ...]] = (SQLAlchemyError, OSError, TimeoutError)
"""What a database that cannot be used raises, whichever it is."""

type Work[Result] = Callable[[AsyncConnection], Awaitable[Result]]


@final
class Engines:
    """The doors. What goes through one runs to its end, also when its caller is cancelled: a driver that is cut off
    between two steps would keep its connection, or its lock.

    Args:
        reads: commits each statement by itself.
        writes: may be the same pool.
        still: raises OSError where the database is no longer the one that was opened.
    """

    def __init__(self, reads: AsyncEngine, writes: AsyncEngine, still: Callable[[], None] = lambda: None) -> None:
        self._reads = reads
        self._writes = writes
        self._still = still
        self._running: set[asyncio.Task[None]] = set()

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._writes.dialect.name

    async def read[Result](self, work: Work[Result]) -> Result:
        """What `work` makes of a connection for single statements that change nothing.

        Raises:
            StoreUnavailable: whatever the database or its driver raises.
        """
        return await self._whole(self._reads.connect, work)

    async def write[Result](self, work: Work[Result]) -> Result:
        """What `work` makes of a connection in a transaction, which is durable when this returns.

        Raises:
            StoreUnavailable: whatever the database or its driver raises.
        """
        return await self._whole(self._writes.begin, work)

    async def close(self) -> None:
        """Wait for what runs and close every connection."""
        if self._running:
            await asyncio.wait(self._running)
        await self._reads.dispose()
        await self._writes.dispose()

    async def _whole[Result](
        self, door: Callable[[], AbstractAsyncContextManager[AsyncConnection]], work: Work[Result]
    ) -> Result:
        outcome: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                self._still()
                async with door() as connection:
                    result = await work(connection)
                # What was done to a file that has lost its name meanwhile is nowhere.
                self._still()
            except Exception as error:
                found = StoreUnavailable(cause(error)) if isinstance(error, TROUBLES) else error
                if not outcome.done():
                    outcome.set_exception(found)
            except asyncio.CancelledError:  # the program ends
                outcome.cancel()
                raise
            else:
                if not outcome.done():
                    outcome.set_result(result)

        task = spawn(run(), "a question to the database")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await outcome


async def open_engines(database: Database) -> Engines:
    """Open the database and bring its tables to this version.

    Raises:
        StartRefused: one line that names the database, without its password, and the remedy.
    """
    if isinstance(database, SqliteDatabase):
        _make_file(database.path)
        engines = _sqlite(database.path)
        remedy = "restore the file or move it away"
    else:
        engines = _postgres(database)
        remedy = "start it, or correct `database` in the settings"
    try:
        if isinstance(database, SqliteDatabase):
            await _to_wal(database.path)
        await engines.write(lambda connection: connection.run_sync(migrate))
    except SchemaNewer:
        await engines.close()
        raise StartRefused(f"database `{database}` was written by a newer grantproxy; use that one") from None
    except StoreUnavailable as unavailable:
        await engines.close()
        raise StartRefused(f"database `{database}` cannot be used: {unavailable}; {remedy}") from None
    return engines


def _make_file(path: Path) -> None:
    """Make the file where it is missing. SQLite gives the files beside it the same mode.

    An existing one is not opened here: closing it would drop the locks that this process holds on it.
    """
    what = "database"
    try:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
        except FileExistsError:
            require_private(path, path.lstat(), what)
    except OSError as error:
        raise StartRefused(
            f"{what} `{path}` cannot be made: {reason(error)}; make its directory or name another in `database`"
        ) from None


def _sqlite(path: Path) -> Engines:
    url = URL.create("sqlite+aiosqlite", database=str(path))
    arguments = {"timeout": _BUSY_SECONDS}
    reads = create_async_engine(
        url,
        connect_args=arguments,
        isolation_level="AUTOCOMMIT",
        pool_size=_READERS,
        max_overflow=0,
        pool_timeout=_QUEUE_SECONDS,
        pool_reset_on_return=None,
    )
    writes = create_async_engine(url, connect_args=arguments, pool_size=1, max_overflow=0, pool_timeout=_QUEUE_SECONDS)

    @event.listens_for(writes.sync_engine, "connect")
    def _(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    @event.listens_for(writes.sync_engine, "begin")
    def _(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # what a lock must wait for, it waits for here

    return Engines(reads, writes, _still_there(path))


def _still_there(path: Path) -> Callable[[], None]:
    """SQLite goes on in a file that has lost its name: what others do is not seen then, and what is done is lost."""
    opened = path.lstat()

    def still() -> None:
        now = path.lstat()
        if (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino):
            raise OSError(errno.ESTALE, "the file was replaced; start again")

    return still


async def _to_wal(path: Path) -> None:
    """The switch to WAL does not wait for other processes, so it is tried again. It stays in the file."""

    def switch() -> None:
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()

    for tries in range(1, _WAL_TRIES + 1):
        try:
            return await asyncio.to_thread(switch)
        except sqlite3.Error as error:
            if "locked" not in str(error) or tries == _WAL_TRIES:
                raise StoreUnavailable(cause(error)) from None
        await asyncio.sleep(_WAL_PAUSE)
    raise AssertionError("not reached")


def _postgres(database: PostgresDatabase) -> Engines:
    import asyncpg

    async def connect() -> Any:
        try:
            connection = await asyncpg.connect(
                database.url,
                timeout=_CONNECT_SECONDS,
                command_timeout=_COMMAND_SECONDS,
                server_settings={"application_name": "grantproxy"},
            )
            # Where the server's commits do not wait for the disk, those of a report still must.
            await connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') = 'off'"
            )
        except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            failed = ConnectionError(None, cause(error))
            raise failed from None
        return connection

    writes = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        pool_size=8,
        max_overflow=8,
        pool_timeout=_QUEUE_SECONDS,
        pool_pre_ping=True,
        pool_recycle=1800,
    )
    return Engines(writes.execution_options(isolation_level="AUTOCOMMIT"), writes)
