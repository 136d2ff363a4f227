"""The hooks that the fronts yield, one argument each. An addon answers one by a method of the hook's name."""

from dataclasses import dataclass

from mitmproxy.proxy.commands import StartHook

from .exchange import Exchange


@dataclass
class BrokerConnectHook(StartHook):
    """A CONNECT head was read: may a tunnel to an endpoint be opened, to be intercepted?"""

    exchange: Exchange
    name = "broker_connect"
    blocking = True


@dataclass
class BrokerTunnelHook(StartHook):
    """An opaque tunnel is open: carry it until it ends."""

    exchange: Exchange
    name = "broker_tunnel"
    blocking = True


@dataclass
class BrokerHeadHook(StartHook):
    """The head of a request with a body was read: may the body be read, and how much of it?"""

    exchange: Exchange
    name = "broker_head"
    blocking = True


@dataclass
class BrokerRequestHook(StartHook):
    """A request is complete, or refused: answer and record it."""

    exchange: Exchange
    name = "broker_request"
    blocking = True
