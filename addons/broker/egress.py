"""`/egress/NAME`: the value goes where the box put its token, to the secret's host and nowhere else.

A secret with a grant becomes a judged exchange: the token becomes the reference `@secret:NAME`, and the grant decides.
Without one it is a relay, and what the host repeats of the value becomes the token again.
Source: "egress" in the specification.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from addons.exchange import Exchange
from addons.policy import Judged, Service
from grants.broker.search import holds
from grants.broker.swap import leftover, swap
from grants.decision import Deny, Reason

from .call import Call
from .credentialed import relay
from .denials import denied, leak
from .parts import Credential, Opened
from .rules import BrokerRules, outgoing

_LOOKED_AT: Final = 64 * 1024
"""A body that announces no more bytes than this is searched whole, before anything goes upstream."""

_CHANT_GRANT: Final = b"chant-grant"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSecret:
    """A secret: its value, and the service of its host."""

    credential: Credential
    service: Service


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPart:
    """Serves secrets, by name and box; None as the box for those that every box has."""

    secrets: Mapping[tuple[str, str | None], HeldSecret]

    async def begin(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        name = call.needs.name
        secret = self.secrets.get((name, call.box.name)) or self.secrets.get((name, None))
        opened = await secret.credential.open() if secret is not None else None
        if secret is None or opened is None:
            exchange.deny(
                denied(
                    Reason.SECRET_UNHELD,
                    f"the broker holds no value for the secret `{name}` of this box; have its owner save one",
                )
            )
            return
        exchange.service = secret.service
        if isinstance(secret.service.way, Judged):
            _judge(exchange, call, secret.service)
            return
        rules = _rules(call, secret.service, opened)
        if isinstance(rules, Deny):
            exchange.deny(rules)
            return
        exchange.rules = rules
        if exchange.announced is not None and 0 < exchange.announced <= _LOOKED_AT:
            exchange.body_limit = exchange.announced
        else:
            relay(exchange, secret.service, rules)

    async def act(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        if exchange.body_limit is None or not exchange.own:
            return
        if holds(exchange.body, call.token):
            exchange.deny(leak("body"))
        else:
            exchange.relayed = True


def _rules(call: Call, service: Service, opened: Opened) -> BrokerRules | Deny:
    built = outgoing(call.head, call.needs, None, origin=service.upstream, base=service.base, drop=frozenset())
    if isinstance(built, Deny):
        return built
    swapped = swap(built.fields, call.query, token=call.token, value=opened.value)
    place = leftover(call.token, path=built.target, query=swapped.query, fields=swapped.fields)
    if place is not None:
        return leak(place.value)
    target = built.target + (b"" if swapped.query is None else b"?" + swapped.query)
    return BrokerRules(
        request=replace(built, target=target, fields=swapped.fields),
        names=(call.needs.name,),
        prefix=b"/egress/" + call.needs.name.encode(),
        needles=opened.needles,
        pairs=swapped.pairs,
        token=call.token,
    )


def _judge(exchange: Exchange, call: Call, service: Service) -> None:
    """Rewrite the request into one of the judged endpoint: everything behind this step is as for any other."""
    reference = b"@secret:" + call.needs.name.encode()
    fields = tuple([pair for pair in call.head.fields if pair[0].lower() != _CHANT_GRANT])
    swapped = swap(fields, None, token=call.token, value=reference)
    place = leftover(call.token, path=call.needs.upstream, query=call.query, fields=swapped.fields)
    if place is not None:
        exchange.deny(leak(place.value))
        return
    target = call.needs.upstream + (b"" if call.query is None else b"?" + call.query)
    exchange.head = replace(call.head, target=target, fields=swapped.fields)
    exchange.own = False
