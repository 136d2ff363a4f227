"""How the broker relays: the request as it was built, the answer without credentials, cookies and codings.

The same rules hold an answer that is read whole. A value in a header becomes what the box sent in its place; one that
stands anywhere else keeps the answer from being shown.
"""

from dataclasses import dataclass, field, replace
from typing import Final, final

from addons.exchange import Exchange
from addons.policy import Relayed, Service
from addons.relay_head import Called, request_of
from addons.relay_rules import Ready, Screen, called_url
from addons.streams import ResponseHead
from grants.broker.capabilities import Needs
from grants.broker.needles import Pattern, needles
from grants.broker.search import holds
from grants.broker.swap import restore
from grants.coding import CodingError, content_codings, decode
from grants.decision import Deny
from grants.framing import HOP_BY_HOP, folded
from grants.message import Fields, Origin, Outgoing, Relay, RequestHead, Response
from grants.secret import Secret
from grants.target import encode_path

from .denials import disclosed, leak, uncoded
from .parts import HELD_BYTES
from .screen import BodyScreen

TOKEN_FIELDS: Final = frozenset({b"authorization", b"x-api-key"})
_NEVER_SENT: Final = frozenset({b"chant-grant", b"accept-encoding", b"proxy-authorization"})
_NEVER_SHOWN: Final = frozenset({b"set-cookie", b"set-cookie2", b"chant-payer", b"alt-svc"})
_FRAMING: Final = HOP_BY_HOP | {b"content-length", b"content-encoding"}


def outgoing(
    head: RequestHead,
    needs: Needs,
    query: bytes | None,
    *,
    origin: Origin,
    base: tuple[str, ...],
    drop: frozenset[bytes],
) -> Outgoing | Deny:
    """The request for an upstream, without the fields of `drop`, folded names, and without any credential yet."""
    target = needs.upstream + (b"" if query is None else b"?" + query)
    asked = request_of(
        replace(head, target=target), origin=origin, base=base, websocket=False, authority=None, scheme="http"
    )
    if isinstance(asked, Deny):
        return asked
    fields = [(name, value) for name, value in asked.request.fields if folded(name) not in drop | _NEVER_SENT]
    return replace(asked.request, fields=(*fields, (b"Accept-Encoding", b"identity")))


def with_fields(request: Outgoing, fields: Fields) -> Outgoing:
    """The request with further fields."""
    return replace(request, fields=request.fields + fields)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRules:
    """Implements `addons.relay_rules.RelayRules`.

    Attributes:
        request: with the credential in it.
        names: of the credentials that are in it.
        prefix: of the broker's path that stands for the upstream.
        needles: what no answer may hold.
        pairs: what went out, and what the box is shown for it in a header.
        added: to the fields of the answer.
        unsent: what the request's body may not hold; None where the body is not searched.
    """

    request: Outgoing = field(repr=False)
    names: tuple[str, ...]
    prefix: bytes
    needles: tuple[Secret, ...] = field(repr=False)
    pairs: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    added: Fields = ()
    unsent: Pattern | None = field(default=None, repr=False)

    async def ready(self, exchange: Exchange, service: Service, way: Relayed) -> Ready | Deny:
        """See `RelayRules`."""
        return Ready(request=self.request, upgrade=False, names=self.names)

    def shown(self, head: ResponseHead, *, bodiless: bool) -> ResponseHead | Deny:
        """See `RelayRules`."""
        codings = content_codings(head.fields)
        coded = bool(codings) and not bodiless
        fields = restore(tuple([pair for pair in head.fields if pair[0].lower() not in _NEVER_SHOWN]), self.pairs)
        if coded:
            try:
                BodyScreen(needles(()), disclosed(), codings)
            except CodingError:
                return uncoded()
            fields = tuple([pair for pair in fields if pair[0].lower() not in (b"content-encoding", b"content-length")])
        left = b"\n".join([part for pair in fields for part in pair])
        if holds(left, *self._values()):
            return disclosed()
        return replace(head, fields=fields + self.added, length=None if coded else head.length)

    def called(self, exchange: Exchange, service: Service) -> Called | None:
        """See `RelayRules`."""
        base = encode_path(service.base) if service.base else b""
        return Called(url=called_url(exchange) + self.prefix, upstream=service.upstream, base=base)

    def upload(self) -> Screen | None:
        """See `RelayRules`."""
        return None if self.unsent is None else BodyScreen(self.unsent, leak("body"))

    def download(self, head: ResponseHead, *, bodiless: bool) -> Screen | None:
        """See `RelayRules`."""
        codings = () if bodiless else content_codings(head.fields)
        return BodyScreen(needles(self._values()), disclosed(), codings)

    def whole(self, exchange: Exchange, service: Service, response: Response) -> Relay | Deny:
        """The same for an answer that was read whole: as the box may see it, codings off."""
        head = ResponseHead(status=response.status, reason=response.reason, fields=response.fields, length=None)
        shown = self.shown(head, bodiless=not response.body)
        if isinstance(shown, Deny):
            return shown
        try:
            layers = decode(content_codings(response.fields), response.body, limit=HELD_BYTES)
        except CodingError:
            return uncoded()
        if any(holds(layer, *self._values()) for layer in layers):
            return disclosed()
        called = self.called(exchange, service)
        fields = tuple(
            [
                (name, called.location(value) if called is not None and name.lower() == b"location" else value)
                for name, value in shown.fields
                if name.lower() not in _FRAMING
            ]
        )
        return Relay(status=response.status, fields=fields, body=layers[-1], length=len(layers[-1]))

    def _values(self) -> tuple[bytes, ...]:
        return tuple([needle.reveal() for needle in self.needles])
