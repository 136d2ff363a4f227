"""The last watch over a connection."""

import asyncio

import pytest

from proxy.idle import Idle
from proxy.tasks import spawn


@pytest.mark.parametrize(
    ("touches", "busy", "late"),
    [
        pytest.param(0, 0, True, id="nothing-happens"),
        pytest.param(4, 0, False, id="something-happens"),
        pytest.param(0, 4, False, id="something-is-under-way"),
    ],
)
def test_a_connection_on_which_nothing_happens(touches: int, busy: int, late: bool) -> None:
    """It is told once; not while something happens or is under way."""
    told: list[None] = []

    async def tell() -> None:
        told.append(None)

    async def work() -> None:
        moment = 0
        idle = Idle(0.2, tell, lambda: busy > moment)
        watch = spawn(idle.watch(), "watch")
        while moment < 4:
            await asyncio.sleep(0.1)
            if touches > moment:
                idle.touch()
            moment += 1
        assert bool(told) is late
        await asyncio.wait_for(watch, 10)
        assert len(told) == 1

    asyncio.run(work())
