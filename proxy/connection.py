"""One client connection, run by mitmproxy, with the dispatch of our hooks and the back-pressure that it lacks."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from mitmproxy import options
from mitmproxy.master import Master
from mitmproxy.proxy import commands, mode_specs
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler

from addons.exchange import Exchange
from addons.hooks import BrokerConnectHook, BrokerHeadHook, BrokerRequestHook, BrokerTunnelHook
from addons.streams import ClientLeft, ClientSide

log = logging.getLogger(__name__)

type Step = Callable[[Exchange], Awaitable[None]]
type Table = dict[type[commands.StartHook], tuple[Step, ...]]

# How long a client may take to read an answer that is larger than its buffers.
_SLOW_READER_SECONDS: Final = 30.0


def table(addons: Sequence[object]) -> Table:
    """The steps of each of our hooks in the chain's order, looked up once and not at every request."""
    return {
        hook: tuple(getattr(addon, hook.name) for addon in addons if hasattr(addon, hook.name))
        for hook in (BrokerConnectHook, BrokerHeadHook, BrokerTunnelHook, BrokerRequestHook)
    }


async def _guarded(step: Step, exchange: Exchange) -> None:
    """Run a step. The steps fail closed by themselves; what escapes one refuses, and the last one still records."""
    try:
        await step(exchange)
    except BaseException as error:
        exchange.fault()
        log.error("%s: %s outside of the steps", exchange.id, type(error).__name__)  # noqa: TRY400 - values may be secret
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise


@final
@dataclass(frozen=True, slots=True)
class _Named:
    """What mitmproxy asks a new connection for its addresses. A Unix socket has empty ones, which it cannot print."""

    writer: asyncio.StreamWriter

    def get_extra_info(self, name: str, default: object = None) -> object:
        """None for an empty address."""
        return self.writer.get_extra_info(name, default) or default


@final
class ClientConnection(ProxyConnectionHandler):
    """mitmproxy's handler of one client connection."""

    def __init__(
        self,
        master: Master,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        opts: options.Options,
        steps: Table,
    ) -> None:
        regular = mode_specs.ProxyMode.parse("regular")
        super().__init__(master, reader, _Named(writer), opts, regular)  # type: ignore[no-untyped-call]
        self.transports[self.client].writer = writer
        self._steps = steps
        self._writer = writer
        self.active = 0
        self._side: ClientSide | None = None

    async def handle_hook(self, hook: commands.StartHook) -> None:
        """Run the chain for our hooks, and leave mitmproxy's own to it."""
        if (steps := self._steps.get(type(hook))) is None:
            await super().handle_hook(hook)
            return
        exchange: Exchange = hook.args()[0]
        self.active += 1
        try:
            with self.timeout_watchdog.disarm():
                await self._await_reader()
                self._side = exchange.side
                if exchange.side is not None:
                    exchange.side.attach(self._write, self._write_end)
                for step in steps:
                    await _guarded(step, exchange)
        finally:
            self.active -= 1

    async def drain_writers(self) -> None:
        """Called after each read from the client: read no further while enough is held, also between two requests."""
        await super().drain_writers()  # type: ignore[no-untyped-call]
        if self._side is not None:
            await self._side.room()

    async def _write(self, data: bytes) -> None:
        """Send a piece of a stream, and wait until the client has taken enough of it."""
        try:
            if self._writer.transport.is_closing():
                raise ClientLeft
            self._writer.write(data)
            async with asyncio.timeout(_SLOW_READER_SECONDS):
                await self._writer.drain()
        except (TimeoutError, OSError):
            self._writer.transport.abort()
            raise ClientLeft from None

    def _write_end(self) -> None:
        """Half-close."""
        with contextlib.suppress(OSError):
            if self._writer.can_write_eof():
                self._writer.write_eof()

    async def _await_reader(self) -> None:
        """Let the client read the answers before this one, or cut it off: nothing piles up behind a slow reader."""
        transport = self._writer.transport
        if transport.get_write_buffer_size() == 0:
            return
        try:
            async with asyncio.timeout(_SLOW_READER_SECONDS):
                await self._writer.drain()
        except (TimeoutError, OSError):
            transport.abort()

    def end(self) -> None:
        """End the connection now."""
        io = self.transports.get(self.client)
        if io is not None and io.handler is not None:
            io.handler.cancel("shutdown")

    async def run(self) -> None:
        """Handle the connection until it has ended on both sides."""
        try:
            await self.handle_client()
        finally:
            transport = self._writer.transport
            if transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(_SLOW_READER_SECONDS, transport.abort)
            self._writer.close()
