"""A request with the box's token out and a credential in: what inference, fountain and further capabilities share."""

from dataclasses import replace

from addons.exchange import Exchange
from addons.policy import Service
from grants.broker.needles import Pattern
from grants.broker.swap import leftover
from grants.decision import Deny
from grants.framing import folded
from grants.message import Fields

from .call import Call
from .denials import leak
from .parts import Opened
from .rules import TOKEN_FIELDS, BrokerRules, outgoing, with_fields


def credentialed(
    call: Call,
    service: Service,
    *,
    fields: Fields,
    opened: Opened,
    name: str,
    added: Fields = (),
    unsent: Pattern | None = None,
) -> BrokerRules | Deny:
    """The rules for a request to `service`; `fields` hold the credential and replace what the client sent there.

    `unsent` is what the body may not hold, where it goes on as it comes.
    """
    drop = TOKEN_FIELDS | {folded(field) for field, _ in fields}
    request = outgoing(
        call.head, call.needs, call.query, origin=service.upstream, base=service.base, drop=frozenset(drop)
    )
    if isinstance(request, Deny):
        return request
    place = leftover(call.token, path=call.needs.upstream, query=call.query, fields=request.fields)
    if place is not None:
        return leak(place.value)
    path = call.head.target.partition(b"?")[0]
    return BrokerRules(
        request=with_fields(request, fields),
        names=(name,),
        prefix=path.removesuffix(call.needs.upstream),
        needles=opened.needles,
        pairs=((opened.value, call.token),),
        added=added,
        unsent=unsent,
    )


def relay(exchange: Exchange, service: Service, rules: BrokerRules) -> None:
    """Let the request be relayed."""
    exchange.service, exchange.rules, exchange.relayed = service, rules, True


def request_with(rules: BrokerRules, body: bytes | None) -> BrokerRules:
    """The rules with a body in the request, for one that is sent whole."""
    return replace(rules, request=replace(rules.request, body=body))
