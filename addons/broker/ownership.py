"""Who owns what at Fountain, and what follows of it for a request, the answer to a creation, and a list.

What a box owns is what its settings list and what it created through the broker.
Source: "fountain" in the specification.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

from addons.exchange import Exchange
from addons.ports import StateUnavailable
from grants.broker.fountain import (
    Holding,
    Kind,
    Owned,
    Reading,
    created,
    cut,
    foreign,
    is_id,
    may_be_taken,
    stands_in,
    tells_no_list,
)
from grants.jsontext import JsonInvalid, JsonValue, parse_json
from grants.message import Relay

from .answers import encoded
from .call import Call
from .denials import not_own, unlearned, untold, unusable


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Asks the settings and what was learned. `own`: by the box's key, what its settings list."""

    own: Mapping[str, Owned] = field(default_factory=dict)

    async def refused(self, exchange: Exchange, call: Call, reading: Reading) -> bool:
        """Whether a request, of which `reading` is a part, is refused for what it names."""
        if reading.fault is not None:
            exchange.deny(untold(reading.fault))
        else:
            texts = reading.texts
            named = [name.id for name in reading.names]
            holdings = await self._holdings(call, [*named, *texts, *map(str.lower, texts)])
            other = foreign(reading.names, texts, call.box.key, holdings)
            if other is not None:
                exchange.deny(not_own(other.kind))
        return exchange.denial is not None

    async def learn(self, exchange: Exchange, call: Call, kind: Kind, shown: Relay, asked: Iterable[str]) -> None:
        """Take the id in the answer to a creation for the box's, unless it may be of something that was there before.

        An answer without an id teaches nothing and is shown, so that a box learns that what it asked for was done:
        unless it may be a list.

        Args:
            shown: the answer, as the box may see it.
            asked: the texts of the request.
        """
        answer = self._understood(exchange, shown)
        if answer is None:
            return
        identifier = created(kind, answer)
        try:
            taken = identifier is not None and await self._taken(call, kind, identifier, asked)
        except StateUnavailable:
            exchange.deny(unlearned(kind))
            return
        if identifier is None and tells_no_list(answer, failed=False):
            exchange.relay = shown
        elif identifier is None:
            exchange.deny(
                unusable(f"the answer to the creation of a {kind.value} may be a list, which shows what others own")
            )
        elif taken:
            exchange.relay = shown
        else:
            exchange.deny(
                unusable(
                    f"Fountain gave an id for the new {kind.value} that is another box's, stands in the request, or is "
                    "none, so it may be of something that was there before; leave the choice of the id to Fountain"
                )
            )

    async def cut(self, exchange: Exchange, call: Call, kind: Kind, shown: Relay) -> None:
        """Show of a list what is the box's own."""
        answer = self._understood(exchange, shown)
        if answer is None:
            return
        listed = self.own.get(call.box.key, {}).get(kind, frozenset())
        own = cut(answer, listed | await call.broker.state.owned(call.box.key, kind))
        if own is None:
            exchange.deny(unusable("the list is in a form in which the box's own cannot be told from others'"))
            return
        body = encoded(own)
        exchange.relay = Relay(status=shown.status, fields=shown.fields, body=body, length=len(body))

    def _understood(self, exchange: Exchange, shown: Relay) -> JsonValue:
        """The answer of a success, to be looked into. None: it was shown, or refused, for what it is."""
        if not shown.body:
            exchange.relay = shown
            return None
        try:
            answer = parse_json(shown.body)
        except JsonInvalid:
            answer = None
        if 200 <= shown.status < 300 and answer is not None:
            return answer
        if tells_no_list(answer, failed=True):
            exchange.relay = shown
        else:
            exchange.deny(
                unusable(
                    f"Fountain answered with the status {shown.status} and not in JSON that shows nothing of others; "
                    "tell the operator"
                )
            )
        return None

    async def _taken(self, call: Call, kind: Kind, identifier: str, asked: Iterable[str]) -> bool:
        """Whether the id is the box's own, now or from now on."""
        holders = {held.box for held in await self._holdings(call, [identifier]) if held.kind is kind}
        if holders or not may_be_taken(identifier) or stands_in(identifier, asked):
            return call.box.key in holders
        return await call.broker.state.learn(call.box.key, kind, identifier)

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
