"""The last watch over a connection on which nothing happens, should a deadline of its layer be missing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import final


@final
class Idle:
    """Stands in for mitmproxy's `TimeoutWatchdog`, and costs a request no more than the time.

    Args:
        seconds: how long nothing may happen.
        late: called once then, and the watch is over.
        busy: whether something is under way, which may take its own time.
    """

    def __init__(self, seconds: float, late: Callable[[], Awaitable[None]], busy: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._late = late
        self._busy = busy
        self._time = asyncio.get_running_loop().time
        self._last = self._time()

    def touch(self) -> None:
        """Something happened."""
        self._last = self._time()

    async def watch(self) -> None:
        """Until it is cancelled, or late."""
        while (remaining := self._last + self._seconds - self._time()) > 0 or self._busy():  # noqa: ASYNC110 - an event would cost each request
            await asyncio.sleep(remaining if remaining > 0 else self._seconds)
        await self._late()
