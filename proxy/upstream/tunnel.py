"""Opaque connections for CONNECT: a name is resolved and judged as an upstream's is, the judged address dialled."""

import asyncio
from typing import final

from grants.message import Authority

from .connection import Connection
from .dial import Resolver, dial, reach_of, resolve
from .stream import IDLE_SECONDS, Stream


@final
class Dialler:
    """Dials tunnels; implements `addons.streams.TunnelDialler`. Its connections are in no pool.

    Args:
        consented: hosts and ports that the operator wrote as an address or as `localhost`.
        resolver: addresses of a name; the system's when None.
        idle: seconds in which nothing may go either way while the upstream is waited for.
    """

    def __init__(
        self,
        *,
        consented: frozenset[tuple[str, int]] = frozenset(),
        resolver: Resolver | None = None,
        idle: float = IDLE_SECONDS,
    ) -> None:
        self._consented = consented
        self._resolver = resolver or resolve
        self._idle = idle

    async def dial(self, host: str, port: int, *, timeout: float) -> Stream:  # noqa: ASYNC109  the port's
        """See `addons.streams.TunnelDialler`. `timeout` is in seconds, to resolve and connect."""
        authority = Authority(host=host, port=port)
        reach = reach_of(authority, self._consented, allow_inside=False)
        loop = asyncio.get_running_loop()
        connection = Connection(loop)
        # Attached before it is dialled: the peer may speak first.
        stream = Stream(connection, None, idle=self._idle)
        try:
            await dial(authority, reach, None, connection, resolver=self._resolver, deadline=loop.time() + timeout)
        except BaseException:
            await stream.close()
            raise
        return stream
