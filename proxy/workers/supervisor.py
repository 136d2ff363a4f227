"""The supervisor: binds once, forks the workers, replaces those that die, and passes signals and reloads on.

One thread and no event loop, so that it can fork at any time: it waits for signals and for the workers' lines, and does
one thing after another. It opens no secret and serves nobody.
"""

import contextlib
import gc
import logging
import mmap
import os
import selectors
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

from proxy.descriptors import raise_limit
from proxy.ending import LONG_SECONDS
from proxy.fronts import Fronts, bind_fronts
from proxy.part import part
from proxy.reload import told
from proxy.settings.model import Settings
from proxy.state import StartRefused
from proxy.tls.ca import CA_CERTIFICATE
from proxy.workers.cuts import Cuts
from proxy.workers.ledger import Ledger
from proxy.workers.line import Do, LineBroken, Message, receive
from proxy.workers.places import Places
from proxy.workers.process import SIGNALS, Phase, Worker, fork
from proxy.workers.round import InForce, Round
from proxy.workers.supervised import Supervised
from proxy.workers.worker import UP_BYTES, WorkerSeat

log = logging.getLogger(__name__)

# What a worker may need beyond the grace, to cut, to record and to close (see `Listeners.close`).
_END_SECONDS: Final = 15.0
_LEAST_SLOTS: Final = 4096
_ROOM: Final = 4


