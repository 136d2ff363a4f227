"""The databases that the store's tests run on: SQLite, and a PostgreSQL server of this session's own."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from support.postgres import Postgres, running

from proxy.settings.broker_model import Database, PostgresDatabase, SqliteDatabase


class Run(Protocol):
    """Runs a coroutine to its end."""

    def __call__[Result](self, work: Coroutine[Any, Any, Result]) -> Result: ...


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Skips where no server is installed."""
    with running() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.xdist_group("postgres"))])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return SqliteDatabase(path=tmp_path / "broker.db")
    server: Postgres = request.getfixturevalue("postgres")
    return PostgresDatabase(url=server.create())


@pytest.fixture
def run() -> Run:
    return asyncio.run
