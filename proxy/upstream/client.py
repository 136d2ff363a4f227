"""One endpoint's client over the shared pool: the way of a request from its bytes to its answer.

A request is written once. It goes to another connection only where the first was found closed before a byte of it
was written; after that every end is a failure, since the upstream may have acted on it.
"""

import asyncio
from typing import final

from grants.message import Origin, Outgoing, Response

from .acquire import acquire
from .dial import Resolver, resolve
from .groups import Groups
from .pool import Pool
from .request import write_request
from .trust import Trust


@final
class UpstreamClient:
    """Sends the requests of one endpoint; implements `addons.ports.Upstream`.

    Args: as of `Groups`, and
        connect_timeout: seconds to resolve, connect and verify.
        resolver: addresses of a name; the system's when None.
    """

    def __init__(
        self,
        pool: Pool,
        origin: Origin,
        trust: Trust | None,
        *,
        connect_timeout: float = 10.0,
        consented: frozenset[tuple[str, int]] = frozenset(),
        allow_inside: bool = False,
        resolver: Resolver | None = None,
    ) -> None:
        self.origin = origin
        self._pool = pool
        self._groups = Groups(pool, origin, trust, consented=consented, allow_inside=allow_inside)
        self._connect_timeout = connect_timeout
        self._resolver = resolver or resolve

    async def send(self, request: Outgoing, *, max_body: int, timeout: float) -> Response:  # noqa: ASYNC109  the port's
        """See `addons.ports.Upstream`."""
        group = self._groups.of(request.origin)
        written = write_request(request, group.host)
        deadline = asyncio.get_running_loop().time() + timeout
        connection = self._pool.take(group)
        if connection is None:
            connection = await acquire(
                self._pool, group, self._resolver, connect_timeout=self._connect_timeout, deadline=deadline
            )
        return await connection.exchange(written, request.method, max_body, deadline)
