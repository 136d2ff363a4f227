"""One endpoint's client over the shared pool: the way of a request from its bytes to its answer.

A request is written once. It goes to another connection only where the first was found closed before a byte of it
was written; after that every end is a failure, since the upstream may have acted on it.
"""

import asyncio
from typing import final

from grants.message import Origin, Outgoing, Response

from .acquire import acquire
from .dial import Resolver, reach_of, resolve
from .failures import fault
from .pool import Group, Pool
from .request import write_request
from .trust import Trust


@final
class UpstreamClient:
    """Sends the requests of one endpoint; implements `addons.ports.Upstream`.

    Plain HTTP is spoken only where the endpoint's own origin is http, and only to http origins.

    Args:
        pool: shared by all endpoints.
        origin: the endpoint's upstream.
        trust: whom it trusts, for every https origin; None where there is none to send to.
        connect_timeout: seconds to resolve, connect and verify.
        consented: hosts and ports that the operator wrote as an address or as `localhost`.
        allow_inside: let names resolve to inside addresses.
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
        self._pool = pool
        self._origin = origin
        self._trust = trust
        self._connect_timeout = connect_timeout
        self._consented = consented
        self._allow_inside = allow_inside
        self._resolver = resolver or resolve
        self._group = self._group_of(origin)

    async def send(self, request: Outgoing, *, max_body: int, timeout: float) -> Response:  # noqa: ASYNC109  the port's
        """See `addons.ports.Upstream`."""
        origin = request.origin
        group = self._group if origin is self._origin or origin == self._origin else self._group_of(origin)
        written = write_request(request, group.host)
        deadline = asyncio.get_running_loop().time() + timeout
        connection = self._pool.take(group)
        if connection is None:
            connection = await acquire(
                self._pool, group, self._resolver, connect_timeout=self._connect_timeout, deadline=deadline
            )
        return await connection.exchange(written, request.method, max_body, deadline)

    def _group_of(self, origin: Origin) -> Group:
        trust = self._trust
        if origin.scheme == "http":
            if self._origin.scheme != "http":
                raise fault()
            trust = None
        elif origin.scheme != "https" or trust is None:
            raise fault()
        return self._pool.group(origin, trust, reach_of(origin, self._consented, allow_inside=self._allow_inside))
