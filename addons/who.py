"""Who asks. Without boxes, every client on this machine may use every endpoint, and nobody else."""

from dataclasses import dataclass
from ipaddress import ip_address

from grants.decision import Deny, Reason, Rule

from .exchange import Exchange
from .guard import fail_closed


@dataclass(frozen=True, slots=True)
class Who:
    """Refuse a client that is not on this machine."""

    @fail_closed
    async def broker_connect(self, exchange: Exchange) -> None:
        """A tunnel is asked for."""
        self._admit(exchange)

    @fail_closed
    async def broker_head(self, exchange: Exchange) -> None:
        """A head was read."""
        self._admit(exchange)

    @fail_closed
    async def broker_request(self, exchange: Exchange) -> None:
        """A request is complete; its head may not have been asked about alone."""
        if exchange.granted is None:
            self._admit(exchange)

    def _admit(self, exchange: Exchange) -> None:
        peer = exchange.arrival.peer
        if peer is not None and peer != "127.0.0.1" and not ip_address(peer).is_loopback:
            exchange.deny(
                Deny(
                    rule=Rule.DENIED,
                    reason=Reason.BOX_UNKNOWN,
                    status=407,
                    detail="only clients on the proxy's own machine are served",
                )
            )
