"""One endpoint's streams over the shared pool: the head of a request is written once, the rest piece by piece.

As for whole exchanges, a request goes to another connection only where the first was found closed before a byte of it
was written.
"""

import asyncio
from typing import final

from grants.message import Origin, Outgoing

from .acquire import acquire
from .dial import Resolver, resolve
from .groups import Groups
from .pool import Pool
from .reader import StreamReader
from .request import protocols_of, write_head
from .stream import IDLE_SECONDS, Stream
from .trust import Trust


@final
class StreamingClient:
    """Opens streams for one endpoint; implements `addons.streams.StreamingUpstream`.

    Args: as of `Groups`, and
        resolver: addresses of a name; the system's when None.
        idle: seconds that an upstream may do nothing while it is waited for.
    """

    def __init__(
        self,
        pool: Pool,
        origin: Origin,
        trust: Trust | None,
        *,
        consented: frozenset[tuple[str, int]] = frozenset(),
        allow_inside: bool = False,
        resolver: Resolver | None = None,
        idle: float = IDLE_SECONDS,
    ) -> None:
        self.origin = origin
        self._pool = pool
        self._groups = Groups(pool, origin, trust, consented=consented, allow_inside=allow_inside)
        self._resolver = resolver or resolve
        self._idle = idle

    async def open(self, request: Outgoing, *, length: int | None, upgrade: bool, connect_timeout: float) -> Stream:
        """See `addons.streams.StreamingUpstream`. `connect_timeout` (seconds) includes the wait for a place."""
        group = self._groups.of(request.origin)
        protocols = protocols_of(request.fields) if upgrade else frozenset()
        written = write_head(request, group.host, length=length, upgrade=protocols)
        connection = self._pool.take(group)
        if connection is None:
            connection = await acquire(
                self._pool,
                group,
                self._resolver,
                connect_timeout=connect_timeout,
                deadline=asyncio.get_running_loop().time() + connect_timeout,
            )
        # From here to the end nothing is awaited: the connection is the stream's, and the stream the caller's.
        stream = Stream(connection, StreamReader(request.method, protocols), length=length, idle=self._idle)
        connection.write(written)
        return stream
