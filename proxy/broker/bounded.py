"""An upstream that is asked within its bounds: how many requests at one time, and how long each may take."""

import asyncio
from dataclasses import dataclass, field
from typing import final

from addons.gate import Gate
from addons.ports import Upstream, UpstreamFailed
from grants.decision import Reason, Rule
from grants.message import Outgoing, Response


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """Implements `addons.ports.Upstream` over another one, for whole exchanges that no service's gate is held for.

    Attributes:
        gate: the upstream's, which its relays go through as well.
        timeout: seconds for an exchange, whatever longer time is asked for.
        waits: a request that finds no room waits for it within its time: the questions of one decision are asked side
            by side, and must not refuse each other. Else it is refused at once, as a relay is.
    """

    upstream: Upstream = field(repr=False)
    gate: Gate
    timeout: float
    waits: bool = False

    async def send(self, request: Outgoing, *, max_body: int, timeout: float) -> Response:  # noqa: ASYNC109 - the port's
        """See `addons.ports.Upstream`."""
        clock = asyncio.get_running_loop().time
        end = clock() + self.timeout
        if self.waits:
            try:
                async with asyncio.timeout_at(end):
                    await self.gate.wait()
            except TimeoutError:
                raise UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504) from None
        elif not self.gate.enter():
            raise UpstreamFailed(Rule.DENIED, Reason.CAPACITY, 503)
        try:
            return await self.upstream.send(request, max_body=max_body, timeout=end - clock())
        finally:
            self.gate.leave()
