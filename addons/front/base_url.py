"""The base-URL front: one listener an endpoint, plain HTTP on loopback."""

from typing import final

from mitmproxy.proxy.context import Context

from addons.exchange import Arrival
from addons.policy import Policies

from .layer import Commands, FrontLayer, Limits
from .stream import Stream


@final
class BaseUrlLayer(FrontLayer):
    """A connection to an endpoint's base URL."""

    def __init__(self, context: Context, limits: Limits, policies: Policies, arrival: Arrival) -> None:
        super().__init__(context, limits)
        self._stream = Stream(self, policies, lambda: arrival)

    def received(self, data: bytes) -> Commands:
        """Requests."""
        return self._stream.received(data)

    def late(self) -> Commands:
        """The stream knows what is late."""
        return self._stream.late()

    def left(self) -> Commands:
        """The stream knows what is cut."""
        return self._stream.left()

    def crashed(self) -> Commands:
        """The stream knows which request it was."""
        return self._stream.crashed()
