"""Reloads: one at a time, none forgotten, and whatever goes wrong changes nothing."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.waits import HANG_SECONDS, until

from grants.problems import Invalid, Problem
from proxy.reload import Outcome, ReloadRefused, Reloads
from proxy.settings.model import Audit, Limits, Settings
from proxy.sockets import ListenFailed
from proxy.state import StartRefused

SETTINGS = Settings(state=Path("state"), directory=Path(), endpoints=(), audit=Audit(path=None), limits=Limits())


def reloads(
    load: Callable[[], Settings] = lambda: SETTINGS, error: BaseException | None = None
) -> tuple[Reloads, list[Settings], list[str]]:
    applied: list[Settings] = []
    said: list[str] = []

    async def apply(settings: Settings) -> str:
        if error is not None:
            raise error
        applied.append(settings)
        return "endpoint `a` added"

    return Reloads(load, apply, said.append, lambda: frozenset({Path("named")})), applied, said


def test_applied() -> None:
    """What was read takes over, and that is said."""

    async def work() -> None:
        some, applied, said = reloads()
        result = await some.reload()
        assert (result.outcome, result.problems) == (Outcome.APPLIED, ())
        assert some.last is result
        assert applied == [SETTINGS]
        assert said == ["reloaded: endpoint `a` added"]
        assert some.blamed == frozenset()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("error", "problems"),
    [
        pytest.param(StartRefused("secret one\nsecret two"), ("secret one", "secret two"), id="secrets"),
        pytest.param(ListenFailed("in use"), ("in use",), id="address"),
        pytest.param(ReloadRefused("`state` moved"), ("`state` moved",), id="fixed"),
        pytest.param(
            RuntimeError("sk-live-value"),
            ("the program failed on these settings; what was in force stays so",),
            id="fault",
        ),
    ],
)
def test_refused(error: Exception, problems: tuple[str, ...]) -> None:
    """Every problem is told in a line of its own, and an exception's text never is."""

    async def work() -> None:
        some, applied, said = reloads(error=error)
        result = await some.reload()
        assert (result.outcome, result.problems) == (Outcome.REFUSED, problems)
        assert applied == []
        assert said == [*(f"error: {problem}" for problem in problems), "not reloaded: what was in force stays so"]
        assert some.blamed == {Path("named")}

    asyncio.run(work())


def test_invalid_settings_are_blamed_by_file() -> None:
    """The files with the problems are watched until they are right."""

    def load() -> Settings:
        raise Invalid([Problem("a.yaml", 1, 2, "x", "is wrong"), Problem("b.yaml", 3, 4, "", "is wrong too")])

    async def work() -> None:
        some, _, said = reloads(load)
        await some.reload()
        assert some.blamed == {Path("a.yaml"), Path("b.yaml"), Path("named")}
        assert said[0] == "error: a.yaml:1:2: x: is wrong"

    asyncio.run(work())


def test_one_at_a_time_and_none_forgotten() -> None:
    """Requests during a reload become one reload behind it; the loop goes on meanwhile."""
    running = most = 0
    loads: list[int] = []
    gate = threading.Event()

    def load() -> Settings:
        nonlocal running, most
        running += 1
        most = max(most, running)
        assert gate.wait(HANG_SECONDS), "the loop is held"
        running -= 1
        loads.append(1)
        return replace(SETTINGS, state=Path(str(len(loads))))

    async def work() -> None:
        some, applied, _ = reloads(load)
        task = asyncio.get_running_loop().create_task(some.run())
        some.request()
        await until(lambda: running == 1)
        for _ in range(5):
            some.request()
        gate.set()
        await until(lambda: len(applied) == 2)
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        assert [str(settings.state) for settings in applied] == ["1", "2"]

    asyncio.run(work())
    assert most == 1
