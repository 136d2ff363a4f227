"""Who asks, and whether the box's last report allows it.

Both are asked when the head was read, and anew when a body that is held has come: it may take its time, and meanwhile
the box may have been removed, or have reported less.
Source: "The rule" in the specification.
"""

from dataclasses import replace

from addons.boxes import Box
from addons.exchange import Exchange
from grants.broker.capabilities import Needs, Route
from grants.broker.declaration import Declaration
from grants.broker.rule import refused
from grants.decision import Deny, Reason
from grants.message import RequestHead

from .call import Call
from .denials import denied
from .parts import Broker
from .token import holder, unknown


async def admit(
    exchange: Exchange, broker: Broker, head: RequestHead, needs: Needs, query: bytes | None
) -> Call | None:
    """The call of a box that is known and may make it; None: refused."""
    exchange.endpoint = _endpoint(needs)
    exchange.labels = labels(needs.capability, needs.words or ())
    shown = await holder(broker.boxes, needs, head, query)
    if isinstance(shown, Deny):
        exchange.deny(shown)
        return None
    token, exchange.box = shown
    call = Call(broker=broker, needs=needs, box=exchange.box, head=head, token=token, query=query, declaration=None)
    return await _allowed(exchange, call)


async def admit_again(exchange: Exchange, call: Call) -> Call | None:
    """The call as it is now; None: refused."""
    box = await call.broker.boxes.find(call.token)
    if box is None or box.key != call.box.key:
        exchange.deny(unknown(call.needs))
        return None
    return await _allowed(exchange, call)


async def _allowed(exchange: Exchange, call: Call) -> Call | None:
    """The call with what was kept of the last report, if that allows it."""
    needs, declaration = call.needs, None
    if needs.capability is not None:
        declaration = await _declared(call.broker, call.box)
        refusal = refused(declaration, call.broker.word, needs.capability, needs.words or ())
        if refusal is not None:
            exchange.deny(denied(Reason.SCOPE, refusal[1]))
            return None
    return replace(call, declaration=declaration)


async def _declared(broker: Broker, box: Box) -> Declaration | None:
    report = await broker.state.report_of(box.key)
    return None if report is None else report.declaration


def _endpoint(needs: Needs) -> str:
    if needs.route is Route.EGRESS:
        return f"egress:{needs.name.lower()}"
    return needs.capability or needs.route.value


def labels(capability: str | None, words: tuple[str, ...]) -> tuple[str, ...]:
    """What the record says of the rule."""
    if capability is None:
        return ()
    return (f"capability:{capability}", *dict.fromkeys(f"word:{word}" for word in words))
