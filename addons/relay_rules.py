"""What differs between relays: how the request is built, what of the answer's head is shown, what is searched for.

How the bytes are carried is in `relay`, and the same for all. The rules of a trusted upstream are the ones here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol, final

from grants.decision import Deny
from grants.message import Outgoing
from grants.references import seal
from grants.target import encode_path

from .exchange import Exchange
from .inject import with_injected, without_injected
from .policy import Relayed, Service
from .record import Mode
from .relay_head import Called, request_of
from .streams import ResponseHead


class Withheld(Exception):
    """A stream holds what may not go on. Carries the refusal; what was not given out yet never is."""

    def __init__(self, denial: Deny) -> None:
        super().__init__(denial.reason.value)
        self.denial = denial


class Screen(Protocol):
    """Looks at one body as it is carried. Both methods raise `Withheld`."""

    def feed(self, piece: bytes) -> Iterable[bytes]:
        """What of it, and of what came before, may go on now. No piece is empty."""
        ...

    def finish(self) -> Iterable[bytes]:
        """What was held back, when the body has ended whole."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A request as it goes upstream, its secrets in it. Nothing of it may be shown.

    Attributes:
        upgrade: it asks for another protocol.
        names: of the secrets that are in it.
    """

    request: Outgoing = field(repr=False)
    upgrade: bool
    names: tuple[str, ...]


class RelayRules(Protocol):
    """How one exchange is relayed."""

    async def ready(self, exchange: Exchange, service: Service, way: Relayed) -> Ready | Deny:
        """The request, or why it is refused: then nothing goes upstream."""
        ...

    def shown(self, head: ResponseHead, *, bodiless: bool) -> ResponseHead | Deny:
        """The answer's head as the client may see it. `bodiless`: no body follows, whatever it says."""
        ...

    def called(self, exchange: Exchange, service: Service) -> Called | None:
        """How the client calls the upstream, for `Location`; None where it calls it by its own name."""
        ...

    def upload(self) -> Screen | None:
        """Looks at the request's body; None: nobody does."""
        ...

    def download(self, head: ResponseHead, *, bodiless: bool) -> Screen | None:
        """Looks at the body that follows `head`, as it came; None: nobody does. `bodiless`: as for `shown`."""
        ...


@final
@dataclass(frozen=True, slots=True)
class TrustedRules:
    """A trusted upstream: references are filled in, nothing is changed or searched."""

    async def ready(self, exchange: Exchange, service: Service, way: Relayed) -> Ready | Deny:
        """See `RelayRules`."""
        if exchange.head is None:
            raise ValueError("a relay without a head")
        base = () if exchange.arrival.mode is Mode.PROXY else service.base
        asked = request_of(
            without_injected(exchange.head, service.inject),
            origin=service.upstream,
            base=base,
            websocket=way.websocket,
            authority=exchange.authority,
            scheme="https" if exchange.arrival.encrypted else "http",
            has_body=exchange.announced != 0,
        )
        if isinstance(asked, Deny):
            return asked
        held = await service.vault.open()
        sealed = seal(with_injected(asked.request, service.inject), held.values, service.secrets)
        if isinstance(sealed, Deny):
            return sealed
        return Ready(request=sealed.request, upgrade=asked.upgrade, names=sealed.names)

    def shown(self, head: ResponseHead, *, bodiless: bool) -> ResponseHead | Deny:
        """See `RelayRules`."""
        return head

    def called(self, exchange: Exchange, service: Service) -> Called | None:
        """See `RelayRules`."""
        if exchange.arrival.mode is Mode.PROXY or exchange.head is None:
            return None
        return Called(
            url=called_url(exchange) + exchange.box_prefix,
            upstream=service.upstream,
            base=encode_path(service.base) if service.base else b"",
        )

    def upload(self) -> Screen | None:
        """See `RelayRules`."""
        return None

    def download(self, head: ResponseHead, *, bodiless: bool) -> Screen | None:
        """See `RelayRules`."""
        return None


TRUSTED: Final = TrustedRules()


def called_url(exchange: Exchange) -> bytes:
    """`http://HOST`, by which the client calls us."""
    fields = () if exchange.head is None else exchange.head.fields
    host = next((value for name, value in fields if name.lower() == b"host"), b"")
    return (b"https://" if exchange.arrival.encrypted else b"http://") + host
