"""The two databases behind one pair of doors: `read` for single statements, `write` for a transaction.

Changes queue up in order, and how long one waits is bounded as a whole: what has not begun by then is refused and not
done later on.

SQLite: a file for its owner alone, in WAL mode. One connection a process writes; for other processes it waits by
`busy_timeout`, with what is left of that bound. `synchronous=FULL` puts a commit on the disk before it returns.
Readers see what was committed last, by any process. Around everything that is done the files are looked at, and only
where nothing is wrong with them may a connection that closes tidy up: the last one writes the log into the file and
removes it, and would undo with its own what another process did in theirs.

PostgreSQL: asyncpg, which reads the URL itself, with all that it takes from libpq (`sslmode`, `PGPASSWORD` and
so on). A connection that died while it was idle is replaced.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from sqlalchemy import URL, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from proxy.settings.broker_model import Database, PostgresDatabase, SqliteDatabase
from proxy.state import PRIVATE_FILE, StartRefused, reason, require_private
from proxy.tasks import spawn

from .errors import StoreUnavailable, StoreUnsure, cause
from .intact import Intact
from .migrate import SchemaNewer, migrate
from .turns import Turns

_WAIT_SECONDS: Final = 10.0
"""How long something waits before it begins, in all."""
_WAITING: Final = 1000
"""How many changes may wait."""
_READERS: Final = 4
_SERVER_CONNECTIONS: Final = 16
_CONNECT_SECONDS: Final = 10.0
_COMMAND_SECONDS: Final = 15.0
_WAL_PAUSE: Final = 0.05
_LEFT: Final = "seconds left to begin"

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
        places: how many changes may be under way at one time.
        intact: watches over the file; None where there is none.
    """

    def __init__(self, reads: AsyncEngine, writes: AsyncEngine, *, places: int, intact: Intact | None = None) -> None:
        self._reads = reads
        self._writes = writes
        self._turns = Turns(places, seconds=_WAIT_SECONDS, most=_WAITING)
        self._intact = intact
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
        return await self._whole(self._connected, work)

    async def write[Result](self, work: Work[Result]) -> Result:
        """What `work` makes of a connection in a transaction, which is durable when this returns.

        Raises:
            StoreUnavailable: whatever the database or its driver raises, or the transaction could not begin in time.
            StoreUnsure: it failed when it was to be made durable, or after that.
        """
        return await self._whole(self._begun, work)

    async def version(self) -> bytes | None:
        """What changes with every commit of any process; None where that is not known without a question.

        Raises:
            StoreUnavailable: the database is no longer whole.
        """
        if self._intact is None:
            return None
        try:
            await self._intact.check()
            return self._intact.version
        except OSError as error:
            raise StoreUnavailable(cause(error)) from None

    async def close(self) -> None:
        """Wait for what runs and close every connection."""
        if self._running:
            await asyncio.wait(self._running)
        await self._reads.dispose()
        await self._writes.dispose()
        if self._intact is not None:
            intact, self._intact = self._intact, None
            intact.close()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[AsyncConnection]:
        await self._check()
        async with self._reads.connect() as connection:
            yield connection
        await self._check()

    @asynccontextmanager
    async def _begun(self) -> AsyncIterator[AsyncConnection]:
        async with self._turns.turn() as left:
            await self._check()
            async with self._writes.connect() as connection:
                connection.info[_LEFT] = left
                ending = False
                try:
                    async with connection.begin():
                        yield connection
                        await self._check()  # while it can still be undone
                        ending = True
                    await self._check(written=True)
                except TROUBLES as error:
                    if ending:
                        raise StoreUnsure(cause(error)) from None
                    raise

    async def _check(self, *, written: bool = False) -> None:
        """Before and after: what was done to a file that was lost meanwhile is nowhere."""
        if self._intact is not None:
            await self._intact.check(written=written)

    async def _whole[Result](
        self, door: Callable[[], AbstractAsyncContextManager[AsyncConnection]], work: Work[Result]
    ) -> Result:
        outcome: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                async with door() as connection:
                    result = await work(connection)
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
        try:
            engines = _sqlite(database.path)
        except OSError as error:
            why = reason(error)
            raise StartRefused(f"database `{database}` cannot be read: {why}; give its owner the right to") from None
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


class _Connection(sqlite3.Connection):
    """Leaves the log as it is when it closes, unless nothing is wrong."""

    def __init__(self, intact: Intact, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._intact = intact
        self.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)

    def close(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it is closed already
            self.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, not self._intact.whole)
        super().close()


def _sqlite(path: Path) -> Engines:
    url = URL.create("sqlite+aiosqlite", database=str(path))
    intact = Intact(path)
    arguments = {"timeout": _WAIT_SECONDS, "factory": partial(_Connection, intact)}
    reads = create_async_engine(
        url,
        connect_args=arguments,
        isolation_level="AUTOCOMMIT",
        pool_size=_READERS,
        max_overflow=0,
        pool_timeout=_WAIT_SECONDS,
        pool_reset_on_return=None,
    )
    writes = create_async_engine(url, connect_args=arguments, pool_size=1, max_overflow=0, pool_timeout=_WAIT_SECONDS)

    @event.listens_for(writes.sync_engine, "connect")
    def _(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    @event.listens_for(writes.sync_engine, "begin")
    def _(connection: Any) -> None:
        # What a lock must wait for, it waits for here.
        connection.exec_driver_sql(f"PRAGMA busy_timeout={round(connection.info[_LEFT] * 1000)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return Engines(reads, writes, places=1, intact=intact)


async def _to_wal(path: Path) -> None:
    """The switch to WAL does not wait for other processes, so it is tried again. It stays in the file."""

    def switch() -> None:
        with closing(sqlite3.connect(path, timeout=_WAL_PAUSE)) as connection:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()

    clock = asyncio.get_running_loop().time
    end = clock() + _WAIT_SECONDS
    while True:
        try:
            return await asyncio.to_thread(switch)
        except sqlite3.Error as error:
            if "locked" not in str(error) or clock() > end:
                raise StoreUnavailable(cause(error)) from None
        await asyncio.sleep(_WAL_PAUSE)


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
        pool_size=_SERVER_CONNECTIONS // 2,
        max_overflow=_SERVER_CONNECTIONS // 2,
        pool_timeout=_WAIT_SECONDS,
        pool_pre_ping=True,
        pool_recycle=1800,
    )
    reads = writes.execution_options(isolation_level="AUTOCOMMIT")
    return Engines(reads, writes, places=_SERVER_CONNECTIONS)
