"""`/llm/anthropic`: path, query and body go on as they are, with the payer's credential where the token was."""

from dataclasses import dataclass
from typing import final

from addons.exchange import Exchange
from addons.policy import Service
from grants.decision import Deny

from .call import Call
from .credentialed import credentialed, relay
from .payers import Payers


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InferencePart:
    """Relays to the Anthropic API."""

    service: Service
    payers: Payers

    async def begin(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        exchange.service = self.service
        paid = await self.payers.choose(call)
        if isinstance(paid, Deny):
            exchange.deny(paid)
            return
        rules = credentialed(
            call,
            self.service,
            fields=paid.fields(call.head.fields),
            opened=paid.opened,
            name=paid.name,
            added=paid.header,
        )
        if isinstance(rules, Deny):
            exchange.deny(rules)
        else:
            relay(exchange, self.service, rules)

    async def act(self, exchange: Exchange, call: Call) -> None:
        """See `Part`: the relay does."""
