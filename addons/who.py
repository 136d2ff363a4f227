"""Who asks. With boxes, every request names one by its token; without, only clients on this machine are served.

The token is taken out of the request here, before anything else sees it: it never goes upstream and is never logged.
Inside a tunnel the box is the one that opened it.
"""

from dataclasses import dataclass
from ipaddress import ip_address

from grants.decision import Deny, Reason, Rule

from .boxes import Boxes, holds_token, take_token
from .exchange import Exchange
from .guard import fail_closed
from .ports import StateUnavailable
from .record import Mode


@dataclass(frozen=True, slots=True)
class Who:
    """Find the box, or refuse."""

    @fail_closed
    async def broker_request(self, exchange: Exchange) -> None:
        """A tunnel is asked for, a head was read, or a request is complete whose head was not asked about alone."""
        if exchange.admitted:
            return
        if exchange.arrival.mode is Mode.BROKER:
            # Where the token stands depends on the route: the broker's own step finds it.
            exchange.admitted = True
            return
        boxes = exchange.policy.boxes
        if boxes is None:
            self._local(exchange)
        elif exchange.arrival.mode is Mode.PROXY and exchange.arrival.encrypted:
            await self._by_name(exchange, boxes)
        else:
            await self._by_token(exchange, boxes)
        exchange.admitted = True

    broker_connect = broker_head = broker_request

    def _local(self, exchange: Exchange) -> None:
        peer = exchange.arrival.peer
        if peer is not None and peer != "127.0.0.1" and not ip_address(peer).is_loopback:
            exchange.deny(_unknown("only clients on the proxy's own machine are served"))

    async def _by_name(self, exchange: Exchange, boxes: Boxes) -> None:
        token = exchange.arrival.box_token
        try:
            found = await boxes.find(token)
        except StateUnavailable:
            exchange.deny(state_unavailable())
            return
        # A token that was rotated ends what was opened with it.
        exchange.box = found if found is not None and found.name == exchange.arrival.box else None
        if exchange.box is None or token is None:
            exchange.deny(_unknown("the box that opened this tunnel is no longer there, or has another token now"))
        elif exchange.head is not None and holds_token(exchange.head, token):
            # Some clients repeat inside of the tunnel what they showed to open it.
            elsewhere = holds_token(take_token(exchange.head, from_path=False).head, token)
            exchange.deny(_leak() if elsewhere else _repeated())

    async def _by_token(self, exchange: Exchange, boxes: Boxes) -> None:
        if exchange.head is None:
            raise ValueError("a request without a head")
        shown = take_token(exchange.head, from_path=exchange.arrival.mode is Mode.TERMINATE)
        exchange.head, exchange.box_prefix, exchange.box_token = shown.head, shown.prefix, shown.token
        if shown.ambiguous:
            exchange.deny(_unknown("the request shows more than one box token; send exactly one"))
            return
        try:
            exchange.box = await boxes.find(shown.token)
        except StateUnavailable:
            exchange.deny(state_unavailable())
            return
        if exchange.box is None or shown.token is None:
            exchange.deny(
                _unknown("no box has this token; send it in Proxy-Authorization, or as /box/TOKEN/ in a base URL")
            )
        elif holds_token(shown.head, shown.token):
            exchange.deny(_leak())


def _leak() -> Deny:
    detail = "the box's token stands in another place of the request, from which it would go upstream; take it out"
    return Deny(rule=Rule.DENIED, reason=Reason.BOX_TOKEN_LEAK, detail=detail)


def _repeated() -> Deny:
    detail = (
        "the client repeats the box's token inside the tunnel, in `Proxy-Authorization`; one that does so cannot use "
        "the proxy as a box: give it the endpoint's base URL, with `/box/TOKEN` in its path"
    )
    return Deny(rule=Rule.DENIED, reason=Reason.BOX_TOKEN_LEAK, detail=detail)


def state_unavailable() -> Deny:
    """The refusal while what the broker remembers cannot be asked."""
    return Deny(
        rule=Rule.DENIED,
        reason=Reason.STATE,
        status=503,
        detail="what the broker remembers cannot be read or stored now, so nothing is allowed; try again shortly",
    )


def _unknown(detail: str) -> Deny:
    return Deny(rule=Rule.DENIED, reason=Reason.BOX_UNKNOWN, status=407, detail=detail)
