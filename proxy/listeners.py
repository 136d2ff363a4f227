"""Listening sockets and the connections that come in by them.

Sockets are bound before anything else starts, so that an address in use stops the start and names its setting.
"""

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from mitmproxy.master import Master
from mitmproxy.proxy.layer import Layer, NextLayer

from addons.exchange import Arrival
from addons.front.base_url import BaseUrlLayer
from addons.front.connect import ConnectLayer
from addons.front.layer import Limits
from addons.policy import Policies
from addons.ports import Certificates
from addons.record import Mode
from grants.message import Authority
from proxy.connection import ClientConnection, Table
from proxy.settings.model import Listen, TcpListen, UnixListen

_BACKLOG: Final = 1024


class ListenFailed(Exception):
    """An address cannot be listened on. The text names it, its setting and the remedy."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A bound socket.

    Attributes:
        setting: the setting that asks for it, for messages.
        endpoint: the endpoint of a base URL, or None for the forward proxy.
        address: where it really listens (a port 0 is a real one here).
    """

    setting: str
    endpoint: str | None
    address: Listen
    sock: socket.socket = field(repr=False)

    def remove(self) -> None:
        """Close the socket, and take its name out of the file system."""
        self.sock.close()
        if isinstance(self.address, UnixListen):
            self.address.path.unlink(missing_ok=True)


def bind(listen: Listen, *, setting: str, endpoint: str | None = None) -> Listener:
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
    if isinstance(listen, TcpListen):
        address = TcpListen(host=listen.host, port=sock.getsockname()[1])
    return Listener(setting=setting, endpoint=endpoint, address=address, sock=sock)


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


@final
class Listeners:
    """Accepts connections, gives each its layer, and knows those that are open."""

    def __init__(self, *, policies: Policies, limits: Limits, certificates: Certificates, clients: int) -> None:
        self._policies = policies
        self._limits = limits
        self._certificates = certificates
        self._clients = clients
        self._open: dict[str, tuple[ClientConnection, Listener]] = {}
        self._servers: list[asyncio.Server] = []
        self._pick = {True: self._proxy_layer, False: self._base_url_layer}

    def pick(self, nextlayer: NextLayer) -> Layer | None:
        """The layer of a new connection, by its listener. The last argument of the chain's `Front`."""
        found = self._open.get(nextlayer.context.client.id)
        if found is None:
            return None
        connection, listener = found
        peer = connection.client.peername[0] if connection.client.peername else None
        return self._pick[listener.endpoint is None](nextlayer, listener, peer)

    def _proxy_layer(self, nextlayer: NextLayer, listener: Listener, peer: str | None) -> Layer:
        return ConnectLayer(nextlayer.context, self._limits, self._policies, peer, self._certificates)

    def _base_url_layer(self, nextlayer: NextLayer, listener: Listener, peer: str | None) -> Layer:
        address = listener.address
        authority = Authority(host=address.host, port=address.port) if isinstance(address, TcpListen) else None
        arrival = Arrival(mode=Mode.TERMINATE, peer=peer, service=listener.endpoint, authority=authority)
        return BaseUrlLayer(nextlayer.context, self._limits, self._policies, arrival)

    async def start(self, listeners: Iterable[Listener], master: Master, steps: Table) -> None:
        """Accept connections on every listener."""
        for listener in listeners:
            accept = self._accept(listener, master, steps)
            if isinstance(listener.address, UnixListen):
                server = await asyncio.start_unix_server(accept, sock=listener.sock)
            else:
                server = await asyncio.start_server(accept, sock=listener.sock)
            self._servers.append(server)

    def _accept(
        self, listener: Listener, master: Master, steps: Table
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], "asyncio.Future[None] | None"]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self._open) >= self._clients:
                # Over the limit there is no room for a request, so nothing is read and nothing recorded.
                writer.transport.abort()
                return
            connection = ClientConnection(master, reader, writer, master.options, steps)
            key = connection.client.id
            self._open[key] = (connection, listener)
            try:
                await connection.run()
            finally:
                del self._open[key]

        return accept  # type: ignore[return-value]

    @property
    def open(self) -> int:
        """Client connections that are open."""
        return len(self._open)

    @property
    def active(self) -> int:
        """Requests that are being answered."""
        return sum(connection.active for connection, _ in self._open.values())

    def stop(self) -> None:
        """Accept nothing more; what is open goes on."""
        for server in self._servers:
            server.close()

    async def close(self, grace: float) -> None:
        """Stop, wait up to `grace` seconds for running requests, then end every connection."""
        self.stop()
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while self.active and loop.time() < end:  # noqa: ASYNC110 - at the end of the program only
            await asyncio.sleep(0.05)
        for connection, _ in list(self._open.values()):
            connection.end()
