"""The broker's step: what a request needs, who asks, and whether the box's last report allows it.

It decides before a byte of a body is read, wherever the head tells enough. Everything it refuses reaches no upstream.
Source: "The rule" and "Routes" in the specification.
"""

from dataclasses import dataclass
from typing import Final

from addons.boxes import Box
from addons.exchange import Exchange
from addons.guard import fail_closed
from addons.ports import StateUnavailable
from addons.record import Mode
from addons.who import state_unavailable
from grants.broker.capabilities import MethodNotAllowed, Needs, NotFound, Route, find
from grants.broker.rule import refused
from grants.decision import Deny, Reason
from grants.message import Relay, RequestHead

from .call import Call
from .denials import bad, denied
from .parts import Broker
from .token import MOST, candidates

_CHALLENGED: Final = frozenset({Route.DECLARATION, Route.DECIDE})


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """Finds the route's part, and lets it answer."""

    @fail_closed
    async def broker_head(self, exchange: Exchange) -> None:
        """A head was read."""
        if exchange.arrival.mode is Mode.BROKER:
            await _settle(exchange, act=False)

    @fail_closed
    async def broker_request(self, exchange: Exchange) -> None:
        """A request is complete, or its body is streamed."""
        if exchange.arrival.mode is Mode.BROKER:
            await _settle(exchange, act=True)


async def _settle(exchange: Exchange, *, act: bool) -> None:
    try:
        if exchange.call is None and exchange.relay is None:
            await _begin(exchange)
        call = exchange.call
        if act and call is not None and exchange.denial is None:
            await call.broker.parts[call.needs.route].act(exchange, call)
    except StateUnavailable:
        exchange.deny(state_unavailable())


async def _begin(exchange: Exchange) -> None:
    broker, head = exchange.policy.broker, exchange.head
    if head is None:
        raise ValueError("a request without a head")
    exchange.own = True
    if broker is None:
        exchange.deny(denied(Reason.BROKER_ROUTE, "there is no broker here any more", 404))
        return
    if sum(name.lower() == b"host" for name, _ in head.fields) != 1:
        exchange.deny(bad(Reason.HOST_UNREADABLE, "a request has exactly one Host field"))
        return
    path, mark, query = head.target.partition(b"?")
    needs = find(head.method, path, broker.served)
    if isinstance(needs, MethodNotAllowed):
        exchange.methods = needs.allow
        exchange.deny(denied(Reason.BROKER_METHOD, f"this path takes {needs.allow.decode()} and no other method", 405))
    elif isinstance(needs, NotFound) or (needs.route not in broker.parts and needs.token):
        exchange.deny(denied(Reason.BROKER_ROUTE, "the broker serves nothing at this path", 404))
    elif not needs.token:
        exchange.endpoint, exchange.body_limit = needs.capability, 0
        exchange.relay = Relay(status=200, fields=(), body=b"", length=0)
    else:
        await _admit(exchange, broker, head, needs, query if mark else None)


async def _admit(exchange: Exchange, broker: Broker, head: RequestHead, needs: Needs, query: bytes | None) -> None:
    exchange.endpoint = _endpoint(needs)
    exchange.labels = labels(needs.capability, needs.words or ())
    shown = candidates(head, query, anywhere=needs.route is Route.EGRESS)
    if shown.too_many:
        exchange.deny(bad(Reason.BOX_UNKNOWN, f"the head holds more than {MOST} words that may be a token; send fewer"))
        return
    found = await _boxes(broker, shown.read)
    many = len(found) > 1 or (len(found) == 1 and bool(await _boxes(broker, shown.beside)))
    if many or not found:
        exchange.deny(_unknown(needs, many=many))
        return
    token, exchange.box = next(iter(found.items()))
    declaration = None
    if needs.capability is not None:
        report = await broker.state.report_of(exchange.box.name)
        declaration = report.declaration if report is not None else None
        refusal = refused(declaration, broker.word, needs.capability, needs.words or ())
        if refusal is not None:
            exchange.deny(denied(Reason.SCOPE, refusal[1]))
            return
    exchange.call = Call(
        broker=broker, needs=needs, box=exchange.box, head=head, token=token, query=query, declaration=declaration
    )
    await broker.parts[needs.route].begin(exchange, exchange.call)


async def _boxes(broker: Broker, texts: tuple[bytes, ...]) -> dict[bytes, Box]:
    found = {text: await broker.boxes.find(text) for text in texts}
    return {text: box for text, box in found.items() if box is not None}


def _unknown(needs: Needs, *, many: bool) -> Deny:
    if many:
        return denied(Reason.BOX_UNKNOWN, "the request shows more than one box's token; send exactly one")
    where = (
        "where the API expects its key"
        if needs.route is Route.EGRESS
        else "as `Authorization: Bearer TOKEN` or `x-api-key: TOKEN`"
    )
    status = 401 if needs.route in _CHALLENGED else 403
    return denied(Reason.BOX_UNKNOWN, f"the request shows no token of a box; send the box's own {where}", status)


def _endpoint(needs: Needs) -> str:
    if needs.route is Route.EGRESS:
        return f"egress:{needs.name.lower()}"
    return needs.capability or needs.route.value


def labels(capability: str | None, words: tuple[str, ...]) -> tuple[str, ...]:
    """What the record says of the rule."""
    if capability is None:
        return ()
    return (f"capability:{capability}", *dict.fromkeys(f"word:{word}" for word in words))
