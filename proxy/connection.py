"""One client connection, run by mitmproxy, with the dispatch of our hooks and the back-pressure that it lacks.

A connection lasts until its transport is closed and its hooks have ended, whether or not the client is still there:
only then its place is free. A hook that has begun ends with its record, also when it is cut.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, final

from mitmproxy import options
from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import commands, events, mode_specs
from mitmproxy.proxy.server import LiveConnectionHandler
from mitmproxy.proxy.server_hooks import ClientConnectedHook, ClientDisconnectedHook

from addons.exchange import Exchange, client_left
from addons.front.channel import Channel
from addons.front.layer import FrontLayer
from addons.hooks import BrokerConnectHook, BrokerHeadHook, BrokerRequestHook, BrokerTunnelHook, ExchangeHook
from addons.ports import NO_FLIGHTS, Flights
from addons.send import failure
from addons.streams import ClientLeft, ClientSide
from grants.decision import Deny, Reason
from proxy.idle import Idle
from proxy.master import Master
from proxy.tasks import spawn
from proxy.unsent import ClientWriter, Unsent
from proxy.upstream.failures import shutting_down

log = logging.getLogger(__name__)

type Step = Callable[[Exchange], Awaitable[None] | None]
type Table = dict[type[commands.StartHook], tuple[Step, ...]]

_OURS: Final = (BrokerConnectHook, BrokerHeadHook, BrokerTunnelHook, BrokerRequestHook)


def table(addons: Sequence[object]) -> Table:
    """The steps of each of our hooks in the chain's order, looked up once and not at every request.

    mitmproxy's hooks of every connection are in it where no addon has a step for them: nobody need be asked.
    """
    steps = {
        hook: tuple(getattr(addon, hook.name) for addon in addons if hasattr(addon, hook.name))
        for hook in (*_OURS, ClientConnectedHook, ClientDisconnectedHook)
    }
    return {hook: found for hook, found in steps.items() if hook in _OURS or not found}


@final
class ClientConnection(LiveConnectionHandler):
    """mitmproxy's handler of one client connection.

    Args:
        unsent: watches over what the client has not taken.
        flights: takes note of the requests from the moment that the chain is asked.
    """

    def __init__(
        self,
        master: Master,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        opts: options.Options,
        steps: Table,
        unsent: Unsent,
        flights: Flights = NO_FLIGHTS,
    ) -> None:
        self._writer = ClientWriter(writer, unsent)
        regular = mode_specs.ProxyMode.parse("regular")
        super().__init__(reader, self._writer, opts, regular)  # type: ignore[arg-type]  # it stands in for one
        self._idle = Idle(opts.tcp_timeout, self.on_timeout, lambda: bool(self._tasks))
        self.timeout_watchdog = self._idle  # type: ignore[assignment]  # stands in for mitmproxy's
        self._master = master
        self._steps = steps
        self._flights = flights
        self._patience = unsent.patience
        self._side: ClientSide | None = None
        # Hooks that a layer asked for, from that moment on; those of them that can be cut.
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[asyncio.Task[Any]] = set()
        self._cut = self._ending = False
        self._begun: Exchange | None = None
        self._front: FrontLayer | None = None
        self._quiet: asyncio.Future[None] | None = None
        # Bytes that the layer had by way of the reader.
        self._read = 0
        self._pausing: asyncio.Task[None] | None = None

    # -- hooks --------------------------------------------------------------------------------------------------------

    @property
    def active(self) -> int:
        """Requests that have begun and are not answered yet."""
        return len(self._tasks) + (self._begun is not None)

    async def server_event(self, event: events.Event) -> None:
        """See `ConnectionHandler`. Nothing in it waits, so no event comes in the middle of another."""
        if isinstance(event, events.DataReceived):
            self._read += len(event.data)
        self._handle(event)

    def _handle(self, event: events.Event) -> None:
        """Carry out what the layer makes of an event."""
        self._carry_out(self.layer.handle_event(event))

    def _carry_out(self, asked: Iterable[commands.Command]) -> None:
        """Do what a layer asks for. mitmproxy's own does the same for every protocol it knows."""
        self._idle.touch()
        try:
            for command in asked:
                if isinstance(command, commands.SendData):
                    # The connection may have been closed meanwhile.
                    if self.client in self.transports and not self._writer.is_closing():
                        self._writer.write(command.data)
                elif isinstance(command, commands.StartHook):
                    self._start(command)
                elif isinstance(command, commands.RequestWakeup):
                    self.wakeup_timer.add(spawn(self.wakeup(command), "a deadline of a client connection"))
                elif isinstance(command, commands.CloseConnection):
                    if self.client in self.transports:
                        half = isinstance(command, commands.CloseTcpConnection) and command.half_close
                        self.close_connection(self.client, half)
                else:
                    raise TypeError(f"{type(command).__name__} is nothing that a front asks for")
        except Exception as error:
            log.error("%s while a connection was handled; it is closed", type(error).__name__)  # noqa: TRY400 - values may be secret
            self.abort()

    def _start(self, hook: commands.StartHook) -> None:
        """Answer a hook in a task of its own, counted from now: between two requests there is no moment without one."""
        if isinstance(hook, ExchangeHook):
            self._flights.begin(hook.exchange)
            if isinstance(hook.blocking, FrontLayer):
                # From the first request on, its layer is known to be past all that mitmproxy has before it.
                self._front = hook.blocking
        task = spawn(self._answer(hook), hook.name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks and self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

    async def _answer(self, hook: commands.StartHook) -> None:
        await self.handle_hook(hook)
        if isinstance(hook, ExchangeHook) and self._front is not None:
            self._carry_out(self._front.answered())
        else:
            self._handle(events.HookCompleted(hook))

    async def handle_hook(self, hook: commands.StartHook) -> None:
        """Run the chain for our hooks, and leave mitmproxy's own to it."""
        steps = self._steps.get(type(hook))
        if not isinstance(hook, ExchangeHook) or steps is None:
            if steps is None:
                await self._master.addons.handle_lifecycle(hook)
            return
        exchange = hook.exchange
        self._begun = None
        task = asyncio.current_task()
        if task is not None:
            self._running.add(task)
        try:
            await self._prepare(exchange, tunnel=isinstance(hook, BrokerTunnelHook))
            await self._run(steps, exchange)
        finally:
            if task is not None:
                self._running.discard(task)
        if isinstance(hook, BrokerHeadHook) and exchange.denial is None:
            self._begun = exchange
        elif not isinstance(hook, BrokerConnectHook) or exchange.tunnel is None:
            self._flights.done(exchange)

    async def _run(self, steps: Iterable[Step], exchange: Exchange) -> None:
        """Run every step. They fail closed by themselves; what escapes one refuses, and the last one still records."""
        for step in steps:
            try:
                waits = step(exchange)
                if waits is not None:
                    await waits
            except BaseException as error:
                exchange.fault()
                log.error("%s: %s outside of the steps", exchange.id, type(error).__name__)  # noqa: TRY400 - values may be secret
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
            if self._cut:
                _tell_cut(exchange)

    async def _prepare(self, exchange: Exchange, *, tunnel: bool) -> None:
        """Hold a request back until the client has read the answers before, and refuse it where nobody waits for it."""
        there = not self._writer.is_closing()
        if self._writer.unsent:
            try:
                await self._writer.drain()
                there = not self._writer.is_closing()
            except (OSError, asyncio.CancelledError):
                there = False
        if self._cut:
            exchange.deny(_cut())
            exchange.close = True
            if exchange.tunnel is not None:
                await exchange.tunnel.close()
        elif not there and not tunnel:
            exchange.deny(client_left())
        self._side = exchange.side
        if exchange.side is not None:
            exchange.side.attach(self._write, self._write_end)
            if not there:
                self.lost()

    def received(self, data: bytes, waited: int) -> bool:
        """Take what came from the client, past mitmproxy's reader; False where it has to wait its turn there.

        That is so until the layer is known that bounds what it holds. The event loop may bring megabytes in one turn.
        `waited` are the bytes that went into the reader so far: what is still in it goes first.
        """
        front, side = self._front, self._side
        if front is None or waited > self._read or self._pausing is not None:
            return False
        if self.client in self.transports:
            self._carry_out(front.data(data))
        if self._writer.unsent or front.full or (side is not None and side.full):
            self._writer.pause_reading()
            self._pausing = spawn(self._resume(), "the pause of a client connection")
        return True

    async def _resume(self) -> None:
        await self.drain_writers()
        self._pausing = None
        self._writer.resume_reading()

    async def drain_writers(self) -> None:
        """Called after each read from the client: read no further while enough is held, also between two requests."""
        if self._writer.unsent or self._writer.is_closing():
            await super().drain_writers()  # type: ignore[no-untyped-call]
        if self._front is not None:
            await self._front.room()
        if self._side is not None:
            await self._side.room()

    async def _write(self, data: bytes) -> None:
        """Send a piece of a stream, and wait until the client has taken enough of it."""
        if self._writer.is_closing():
            raise ClientLeft
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            raise ClientLeft from None
        if self._writer.is_closing():
            raise ClientLeft

    def _write_end(self) -> None:
        """Half-close."""
        with contextlib.suppress(OSError):
            if self._writer.can_write_eof():
                self._writer.write_eof()

    # -- the end ------------------------------------------------------------------------------------------------------

    def lost(self) -> None:
        """The transport is closed. A stream that does not notice by itself is not left to its own limits."""
        if isinstance(self._side, Channel) and self._running:
            self._side.gone()
            asyncio.get_running_loop().call_later(self._patience, self._cancel, set(self._running))

    def _cancel(self, tasks: set[asyncio.Task[Any]]) -> None:
        for task in tasks & self._running:
            task.cancel()

    def retire(self) -> None:
        """End the connection if nothing runs on it, nothing is to be sent, and no client is still reading the end."""
        lingers = self.client.state is ConnectionState.CAN_READ
        if not self.active and not self._writer.unsent and not lingers:
            self.end()

    def cut(self) -> None:
        """End what runs on it; each request leaves its record."""
        if not self._cut:
            self._cut = True
            self._cancel(set(self._running))
        if not self._tasks:
            # A request whose body has not come yet is refused, for the record, by the end of the connection.
            self.end()

    def abort(self) -> None:
        """Close the transport, whatever is not sent."""
        self.end()
        self._writer.abort()

    def end(self) -> None:
        """End the connection; what was written is still sent."""
        io = self.transports.get(self.client)
        if not self._ending and io is not None and io.handler is not None:
            self._ending = True
            io.handler.cancel("shutdown")

    async def run(self) -> None:
        """Handle the connection until its transport is closed and its hooks have ended."""
        try:
            await self.handle_client()
        finally:
            self._begun = None
            if self._pausing is not None:
                self._pausing.cancel()
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
            if self._tasks:
                self._quiet = asyncio.get_running_loop().create_future()
                await self._quiet


def _cut() -> Deny:
    return failure(shutting_down(), None)


def _tell_cut(exchange: Exchange) -> None:
    """A step that was cut calls it a fault: say what it was. The end of a stream is no refusal."""
    if exchange.denial is None or exchange.denial.reason not in (Reason.FAULT, Reason.SHUTDOWN):
        return
    exchange.denial = None if exchange.opened else _cut()
