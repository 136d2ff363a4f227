"""A reload over all workers: all of them change, or none does.

The supervisor reads the settings and binds what is new, and every worker then reads and prepares for itself. Only when
all have answered that they would serve exactly what the supervisor has read, none of them later than `PREPARE_SECONDS`,
they are told to change; else to let go. A worker that has agreed and then does not change in time is killed: the one
that takes its place begins with what is in force.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import batched
from pathlib import Path
from signal import SIGKILL
from typing import Final, final

from proxy.fronts import Fronts, bind_fronts
from proxy.part import part
from proxy.reload import Outcome, Refused, ReloadRefused, Result, why_refused
from proxy.settings import described, fixed_changes
from proxy.settings.fingerprint import fingerprint
from proxy.settings.model import Settings
from proxy.sockets import Listener
from proxy.workers.line import MOST_DESCRIPTORS, Do, Message
from proxy.workers.process import Worker
from proxy.workers.worker import key

PREPARE_SECONDS: Final = 60.0
CHANGE_SECONDS: Final = 30.0


@final
@dataclass(slots=True, kw_only=True)
class InForce:
    """What every worker serves, and one that is started begins with.

    Attributes:
        began_ns: when reading began for the last time, in nanoseconds of the wall clock.
        last: the last reload. refused: why, where it was refused.
    """

    settings: Settings
    fronts: Fronts
    began_ns: int
    last: Result | None = None
    refused: Refused | None = None


@dataclass(slots=True, kw_only=True)
class _New:
    """What is to take over."""

    settings: Settings
    fronts: Fronts
    fresh: list[Listener]
    mark: str


@final
@dataclass(slots=True, kw_only=True)
class Round:
    """One reload.

    Attributes:
        number: the workers' answers name it.
        workers: those that serve.
        slots: the most clients that one worker has room for, and of: how many there are to be.
        changed: what did, once it is decided that the new settings take over.
        waiting: those that have not answered yet.
    """

    number: int
    in_force: InForce
    workers: frozenset[Worker]
    of: int
    slots: int
    done: bool = False
    changed: str = ""
    deadline: float = 0.0
    waiting: set[Worker] = field(default_factory=set)
    _new: _New | None = None
    _deciding: bool = True

    def begin(self, load: Callable[[], Settings]) -> None:
        """Read and bind, and ask every worker."""
        self.in_force.began_ns = time.time_ns()
        try:
            new = self._new = self._read(load)
        except Exception as error:
            self._abort(why_refused(error))
            return
        messages = [
            Message(
                do=Do.SOCKETS,
                names=tuple(key(listener.setting, listener.asked) for listener in some),
                sockets=tuple(listener.sock for listener in some),
            )
            for some in batched(new.fresh, MOST_DESCRIPTORS)
        ]
        self._ask([*messages, Message(do=Do.PREPARE, round=self.number)], PREPARE_SECONDS)

    def answered(self, worker: Worker, message: Message) -> None:
        """A worker says how it went."""
        if message.round != self.number or worker not in self.waiting:
            return
        if self._deciding:
            if message.do is Do.REFUSED:
                self._abort(Refused(problems=message.lines, blamed=frozenset(map(Path, message.files))))
            elif message.do is Do.PREPARED and self._new is not None and message.mark != self._new.mark:
                self._abort(Refused(problems=("the files changed while they were read; reload once more",)))
            elif message.do is Do.PREPARED:
                self.waiting.discard(worker)
                if not self.waiting:
                    self._commit()
        elif message.do is Do.ENDED:
            self._ended(worker)

    def gone(self, worker: Worker) -> None:
        """A worker has ended."""
        self.workers -= {worker}
        if self._deciding:
            self._abort(Refused(problems=("a worker ended while the settings were prepared; reload once more",)))
        else:
            self._ended(worker)

    def look(self, now: float) -> None:
        """Whether those that are waited for are late."""
        if self.done or now < self.deadline:
            return
        if self._deciding:
            late = ", ".join(str(worker.index) for worker in sorted(self.waiting, key=lambda worker: worker.index))
            self._abort(Refused(problems=(f"worker {late} did not prepare within {PREPARE_SECONDS:.0f} s",)))
            return
        for worker in self.waiting:
            worker.signal(SIGKILL)
        self.deadline = now + CHANGE_SECONDS

    def drop(self) -> None:
        """The program ends: nothing is decided any more."""
        if self._deciding and self._new is not None:
            for listener in self._new.fresh:
                listener.remove()
        self.done = True

    def _read(self, load: Callable[[], Settings]) -> _New:
        settings = load()
        if fixed := fixed_changes(self.in_force.settings, settings):
            raise ReloadRefused("\n".join(fixed))
        if part(settings.limits.clients, self.of) > self.slots:
            most = self.slots * self.of
            raise ReloadRefused(f"`limits.clients` is over {most}, which these workers have room for; start anew")
        mark = fingerprint(settings)
        fronts, fresh = bind_fronts(settings, self.in_force.fronts)
        return _New(settings=settings, fronts=fronts, fresh=fresh, mark=mark)

    def _ask(self, messages: Iterable[Message], seconds: float) -> None:
        self.waiting = set(self.workers)
        self.deadline = time.monotonic() + seconds
        for message in messages:
            for worker in self.workers:
                worker.tell(message)
        self.done = not self._deciding and not self.waiting

    def _commit(self) -> None:
        new = self._new
        if new is None:
            raise ValueError("nothing was prepared")
        self._deciding = False
        self.changed = described(self.in_force.settings, new.settings)
        before, kept = self.in_force.fronts, {listener.sock for listener in new.fronts.every}
        self.in_force.settings, self.in_force.fronts = new.settings, new.fronts
        self._keep(None)
        self._ask([Message(do=Do.COMMIT, round=self.number, began_ns=self.in_force.began_ns)], CHANGE_SECONDS)
        for listener in before.every:
            if listener.sock not in kept:
                listener.remove()

    def _abort(self, refused: Refused) -> None:
        self._deciding = False
        for listener in () if self._new is None else self._new.fresh:
            listener.remove()
        self._keep(refused)
        message = Message(
            do=Do.ABORT,
            round=self.number,
            lines=refused.problems,
            files=tuple(map(str, refused.blamed)),
            began_ns=self.in_force.began_ns,
        )
        self._ask([message], CHANGE_SECONDS)

    def _keep(self, refused: Refused | None) -> None:
        outcome = Outcome.APPLIED if refused is None else Outcome.REFUSED
        problems = () if refused is None else refused.problems
        self.in_force.last = Result(at=datetime.now(UTC), outcome=outcome, problems=problems)
        self.in_force.refused = refused

    def _ended(self, worker: Worker) -> None:
        self.waiting.discard(worker)
        self.done = not self.waiting
