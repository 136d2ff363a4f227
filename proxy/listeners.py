"""Connections of clients: accepted on each listener, given their layer, and known until they have ended."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, final

from mitmproxy.proxy.layer import Layer, NextLayer

from addons.exchange import Arrival
from addons.front.base_url import BaseUrlLayer
from addons.front.connect import ConnectLayer
from addons.front.layer import Limits
from addons.policy import Policies
from addons.ports import NO_FLIGHTS, Certificates, Flights
from addons.record import Mode
from grants.message import Authority
from proxy.acceptor import Acceptor
from proxy.connection import ClientConnection, Table
from proxy.master import Master
from proxy.settings.model import TcpListen
from proxy.sockets import Listener
from proxy.tasks import spawn
from proxy.unsent import Unsent

log = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.02
_CUT_SECONDS: Final = 5.0
# For the answers to what was cut, and for what a client that reads was owed.
_FLUSH_SECONDS: Final = 1.0


class _Accepted(asyncio.StreamReaderProtocol):
    """Hands what comes from a client to its connection at once, and tells it when the transport is closed."""

    def __init__(self, connect: Callable[[asyncio.StreamWriter], ClientConnection]) -> None:
        self._loop = asyncio.get_running_loop()
        # The writer hears by it how the transport ended. Nothing else is ever in it.
        self._reader = asyncio.StreamReader(loop=self._loop)
        super().__init__(self._reader, loop=self._loop)
        self._connect = connect
        self.connection: ClientConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        writer = asyncio.StreamWriter(transport, self, self._reader, self._loop)  # type: ignore[arg-type]  # it is one that writes
        self.connection = self._connect(writer)

    def data_received(self, data: bytes) -> None:
        if self.connection is not None:
            self.connection.received(data)

    def eof_received(self) -> bool:
        if self.connection is not None:
            self.connection.ended()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        # How it was lost does not matter, and an error that was raised to the writer would keep the connection.
        super().connection_lost(None)
        if self.connection is not None:
            self.connection.lost()
            self.connection = None


@dataclass(slots=True)
class _Served:
    """A listener that accepts; its setting and endpoint may change."""

    listener: Listener
    acceptor: Acceptor


@final
class Listeners:
    """Accepts connections, gives each its layer, and knows those that are open.

    Attributes:
        limits: of connections that are accepted from now on.
        clients: the most connections at one time.
        flights: takes note of what is in flight.
    """

    def __init__(
        self,
        *,
        policies: Policies,
        limits: Limits,
        certificates: Certificates,
        clients: int,
        unsent: Unsent | None = None,
        flights: Flights = NO_FLIGHTS,
    ) -> None:
        self.limits = limits
        self.flights = flights
        self.clients = clients
        self._policies = policies
        self._certificates = certificates
        self._unsent = unsent or Unsent()
        self._open: dict[str, tuple[ClientConnection, Listener]] = {}
        self._served: dict[socket.socket, _Served] = {}
        self._stopped = False

    def pick(self, nextlayer: NextLayer) -> Layer | None:
        """The layer of a new connection, by its listener. The last argument of the chain's `Front`."""
        found = self._open.get(nextlayer.context.client.id)
        if found is None:
            return None
        connection, listener = found
        peer = connection.client.peername[0] if connection.client.peername else None
        if listener.endpoint is None and not listener.broker:
            return ConnectLayer(nextlayer.context, self.limits, self._policies, peer, self._certificates)
        address = listener.address
        sockname = connection.client.sockname
        # A listener on every address is called by the one that this connection came to.
        authority = (
            Authority(host=sockname[0], port=sockname[1]) if isinstance(address, TcpListen) and sockname else None
        )
        mode = Mode.BROKER if listener.broker else Mode.TERMINATE
        arrival = Arrival(mode=mode, peer=peer, service=listener.endpoint, authority=authority)
        return BaseUrlLayer(nextlayer.context, self.limits, self._policies, arrival)

    def start(self, listeners: Iterable[Listener], master: Master, steps: Table) -> None:
        """Accept connections on every listener."""
        self._master, self._steps = master, steps
        self.replace(listeners, lambda: None)

    def replace(self, listeners: Iterable[Listener], commit: Callable[[], None]) -> None:
        """Accept on these from now on, and no longer on others, which are closed; what is open goes on.

        `commit` is called when nothing can fail any more, before the first connection comes in by a new listener.
        """
        wanted = {listener.sock: listener for listener in listeners}
        opened: list[_Served] = []
        try:
            for sock, listener in wanted.items():
                if sock not in self._served:
                    opened.append(self._serve(listener))
            commit()
        except BaseException:
            for served in opened:
                served.acceptor.stop()
            raise
        # The loop runs nothing between here and the readers that were added: no connection has come in yet.
        for sock, served in list(self._served.items()):
            if sock in wanted:
                served.listener = wanted[sock]
            else:
                del self._served[sock]
                served.acceptor.stop()
                served.listener.remove()
        self._served.update((served.listener.sock, served) for served in opened)

    def _serve(self, listener: Listener) -> _Served:
        def take(sock: socket.socket) -> None:
            if self._stopped or len(self._open) >= self.clients:
                # Over the limit there is no room for a request, so nothing is read and nothing recorded.
                sock.close()
            else:
                spawn(self._enter(served, sock), "a client connection")

        served = _Served(listener, Acceptor(listener.sock, take))
        served.acceptor.start()
        return served

    async def _enter(self, served: _Served, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()

        def connect(writer: asyncio.StreamWriter) -> ClientConnection:
            return ClientConnection(self._master, writer, self._steps, self._unsent, self.flights)

        try:
            _, protocol = await loop.connect_accepted_socket(lambda: _Accepted(connect), sock)
        except OSError:  # it is gone already
            sock.close()
            return
        if protocol.connection is not None:
            await self._accept(served, protocol.connection)

    async def _accept(self, served: _Served, connection: ClientConnection) -> None:
        if self._stopped or len(self._open) >= self.clients:
            connection.end()
            return
        key = connection.client.id
        self._open[key] = (connection, served.listener)
        try:
            await connection.run()
        finally:
            del self._open[key]

    @property
    def open(self) -> int:
        """Client connections that are open, or whose requests are still being answered."""
        return len(self._open)

    @property
    def active(self) -> int:
        """Requests that are being answered."""
        return sum(connection.active for connection, _ in self._open.values())

    def stop(self) -> None:
        """Accept nothing more; what is open goes on."""
        self._stopped = True
        for served in self._served.values():
            served.acceptor.stop()
            served.listener.remove()
        self._served.clear()

    async def close(self, grace: float, hurry: asyncio.Event | None = None) -> None:
        """Stop, wait up to `grace` seconds for what runs, then cut it. When this returns, every request is recorded.

        No request begins any more. `hurry` ends the wait.
        """
        self._policies.draining = True
        self.stop()
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while self._open and loop.time() < end and not (hurry is not None and hurry.is_set()):
            for connection, _ in list(self._open.values()):
                connection.retire()
            await asyncio.sleep(_TICK_SECONDS)
        await self._cut_all()

    async def _cut_all(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + _CUT_SECONDS
        while self.active and loop.time() < end:
            for connection, _ in list(self._open.values()):
                connection.cut()
            await asyncio.sleep(_TICK_SECONDS)
        if self.active:
            log.error("%d requests did not end when they were cut, and leave no record", self.active)
        end = loop.time() + _FLUSH_SECONDS
        while self._open and loop.time() < end:
            for connection, _ in list(self._open.values()):
                connection.retire()
            await asyncio.sleep(_TICK_SECONDS)
        for connection, _ in list(self._open.values()):
            connection.abort()
        if self._open:
            await asyncio.sleep(_TICK_SECONDS)
