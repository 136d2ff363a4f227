"""The forwarder inside: each connection is one to the proxy's socket, byte for byte, each side ending for itself."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.relays import free_port

from proxy.run.inside import listen

type Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def through(
    folder: Path, serve: Serve | None, talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]
) -> bytes:
    """What `talk` gets on a port whose connections `serve` answers at the socket behind it."""

    async def run() -> bytes:
        path, port = folder / "s", free_port()
        servers = [] if serve is None else [await asyncio.start_unix_server(serve, path)]
        servers.append(await listen(port, str(path)))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await asyncio.wait_for(talk(reader, writer), 20)
        finally:
            writer.close()
            for server in servers:
                server.close()
            await asyncio.sleep(0.05)  # what was open ends

    return asyncio.run(run())


def test_large_bodies_pass_both_ways(tmp_path: Path) -> None:
    """More than any buffer holds, unchanged; the end of what one side says is not the end of what it hears."""
    data = bytes(range(256)) * 40_000

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        whole = await reader.read()  # until the client has said all
        writer.write(whole)
        await writer.drain()
        writer.close()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(data)
        writer.write_eof()
        return await reader.read()

    assert through(tmp_path, echo, talk) == data


def test_pieces_pass_as_they_come(tmp_path: Path) -> None:
    """A stream is not held back: each piece is there before the next is asked for."""

    async def one_by_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1):
            writer.write(b"piece")
        writer.close()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        found = b""
        for _ in range(3):
            writer.write(b"?")
            found += await reader.readexactly(5)
        return found

    assert through(tmp_path, one_by_one, talk) == b"piece" * 3


@pytest.mark.parametrize("there", [True, False], ids=["it-breaks-off", "nobody-listens"])
def test_a_connection_that_breaks_off(tmp_path: Path, there: bool) -> None:
    """It ends for the client as well."""

    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""

    assert through(tmp_path, break_off if there else None, talk) == b""


def test_it_listens_for_its_own_loopback_alone(tmp_path: Path) -> None:
    """No other address of the machine answers on the port."""

    async def run() -> None:
        port = free_port()
        async with await listen(port, str(tmp_path / "s")):
            with socket.socket() as sock, pytest.raises(ConnectionRefusedError):
                sock.connect(("127.0.0.2", port))

    asyncio.run(run())
