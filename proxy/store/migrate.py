"""Bringing a database to this version's tables, in one transaction that only one process at a time can hold.

SQLite: the transaction began with `BEGIN IMMEDIATE`. PostgreSQL: an advisory lock that ends with it. Both undo a table
that was made when the transaction does not end well, so a process that dies half way leaves nothing.
"""

import time
from typing import Final

from sqlalchemy import Connection, func, insert, select

from .schema import FIRST, IDENTITY, ROW, STEPS, VERSIONS

_LOCK: Final = 0x6772616E74707278
"""Any number that nobody else uses: the ASCII of `grantprx`."""


class SchemaNewer(Exception):
    """The tables are those of a newer version of this program."""


def migrate(connection: Connection) -> None:
    """Apply the steps that this database has not had. Call it inside a transaction.

    Raises:
        SchemaNewer: it has had steps that are not known here.
        SQLAlchemyError: the database refuses.
    """
    dialect = connection.dialect.name
    if dialect == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    connection.exec_driver_sql(FIRST)
    version = connection.scalar(select(func.coalesce(func.max(VERSIONS.c.version), 0))) or 0
    if version > len(STEPS):
        raise SchemaNewer
    for number, statements in enumerate(STEPS[version:], start=version + 1):
        for statement in statements:
            connection.exec_driver_sql(statement.format(identity=IDENTITY[dialect], row=ROW[dialect]))
        connection.execute(insert(VERSIONS).values(version=number, applied=int(time.time() * 1000)))
