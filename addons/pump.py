"""Carries raw bytes both ways between a client and an upstream, until both have ended or one has failed."""

import asyncio
from typing import Protocol

from .causes import expected, first
from .exchange import Exchange
from .ports import UpstreamFailed
from .record import EndedBy
from .streams import ClientChannel, ClientLeft, UpstreamStream


class Readable(Protocol):
    """A side that is read piece by piece."""

    async def read(self) -> bytes:
        """The next piece; empty at the end."""
        ...


async def read_within(side: Readable, idle: float) -> bytes:
    """The next piece, or `ClientLeft` after `idle` seconds of nothing."""
    try:
        async with asyncio.timeout(idle):
            return await side.read()
    except TimeoutError:
        raise ClientLeft from None


async def pump(
    exchange: Exchange, client: ClientChannel, upstream: UpstreamStream, *, idle: float, total: float | None
) -> EndedBy:
    """Carry bytes both ways and count them. A side's end is passed on to the other (half-close).

    `idle` seconds without a byte either way end it, and so do `total` seconds in all. Returns the side that ended it.
    """
    ends: list[EndedBy] = []
    loop = asyncio.get_running_loop()
    last = loop.time()

    async def up() -> None:
        nonlocal last
        while piece := await client.read():
            last = loop.time()
            await upstream.write(piece)
            exchange.bytes_out += len(piece)
        ends.append(EndedBy.CLIENT)
        try:
            await upstream.finish()
        except UpstreamFailed:
            # Only the leave is missing: it was the client that ended.
            raise ClientLeft from None

    async def down() -> None:
        nonlocal last
        while piece := await upstream.read():
            last = loop.time()
            exchange.bytes_in += len(piece)
            await client.write(piece)
        ends.append(EndedBy.UPSTREAM)
        await client.finish()

    async def watch() -> None:
        end = None if total is None else loop.time() + total
        while True:
            now = loop.time()
            due = last + idle if end is None else min(last + idle, end)
            if now >= due:
                raise TimeoutError
            await asyncio.sleep(due - now)

    try:
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(watch())
            directions = [group.create_task(up()), group.create_task(down())]
            await asyncio.wait(directions)
            watcher.cancel()
    except BaseExceptionGroup as group:
        causes = expected(group, (TimeoutError, ClientLeft, UpstreamFailed))
        # An upstream that broke off has not ended by itself, and nor does what our own limits cut.
        return EndedBy.CLIENT if first(causes, ClientLeft) is not None else EndedBy.PROXY
    return ends[0]
