"""`/fountain`: Fountain knows only the operator, so whatever a request names must be the box's own.

A body is read whole, and sent on as the JSON that it was read as. A list is read whole and cut down, the answer to a
creation is read whole for the id; everything else streams.
Source: "fountain" in the specification.
"""

from dataclasses import dataclass, field, replace
from typing import Final, final

from addons.exchange import Exchange
from addons.policy import Service
from addons.ports import Upstream, UpstreamFailed
from addons.send import deny_failed
from grants.broker.fountain import (
    JSON_FIELDS,
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
    request_texts,
    take_body,
)
from grants.coding import content_codings
from grants.decision import Deny, Reason
from grants.jsontext import JsonValue
from grants.message import Fields, Relay

from .call import Call
from .credentialed import credentialed, relay, request_with
from .denials import bad, unreadable
from .ownership import Ownership
from .parts import HELD_BYTES, Credential
from .rules import BrokerRules, with_fields

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
        body: JsonValue = None
        if exchange.body:
            body = await self._taken(exchange, call)
            rules = replace(rules, request=with_fields(rules.request, JSON_FIELDS))
        if exchange.denial is not None:
            return
        method, path = call.head.method, _path(call)
        listed, made = listed_kind(method, path), created_kind(method, path)
        if listed is None and made is None:
            relay(exchange, self.service, rules)
            return
        if made is not None:
            await call.broker.state.ready(call.box.key)
        shown = await self._whole(exchange, rules)
        if shown is None:
            return
        if listed is not None:
            await self.ownership.cut(exchange, call, listed, replace(shown, fields=list_fields(shown.fields)))
        if made is not None:
            asked = request_texts(call.needs.upstream, call.query or b"", _asked(call), body)
            await self.ownership.learn(exchange, call, made, shown, asked)

    async def _taken(self, exchange: Exchange, call: Call) -> JsonValue:
        """The body, unless it is refused for its form or for what it holds."""
        body = take_body(call.head.fields, exchange.body)
        if isinstance(body, Deny):
            exchange.deny(body)
            return None
        await self.ownership.refused(exchange, call, read_body(_path(call), body))
        return body

    async def _whole(self, exchange: Exchange, rules: BrokerRules) -> Relay | None:
        """The whole answer as the box may see it; None: refused."""
        sent = request_with(rules, exchange.body if exchange.announced != 0 else None)
        exchange.secret_refs, exchange.bytes_out = rules.names, len(exchange.body)
        try:
            response = await self.upstream.send(sent.request, max_body=HELD_BYTES, timeout=_SECONDS)
        except UpstreamFailed as failed:
            deny_failed(exchange, failed, None)
            return None
        exchange.bytes_in = len(response.body)
        exchange.upstream_status = response.status
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
