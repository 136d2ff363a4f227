"""Capabilities that the settings add: relayed to their upstream, with its credential in the field it expects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from addons.exchange import Exchange
from addons.policy import Service
from grants.decision import Deny

from .call import Call
from .credentialed import credentialed, relay
from .denials import unreadable
from .parts import Credential
from .token import streamed


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """One capability. `header`: the field that its credential is put into, as the whole value."""

    service: Service
    credential: Credential
    header: bytes


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraPart:
    """Relays to their upstreams, by the capability's name."""

    additions: Mapping[str, Addition]

    async def begin(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        addition = self.additions[call.needs.capability or ""]
        exchange.service = addition.service
        opened = await addition.credential.open()
        if opened is None:
            exchange.deny(unreadable(addition.credential.name))
            return
        rules = credentialed(
            call,
            addition.service,
            fields=((addition.header, opened.value),),
            opened=opened,
            name=addition.credential.name,
            unsent=await streamed(call),
        )
        if isinstance(rules, Deny):
            exchange.deny(rules)
        else:
            relay(exchange, addition.service, rules)

    async def act(self, exchange: Exchange, call: Call) -> None:
        """See `Part`: the relay does."""
