"""`/fountain`: Fountain knows only the operator, so whatever a request names must be the box's own.

What a box owns is what its settings list and what it created through the broker. A list is read whole and cut down, the
answer to a creation is read whole for the id; everything else streams.
Source: "fountain" in the specification.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from addons.exchange import Exchange
from addons.policy import Service
from addons.ports import Upstream, UpstreamFailed
from addons.send import failure
from grants.broker.fountain import Kind, Named, Owned, created, created_kind, cut, foreign, listed_kind, named
from grants.coding import content_codings
from grants.decision import Deny, Reason
from grants.jsontext import JsonInvalid, JsonValue, parse_json
from grants.message import Relay

from .answers import encoded, holds_token
from .call import Call
from .credentialed import credentialed, relay, request_with
from .denials import bad, denied, leak, unreadable, unusable
from .parts import HELD_BYTES, Credential
from .rules import BrokerRules

_SECONDS: Final = 120.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FountainPart:
    """Serves Fountain's API. `own`: by the box's name, what its settings list."""

    service: Service
    credential: Credential
    upstream: Upstream = field(repr=False)
    own: Mapping[str, Owned] = field(default_factory=dict)

    async def begin(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        exchange.service = self.service
        if await self._refused(exchange, call, named(call.needs.upstream, call.query or b"")):
            return
        if content_codings(call.head.fields):
            exchange.deny(bad(Reason.BODY_CODING, "a body with a content coding is not taken here; send it without"))
            return
        opened = await self.credential.open()
        if opened is None:
            exchange.deny(unreadable(self.credential.name))
            return
        rules = credentialed(
            call,
            self.service,
            fields=((b"Authorization", b"Bearer " + opened.value),),
            opened=opened,
            name=self.credential.name,
        )
        if isinstance(rules, Deny):
            exchange.deny(rules)
            return
        exchange.rules, exchange.body_limit = rules, HELD_BYTES

    async def act(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        rules = exchange.rules
        if not isinstance(rules, BrokerRules):
            raise TypeError("a request that did not begin")
        if exchange.body and await self._body_refused(exchange, call):
            return
        method, path = call.head.method, call.needs.upstream
        listed, made = listed_kind(method, path), created_kind(method, path)
        kind = listed or made
        if kind is None:
            relay(exchange, self.service, rules)
            return
        shown = await self._whole(exchange, rules)
        if shown is None or not 200 <= shown.status < 300:
            exchange.relay = shown
        elif listed is None:
            await self._learn(exchange, call, kind, shown)
        else:
            await self._cut(exchange, call, kind, shown)

    async def _body_refused(self, exchange: Exchange, call: Call) -> bool:
        try:
            body = parse_json(exchange.body)
        except JsonInvalid as invalid:
            detail = f"the body is not strict JSON, so what it names cannot be told: {invalid}"
            exchange.deny(bad(Reason.BODY_JSON, detail))
            return True
        if holds_token(exchange.body, body, call.token):
            exchange.deny(leak("body"))
            return True
        return await self._refused(exchange, call, named(b"", b"", body))

    async def _refused(self, exchange: Exchange, call: Call, names: tuple[Named, ...]) -> bool:
        owned = {kind: await self._owned(call, kind) for kind in dict.fromkeys(name.kind for name in names)}
        other = foreign(names, owned)
        if other is not None:
            detail = f"this box has no such {other.kind.value}; it can name what it created, or what its settings list"
            exchange.deny(denied(Reason.NOT_OWN, detail, 404))
        return other is not None

    async def _owned(self, call: Call, kind: Kind) -> frozenset[str]:
        listed = self.own.get(call.box.name, {}).get(kind, frozenset())
        return listed | await call.broker.state.owned(call.box.name, kind)

    async def _whole(self, exchange: Exchange, rules: BrokerRules) -> Relay | None:
        """The whole answer as the box may see it; None: refused."""
        sent = request_with(rules, exchange.body if exchange.announced != 0 else None)
        exchange.secret_refs, exchange.bytes_out = rules.names, len(exchange.body)
        try:
            response = await self.upstream.send(sent.request, max_body=HELD_BYTES, timeout=_SECONDS)
        except UpstreamFailed as failed:
            exchange.deny(failure(failed, None))
            return None
        exchange.bytes_in = len(response.body)
        shown = rules.whole(exchange, self.service, response)
        if isinstance(shown, Deny):
            exchange.deny(shown)
            return None
        return shown

    async def _learn(self, exchange: Exchange, call: Call, kind: Kind, shown: Relay) -> None:
        identifier = created(kind, _json(shown.body))
        if identifier is not None:
            await call.broker.state.learn(call.box.name, kind, identifier)
        exchange.relay = shown

    async def _cut(self, exchange: Exchange, call: Call, kind: Kind, shown: Relay) -> None:
        own = cut(_json(shown.body), await self._owned(call, kind))
        if own is None:
            exchange.deny(unusable("the list is in a form in which the box's own cannot be told from others'"))
            return
        body = encoded(own)
        exchange.relay = Relay(status=shown.status, fields=shown.fields, body=body, length=len(body))


def _json(body: bytes) -> JsonValue:
    try:
        return parse_json(body)
    except JsonInvalid:
        return None
