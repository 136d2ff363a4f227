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
    """Hands over what comes from a client at once, and tells when the transport is closed.

    Only what comes before the connection is ready waits in the reader, and the end.
    """

    on_data: Callable[[bytes, int], bool] | None = None
    on_lost: Callable[[], None] | None = None
    waited = 0

    def data_received(self, data: bytes) -> None:
        if self.on_data is None or not self.on_data(data, self.waited):
            self.waited += len(data)
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()
            self.on_data = self.on_lost = None


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
        reader = asyncio.StreamReader(loop=loop)
        protocol = _Accepted(reader, loop=loop)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock)
        except OSError:  # it is gone already
            sock.close()
            return
        await self._accept(served, reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def _accept(self, served: _Served, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._stopped or len(self._open) >= self.clients:
            writer.transport.abort()
            return
        connection = ClientConnection(
            self._master, reader, writer, self._master.options, self._steps, self._unsent, self.flights
        )
        protocol = writer.transport.get_protocol()
        if isinstance(protocol, _Accepted):
            protocol.on_data, protocol.on_lost = connection.received, connection.lost
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
