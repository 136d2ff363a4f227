"""Waiting for something to become so. The bound ends a hang, and decides nothing that a slow machine could change.

What must not happen soon is shown another way: by what happened in which order, by a gate that only the test opens, or
by a mistake that would last longer than a test may.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

HANG_SECONDS: Final = 50.0
"""After these it counts as never. What would come by itself, and must not count, takes 60 or more."""


def wait_for(found: Callable[[], object]) -> None:
    """Wait until something is so, in a thread of the test's own."""
    deadline = time.monotonic() + HANG_SECONDS
    while not found():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


async def until(found: Callable[[], object]) -> None:
    """Wait until something is so, while the loop goes on."""
    async with asyncio.timeout(HANG_SECONDS):
        while not found():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test puts forward: what is due in an hour is due now, and nothing is due before."""

    _ahead = 0.0

    def time(self) -> float:
        """Seconds, as the loop's timers count them."""
        return super().time() + self._ahead

    def skip(self, seconds: float) -> None:
        """Put the clock forward."""
        self._ahead += seconds


async def turns() -> None:
    """Let the loop turn so often that what could happen without a timer has happened."""
    for _ in range(20):
        await asyncio.sleep(0)
