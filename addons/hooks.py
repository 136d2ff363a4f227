"""The hooks that the fronts yield, one argument each. An addon answers one by a method of the hook's name."""

from dataclasses import dataclass

from mitmproxy.proxy.commands import StartHook

from .exchange import Exchange


@dataclass
class ExchangeHook(StartHook):
    """A hook about one exchange. The front goes on when it is answered."""

    exchange: Exchange
    name = ""
    blocking = True


@dataclass
class BrokerConnectHook(ExchangeHook):
    """A CONNECT head was read: may a tunnel to an endpoint be opened, to be intercepted?"""

    name = "broker_connect"


@dataclass
class BrokerTunnelHook(ExchangeHook):
    """An opaque tunnel is open: carry it until it ends."""

    name = "broker_tunnel"


@dataclass
class BrokerHeadHook(ExchangeHook):
    """The head of a request with a body was read: may the body be read, and how much of it?"""

    name = "broker_head"


@dataclass
class BrokerRequestHook(ExchangeHook):
    """A request is complete, or refused: answer and record it."""

    name = "broker_request"
