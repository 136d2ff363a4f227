"""Reports in order: none replaces one that was stored after it came, and none that was refused is in force.

Which report is stored is known by its version. One that is put in place says which it found there; where another has
come in between, it is refused, whoever was first: then whoever sends them sends again what is to be in force.
"""

from collections.abc import Mapping
from typing import Any, Final, final

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from .schema import REPORTS

_MOST: Final = 64
_ANY: Final = "any"


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
    """Versions that were refused and may be stored all the same: while one of them is, its box has no report.

    So many of a box, and beyond those any that it has, until one is taken that came behind them.
    """

    def __init__(self) -> None:
        self._of: dict[str, frozenset[str]] = {}

    def of(self, box: str) -> frozenset[str]:
        """Those of a box now."""
        return self._of.get(box, frozenset())

    def has(self, box: str, version: str) -> bool:
        """Whether that is one of them."""
        return not self.of(box).isdisjoint((version, _ANY))

    def add(self, box: str, version: str) -> None:
        """It was refused, and may be stored."""
        known = self.of(box)
        self._of[box] = known | {version if len(known) < _MOST else _ANY}

    def end(self, box: str, seen: frozenset[str]) -> None:
        """A report was taken that came when those were known: none of them can replace it."""
        left = self.of(box) - seen
        self._of.pop(box, None)
        if left:
            self._of[box] = left
