"""The running program: state, log, policy, listeners and the chain, from start to end."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from aiohttp import web

from addons.audit import Audit
from addons.chain import chain
from addons.front.layer import Limits
from addons.front.pick import Front
from addons.policy import Policies
from proxy.admin import Admin
from proxy.connection import table
from proxy.decisionlog import FileLog, StreamLog, open_log
from proxy.decisionlog.writer import STDOUT
from proxy.listeners import Listener, Listeners, bind
from proxy.master import make_master
from proxy.services import Services
from proxy.settings.model import Settings
from proxy.state import digest_key, private_directory
from proxy.tls.ca import load_ca
from proxy.tls.leaves import Leaves
from proxy.upstream.pool import Pool

log = logging.getLogger(__name__)

_GRACE_SECONDS: Final = 30.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fronts:
    """Bound sockets by what they serve."""

    proxy: Listener | None
    endpoints: tuple[Listener, ...]
    admin: Listener | None

    @property
    def clients(self) -> tuple[Listener, ...]:
        """Those that agents call."""
        return self.endpoints if self.proxy is None else (self.proxy, *self.endpoints)


@final
class Program:
    """One run of `grantproxy serve`.

    Raises:
        StartRefused: state, CA, log, a secret or an upstream's bundle cannot be had; one line each.
        ListenFailed: an address cannot be listened on.
    """

    def __init__(self, settings: Settings, *, terse: bool = False) -> None:
        self.settings = settings
        self._terse = terse
        directory = private_directory(settings.state)
        self.ca = load_ca(directory)
        self._key = digest_key(directory)
        self._pool = Pool()
        self._policy = Services(self._pool).policy(settings)
        self.fronts = _bind(settings)
        self._log: FileLog | StreamLog = open_log(
            settings.audit.path or STDOUT, state=directory, sync=settings.audit.sync
        )
        self._stopping = False

    async def run(self, ready: Callable[["Program"], None]) -> None:
        """Serve until SIGTERM or SIGINT, then finish what runs. `ready` is called once everything listens."""
        policies = Policies(self._policy)
        limits = Limits(head_bytes=self.settings.limits.header_bytes, idle=self.settings.limits.client_idle)
        listeners = Listeners(
            policies=policies, limits=limits, certificates=Leaves(self.ca), clients=self.settings.limits.clients
        )
        audit = Audit(self._log, self._key, self._terse)
        addons = chain(Front(listeners.pick), audit)
        master = make_master(addons)
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, stopped)
        loop.add_signal_handler(signal.SIGHUP, self._rotate)
        await listeners.start(self.fronts.clients, master, table(addons))
        runner = await self._start_admin()
        try:
            ready(self)
            await stopped.wait()
            await listeners.close(_GRACE_SECONDS)
        finally:
            if runner is not None:
                await runner.cleanup()
            await self._pool.close()
            await master.done()
            self._log.close()
            for listener in self.fronts.clients:
                listener.remove()

    async def _start_admin(self) -> web.AppRunner | None:
        if self.fronts.admin is None:
            return None
        admin = Admin(
            settings=lambda: self.settings,
            decisions=self._log,
            listeners=lambda: self.fronts.clients,
            draining=lambda: self._stopping,
        )
        return await admin.start(self.fronts.admin)

    def _stop(self, stopped: asyncio.Event) -> None:
        if self._stopping:
            log.warning("stopped at once by a second signal")
            self._log.close()
            sys.exit(1)
        self._stopping = True
        stopped.set()

    def _rotate(self) -> None:
        """SIGHUP: open the log's path anew, so that the file can be rotated."""
        try:
            self._log.reopen()
        except Exception as error:
            log.error("the decision log was not reopened: %s", error)  # noqa: TRY400 - one line is enough


def _bind(settings: Settings) -> Fronts:
    return Fronts(
        proxy=None if settings.proxy is None else bind(settings.proxy, setting="proxy"),
        endpoints=tuple(
            bind(endpoint.listen, setting=f"endpoints[{number}].listen", endpoint=endpoint.name)
            for number, endpoint in enumerate(settings.endpoints)
            if endpoint.listen is not None
        ),
        admin=None if settings.admin is None else bind(settings.admin, setting="admin"),
    )
