"""Reload: settings, grants and secrets are read anew, and all of them take over at once, or none does.

Reading happens in a thread; taking over happens between two steps of the event loop. One reload runs at a time, and
one that is asked for meanwhile follows it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import final

from grants.problems import Invalid
from proxy.settings.model import Settings
from proxy.sockets import ListenFailed
from proxy.state import StartRefused

log = logging.getLogger(__name__)


class Outcome(StrEnum):
    """How a reload ended. The values are shown by `/readyz`."""

    APPLIED = "applied"
    REFUSED = "refused"


class ReloadRefused(Exception):
    """The new settings cannot take over; one line a problem. Nothing has changed."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The last reload.

    Attributes:
        at: when it ended.
        problems: one line each; none where it was applied.
    """

    at: datetime
    outcome: Outcome
    problems: tuple[str, ...] = ()


@final
class Reloads:
    """Reloads on request.

    Args:
        load: reads the settings; blocks.
        apply: lets them take over and says what changed, or raises and changes nothing.
        say: shows one line to the operator.
        named: the files that the settings name, whether or not they can be used; blocks.

    Attributes:
        last: how the last reload went.
        blamed: files that may have to change before what was refused can take over.
        began_ns: when reading last began, in nanoseconds of the wall clock.
    """

    def __init__(
        self,
        load: Callable[[], Settings],
        apply: Callable[[Settings], Awaitable[str]],
        say: Callable[[str], None],
        named: Callable[[], frozenset[Path]] = frozenset,
    ) -> None:
        self._load = load
        self._apply = apply
        self._say = say
        self._named = named
        self._wanted = asyncio.Event()
        self.last: Result | None = None
        self.blamed: frozenset[Path] = frozenset()
        self.began_ns = time.time_ns()

    def request(self) -> None:
        """Reload now, or after the reload that runs."""
        self._wanted.set()

    async def run(self) -> None:
        """Reload as often as it is requested, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.reload()

    async def reload(self) -> Result:
        """Reload once, and say how it went. Whatever goes wrong, what was in force stays so."""
        self.began_ns = time.time_ns()
        refused: Refused | None = None
        changed = ""
        try:
            changed = await self._apply(await asyncio.to_thread(self._load))
        except Exception as error:
            refused = why_refused(error)
        result = await self.ended(refused)
        for line in told(result.problems, changed):
            self._say(line)
        return result

    async def ended(self, refused: "Refused | None") -> Result:
        """Keep how a reload went."""
        problems = refused.problems if refused is not None else ()
        await self.blame(refused)
        outcome = Outcome.REFUSED if refused is not None else Outcome.APPLIED
        self.last = Result(at=datetime.now(UTC), outcome=outcome, problems=problems)
        return self.last

    async def blame(self, refused: "Refused | None") -> None:
        """Keep which files may have to change, of those that the settings name now too."""
        self.blamed = frozenset() if refused is None else refused.blamed | await asyncio.to_thread(self._named)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why settings cannot take over.

    Attributes:
        problems: one line each, at least one.
        blamed: files that hold problems.
    """

    problems: tuple[str, ...]
    blamed: frozenset[Path] = frozenset()


def why_refused(error: Exception) -> Refused:
    """What a reload is refused with, by what loading or preparing has raised."""
    if isinstance(error, Invalid):
        return Refused(
            problems=tuple(str(problem) for problem in error.problems),
            blamed=frozenset(Path(problem.file) for problem in error.problems),
        )
    if isinstance(error, StartRefused | ListenFailed | ReloadRefused):
        return Refused(problems=tuple(str(error).splitlines()))
    log.error("%s in a reload", type(error).__name__)
    return Refused(problems=("the program failed on these settings; what was in force stays so",))


def told(problems: Iterable[str], changed: str) -> list[str]:
    """What the operator is shown of a reload that ended with these problems, or changed this."""
    lines = [f"error: {problem}" for problem in problems]
    return [*lines, "not reloaded: what was in force stays so"] if lines else [f"reloaded: {changed}"]
