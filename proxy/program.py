"""The running program: state, log, policy, listeners and the chain, from start to end.

The end has one order: no request begins any more, those that run are finished or cut, each with its record, and only
then the log is closed. A second signal shortens the wait, not the order.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from addons.audit import Audit
from addons.chain import chain
from addons.front.layer import Limits
from addons.front.pick import Front
from addons.policy import Policies
from proxy.admin import Admin, AdminServer
from proxy.broker.state import State
from proxy.connection import table
from proxy.decisionlog import FileLog, StreamLog, open_log
from proxy.decisionlog.writer import STDOUT
from proxy.descriptors import raise_limit
from proxy.listeners import Listener, Listeners, bind
from proxy.master import make_master
from proxy.reload import ReloadRefused, Reloads
from proxy.services import Services
from proxy.settings import fixed_changes
from proxy.settings.model import Listen, Settings
from proxy.state import digest_key, private_directory
from proxy.store import Store
from proxy.tasks import spawn
from proxy.tls.ca import load_ca
from proxy.tls.leaves import Leaves
from proxy.unsent import Unsent
from proxy.upstream.pool import Pool, PoolLimits
from proxy.watch import Watch, named_by

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 30.0
_UNSENT_BYTES: Final = 256 * 1024 * 1024
_UNSENT_ANSWERS: Final = 8
# A stream holds its connection for as long as it lasts, so there are more of them than of judged requests.
_STREAMS: Final = PoolLimits(per_group=1024, total=4096)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fronts:
    """Bound sockets by what they serve."""

    proxy: Listener | None
    endpoints: tuple[Listener, ...]
    admin: Listener | None
    broker: Listener | None = None

    @property
    def clients(self) -> tuple[Listener, ...]:
        """Those that agents call."""
        single = (self.proxy, self.broker)
        return (*(listener for listener in single if listener is not None), *self.endpoints)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How the program is run, beside its settings.

    Attributes:
        load: reads the settings again, for a reload; blocks. None: a reload keeps them, and reads secrets anew.
        files: those that are watched beside the ones that the settings name; None: nothing is watched.
        grace: seconds that running requests have at the end.
        say: shows one line to the operator.
        changed: called after each reload that was applied.
    """

    load: Callable[[], Settings] | None = None
    files: tuple[Path, ...] | None = None
    grace: float = GRACE_SECONDS
    say: Callable[[str], None] = lambda _line: None
    changed: Callable[["Program"], None] = lambda _program: None


