"""Rows by their box's key: the name of a box of the settings; the name and the number of one that was added."""

from sqlalchemy import Column, ColumnElement, Text, cast, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from addons.boxes import added_key

from .schema import BOXES, GRANTS, OWNED, REPORTS


async def forget(connection: AsyncConnection) -> None:
    """Take out what an added box has that is no more, also what a request that was under way has left since."""
    keys = select(BOXES.c.name + "#" + cast(BOXES.c.id, Text)).where(BOXES.c.removed.is_(None))
    for table in (REPORTS, OWNED, GRANTS):
        await connection.execute(delete(table).where(table.c.box.contains("#"), table.c.box.not_in(keys)))


def named(column: Column[str], name: str) -> ColumnElement[bool]:
    """Whether a key is that of a box of that name."""
    added = added_key(name, 0)[:-1]
    # Not by LIKE, which takes small and large letters for the same in SQLite.
    return (column == name) | (func.substr(column, 1, len(added)) == added)
