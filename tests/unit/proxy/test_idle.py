"""The last watch over a connection, on a clock of its own."""

import asyncio

import pytest

from proxy import idle as module
from proxy.idle import Idle

SECONDS = 10.0


@pytest.mark.parametrize(
    ("touches", "busy", "late"),
    [
        pytest.param([], 0, 10, id="nothing-happens"),
        pytest.param([4, 9], 0, 19, id="something-happens"),
        pytest.param([4, 9, 18.5], 0, 28.5, id="and-again"),
        pytest.param([], 25, 30, id="something-is-under-way"),
        pytest.param([26], 25, 36, id="and-ends"),
    ],
)
def test_a_connection_on_which_nothing_happens(
    touches: list[float], busy: float, late: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told once, so long after the last that happened; not while something is under way."""
    now, told, left = 0.0, [], list(touches)

    async def tell() -> None:
        told.append(now)

    async def sleep(seconds: float) -> None:
        nonlocal now
        end = now + seconds
        while left and left[0] <= end:
            now = left.pop(0)
            watch.touch()
        now = end

    async def work() -> None:
        nonlocal watch
        watch = Idle(SECONDS, tell, lambda: busy > now)
        watch._time = lambda: now
        watch.touch()
        await watch.watch()

    watch: Idle
    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    asyncio.run(work())
    assert told == [late]
