"""Reports in order: none replaces one that was stored after it was taken, and none counts whose end is not known.

Which report is stored is known by its version. One that is put in place says which it found there; where another has
come in between, it is refused, whoever was first: then whoever sends them sends again what is to be in force.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any, final

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from .schema import REPORTS


async def replace(
    connection: AsyncConnection, insert: Any, box: str, row: Mapping[str, str | None], before: str | None
) -> bool:
    """Put a report in the place of `before`, None: of none, in a transaction. False: that is not there any more."""
    if before is None:
        change = insert(REPORTS).values(box=box, **row).on_conflict_do_nothing()
    else:
        change = update(REPORTS).where(REPORTS.c.box == box, REPORTS.c.version == before).values(**row)
    return bool((await connection.execute(change)).rowcount)


@final
class Doubts:
    """Boxes of which a report may be stored that was refused: none of theirs is in force until the next that is taken.

    Each report has a number, from the moment at which it has seen what it is to replace. One that was taken ends the
    doubt about those before it, and one before it raises none any more: it could only have replaced what is gone.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._taken: dict[str, int] = {}
        self._doubted: dict[str, int] = {}

    def begin(self) -> int:
        """The number of a report that has seen what it is to replace."""
        return next(self._numbers)

    def doubted(self, box: str, number: int) -> None:
        """It may be stored or not."""
        if number > self._taken.get(box, 0):
            self._doubted[box] = max(number, self._doubted.get(box, 0))

    def taken(self, box: str, number: int) -> None:
        """It is stored."""
        self._taken[box] = max(number, self._taken.get(box, 0))
        if self._doubted.get(box, 0) < number:
            self._doubted.pop(box, None)

    def __contains__(self, box: str) -> bool:
        return box in self._doubted
