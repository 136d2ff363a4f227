"""What boxes own at Fountain, in rows: a learned id is one box's, a given one as many boxes' as the operator says."""

from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from grants.broker.fountain import Holding, Kind, is_id

from .schema import OWNED

_AT_ONCE: Final = 1000
"""Ids in one question, fewer than either database takes parameters."""


def given(box: str, kind: Kind, identifier: str) -> dict[str, object]:
    """The row of what the operator gives a box."""
    return {"box": box, "kind": kind.value, "id": identifier, "learned": 0}


async def learn(connection: AsyncConnection, insert: Any, box: str, kind: Kind, identifier: str) -> bool:
    """Make the id the box's, in a transaction. False: it is another's.

    Two that do so at the same time both find nothing at first; the index lets one row in, and the other finds that.
    """
    holders = select(OWNED.c.box).where(OWNED.c.kind == kind.value, OWNED.c.id == identifier)
    if held := (await connection.execute(holders)).scalars().all():
        return box in held
    row = {**given(box, kind, identifier), "learned": 1}
    await connection.execute(insert(OWNED).values(**row).on_conflict_do_nothing())
    return box in (await connection.execute(holders)).scalars().all()


async def owners(connection: AsyncConnection, identifiers: frozenset[str]) -> tuple[Holding, ...]:
    """Which boxes own these ids, of whatever kind. What cannot be an id is nobody's."""
    asked = sorted(filter(is_id, identifiers))
    found: list[Holding] = []
    for start in range(0, len(asked), _AT_ONCE):
        rows = await connection.execute(select(OWNED).where(OWNED.c.id.in_(asked[start : start + _AT_ONCE])))
        found += [Holding(box=row.box, kind=Kind(row.kind), id=row.id) for row in rows]
    return tuple(found)
