"""Resolves, judges and connects, in this order and once each: the address that was judged is the one dialled.

Every answer of the resolver is judged, and one that may not be dialled refuses the whole name: a name that points
inside for one answer in two is an attack, or a mistake to be told.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import final

from addons.causes import forget
from addons.record import TlsCause
from grants.addresses import is_address, is_inside, is_loopback
from grants.message import Authority, Origin

from .connection import Connection
from .failures import fault, inside_address, timed_out, unreachable, unresolved, untrusted
from .handshake import cause_of
from .trust import Trust

type Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Addresses of a host for a port, as text, the preferred one first."""

_MAX_ATTEMPTS = 8
_SHUTDOWN_SECONDS = 1.0


class Reach(Enum):
    """Which addresses a connection may be made to."""

    OUTSIDE = auto()
    LOOPBACK = auto()
    """Outside, and loopback: the operator wrote `localhost`."""
    ANYWHERE = auto()
    """The operator wrote the address, or lets the name resolve to an inside one."""


def reach_of(origin: Origin | Authority, consented: frozenset[tuple[str, int]], *, allow_inside: bool) -> Reach:
    """What the operator consented to for `origin` ("Inside addresses" in the docs).

    `consented` are the hosts and ports that were written as an address or as `localhost`: consent for exactly those.
    `allow_inside` is about names only.
    """
    literal = is_address(origin.host)
    if (origin.host, origin.port) in consented:
        if literal:
            return Reach.ANYWHERE
        if origin.host == "localhost":
            return Reach.LOOPBACK
    return Reach.ANYWHERE if allow_inside and not literal else Reach.OUTSIDE


async def resolve(host: str, port: int) -> Sequence[str]:
    """The system resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(sockaddr[0]) for *_, sockaddr in found]


async def judged_addresses(origin: Origin | Authority, reach: Reach, resolver: Resolver) -> Sequence[str]:
    """The addresses of `origin`, all of them within `reach`, each once.

    Raises:
        UpstreamFailed: there is none, or one is out of reach.
    """
    addresses: Sequence[str] = (origin.host,)
    if not is_address(origin.host):
        failed = False
        try:
            addresses = tuple(dict.fromkeys(await resolver(origin.host, origin.port)))
        except Exception:
            # gaierror, a name that IDNA or the system cannot encode, whatever a resolver raises: all the same to us.
            failed = True
        if failed or not addresses:
            raise unresolved()
    if not all(_within(address, reach) for address in addresses):
        raise inside_address()
    return addresses


def _within(address: str, reach: Reach) -> bool:
    match reach:
        case Reach.OUTSIDE:
            return not is_inside(address)
        case Reach.LOOPBACK:
            return is_loopback(address) or not is_inside(address)
        case Reach.ANYWHERE:
            return True


async def dial(
    origin: Origin | Authority,
    reach: Reach,
    trust: Trust | None,
    connection: Connection,
    *,
    resolver: Resolver,
    deadline: float,
) -> None:
    """Make `connection` a connection to `origin` before `deadline` (the loop's time).

    It is a verified TLS connection where there is a trust; plain TCP without one, which an `https` origin never gets.

    Raises:
        UpstreamFailed: no connection; nothing is left open.
    """
    if trust is None and isinstance(origin, Origin) and origin.scheme != "http":
        raise fault()
    try:
        async with asyncio.timeout_at(deadline):
            addresses = await judged_addresses(origin, reach, resolver)
            stream = await _connect(addresses[:_MAX_ATTEMPTS], origin.port, deadline)
            if trust is None:
                await _open(stream, connection)
            else:
                await _secure(stream, origin.host, trust, connection, deadline)
            return
    except TimeoutError:
        connection.abort()
    except BaseException:
        connection.abort()
        raise
    # Here and not above, so that it carries nothing of the cause.
    raise timed_out()


async def _connect(addresses: Sequence[str], port: int, deadline: float) -> socket.socket:
    """A TCP connection to the first address that takes one; each gets its share of the time that is left."""
    loop = asyncio.get_running_loop()
    timeout = False
    for index, address in enumerate(addresses):
        share = (deadline - loop.time()) / (len(addresses) - index)
        stream = None
        try:
            stream = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            stream.setblocking(False)
            async with asyncio.timeout(share):
                await loop.sock_connect(stream, (address, port))
            with contextlib.suppress(OSError):
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return stream
        except TimeoutError:
            timeout = True
        except OSError:
            timeout = False
        except BaseException:
            if stream is not None:
                stream.close()
            raise
        if stream is not None:
            stream.close()
    raise timed_out() if timeout else unreachable()


async def _open(stream: socket.socket, protocol: asyncio.Protocol) -> asyncio.Transport:
    """Make `stream` the transport of `protocol`."""
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.create_connection(lambda: protocol, sock=stream)
    except asyncio.CancelledError:
        stream.close()
        raise
    except Exception:
        stream.close()
        transport = None
    if transport is None:
        raise unreachable()
    return transport


@final
class _Silent(asyncio.Protocol):
    """Has a connection until TLS is on it; a server that speaks before that speaks no TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # by the call that makes it

    def data_received(self, data: bytes) -> None:
        self._transport.abort()


async def _secure(stream: socket.socket, host: str, trust: Trust, connection: Connection, deadline: float) -> None:
    """TLS to `host` on `stream`: server name for a name, the certificate's address for an address (RFC 6125)."""
    loop = asyncio.get_running_loop()
    below = await _open(stream, _Silent())
    failed: TlsCause | None = None
    try:
        transport = await loop.start_tls(
            below,
            connection,
            trust.context,
            server_hostname=host,
            # Longer than our own deadline, which speaks first.
            ssl_handshake_timeout=max(1.0, deadline - loop.time() + 1.0),
            ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        if transport is None:
            failed = TlsCause.CLOSED
        else:
            connection.tls_made(transport, below)
            if transport.get_extra_info("ssl_object").selected_alpn_protocol() not in (None, "http/1.1"):
                failed = TlsCause.PROTOCOL
    except asyncio.CancelledError:
        connection.abort()
        below.abort()
        raise
    except Exception as error:
        # ssl.SSLError, a reset in the handshake, a host that is no server name: TLS to that name did not come about.
        connection.abort()
        below.abort()
        forget(error)
        failed = cause_of(error)
    if failed is not None:
        connection.abort()
        raise untrusted(failed)
