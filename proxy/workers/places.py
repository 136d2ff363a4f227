"""The places of the workers, and when one that is empty is filled again.

Soon, so that a worker that died is hardly missed; later each time that one ends as soon as it has begun; and at last
not at all, since that would go on without end.
"""

from typing import Final, final

MOST_QUICK_ENDS: Final = 5
QUICK_SECONDS: Final = 10.0
_BACK_OFF_SECONDS: Final = 0.1
_MOST_BACK_OFF_SECONDS: Final = 2.0


@final
class Places:
    """Which of `count` places are empty. Times are seconds of one clock."""

    def __init__(self, count: int) -> None:
        self._due = dict.fromkeys(range(count), 0.0)
        self._quick = dict.fromkeys(range(count), 0)

    def due(self, now: float) -> list[int]:
        """The places that are to be filled now."""
        return [place for place, due in self._due.items() if due <= now]

    @property
    def next(self) -> float | None:
        """When the next one is to be filled."""
        return min(self._due.values(), default=None)

    def fill(self, place: int) -> None:
        """A worker has begun in it."""
        del self._due[place]

    def leave(self, place: int, lived: float, now: float) -> bool:
        """Its worker has ended after so many seconds. False: for the fifth time in a row too soon to try again."""
        quick = self._quick[place] = self._quick[place] + 1 if lived < QUICK_SECONDS else 0
        self._due[place] = now + min(_BACK_OFF_SECONDS * 2**quick, _MOST_BACK_OFF_SECONDS)
        return quick < MOST_QUICK_ENDS
