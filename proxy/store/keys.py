"""Rows by their box's key: the name of a box of the settings; the name and the number of one that was added."""

from sqlalchemy import Column, ColumnElement, Text, cast, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from .schema import BOXES, GRANTS, OWNED, REPORTS


async def forget(connection: AsyncConnection, name: str) -> None:
    """Take out what a box of that name had that was in the settings, and what any added one has that is no more.

    A request that was under way when its box was removed may have left something behind since.
    """
    keys = select(BOXES.c.name + "#" + cast(BOXES.c.id, Text)).where(BOXES.c.removed.is_(None))
    for table in (REPORTS, OWNED, GRANTS):
        gone = table.c.box.contains("#") & table.c.box.not_in(keys)
        await connection.execute(delete(table).where((table.c.box == name) | gone))


def named(column: Column[str], name: str) -> ColumnElement[bool]:
    """Whether a key is that of a box of that name."""
    return (column == name) | column.startswith(f"{name}#", autoescape=True)
