"""An upstream in the test's own event loop, one coroutine a connection, so that a test says what happens when.

Unlike `support.upstream`, which runs beside the program, nothing here happens between two awaits of the test.
"""

import asyncio
import contextlib
import re
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self


class Stream:
    """One connection, seen from the upstream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.reader = reader
        self.writer = writer
        self.number = number
        self.requests: list[bytes] = []

    async def request(self) -> bytes:
        """The next request with its body, as it came; nothing when the connection ended before it."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            found = re.search(rb"\r\nContent-Length: (\d+)\r\n", head)
            body = await self.reader.readexactly(int(found[1])) if found else b""
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            return b""
        self.requests.append(head + body)
        return head + body

    async def send(self, *pieces: bytes) -> None:
        """Send each piece in a TLS record of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await asyncio.sleep(0)

    def cut(self) -> None:
        """End the TCP connection without a word of TLS."""
        self.writer.transport.abort()

    def end(self) -> None:
        """End the connection as TLS does."""
        self.writer.close()


type Script = Callable[[Stream], Awaitable[None]]


class Peer:
    """A TLS upstream on loopback that runs `script` for each connection."""

    def __init__(self, context: ssl.SSLContext | None, script: Script, host: str = "127.0.0.1") -> None:
        self._context = context
        self._script = script
        self._host = host
        self._tasks: set[asyncio.Task[None]] = set()
        self.streams: list[Stream] = []
        self.open = 0
        self.most_open = 0

    @property
    def requests(self) -> list[bytes]:
        """All requests of all connections."""
        return [request for stream in self.streams for request in stream.requests]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._run, self._host, 0, ssl=self._context, backlog=512)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.sleep(0.005)  # connections that are being accepted
        self._server.close()
        for stream in self.streams:
            stream.cut()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.sleep(0.01)

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        stream = Stream(reader, writer, len(self.streams) + 1)
        self.streams.append(stream)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            with contextlib.suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
                await self._script(stream)
        finally:
            self.open -= 1
            self._tasks.discard(task)
            if not writer.is_closing():
                stream.cut()
