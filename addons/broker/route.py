"""The broker's step: finds the route's part, and asks what has to be asked before any part does anything.

The order is the same for all of them. From the head: what is needed, who asks, whether the last report allows it, and
whether the log can be written; then the part begins. From the whole request: the log again, and where a body was waited
for, how many values it has, who asks, the report again, and whether it holds a token; then the part acts. What is
refused reaches no upstream and is stored nowhere.
Source: "The rule" and "Routes" in the specification.
"""

from dataclasses import dataclass

from addons.audit import Audit, log_unavailable
from addons.exchange import Exchange
from addons.guard import fail_closed
from addons.ports import StateUnavailable
from addons.record import Mode
from addons.who import state_unavailable
from grants.broker.bounded import crowded
from grants.broker.capabilities import MethodNotAllowed, NotFound, find
from grants.decision import Reason
from grants.message import Relay

from .admit import admit, admit_again
from .call import Call
from .denials import bad, countless_values, denied
from .token import in_body


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """Finds the route's part, and lets it answer. `audit`: without its log nothing is begun or done."""

    audit: Audit

    @fail_closed
    async def broker_head(self, exchange: Exchange) -> None:
        """A head was read."""
        if exchange.arrival.mode is Mode.BROKER:
            await self._settle(exchange, act=False)

    @fail_closed
    async def broker_request(self, exchange: Exchange) -> None:
        """A request is complete, or its body is streamed."""
        if exchange.arrival.mode is Mode.BROKER:
            await self._settle(exchange, act=True)

    async def _settle(self, exchange: Exchange, *, act: bool) -> None:
        begun = exchange.call is not None
        try:
            if not begun and exchange.relay is None:
                exchange.call = await _find(exchange)
            call = exchange.call
            if call is None:
                return
            if not self.audit.decisions.writable:
                exchange.deny(log_unavailable())
                return
            if not begun:
                await call.broker.parts[call.needs.route].begin(exchange, call)
            elif exchange.body_limit is not None:
                call = exchange.call = await _waited(exchange, call)
            if act and call is not None and exchange.denial is None:
                await call.broker.parts[call.needs.route].act(exchange, call)
        except StateUnavailable:
            exchange.deny(state_unavailable())


async def _waited(exchange: Exchange, call: Call) -> Call | None:
    """The call, now that its body has come; None: refused."""
    # A grant has its own bounds.
    if exchange.own and crowded(exchange.body):
        exchange.deny(countless_values())
        return None
    now = await admit_again(exchange, call)
    # A report goes nowhere.
    found = await in_body(now, exchange.body) if now is not None and call.needs.capability is not None else None
    if found is not None:
        exchange.deny(found)
    return now


async def _find(exchange: Exchange) -> Call | None:
    """What the head asks of the broker; None: it is refused, or answered."""
    broker, head = exchange.policy.broker, exchange.head
    if head is None:
        raise ValueError("a request without a head")
    exchange.own = True
    if broker is None:
        exchange.deny(denied(Reason.BROKER_ROUTE, "there is no broker here any more", 404))
        return None
    if sum(name.lower() == b"host" for name, _ in head.fields) != 1:
        exchange.deny(bad(Reason.HOST_UNREADABLE, "a request has exactly one Host field"))
        return None
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
        return await admit(exchange, broker, head, needs, query if mark else None)
    return None
