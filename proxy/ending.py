"""What whoever stops the program hears of it: nothing, unless something still runs or it takes a while."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

LONG_SECONDS: Final = 1.0
"""An end that takes no longer is not worth a line."""


@asynccontextmanager
async def announced(say: Callable[[str], None], active: Callable[[], int], grace: float) -> AsyncIterator[None]:
    """Within it the program ends: `stopping` is said at once where requests run, else after a second, and `stopped` at
    the end of what was said to stop.

    Args:
        say: shows one line to the operator.
        active: how much still runs.
        grace: seconds that they have.
    """
    told = False

    def tell() -> None:
        nonlocal told
        told = True
        say(stopping(grace) if active() else "stopping")

    if active():
        tell()
    late = None if told else asyncio.get_running_loop().call_later(LONG_SECONDS, tell)
    try:
        yield
    finally:
        if late is not None:
            late.cancel()
        if told:
            say("stopped")


def stopping(grace: float) -> str:
    """The line where requests run: how long they have, and what ends them sooner."""
    return f"stopping: what runs has {grace:g} seconds to finish; a second signal ends it at once"


async def cancelled(work: Sequence[asyncio.Task[None]]) -> None:
    """Cancel these, and wait until they are."""
    for task in work:
        task.cancel()
    if work:
        await asyncio.wait(work)
