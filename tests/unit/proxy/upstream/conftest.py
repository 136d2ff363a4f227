"""Certificates and event loops for the upstream client's tests."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trustme
import uvloop

from proxy.upstream import Trust

type Drive = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def drive(request: pytest.FixtureRequest) -> Drive:
    """Run a coroutine on each kind of event loop; what the loop reports as unhandled fails the test."""
    factory = asyncio.SelectorEventLoop if request.param == "asyncio" else uvloop.new_event_loop
    reported: list[dict[str, Any]] = []

    async def guarded(coroutine: Coroutine[Any, Any, None]) -> None:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 60
        loop.set_exception_handler(lambda _, context: reported.append(context))
        async with asyncio.timeout(60):
            await coroutine

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(guarded(coroutine))
        assert reported == []

    return run


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    names = ("api.example", "other.example", "localhost", "127.0.0.1", "::1")
    authority.issue_cert(*names, key_type=trustme.KeyType.ECDSA).configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@pytest.fixture(scope="session")
def trust(authority: trustme.CA) -> Trust:
    return Trust.only(authority.cert_pem.bytes())
