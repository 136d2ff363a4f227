"""The hooks that the fronts yield, one argument each. An addon answers one by a method of the hook's name."""

from typing import Self

from mitmproxy.proxy.commands import StartHook
from mitmproxy.proxy.layer import Layer

from .exchange import Exchange


class ExchangeHook(StartHook):
    """A hook about one exchange. The front goes on when it is answered.

    Attributes:
        blocking: the layer that asks, which is the one to tell of the answer; True until it is known.
    """

    name = ""
    blocking: bool | Layer = True  # type: ignore[assignment]  # mitmproxy's layers set it so too

    def __new__(cls, exchange: Exchange) -> Self:
        """mitmproxy's own looks into the class each time."""
        return object.__new__(cls)

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange


class BrokerConnectHook(ExchangeHook):
    """A CONNECT head was read: may a tunnel to an endpoint be opened, to be intercepted?"""

    name = "broker_connect"


class BrokerTunnelHook(ExchangeHook):
    """An opaque tunnel is open: carry it until it ends."""

    name = "broker_tunnel"


class BrokerHeadHook(ExchangeHook):
    """The head of a request with a body was read: may the body be read, and how much of it?"""

    name = "broker_head"


class BrokerRequestHook(ExchangeHook):
    """A request is complete, or refused: answer and record it."""

    name = "broker_request"
