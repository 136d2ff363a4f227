"""Who owns what at Fountain, and what follows of it for a request, the answer to a creation, and a list.

What a box owns is what its settings list and what it created through the broker.
Source: "fountain" in the specification.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

from addons.exchange import Exchange
from grants.broker.fountain import (
    Holding,
    Kind,
    Owned,
    Reading,
    created,
    cut,
    foreign,
    is_id,
    may_list,
)
from grants.jsontext import JsonInvalid, JsonValue, parse_json
from grants.message import Relay

from .answers import encoded
from .call import Call
from .denials import another_method, countless, not_own, unusable


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Asks the settings and what was learned. `own`: by the box's name, what its settings list."""

    own: Mapping[str, Owned] = field(default_factory=dict)

    async def refused(self, exchange: Exchange, call: Call, reading: Reading) -> bool:
        """Whether a request, of which `reading` is a part, is refused for what it names."""
        if reading.full:
            exchange.deny(countless())
        elif reading.override:
            exchange.deny(another_method())
        else:
            texts = reading.texts
            named = [name.id for name in reading.names]
            holdings = await self._holdings(call, [*named, *texts, *map(str.lower, texts)])
            other = foreign(reading.names, texts, call.box.name, holdings)
            if other is not None:
                exchange.deny(not_own(other.kind))
        return exchange.denial is not None

    async def learn(self, exchange: Exchange, call: Call, kind: Kind, shown: Relay, asked: frozenset[str]) -> None:
        """Take the id in the answer to a creation for the box's, unless it may be of something that was there before.

        An answer without an id teaches nothing and is shown, so that a box learns that what it asked for was done:
        unless it may be a list.

        Args:
            shown: the answer, as the box may see it.
            asked: the texts of the request.
        """
        answer = _json(shown.body)
        identifier = created(kind, answer)
        if identifier is None and may_list(answer):
            exchange.deny(
                unusable(f"the answer to the creation of a {kind.value} is a list, which shows what others own")
            )
        elif identifier is None or await self._taken(call, kind, identifier, asked):
            exchange.relay = shown
        else:
            exchange.deny(
                unusable(
                    f"Fountain gave an id for the new {kind.value} that is another box's or stands in the request, so "
                    "it may be of something that was there before; leave the choice of the id to Fountain"
                )
            )

    async def cut(self, exchange: Exchange, call: Call, kind: Kind, shown: Relay) -> None:
        """Show of a list what is the box's own."""
        listed = self.own.get(call.box.name, {}).get(kind, frozenset())
        own = cut(_json(shown.body), listed | await call.broker.state.owned(call.box.name, kind))
        if own is None:
            exchange.deny(unusable("the list is in a form in which the box's own cannot be told from others'"))
            return
        body = encoded(own)
        exchange.relay = Relay(status=shown.status, fields=shown.fields, body=body, length=len(body))

    async def _taken(self, call: Call, kind: Kind, identifier: str, asked: frozenset[str]) -> bool:
        """Whether the id is the box's own, now or from now on."""
        holders = {held.box for held in await self._holdings(call, [identifier]) if held.kind is kind}
        if holders or identifier in asked:
            return call.box.name in holders
        return await call.broker.state.learn(call.box.name, kind, identifier)

    async def _holdings(self, call: Call, identifiers: Iterable[str]) -> tuple[Holding, ...]:
        """Who owns these, by the settings and by what was learned."""
        asked = frozenset(filter(is_id, identifiers))
        listed = [
            Holding(box=box, kind=kind, id=each)
            for box, owned in self.own.items()
            for kind, known in owned.items()
            for each in known & asked
        ]
        return (*listed, *(await call.broker.state.owners(asked) if asked else ()))


def _json(body: bytes) -> JsonValue:
    try:
        return parse_json(body)
    except JsonInvalid:
        return None
