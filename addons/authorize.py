"""Decide each request by its endpoint's grant. Holds no policy of its own."""

from dataclasses import dataclass

from grants.authorize import authorize_body, authorize_head
from grants.decision import Deny

from .exchange import Exchange
from .guard import fail_closed
from .inject import without_injected
from .policy import Judged
from .record import Mode


@dataclass(frozen=True, slots=True)
class Authorize:
    """The head first, since it says whether a body may be read at all; then the whole."""

    @fail_closed
    def broker_head(self, exchange: Exchange) -> None:
        """Grant the head."""
        if not exchange.own:
            self._head(exchange)

    @fail_closed
    def broker_request(self, exchange: Exchange) -> None:
        """Grant the head, if it is not yet granted, and the body."""
        if exchange.granted is None and not (exchange.relayed or exchange.own):
            self._head(exchange)
        if exchange.granted is None:
            return
        match authorize_body(exchange.granted, exchange.body):
            case Deny() as denial:
                exchange.deny(denial)
            case allow:
                exchange.allow = allow

    def _head(self, exchange: Exchange) -> None:
        service, head = exchange.service, exchange.head
        if service is None or head is None:
            raise ValueError("authorization of nothing")
        if not isinstance(service.way, Judged):
            # A relay has no grant to decide by: its assurance says so in every record.
            exchange.relayed = True
            return
        # Within a tunnel the client names the upstream's whole path, on a base URL the part behind the upstream's own.
        prefix = () if exchange.arrival.mode is Mode.PROXY else service.base
        # What is injected replaces what the client sent there, so the grant's rules do not see that.
        judged = without_injected(head, service.inject)
        scheme = "https" if exchange.arrival.encrypted else "http"
        match authorize_head(service.way.endpoint, judged, authority=exchange.authority, prefix=prefix, scheme=scheme):
            case Deny() as denial:
                exchange.deny(denial)
            case granted:
                exchange.granted = granted
                exchange.body_limit = min(granted.body_limit, service.way.body_limit)
