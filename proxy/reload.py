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
from proxy.listeners import ListenFailed
from proxy.settings.model import Settings
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
        apply: lets them take over, or raises and changes nothing.
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
        apply: Callable[[Settings], Awaitable[None]],
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
        blamed: frozenset[Path] = frozenset()
        problems: tuple[str, ...] = ()
        try:
            await self._apply(await asyncio.to_thread(self._load))
        except Invalid as invalid:
            problems = tuple(str(problem) for problem in invalid.problems)
            blamed = frozenset(Path(problem.file) for problem in invalid.problems)
        except (StartRefused, ListenFailed, ReloadRefused) as refused:
            problems = tuple(str(refused).splitlines())
        except Exception as error:
            log.error("%s in a reload", type(error).__name__)  # noqa: TRY400 - its text may hold a value
            problems = ("the program failed on these settings; what was in force stays so",)
        self.blamed = blamed | await asyncio.to_thread(self._named) if problems else frozenset()
        outcome = Outcome.REFUSED if problems else Outcome.APPLIED
        self.last = Result(at=datetime.now(UTC), outcome=outcome, problems=problems)
        for line in _told(problems):
            self._say(line)
        return self.last


def _told(problems: Iterable[str]) -> list[str]:
    lines = [f"error: {problem}" for problem in problems]
    return [*lines, "not reloaded: what was in force stays so"] if lines else ["reloaded"]
