"""The admin listener: is the program alive, and may it be sent requests?

`/healthz` answers while the program runs; `/readyz` says whether every listener is bound and the decision log can be
written, and names each endpoint with its assurance. Loopback only, and not for web pages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from addons.ports import DecisionLog
from addons.where import cross_site
from grants.canonical import parse_authority
from grants.message import Authority, RequestHead
from proxy.listeners import Listener
from proxy.settings.model import Settings, TcpListen


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """Answers from what it is handed; holds no state of its own.

    Attributes:
        settings: gives the endpoints in force.
        draining: the program is about to end.
    """

    settings: Callable[[], Settings]
    decisions: DecisionLog
    listeners: Callable[[], tuple[Listener, ...]]
    draining: Callable[[], bool]

    async def healthz(self, request: web.Request) -> web.Response:
        """The program runs."""
        return web.json_response({"status": "ok"})

    async def readyz(self, request: web.Request) -> web.Response:
        """The program can serve."""
        problems = []
        if not self.decisions.writable:
            problems.append("the decision log cannot be written")
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
        document = {
            "status": "ready" if not problems else "not ready",
            "problems": problems,
            "listeners": listeners,
            "endpoints": endpoints,
        }
        return web.json_response(document, status=503 if problems else 200)

    async def start(self, listener: Listener) -> web.AppRunner:
        """Serve on a bound socket. The caller cleans the runner up."""
        app = web.Application(middlewares=[_same_site(listener)], client_max_size=0)
        app.router.add_get("/healthz", self.healthz)
        app.router.add_get("/readyz", self.readyz)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        await web.SockSite(runner, listener.sock).start()
        return runner


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
