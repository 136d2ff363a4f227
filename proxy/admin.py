"""The admin listener: is the program alive, and may it be sent requests?

`/healthz` answers while the program runs; `/readyz` says whether every listener is bound and the decision log can be
written, names each endpoint with its assurance, and tells how the last reload went. Loopback only, and not for web
pages. Its connections are few, and one that asks nothing is closed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast, final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from addons.where import cross_site
from grants.canonical import parse_authority
from grants.message import Authority, RequestHead
from proxy.reload import Result
from proxy.settings.model import Settings, TcpListen, UnixListen
from proxy.sockets import Listener

_MOST_CONNECTIONS: Final = 64
_SILENT_SECONDS: Final = 10.0
_KEPT_SECONDS: Final = 5.0


class Watched(Protocol):
    """The decision log, as it is looked after."""

    @property
    def trouble(self) -> str:
        """Why it cannot be written now, and what helps; empty where it can."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """Answers from what it is handed; holds no state of its own.

    Attributes:
        settings: gives the endpoints in force.
        draining: the program is about to end.
        reloaded: the last reload, if there was one.
        workers: how many processes are to share the work, and how many do now.
        silent: seconds in which a connection asks something, or is closed.
        most: connections at one time.
    """

    settings: Callable[[], Settings]
    decisions: Watched
    listeners: Callable[[], tuple[Listener, ...]]
    draining: Callable[[], bool]
    reloaded: Callable[[], Result | None]
    workers: Callable[[], tuple[int, int]] = lambda: (1, 1)
    silent: float = _SILENT_SECONDS
    most: int = _MOST_CONNECTIONS

    async def healthz(self, request: web.Request) -> web.Response:
        """The program runs."""
        return web.json_response({"status": "ok"})

    async def readyz(self, request: web.Request) -> web.Response:
        """The program can serve."""
        problems = []
        if trouble := self.decisions.trouble:
            problems.append(trouble)
        if self.draining():
            problems.append("the program is stopping")
        listeners = [{"setting": listener.setting, "address": str(listener.address)} for listener in self.listeners()]
        endpoints = [
            {
                "name": endpoint.name,
                "assurance": endpoint.assurance,
                "upstream": str(endpoint.upstream),
                "grant": endpoint.grant.digest if endpoint.grant is not None else None,
            }
            for endpoint in self.settings().endpoints
        ]
        # While one is being replaced the others serve every listener, so the program stays ready.
        wanted, up = self.workers()
        document = {
            "status": "ready" if not problems else "not ready",
            "problems": problems,
            "listeners": listeners,
            "endpoints": endpoints,
            "workers": {"wanted": wanted, "up": up},
            "reload": _reload(self.reloaded()),
        }
        return web.json_response(document, status=503 if problems else 200)

    async def start(self, listener: Listener) -> "AdminServer":
        """Serve on a bound socket. The caller closes what this returns."""
        app = web.Application(middlewares=[_same_site(listener)], client_max_size=0)
        app.router.add_get("/healthz", self.healthz)
        app.router.add_get("/readyz", self.readyz)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, keepalive_timeout=_KEPT_SECONDS)
        door = _Door(runner, most=self.most, silent=self.silent)
        app.on_response_prepare.append(door.asked)
        await runner.setup()
        loop = asyncio.get_running_loop()
        if isinstance(listener.address, UnixListen):
            server = await loop.create_unix_server(door.enter, sock=listener.sock)
        else:
            server = await loop.create_server(door.enter, sock=listener.sock)
        return AdminServer(runner=runner, server=server, door=door)


def _reload(last: Result | None) -> dict[str, object] | None:
    if last is None:
        return None
    at = last.at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"at": at, "outcome": last.outcome, "problems": list(last.problems)}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AdminServer:
    """The running listener."""

    runner: web.AppRunner
    server: asyncio.AbstractServer
    door: "_Door"

    async def close(self) -> None:
        """Accept nothing more, and close what is open."""
        self.server.close()
        self.door.close()
        await self.runner.cleanup()


@final
class _Door:
    """Counts connections, and closes those that ask nothing."""

    def __init__(self, runner: web.AppRunner, *, most: int, silent: float) -> None:
        self.most = most
        self.silent = silent
        self.inside: set[_Visit] = set()
        self._runner = runner

    def enter(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        server = self._runner.server
        return _Visit(self, None if server is None else server())

    async def asked(self, request: web.Request, _response: web.StreamResponse) -> None:
        """A request is answered: its connection has its time anew."""
        for visit in self.inside:
            if visit.handler is request.protocol:
                visit.wait()

    def close(self) -> None:
        """Close every connection."""
        for visit in list(self.inside):
            visit.cut()


@final
class _Visit(asyncio.Protocol):
    """Passes everything on to `handler`, which is aiohttp's."""

    def __init__(self, door: _Door, handler: asyncio.Protocol | None) -> None:
        self.handler = handler
        self._door = door
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        if self.handler is None or len(self._door.inside) >= self._door.most:
            self.handler = None
            self.cut()
            return
        self._door.inside.add(self)
        self.wait()
        self.handler.connection_made(transport)

    def wait(self) -> None:
        """From now on it has so many seconds."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._door.silent, self.cut)

    def cut(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.inside.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self.handler is not None:
            self.handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.handler is not None:
            self.handler.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self.handler is None else self.handler.eof_received()

    def pause_writing(self) -> None:
        if self.handler is not None:
            self.handler.pause_writing()

    def resume_writing(self) -> None:
        if self.handler is not None:
            self.handler.resume_writing()


def _same_site(listener: Listener) -> Middleware:
    """Refuse what a web page of another site makes a browser send."""
    address = listener.address

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if isinstance(address, TcpListen):
            ours = {Authority(host=name, port=address.port) for name in (address.host, "localhost")}
            hosts = request.headers.getall("Host", [])
            named = (
                parse_authority(hosts[0].encode("utf-8", "surrogateescape"), scheme="http") if len(hosts) == 1 else None
            )
            if named not in ours or named is None:
                return web.json_response({"rule": "misdirected", "reason": "host-mismatch"}, status=421)
            head = RequestHead(method=b"GET", target=b"/", fields=request.raw_headers)
            if cross_site(head, named, "http") is not None:
                return web.json_response({"rule": "denied", "reason": "cross-site"}, status=403)
        return await handler(request)

    return middleware
