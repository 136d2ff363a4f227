"""Listening sockets and the connections that come in by them.

Sockets are bound before anything else starts, so that an address in use stops the start and names its setting.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, final

from mitmproxy.master import Master
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
from proxy.settings.model import Listen, TcpListen, UnixListen
from proxy.tasks import spawn
from proxy.unsent import Unsent

log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_TICK_SECONDS: Final = 0.02
_CUT_SECONDS: Final = 5.0
# For the answers to what was cut, and for what a client that reads was owed.
_FLUSH_SECONDS: Final = 1.0


class ListenFailed(Exception):
    """An address cannot be listened on. The text names it, its setting and the remedy."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A bound socket.

    Attributes:
        setting: the setting that asks for it, for messages.
        endpoint: the endpoint of a base URL, or None for the forward proxy and the admin listener.
        asked: the address as the settings have it.
        address: where it really listens (a port 0 is a real one here).
        broker: it is the broker's.
        made: tells a Unix socket from another one that has taken its path since.
    """

    setting: str
    endpoint: str | None
    asked: Listen
    address: Listen
    sock: socket.socket = field(repr=False)
    made: tuple[int, ...] | None = field(default=None, repr=False)
    broker: bool = False

    def remove(self) -> None:
        """Close the socket, and take its name out of the file system if it is still there."""
        self.sock.close()
        if isinstance(self.address, UnixListen):
            with contextlib.suppress(OSError):
                if _made(self.address.path) == self.made:
                    self.address.path.unlink()

    def serves(self, listen: Listen, endpoint: str | None, *, broker: bool = False) -> bool:
        """Whether it can go on for this setting. Where the port is any, each endpoint has its own."""
        if isinstance(listen, TcpListen) and listen.port == 0:
            return self.asked == listen and self.endpoint == endpoint and self.broker == broker
        return self.asked == listen

    def renamed(self, setting: str, endpoint: str | None, *, broker: bool = False) -> "Listener":
        """The same socket, for this setting."""
        return replace(self, setting=setting, endpoint=endpoint, broker=broker)


def bind(listen: Listen, *, setting: str, endpoint: str | None = None, broker: bool = False) -> Listener:
    """Bind and listen.

    Raises:
        ListenFailed: the address is in use or cannot be had.
    """
    try:
        sock = _unix(listen.path) if isinstance(listen, UnixListen) else _tcp(listen)
        sock.listen(_BACKLOG)
    except OSError as error:
        raise ListenFailed(_explain(listen, setting, error)) from None
    sock.setblocking(False)
    address: Listen = listen
    made = None
    if isinstance(listen, TcpListen):
        address = TcpListen(host=listen.host, port=sock.getsockname()[1])
    else:
        made = _made(listen.path)
    return Listener(
        setting=setting, endpoint=endpoint, asked=listen, address=address, sock=sock, made=made, broker=broker
    )


def _made(path: Path) -> tuple[int, ...]:
    """An inode's number alone may be used again."""
    found = path.lstat()
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _tcp(listen: TcpListen) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in listen.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((listen.host, listen.port))
    except OSError:
        sock.close()
        raise
    return sock


def _unix(path: Path) -> socket.socket:
    """A socket for the owner only. One that a dead process left is replaced, a live one is not."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                try:
                    probe.connect(str(path))
                except ConnectionRefusedError:
                    path.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        sock.bind(str(path))
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(mask)
    return sock


def _explain(listen: Listen, setting: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"`{listen}` (setting `{setting}`) is in use; stop what listens there or choose another port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"`{listen}` (setting `{setting}`) may not be listened on by this user; choose a port above 1023"
    return f"`{listen}` (setting `{setting}`) cannot be listened on: {os.strerror(error.errno or 0).lower()}"


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
