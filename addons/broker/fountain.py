"""`/fountain`: Fountain knows only the operator, so whatever a request names must be the box's own.

A list is read whole and cut down, the answer to a creation is read whole for the id; everything else streams.
Source: "fountain" in the specification.
"""

from dataclasses import dataclass, field, replace
from typing import Final, final

from addons.exchange import Exchange
from addons.policy import Service
from addons.ports import Upstream, UpstreamFailed
from addons.send import failure
from grants.broker.fountain import (
    FountainPath,
    Reading,
    asked_fields,
    created_kind,
    framing_fields,
    list_fields,
    listed_kind,
    read_body,
    read_head,
    read_path,
)
from grants.coding import content_codings
from grants.decision import Deny, Reason
from grants.jsontext import JsonInvalid, parse_json
from grants.message import Fields, Relay

from .answers import holds_token
from .call import Call
from .credentialed import credentialed, relay, request_with
from .denials import bad, leak, unreadable
from .ownership import Ownership
from .parts import HELD_BYTES, Credential
from .rules import BrokerRules

_SECONDS: Final = 120.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FountainPart:
    """Serves Fountain's API."""

    service: Service
    credential: Credential
    upstream: Upstream = field(repr=False)
    ownership: Ownership = field(default=Ownership())

    async def begin(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        exchange.service = self.service
        if await self.ownership.refused(exchange, call, _head(call)):
            return
        if content_codings(call.head.fields):
            exchange.deny(bad(Reason.BODY_CODING, "a body with a content coding is not taken here; send it without"))
            return
        opened = await self.credential.open()
        if opened is None:
            exchange.deny(unreadable(self.credential.name))
            return
        head = replace(call.head, fields=framing_fields(call.head.fields) + _asked(call))
        rules = credentialed(
            replace(call, head=head),
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
        body = await self._read(exchange, call)
        if body is None:
            return
        method, path = call.head.method, _path(call)
        listed, made = listed_kind(method, path), created_kind(method, path)
        kind = listed or made
        if kind is None:
            relay(exchange, self.service, rules)
            return
        shown = await self._whole(exchange, rules)
        if shown is None:
            return
        if listed is not None:
            shown = replace(shown, fields=list_fields(shown.fields))
        if not 200 <= shown.status < 300:
            exchange.relay = shown
        elif listed is None:
            await self.ownership.learn(exchange, call, kind, shown, _head(call).texts | body.texts)
        else:
            await self.ownership.cut(exchange, call, kind, shown)

    async def _read(self, exchange: Exchange, call: Call) -> Reading | None:
        """What the body names; None: refused."""
        if not exchange.body:
            return Reading(names=(), texts=frozenset())
        try:
            body = parse_json(exchange.body)
        except JsonInvalid as invalid:
            detail = f"the body is not strict JSON, so what it names cannot be told: {invalid}"
            exchange.deny(bad(Reason.BODY_JSON, detail))
            return None
        if holds_token(exchange.body, call.token):
            exchange.deny(leak("body"))
            return None
        reading = read_body(_path(call), body)
        return None if await self.ownership.refused(exchange, call, reading) else reading

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


def _path(call: Call) -> FountainPath:
    path = read_path(call.needs.upstream)
    if path is None:
        raise ValueError("a path that has no route")
    return path


def _asked(call: Call) -> Fields:
    listed = listed_kind(call.head.method, _path(call)) is not None
    return asked_fields(call.head.fields, listed=listed)


def _head(call: Call) -> Reading:
    return read_head(_path(call), call.query or b"", _asked(call))
