"""The gate: how many are inside, and who waits for room."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress

from support.waits import HANG_SECONDS

from addons.gate import Gate
from proxy.tasks import spawn


def run(work: Coroutine[None, None, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(HANG_SECONDS):
            await work

    asyncio.run(bounded())


async def gone(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def waiting(gate: Gate, count: int) -> list[asyncio.Task[None]]:
    tasks = [spawn(gate.wait(), "waiting") for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_there_is_room_for_so_many() -> None:
    """And for one more when one has left; without a limit for all."""
    gate = Gate(2)
    assert [gate.enter() for _ in range(3)] == [True, True, False]
    gate.leave()
    assert gate.enter()
    assert gate.inside == 2
    endless = Gate()
    assert all(endless.enter() for _ in range(1000))


def test_who_waits_goes_in_when_one_leaves() -> None:
    """One for one, the first that came first."""

    async def work() -> None:
        gate = Gate(1)
        await gate.wait()
        first, second = await waiting(gate, 2)
        assert not first.done()
        gate.leave()
        await settle()
        assert (first.done(), second.done(), gate.inside) == (True, False, 1)
        gate.leave()
        await second
        assert gate.inside == 1

    run(work())


def test_who_stops_waiting_keeps_nobody_out() -> None:
    """Also one that was called in the same moment: the room is the next one's."""

    async def work() -> None:
        gate = Gate(1)
        assert gate.enter()
        first, second, third = await waiting(gate, 3)
        await gone(first)
        gate.leave()  # calls the second
        await gone(second)
        await third
        assert gate.inside == 1

    run(work())


def test_who_was_called_and_finds_the_room_taken_waits_on() -> None:
    """One that only enters does not wait behind those that do."""

    async def work() -> None:
        gate = Gate(1)
        assert gate.enter()
        (task,) = await waiting(gate, 1)
        gate.leave()
        assert gate.enter()
        await settle()
        assert not task.done()
        gate.leave()
        await task

    run(work())
