"""Client connections to the fronts, for tests that run the proxy in their own event loop."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest
from support.running import Running
from support.waits import HANG_SECONDS


@dataclass
class Talk:
    """One client connection to a front, and the Host that it names."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: bytes

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes, bytes]:
        """Status, head and body of the next answer."""
        async with asyncio.timeout(HANG_SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            status = int(head.split(b" ")[1])
            return status, head, await self.reader.readexactly(length if status not in (100, 204) else 0)

    async def ask(self, data: bytes) -> tuple[int, bytes, bytes]:
        await self.send(data)
        return await self.answer()

    async def flood(self) -> None:
        """Send on until the proxy objects."""
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                await self.send(b"x" * 65536)

    async def rest(self) -> bytes:
        """Everything until the proxy ends the connection."""
        async with asyncio.timeout(HANG_SECONDS):
            try:
                return await self.reader.read()
            except (ConnectionError, ssl.SSLError):
                return b""


@asynccontextmanager
async def base(proxy: Running) -> AsyncIterator[Talk]:
    """A connection to the base URL."""
    reader, writer = await asyncio.open_connection(*proxy.base)
    try:
        yield Talk(reader, writer, b"127.0.0.1:%d" % proxy.base[1])
    finally:
        writer.close()


@asynccontextmanager
async def tunnel(proxy: Running, fields: bytes = b"") -> AsyncIterator[Talk]:
    """A connection through the forward proxy, TLS done. `fields` go with CONNECT."""
    origin = proxy.service.upstream
    reader, writer = await asyncio.open_connection(*proxy.proxy)
    try:
        talk = Talk(reader, writer, b"%s:%d" % (origin.host.encode(), origin.port))
        connect = b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n" % (talk.host, talk.host)
        status, _, _ = await talk.ask(connect + fields + b"\r\n")
        assert status == 200
        context = ssl.create_default_context(cafile=str(proxy.ca))
        await writer.start_tls(context, server_hostname=origin.host)
        yield talk
    finally:
        writer.close()


FRONTS = [pytest.param(base, id="base URL"), pytest.param(tunnel, id="forward proxy")]
both = pytest.mark.parametrize("front", FRONTS)
type FrontFactory = Callable[[Running], AbstractAsyncContextManager[Talk]]


@asynccontextmanager
async def raw(address: tuple[str, int]) -> AsyncIterator[Talk]:
    """A connection on which nothing is said yet."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield Talk(reader, writer, b"")
    finally:
        writer.close()
