"""Whose turn it is to change the database: a queue that is bounded as a whole, in time and in length.

Without it each change would wait for a locked database by itself, one after another, and the last of many for the sum.
A change that is told that its turn has not come has not begun, so it is not done later on either.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import final

from .errors import StoreUnavailable


@final
class Turns:
    """Lets in `places` changes at one time, in the order in which they came.

    Args:
        seconds: how long one waits in all, from when it came: for its turn, and then for the database's own lock.
        most: how many may wait.
    """

    def __init__(self, places: int, *, seconds: float, most: int) -> None:
        self._places = asyncio.Semaphore(places)
        self._seconds = seconds
        self._most = most
        self._waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[float]:
        """The caller's turn, for as long as the context lasts. Gives the seconds that it still has to begin.

        Raises:
            StoreUnavailable: the turn has not come in time, or too many wait already.
        """
        if self._waiting >= self._most:
            raise StoreUnavailable("too many changes wait for it already")
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        self._waiting += 1
        try:
            async with asyncio.timeout_at(end):
                await self._places.acquire()
        except TimeoutError:
            raise StoreUnavailable("the changes before this one have taken too long") from None
        finally:
            self._waiting -= 1
        try:
            yield max(end - loop.time(), 0.0)
        finally:
            self._places.release()
