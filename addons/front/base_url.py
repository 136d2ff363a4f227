"""The base-URL front: one listener an endpoint, plain HTTP on loopback."""

from typing import final

from mitmproxy.proxy.context import Context

from addons.exchange import Arrival
from addons.policy import Policies

from .layer import FrontLayer, Limits
from .stream import Stream


@final
class BaseUrlLayer(FrontLayer):
    """A connection to an endpoint's base URL."""

    def __init__(self, context: Context, limits: Limits, policies: Policies, arrival: Arrival) -> None:
        super().__init__(context, limits)
        self._policies = policies
        self._arrival = arrival

    async def converse(self) -> None:
        """Requests."""
        self.requests = stream = Stream(self, self._policies, lambda: self._arrival)
        await stream.run()