@final
class Program:
    """One run of `grantproxy serve`. With `terse`, refusals leave their detail out.

    Raises:
        StartRefused: state, CA, log, a secret or an upstream's bundle cannot be had; one line each.
        ListenFailed: an address cannot be listened on.
    """

    def __init__(self, settings: Settings, *, terse: bool = False, running: Running | None = None) -> None:
        self.settings = settings
        self._terse = terse
        self._running = running = running or Running()
        directory = private_directory(settings.state)
        self.ca = load_ca(directory)
        self._key = digest_key(directory)
        self._pools = (Pool(), Pool(_STREAMS))
        self._state = None if settings.broker is None else State(settings.directory)
        self._services = Services(*self._pools, self._state)
        self._policies = Policies(self._services.adopt(self._services.prepare(settings)))
        self._reloads = Reloads(running.load or (lambda: self.settings), self._apply, running.say, self._named)
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._tell_limit(settings)
        self._log: FileLog | StreamLog = open_log(
            settings.audit.path or STDOUT, state=directory, sync=settings.audit.sync
        )
        try:
            self.fronts, _ = _bind(settings, None)
        except BaseException:
            self._log.close()
            raise
        self._unsent = Unsent(budget=_unsent_bytes(settings))
        self._listeners = Listeners(
            policies=self._policies,
            limits=_limits(settings),
            certificates=Leaves(self.ca),
            clients=settings.limits.clients,
            unsent=self._unsent,
        )

    async def run(self, ready: Callable[["Program"], None]) -> None:
        """Serve until SIGTERM or SIGINT, then finish what runs. `ready` is called once everything listens.

        Raises:
            SystemExit: 1, a second signal has cut what ran.
        """
        try:
            await self._serve(ready)
        finally:
            self._log.close()
            for listener in _every(self.fronts):
                listener.remove()
        if self._hurry.is_set():
            raise SystemExit(1)

    async def _serve(self, ready: Callable[["Program"], None]) -> None:
        audit = Audit(self._log, self._key, self._terse)
        addons = chain(Front(self._listeners.pick), audit)
        master = make_master(addons)
        work: list[asyncio.Task[None]] = []
        admin: AdminServer | None = None
        try:
            self._take_signals()
            if self._state is not None and self.settings.broker is not None:
                self._state.store = await Store.open(self.settings.broker.database)
            self._listeners.start(self.fronts.clients, master, table(addons))
            admin = await self._start_admin()
            work.append(spawn(self._reloads.run(), "reload"))
            if self._running.files is not None:
                watch = Watch(self._watched, lambda: self._reloads.began_ns, self._reloads.request)
                work.append(spawn(watch.run(), "watch"))
            ready(self)
            await self._stopping.wait()
        finally:
            self._stopping.set()
            await _end(work)
            await self._listeners.close(self._running.grace, self._hurry)
            if admin is not None:
                await admin.close()
            for pool in self._pools:
                await pool.close()
            if self._state is not None:
                await self._state.close()
            await master.done()

    async def _start_admin(self) -> AdminServer | None:
        if self.fronts.admin is None:
            return None
        admin = Admin(
            settings=lambda: self.settings,
            decisions=self._log,
            listeners=lambda: self.fronts.clients,
            draining=self._stopping.is_set,
            reloaded=lambda: self._reloads.last,
        )
        return await admin.start(self.fronts.admin)

    # -- signals ------------------------------------------------------------------------------------------------------

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)

    def _stop(self) -> None:
        if self._stopping.is_set():
            log.warning("stopping at once, by a second signal")
            self._hurry.set()
        self._stopping.set()

    def _hang_up(self) -> None:
        """SIGHUP: open the log's path anew, so that the file can be rotated, and reload."""
        try:
            self._log.reopen()
        except Exception as error:
            log.error("the decision log was not reopened: %s", error)  # noqa: TRY400 - one line is enough
        self._reloads.request()

    # -- reload -------------------------------------------------------------------------------------------------------

    async def _apply(self, settings: Settings) -> None:
        """Let new settings take over. Whatever fails, fails before anything has changed."""
        if fixed := fixed_changes(self.settings, settings):
            raise ReloadRefused("\n".join(fixed))
        prepared = await asyncio.to_thread(self._services.prepare, settings)
        fronts, fresh = _bind(settings, self.fronts)

        def commit() -> None:
            self._policies.current = self._services.adopt(prepared)
            self.settings, self.fronts = settings, fronts
            self._listeners.limits = _limits(settings)
            self._listeners.clients = settings.limits.clients
            self._unsent.budget = _unsent_bytes(settings)

        try:
            self._listeners.replace(fronts.clients, commit)
        except BaseException:
            if self.fronts is not fronts:
                for listener in fresh:
                    listener.remove()
            raise
        self._tell_limit(settings)
        self._running.changed(self)

    def _watched(self) -> Iterable[Path]:
        named = (path for endpoint in self.settings.endpoints for path in (endpoint.grant_path, endpoint.ca))
        secrets = () if self.settings.broker is None else self.settings.broker.secrets
        found = {*(self._running.files or ()), *(path for path in named if path is not None)}
        found |= {secret.grant_path for secret in secrets if secret.grant_path is not None}
        return found | self._reloads.blamed

    def _named(self) -> frozenset[Path]:
        return frozenset().union(*(named_by(path) for path in self._running.files or ()))

    def _tell_limit(self, settings: Settings) -> None:
        if warning := raise_limit(settings.limits.clients, PoolLimits().total):
            self._running.say(f"warning: {warning}")


async def _end(work: Sequence[asyncio.Task[None]]) -> None:
    for task in work:
        task.cancel()
    if work:
        await asyncio.wait(work)


def _limits(settings: Settings) -> Limits:
    return Limits(head_bytes=settings.limits.header_bytes, idle=settings.limits.client_idle)


def _every(fronts: Fronts) -> tuple[Listener, ...]:
    return fronts.clients if fronts.admin is None else (*fronts.clients, fronts.admin)


def _unsent_bytes(settings: Settings) -> int:
    return max(_UNSENT_BYTES, _UNSENT_ANSWERS * settings.limits.body_bytes)


def _bind(settings: Settings, old: Fronts | None) -> tuple[Fronts, list[Listener]]:
    """The sockets of `settings`, those of `old` that serve on among them, and which are new: all of them, or none."""
    kept = [] if old is None else list(old.clients)
    fresh: list[Listener] = []

    def have(listen: Listen, setting: str, endpoint: str | None = None, *, broker: bool = False) -> Listener:
        for listener in kept:
            if listener.serves(listen, endpoint, broker=broker):
                kept.remove(listener)
                return listener.renamed(setting, endpoint, broker=broker)
        fresh.append(bind(listen, setting=setting, endpoint=endpoint, broker=broker))
        return fresh[-1]

    try:
        admin = None if old is None else old.admin
        if old is None and settings.admin is not None:
            admin = have(settings.admin, "admin")
        proxy = None if settings.proxy is None else have(settings.proxy, "proxy")
        broker = None if settings.broker is None else have(settings.broker.listen, "broker.listen", broker=True)
        endpoints = tuple(
            have(endpoint.listen, f"endpoints[{number}].listen", endpoint.name)
            for number, endpoint in enumerate(settings.endpoints)
            if endpoint.listen is not None
        )
    except BaseException:
        for listener in fresh:
            listener.remove()
        raise
    return Fronts(proxy=proxy, endpoints=endpoints, admin=admin, broker=broker), fresh