@final
class Supervisor:
    """Runs `settings.workers` workers until SIGTERM.

    Raises:
        ListenFailed: an address cannot be listened on.
    """

    def __init__(self, settings: Settings, run: Supervised) -> None:
        self._do = run
        self._of = settings.workers
        fronts, _ = bind_fronts(settings, None)
        self._now = InForce(settings=settings, fronts=fronts, began_ns=time.time_ns())
        self._slots = max(_LEAST_SLOTS, _ROOM * part(settings.limits.clients, self._of))
        self._up = mmap.mmap(-1, UP_BYTES)
        self._workers: dict[int, Worker] = {}
        self._watcher: Worker | None = None
        self._places = Places(self._of)
        self._cuts = Cuts()
        self._round: Round | None = None
        self._rounds = 0
        self._wanted = False
        self._announced = False
        self._stopping = self._failed = False
        self._kill_at = 0.0
        self._tell_at: float | None = None
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()

    @property
    def settings(self) -> Settings:
        """Those in force."""
        return self._now.settings

    @property
    def fronts(self) -> Fronts:
        """Those in force."""
        return self._now.fronts

    @property
    def ca_file(self) -> Path:
        """What clients are to trust; the workers have made it."""
        return self.settings.state / CA_CERTIFICATE

    def run(self) -> int:
        """Serve until a signal, then wait for every worker. The exit code is 1 where something failed or was cut."""
        try:
            self._take_signals()
            self._tell_limit()
            # What is there now is never freed: the collector of a worker need not copy it.
            gc.collect()
            gc.freeze()
            while self._workers or not self._stopping:
                self._start_due()
                self._turn()
            if self._stopping and self._tell_at is None:
                self._do.say("stopped")
        finally:
            for worker in self._workers.values():
                worker.signal(signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            self._selector.close()
            for listener in self.fronts.every:
                listener.remove()
        return 1 if self._failed else 0

    # -- signals ------------------------------------------------------------------------------------------------------

    def _take_signals(self) -> None:
        for end in (self._woken, self._wake):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, _noted)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def _turn(self) -> None:
        """Wait for what comes next, and do it."""
        for found, _ in self._selector.select(self._patience()):
            if found.data is None:
                self._signals()
            elif not found.data.closed:
                self._hear(found.data)
        for worker in list(self._workers.values()):
            self._reap(worker)
        self._cuts.look(self.settings)
        now = time.monotonic()
        if self._round is not None:
            self._round.look(now)
            self._settle()
        if self._wanted and self._round is None:
            self._reload()
        if self._tell_at is not None and now >= self._tell_at:
            self._tell_at = None
            self._do.say("stopping")
        if self._stopping and now >= self._kill_at:
            for worker in self._workers.values():
                log.error("worker %d does not end; it is killed", worker.index)
                worker.signal(signal.SIGKILL)
            self._kill_at = now + _END_SECONDS

    def _patience(self) -> float | None:
        if self._stopping:
            until: float | None = self._kill_at if self._tell_at is None else min(self._kill_at, self._tell_at)
        elif self._round is not None:
            until = self._round.deadline
        else:
            until = self._places.next
        times = [at for at in (until, self._cuts.next) if at is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for number in self._woken.recv(4096):
                if number in (signal.SIGTERM, signal.SIGINT):
                    self._stop()
                elif number == signal.SIGHUP and not self._stopping:
                    for worker in self._workers.values():
                        worker.tell(Message(do=Do.REOPEN))
                    self._wanted = True

    def _stop(self) -> None:
        """Nobody is accepted any more, and every worker finishes what runs; the second time, at once."""
        if self._stopping:
            log.warning("stopping at once, by a second signal")
            self._failed = True
            for worker in self._workers.values():
                worker.tell(Message(do=Do.HURRY))
            self._kill_at = time.monotonic() + _END_SECONDS
            return
        self._stopping = True
        self._tell_at = time.monotonic() + LONG_SECONDS
        self._kill_at = time.monotonic() + self._do.grace + _END_SECONDS
        if self._round is not None:
            self._round.drop()
            self._round = None
        for listener in self.fronts.clients:
            listener.remove()
        for worker in self._workers.values():
            worker.signal(signal.SIGTERM)

    # -- workers ------------------------------------------------------------------------------------------------------

    def _start_due(self) -> None:
        """Start the workers that are missing. While a reload is decided nobody comes in: it would miss it."""
        for index in self._places.due(time.monotonic()):
            if not self._stopping and self._round is None:
                try:
                    self._start(index)
                except StartRefused as refused:
                    self._fail(str(refused).splitlines())

    def _start(self, index: int) -> None:
        ledger = Ledger(self._slots)
        worker = fork(index, ledger, lambda end: self._in_worker(end, ledger))
        self._places.fill(index)
        self._workers[index] = worker
        self._selector.register(worker.end, selectors.EVENT_READ, worker)

    def _in_worker(self, end: socket.socket, ledger: Ledger) -> int:
        """In the worker: let go of what is the supervisor's, and work."""
        self._selector.close()
        for sock in (self._woken, self._wake):
            sock.close()
        for other in self._workers.values():
            other.end.close()
            other.ledger.close()
        now = self._now
        seat = WorkerSeat(
            end=end,
            of=self._of,
            fronts=now.fronts,
            ledger=ledger,
            load=self._do.load,
            up=self._up,
            last=now.last,
            refused=now.refused,
            began_ns=now.began_ns,
        )
        return self._do.work(seat, now.settings)

    def _hear(self, worker: Worker) -> None:
        try:
            message = receive(worker.end)
        except LineBroken:
            # It has ended, or is no longer to be trusted.
            worker.closed = True
            self._selector.unregister(worker.end)
            if not self._stopping:
                worker.signal(signal.SIGKILL)
            return
        match message and message.do:
            case Do.READY:
                worker.phase = Phase.READY
                self._count()
            case Do.FAILED if message is not None:
                self._unready(message.lines)
            case Do.RELOAD:
                self._wanted = not self._stopping
            case Do.PREPARED | Do.REFUSED | Do.ENDED if message is not None and self._round is not None:
                self._round.answered(worker, message)

    def _count(self) -> None:
        """Keep how many serve, who watches, and whether all have begun."""
        ready = [worker for _, worker in sorted(self._workers.items()) if worker.phase is Phase.READY]
        self._up[:UP_BYTES] = len(ready).to_bytes(UP_BYTES, "little")
        if self._do.watch and ready and self._watcher is None and not self._stopping:
            self._watcher = ready[0]
            self._watcher.tell(Message(do=Do.WATCH))
        if len(ready) == self._of and not self._announced and not self._stopping:
            self._announced = True
            try:
                self._do.ready(self)
            except StartRefused as refused:
                self._fail(str(refused).splitlines())

    def _unready(self, lines: tuple[str, ...]) -> None:
        """A worker could not start: at the start of the program, that is its end."""
        if self._announced:
            for line in lines:
                self._do.say(f"error: {line}")
        elif not self._stopping:
            self._fail(lines)

    def _fail(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._do.say(f"error: {line}")
        self._failed = True
        if not self._stopping:
            self._stop()

    def _reap(self, worker: Worker) -> None:
        try:
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = worker.pid, 0
        if not pid:
            return
        code = os.waitstatus_to_exitcode(status)
        while not worker.closed:  # its last words, such as why it could not start
            self._hear(worker)
        del self._workers[worker.index]
        worker.end.close()
        self._cuts.lost(self.settings, worker.ledger.left())
        worker.ledger.close()
        if self._watcher is worker:
            self._watcher = None
        if self._round is not None:
            self._round.gone(worker)
        if self._stopping:
            self._failed = self._failed or (code != 0 and worker.phase is Phase.READY)
        else:
            self._replace(worker, code)
        self._count()

    def _replace(self, worker: Worker, code: int) -> None:
        """Another one takes its place, unless that would go on without end."""
        index = worker.index
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with {code}"
        if not self._announced:
            self._fail((f"worker {index} ended {how} before it could serve",))
            return
        now = time.monotonic()
        if not self._places.leave(index, now - worker.began, now):
            self._fail((f"worker {index} ended {how}, as often before as soon as it began; the program ends",))
            return
        self._do.say(f"warning: worker {index} ended {how}; another takes its place")

    # -- reload -------------------------------------------------------------------------------------------------------

    def _reload(self) -> None:
        """Begin a reload, once every worker that was started serves: one that is just starting would miss it."""
        workers = frozenset(self._workers.values())
        if self._stopping or not workers or any(worker.phase is not Phase.READY for worker in workers):
            return
        self._wanted = False
        self._rounds += 1
        self._round = Round(number=self._rounds, in_force=self._now, workers=workers, of=self._of, slots=self._slots)
        self._round.begin(self._do.load)
        self._settle()

    def _settle(self) -> None:
        """Say how a reload went, once every worker has heard of it."""
        if self._round is None or not self._round.done:
            return
        changed, self._round = self._round.changed, None
        refused = self._now.refused
        if refused is None:
            self._tell_limit()
            self._do.changed(self)
        for line in told(() if refused is None else refused.problems, changed):
            self._do.say(line)

    def _tell_limit(self) -> None:
        if warning := raise_limit(part(self.settings.limits.clients, self._of), self._do.upstreams):
            self._do.say(f"warning: of each worker: {warning}")


def _noted(_number: int, _frame: object) -> None:
    """The wake-up socket has it."""
