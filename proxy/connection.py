"""One client connection: its layer is run as one coroutine, which asks the chain, and what it holds is bounded.

A connection lasts until its transport is closed and its requests have been answered, whether or not the client is still
there: only then its place is free. A request that has begun ends with its record, also when it is cut.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, final

from mitmproxy.connection import Client
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import NextLayer, NextLayerHook

from addons.causes import forget
from addons.exchange import Exchange, client_left
from addons.front.inbox import Inbox
from addons.front.layer import FrontLayer
from addons.hooks import Hook
from addons.ports import NO_FLIGHTS, Flights
from addons.send import failure
from addons.streams import ClientLeft
from grants.decision import Deny, Reason
from proxy.master import Master
from proxy.tasks import spawn
from proxy.unsent import ClientWriter, Unsent
from proxy.upstream.failures import shutting_down

log = logging.getLogger(__name__)

type Step = Callable[[Exchange], Awaitable[None] | None]
type Table = dict[Hook, tuple[Step, ...]]


def table(addons: Sequence[object]) -> Table:
    """The steps of each hook in the chain's order, looked up once and not at every request."""
    return {hook: tuple(getattr(addon, hook) for addon in addons if hasattr(addon, hook)) for hook in Hook}


@final
class ClientConnection:
    """Implements `Client` of the fronts.

    Args:
        unsent: watches over what the client has not taken.
        flights: takes note of the requests from the moment that the chain is asked.

    Attributes:
        client: what mitmproxy calls it.
    """

    def __init__(
        self,
        master: Master,
        writer: asyncio.StreamWriter,
        steps: Table,
        unsent: Unsent,
        flights: Flights = NO_FLIGHTS,
    ) -> None:
        self._writer = ClientWriter(writer, unsent)
        self.client = Client(peername=self._writer.address("peername"), sockname=self._writer.address("sockname"))
        self.inbox = Inbox()
        self._master = master
        self._steps = steps
        self._flights = flights
        self._patience = unsent.patience
        self._task: asyncio.Task[None] | None = None
        # The request that the chain is asked about, and the one whose body is read since its head was allowed.
        self._asked: Exchange | None = None
        self._begun: Exchange | None = None
        # Something came since the chain was asked last.
        self._fresh = False
        self._cut = self._finished = False
        self._pausing: asyncio.Task[None] | None = None
        # Ends a stream whose client is gone.
        self._last_call: asyncio.TimerHandle | None = None

    @property
    def active(self) -> int:
        """Requests that have begun and are not answered yet."""
        return (self._asked is not None) + (self._begun is not None)

    async def run(self) -> None:
        """Run the layer that `next_layer` sets, until it ends and the transport is closed."""
        self._task = asyncio.current_task()
        try:
            found = NextLayer(Context(self.client, self._master.options))
            await self._master.addons.handle_lifecycle(NextLayerHook(found))
            if isinstance(found.layer, FrontLayer):
                await found.layer.serve(self)
        finally:
            self._begun = self._task = None
            self.inbox.close()
            if self._last_call is not None:
                self._last_call.cancel()
            if self._pausing is not None:
                self._pausing.cancel()
                self._pausing = None
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    # -- the chain ----------------------------------------------------------------------------------------------------

    async def ask(self, hook: Hook, exchange: Exchange) -> None:
        """See `Client`. A request counts from here on: between two there is no moment without one."""
        self._flights.begin(exchange)
        self._asked, self._begun = exchange, None
        try:
            await self._run((self._prepare, *self._steps[hook]), exchange)
        finally:
            self._asked = None
        if hook is Hook.HEAD and exchange.denial is None:
            self._begun = exchange
        elif hook is not Hook.CONNECT or exchange.tunnel is None:
            self._flights.done(exchange)

    async def _run(self, steps: Sequence[Step], exchange: Exchange) -> None:
        """Run every step. They fail closed by themselves; what escapes one refuses, and the last one still records."""
        for step in steps:
            try:
                waits = step(exchange)
                if waits is not None:
                    await waits
            except BaseException as error:
                forget(error)
                exchange.fault()
                log.error("%s: %s outside of the steps", exchange.id, type(error).__name__)  # noqa: TRY400 - values may be secret
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
            if self._cut:
                _tell_cut(exchange)

    async def _prepare(self, exchange: Exchange) -> None:
        """Hold a request back until the client has read the answers before, and refuse it where nobody waits for it.

        A tunnel that is open has its record, and ends by itself. A request that was sent ahead lets other connections
        go first, however little there is to wait for.
        """
        there = True
        try:
            if not self._fresh:
                await asyncio.sleep(0)
            if self._writer.unsent:
                await self._writer.drain()
        except (OSError, asyncio.CancelledError):
            there = False
        self._fresh = False
        there = there and not self._writer.is_closing()
        if self._cut:
            _tell_cut(exchange)
            exchange.deny(_cut())
            exchange.close = True
            if exchange.tunnel is not None:
                await exchange.tunnel.close()
        elif not there and not exchange.opened:
            exchange.deny(client_left())
        if not there:
            self._forsake()

    def _cancel(self, asked: str) -> None:
        """Cancel what the chain does for a request. It ends with a refusal, and the connection with it."""
        if self._task is not None and self._asked is not None and self._asked.id == asked:
            self._task.cancel()

    # -- from the client ----------------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Bytes came. The event loop may bring megabytes in one turn, so it is stopped at once where enough is held."""
        self._fresh = True
        try:
            if said := self.inbox.received(data):
                self.send(said)
        except Exception as error:
            log.error("%s while a connection was handled; it is closed", type(error).__name__)  # noqa: TRY400 - values may be secret
            self.abort()
            return
        if (self._writer.unsent or self.inbox.full) and self._pausing is None:
            self._writer.pause_reading()
            self._pausing = spawn(self._resume(), "the pause of a client connection")

    async def _resume(self) -> None:
        """Read on when little enough is held, in both directions."""
        try:
            await self._writer.drain()
        except OSError:
            self.end()
        await self.inbox.room()
        self._pausing = None
        self._writer.resume_reading()

    def ended(self) -> None:
        """The client sends nothing more, and may still read."""
        self.inbox.end()

    def lost(self) -> None:
        """The transport is closed."""
        self.inbox.end()
        self._forsake()

    def _forsake(self) -> None:
        """Nobody is there. A stream that does not notice by itself is not left to its own limits."""
        channel = self.inbox.channel
        if channel is not None and self._asked is not None:
            channel.gone()
            if self._last_call is not None:
                self._last_call.cancel()
            loop = asyncio.get_running_loop()
            self._last_call = loop.call_later(self._patience, self._cancel, self._asked.id)

    # -- to the client ------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """See `Client`."""
        if not self._writer.is_closing():
            self._writer.write(data)

    async def write(self, data: bytes) -> None:
        """See `Client`."""
        if self._writer.is_closing():
            raise ClientLeft
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            raise ClientLeft from None
        if self._writer.is_closing():
            raise ClientLeft

    def finish(self) -> None:
        """See `Client`."""
        self._finished = True
        with contextlib.suppress(OSError):
            if self._writer.can_write_eof() and not self._writer.is_closing():
                self._writer.write_eof()

    # -- the end ------------------------------------------------------------------------------------------------------

    def retire(self) -> None:
        """End the connection if nothing runs on it, nothing is to be sent, and no client is still reading the end."""
        if not self.active and not self._writer.unsent and not self._finished:
            self.cut()

    def cut(self) -> None:
        """End what runs on it; each request leaves its record."""
        if self._asked is None:
            # A request that has not come whole is refused, for the record, since nothing more of it is read.
            self.inbox.end()
        elif not self._cut:
            self._cancel(self._asked.id)
        self._cut = True

    def abort(self) -> None:
        """Close the transport, whatever is not sent."""
        self.end()
        self._writer.abort()

    def end(self) -> None:
        """End the connection; what was written is still sent."""
        self._writer.close()
        self.inbox.end()


_BY_A_CUT: Final = frozenset({Reason.FAULT, Reason.SHUTDOWN, Reason.CLIENT_LEFT, Reason.TLS_CLIENT})
"""What a cut looks like to those that it hits."""


def _cut() -> Deny:
    return failure(shutting_down(), None)


def _tell_cut(exchange: Exchange) -> None:
    """A step that was cut calls it a fault, a front that reads no more an end by the client: say what it was.

    The end of a stream is no refusal.
    """
    if exchange.denial is None or exchange.denial.reason not in _BY_A_CUT:
        return
    exchange.denial = None if exchange.opened else _cut()
