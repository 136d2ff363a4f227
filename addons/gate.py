"""Bounds how many requests of an endpoint are in flight."""

from typing import final


@final
class Gate:
    """A count with a limit. `enter` and `leave` come in pairs.

    Args:
        limit: the most at one time; None for no bound.
    """

    __slots__ = ("_inside", "_limit")

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._inside = 0

    @property
    def inside(self) -> int:
        """How many are in."""
        return self._inside

    def enter(self) -> bool:
        """Go in, if there is room."""
        if self._limit is not None and self._inside >= self._limit:
            return False
        self._inside += 1
        return True

    def leave(self) -> None:
        """Go out again."""
        self._inside -= 1
