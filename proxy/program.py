"""The running program: state, log, policy, listeners and the chain, from start to end.

The end has one order: no request begins any more, those that run are finished or cut, each with its record, and only
then the log is closed. A second signal shortens the wait, not the order.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from addons.audit import Audit
from addons.chain import chain
from addons.front.layer import Limits
from addons.front.pick import Front
from addons.policy import Policies
from addons.ports import NO_FLIGHTS, StateUnavailable
from addons.record import Record
from proxy.connection import table
from proxy.decisionlog import FileLog, StreamLog, open_log
from proxy.decisionlog.told import Told
from proxy.decisionlog.writer import STDOUT
from proxy.descriptors import raise_limit
from proxy.ending import announced, cancelled
from proxy.fronts import Bind, Fronts, bind_fronts
from proxy.listeners import Listeners
from proxy.master import Master
from proxy.reload import ReloadRefused, Reloads
from proxy.seat import Seat, pool_part, unsent_part
from proxy.services import Prepared, Services
from proxy.settings import described, fixed_changes
from proxy.settings.model import Settings
from proxy.sockets import Listener, bind
from proxy.state import StartRefused, digest_key, private_directory
from proxy.tasks import spawn
from proxy.tls.ca import load_ca
from proxy.tls.leaves import Leaves
from proxy.unsent import Unsent
from proxy.upstream.pool import Pool, PoolLimits
from proxy.watch import Watch, files_of, named_by

if TYPE_CHECKING:
    from proxy.admin import AdminServer
    from proxy.broker.state import State

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 30.0
# A stream holds its connection for as long as it lasts, so there are more of them than of judged requests.
_STREAMS: Final = PoolLimits(per_group=1024, total=4096)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How the program is run, beside its settings.

    Attributes:
        load: reads the settings again, for a reload; blocks. None: a reload keeps them, and reads secrets anew.
        files: those that are watched beside the ones that the settings name; None: nothing is watched.
        grace: seconds that running requests have at the end.
        say: shows one line to the operator. ending: the same, for what is said of the end.
        changed: called after each reload that was applied.
        recorded: called with each record once it is in the decision log.
    """

    load: Callable[[], Settings] | None = None
    files: tuple[Path, ...] | None = None
    grace: float = GRACE_SECONDS
    say: Callable[[str], None] = lambda _line: None
    ending: Callable[[str], None] = lambda _line: None
    changed: Callable[["Program"], None] = lambda _program: None
    recorded: Callable[[Record], None] | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Settings that can take over: everything that could fail has been done, and nothing has changed.

    Attributes:
        fresh: those of `fronts` that are new.
    """

    settings: Settings
    prepared: Prepared
    fronts: Fronts
    fresh: tuple[Listener, ...]


@final
class Program:
    """One run of `grantproxy serve`, or one worker's part of it. With `terse`, refusals leave their detail out.

    `seat` is a worker's place at its supervisor, and `settings` then have its part of the limits; None: this process is
    the whole program.

    Raises:
        StartRefused: state, CA, log, a secret or an upstream's bundle cannot be had; one line each.
        ListenFailed: an address cannot be listened on.
    """

    def __init__(
        self, settings: Settings, *, terse: bool = False, running: Running | None = None, seat: Seat | None = None
    ) -> None:
        self.settings = settings
        self._seat = seat
        self._of = 1 if seat is None else seat.of
        self._terse = terse
        self._running = running = running or Running()
        directory = private_directory(settings.state)
        self.ca = load_ca(directory)
        self._key = digest_key(directory)
        self._pools = (Pool(pool_part(PoolLimits(), self._of)), Pool(pool_part(_STREAMS, self._of)))
        self._state = _state(settings)
        self.services = Services(*self._pools, self._state, self._of)
        self._policies = Policies(self.services.adopt(self.services.prepare(settings)))
        self.reloads = Reloads(running.load or (lambda: self.settings), self._apply, running.say, self._named)
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._tell_limit(settings)
        self._log: FileLog | StreamLog = open_log(
            settings.audit.path or STDOUT, state=directory, sync=settings.audit.sync
        )
        try:
            self.fronts = bind_fronts(settings, None)[0] if seat is None else seat.fronts
        except BaseException:
            self._log.close()
            raise
        self._unsent = Unsent(budget=unsent_part(settings, self._of))
        self._listeners = Listeners(
            policies=self._policies,
            limits=_limits(settings),
            certificates=Leaves(self.ca),
            clients=settings.limits.clients,
            unsent=self._unsent,
            flights=NO_FLIGHTS if seat is None else seat.flights,
        )

    @property
    def ca_file(self) -> Path:
        """What clients are to trust."""
        return self.ca.path

    async def run(self, ready: Callable[["Program"], None]) -> None:
        """Serve until SIGTERM or SIGINT, then finish what runs. `ready` is called once everything listens.

        Raises:
            SystemExit: 1, a second signal has cut what ran.
        """
        try:
            await self._serve(ready)
        finally:
            if self._seat is not None:
                self._seat.freeze()
            self._log.close()
            for listener in self.fronts.every:
                listener.remove()
        if self._hurry.is_set():
            raise SystemExit(1)

    async def _serve(self, ready: Callable[["Program"], None]) -> None:
        told = self._running.recorded
        decisions = self._log if told is None else Told(self._log, told)
        audit = Audit(decisions, self._key, self._terse, flights=self._listeners.flights)
        addons = chain(Front(self._listeners.pick), audit)
        master = Master(addons)
        work: list[asyncio.Task[None]] = []
        admin: AdminServer | None = None
        try:
            self._take_signals()
            if self._state is not None and self.settings.broker is not None:
                from proxy.store import Store  # here, as `_state`

                self._state.store = await Store.open(self.settings.broker.database)
                if twice := await self._twice(self.settings, frozenset()):
                    raise StartRefused("\n".join(twice))
            self._listeners.start(self.fronts.clients, master, table(addons))
            admin = await self._start_admin()
            if self._seat is not None:
                work.append(spawn(self._seat.serve(self), "supervisor"))
            else:
                work.append(spawn(self.reloads.run(), "reload"))
                if self._running.files is not None:
                    work.append(spawn(self.watch(self.reloads.request), "watch"))
            ready(self)
            await self._stopping.wait()
        finally:
            self._stopping.set()
            running = self._running
            async with announced(running.ending, lambda: self._listeners.active, running.grace):
                await cancelled(work)
                await self._listeners.close(running.grace, self._hurry)
                if admin is not None:
                    await admin.close()
                for pool in self._pools:
                    await pool.close()
                if self._state is not None:
                    await self._state.close()
                await master.done()

    async def _start_admin(self) -> "AdminServer | None":
        if self.fronts.admin is None:
            return None
        from proxy.admin import Admin  # here: a start without it need not wait for its libraries

        admin = Admin(
            settings=lambda: self.settings,
            decisions=self._log,
            listeners=lambda: self.fronts.clients,
            draining=self._stopping.is_set,
            reloaded=lambda: self.reloads.last,
            workers=self._workers,
        )
        return await admin.start(self.fronts.admin)

    def _workers(self) -> tuple[int, int]:
        return (1, 1) if self._seat is None else (self._seat.of, self._seat.up)

    # -- signals ------------------------------------------------------------------------------------------------------

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._signalled)
        # A terminal sends these to every process of its group: a worker hears of them by its supervisor.
        loop.add_signal_handler(signal.SIGINT, self._signalled if self._seat is None else _nothing)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up if self._seat is None else _nothing)

    def stop(self, *, hurry: bool = False) -> None:
        """Finish what runs, and end; in a `hurry`, cut it."""
        if hurry:
            self._hurry.set()
        self._stopping.set()

    def _signalled(self) -> None:
        again = self._stopping.is_set()
        if again:
            log.warning("stopping at once, by a second signal")
        self.stop(hurry=again)

    def reopen(self) -> None:
        """Open the log's path anew, so that the file can be rotated."""
        try:
            self._log.reopen()
        except Exception as error:
            log.error("the decision log was not reopened: %s", error)  # noqa: TRY400 - one line is enough

    def _hang_up(self) -> None:
        self.reopen()
        self.reloads.request()

    # -- reload -------------------------------------------------------------------------------------------------------

    async def _apply(self, settings: Settings) -> str:
        """Let new settings take over, and say what changed. Whatever fails, fails before anything has."""
        changed = described(self.settings, settings)
        self.commit(await self.prepare(settings))
        self._tell_limit(settings)
        self._running.changed(self)
        return changed

    async def prepare(self, settings: Settings, make: Bind = bind) -> Change:
        """Do all that may fail. `commit` or `abort` has to follow.

        Raises:
            ReloadRefused, StartRefused, ListenFailed: the settings cannot take over, and nothing is left behind.
        """
        if fixed := fixed_changes(self.settings, settings):
            raise ReloadRefused("\n".join(fixed))
        known = frozenset(box.name for box in self.settings.boxes)
        if twice := await self._twice(settings, known):
            raise ReloadRefused("\n".join(twice))
        prepared = await asyncio.to_thread(self.services.prepare, settings)
        fronts, fresh = bind_fronts(settings, self.fronts, make)
        return Change(settings=settings, prepared=prepared, fronts=fronts, fresh=tuple(fresh))

    def commit(self, change: Change) -> None:
        """Let what was prepared take over, between two steps of the loop."""
        settings = change.settings

        def take_over() -> None:
            self._policies.current = self.services.adopt(change.prepared)
            self.settings, self.fronts = settings, change.fronts
            self._listeners.limits = _limits(settings)
            self._listeners.clients = settings.limits.clients
            self._unsent.budget = unsent_part(settings, self._of)

        try:
            self._listeners.replace(change.fronts.clients, take_over)
        except BaseException:
            if self.fronts is not change.fronts:
                self.abort(change)
            raise

    def abort(self, change: Change) -> None:
        """Let go of what was prepared."""
        for listener in change.fresh:
            listener.remove()

    async def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when a file that the settings come from has changed, until cancelled."""
        await Watch(self._watched, lambda: self.reloads.began_ns, changed).run()

    async def _twice(self, settings: Settings, known: frozenset[str]) -> list[str]:
        """One line for each box of `settings` that is none of `known` and was added with `box add` as well. Which of
        the two a name then means, and whose its report and its grants are, would be anybody's guess.
        """
        if self._state is None or settings.broker is None:
            return []
        database = settings.broker.database
        try:
            found = await self._state.added_too(frozenset(box.name for box in settings.boxes) - known)
        except StateUnavailable as unavailable:
            return [f"database `{database}` cannot be asked for the boxes: {unavailable}; try again when it is back"]
        return [
            f"box `{name}` is in the settings and in database `{database}`; take it out of `boxes`, "
            f"or run `grantproxy box remove {name}`"
            for name in found
        ]

    def _watched(self) -> Iterable[Path]:
        return {*(self._running.files or ()), *files_of(self.settings), *self.reloads.blamed}

    def _named(self) -> frozenset[Path]:
        return frozenset().union(*(named_by(path) for path in self._running.files or ()))

    def _tell_limit(self, settings: Settings) -> None:
        if warning := raise_limit(settings.limits.clients, PoolLimits().total):
            self._running.say(f"warning: {warning}")


def _state(settings: Settings) -> "State | None":
    """What the broker remembers. Its database's libraries take time to load, so they are where there is a broker."""
    if settings.broker is None:
        return None
    from proxy.broker.state import State

    return State(settings.directory)


def _limits(settings: Settings) -> Limits:
    return Limits(head_bytes=settings.limits.header_bytes, idle=settings.limits.client_idle)


def _nothing() -> None:
    """A signal that is the supervisor's."""
