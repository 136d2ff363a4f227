"""The sample API: a small tracker over TLS on loopback, some of whose answers are faulty on purpose.

It runs on an event loop in a thread of its own and counts what reaches it, so that the demo can show that a refused
call did not.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self, final

from aiohttp import web

_ISSUES = [
    {"id": 7, "title": "the handle squeaks", "state": "open"},
    {"id": 9, "title": "paint flakes off", "state": "open"},
]


@final
class SampleApi:
    """Serve while the `with` block runs.

    Attributes:
        requests: how many requests came in.
        credentials: each `Authorization` value that came in.
        port: where it listens on 127.0.0.1.
    """

    def __init__(self, certificate: Path) -> None:
        self.requests = 0
        self.credentials: set[str] = set()
        self.port = 0
        self._certificate = certificate
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sample API", daemon=True)
        self._runner: web.AppRunner | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        application = web.Application(middlewares=[self._count])
        application.add_routes(
            [
                web.get("/repos/acme/widgets", _repository),
                web.get("/repos/acme/old-widgets", _moved),
                web.get("/repos/acme/widgets/archive", _elsewhere),
                web.get("/repos/acme/widgets/issues", _issues),
                web.post("/repos/acme/widgets/issues", _create),
                web.get("/faulty/echo", _echo),
                web.get("/faulty/escaped", _escaped),
                web.get("/faulty/large", _large),
                web.get("/faulty/status", _accepted),
                web.get("/faulty/page", _page),
            ]
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.port = self._runner.addresses[0][1]

    @web.middleware
    async def _count(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.requests += 1
        self.credentials.add(request.headers.get("Authorization", ""))
        return await handler(request)


async def _repository(request: web.Request) -> web.Response:
    return web.json_response({"id": 1, "name": "widgets", "stars": 42})


async def _moved(request: web.Request) -> web.Response:
    return web.Response(status=301, headers={"Location": "/repos/acme/widgets"})


async def _elsewhere(request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "https://files.example/acme/widgets.tar.gz"})


async def _issues(request: web.Request) -> web.Response:
    return web.json_response({"total_count": len(_ISSUES), "items": _ISSUES})


async def _create(request: web.Request) -> web.Response:
    await request.read()
    return web.json_response({"id": 10, "url": "/repos/acme/widgets/issues/10"}, status=201)


async def _echo(request: web.Request) -> web.Response:
    return web.json_response({"id": 1}, headers={"X-Debug": request.headers.get("Authorization", "")})


async def _escaped(request: web.Request) -> web.Response:
    """The credential with its first letter written as a JSON escape: other bytes, the same string."""
    sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
    escaped = f"\\u{ord(sent[0]):04x}{sent[1:]}" if sent else ""
    return web.Response(text=f'{{"id": 1, "note": "{escaped}"}}', content_type="application/json")


async def _large(request: web.Request) -> web.Response:
    return web.Response(text=json.dumps({"id": 1, "note": "x" * 100_000}), content_type="application/json")


async def _accepted(request: web.Request) -> web.Response:
    return web.json_response({"id": 1}, status=202)


async def _page(request: web.Request) -> web.Response:
    return web.Response(text="<h1>please sign in</h1>", content_type="text/html")
