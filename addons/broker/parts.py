"""What a broker works with: its upstreams and credentials, what it remembers, and the parts that answer its routes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, final

from addons.boxes import Boxes
from addons.ports import Vault
from grants.broker.capabilities import Route, Served
from grants.broker.declaration import Report
from grants.broker.fountain import Holding, Kind
from grants.broker.payer import Payer
from grants.secret import Secret

if TYPE_CHECKING:
    from addons.exchange import Exchange

    from .call import Call

HELD_BYTES = 32 * 1024 * 1024
"""The most that is held of a body, of a request or an answer."""


class BrokerState(Protocol):
    """What the broker remembers of a box, by its key. Every method raises `StateUnavailable`."""

    async def report_of(self, box: str) -> Report | None:
        """A box's last report; None: it has never reported."""
        ...

    async def save_report(self, box: str, report: Report, *, at: str) -> None:
        """Put a report in place of the last. It is durable when this returns.

        Raises:
            StateUnavailable: also where another one was put there meanwhile, so that none replaces a later one.
        """
        ...

    async def visitor(self, grant: bytes, box: str) -> "Visitor | None":
        """Whose live grant for that box this is."""
        ...

    async def owned(self, box: str, kind: Kind) -> frozenset[str]:
        """What a box has learned to be its own at Fountain."""
        ...

    async def owners(self, identifiers: frozenset[str]) -> tuple[Holding, ...]:
        """Which boxes, of all that there are, have learned these ids or were given them when they were added."""
        ...

    async def ready(self, box: str) -> None:
        """Show that something can be stored for a box now, by storing it: for before a thing is made that is to be
        learned.
        """
        ...

    async def learn(self, box: str, kind: Kind, identifier: str) -> bool:
        """Remember that something is a box's own. False: it is another's by then, or cannot be an id."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A credential as it is now.

    Attributes:
        needles: what an answer may not hold: this value, and those before it that may still live.
    """

    value: bytes = field(repr=False)
    needles: tuple[Secret, ...] = field(repr=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One credential. `name`: what records call it, and its name in the vault."""

    name: str
    vault: Vault = field(repr=False)

    async def open(self) -> Opened | None:
        """The value now; None while it cannot be read."""
        held = await self.vault.open()
        value = held.values.get(self.name)
        return None if value is None else Opened(value=value.reveal(), needles=held.needles)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A person whose turn it is, with the credential that pays for it."""

    principal: str
    credential: Credential


class Part(Protocol):
    """Answers one route. The rule has been applied where the route's words are known from its head."""

    async def begin(self, exchange: "Exchange", call: "Call") -> None:
        """The head was read: refuse, set `body_limit` for a body that is to be held, or say how it is relayed."""
        ...

    async def act(self, exchange: "Exchange", call: "Call") -> None:
        """The request is complete, or relayed: answer it, unless somebody behind this does."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker.

    Attributes:
        word: the broker word that it answers for.
        boxes: who may ask.
        parts: what answers each route that is served.
        payer: who pays for a box's model calls on no visitor's turn; None: there are none.
    """

    word: str
    served: Served
    boxes: Boxes
    state: BrokerState = field(repr=False)
    parts: Mapping[Route, Part] = field(repr=False)
    payer: Callable[[str], Payer | None] = field(default=lambda _box: None, repr=False)
