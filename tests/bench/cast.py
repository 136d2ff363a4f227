"""The targets that run: started when a section first needs them, ended when no later one does."""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.plan import Section
from bench.processes import Failed
from bench.targets import TARGETS, Skipped, Stage, Target
from bench.upstream import Upstream


class Cast:
    """Use as a context manager.

    Attributes:
        upstream: what is behind all of them.
        memory: bytes of each target's processes as they were before its first load.
        skipped: what cannot run here, with why.
    """

    def __init__(self, sections: list[Section], upstream: Upstream) -> None:
        self._later = list(sections)
        self.upstream = upstream
        self._stacks: dict[str, ExitStack] = {}
        self._running: dict[str, Target] = {}
        self.memory: dict[str, int] = {}
        self.skipped: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        everything = ExitStack()  # one that does not end well leaves none of the others
        for stack in self._stacks.values():
            everything.push(stack)
        everything.__exit__(kind, error, trace)

    def of(self, section: Section) -> list[Target]:
        """The section's targets, running.

        Raises:
            Failed: one did not start.
        """
        for name in section.targets:
            if name not in self._running and name not in self.skipped:
                say(f"{section.name}: starting {name}")
                self._start(name)
        return [self._running[name] for name in section.targets if name in self._running]

    def leave(self, section: Section) -> None:
        """The section is done: end what no later one needs."""
        self._later.remove(section)
        needed = {name for one in self._later for name in one.targets}
        for name in set(self._running) - needed:
            del self._running[name]
            self._stacks.pop(name).close()

    def _start(self, name: str) -> None:
        self._stacks[name] = stack = ExitStack()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        try:
            target = TARGETS[name](Stage(stack, folder, self.upstream), name)
        except Skipped as skipped:
            self.skipped[name] = str(skipped)
            return
        except Failed as failed:
            raise Failed(f"{name}: {failed}") from None
        self._running[name] = target
        if target.family is not None:
            self.memory[name] = target.family.memory()


def say(text: str) -> None:
    """Tell on stderr how far the run is."""
    print(text, file=sys.stderr, flush=True)
