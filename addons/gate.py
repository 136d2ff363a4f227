"""Bounds how many requests of an endpoint are in flight."""

import asyncio
from collections import deque
from typing import final


@final
class Gate:
    """A count with a limit. `enter` (or `wait`) and `leave` come in pairs.

    Args:
        limit: the most at one time; None for no bound.
    """

    __slots__ = ("_inside", "_limit", "_waiting")

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

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

    async def wait(self) -> None:
        """Go in as soon as there is room. Who enters meanwhile goes first."""
        while not self.enter():
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._call()  # it was called and does not come: the room is the next one's
                raise

    def leave(self) -> None:
        """Go out again."""
        self._inside -= 1
        self._call()

    def _call(self) -> None:
        """Let the first that still waits look for room."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
