"""Plain values of HTTP messages, as bytes, in the order in which they came.

The core judges these and nothing else: no type of a network library enters it.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from .immutable import immutable

if TYPE_CHECKING:
    from .memo import Memo

type Fields = tuple[tuple[bytes, bytes], ...]
"""Field lines, name and value as they came (RFC 9110, 5), outer white space of the value removed."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Host and port in canonical form (RFC 3986, 3.2; RFC 5890 A-labels).

    Attributes:
        host: lower-case A-labels without a trailing dot, or an address in its usual form
            (IPv6 without brackets).
        port: 1 to 65535.
    """

    host: str
    port: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Scheme, host and effective port (RFC 6454, 4). Prints as `https://host[:port]`."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = {"https": 443, "http": 80}[self.scheme]
        return f"{self.scheme}://{host}" if self.port == default else f"{self.scheme}://{host}:{self.port}"


@final
@immutable
class RequestHead:
    """A request line and its field lines, as the client sent them (RFC 9112, 3).

    Attributes:
        memo: what the connection remembers of `fields`, for whoever asks by `memo_of`. No part of the value.
    """

    method: bytes
    target: bytes
    fields: Fields = field(repr=False)
    memo: "Memo | None" = field(default=None, repr=False, compare=False)


@final
@immutable
class Outgoing:
    """A request as it goes upstream, built from what was authorized.

    Attributes:
        origin: where it is sent.
        method: A to Z.
        target: origin form, canonical: path and, if any, query.
        fields: end-to-end fields in the client's order. `Host` and `Content-Length` are not among them:
            the upstream client makes those from `origin` and `body`.
        body: the bytes as they came; None when the request has no body.
    """

    origin: Origin
    method: bytes
    target: bytes
    fields: Fields = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


@final
@immutable
class Response:
    """A complete answer of an upstream, before any check.

    Attributes:
        status: 200 to 599; 1xx never gets here.
        reason: the reason phrase, as it came.
        fields: the header section.
        body: the body as received, content coding still on, transfer coding off.
        trailers: the trailer section of a chunked body.
    """

    status: int
    reason: bytes = field(repr=False)
    fields: Fields = field(repr=False)
    body: bytes = field(repr=False)
    trailers: Fields = field(default=(), repr=False)


@final
@immutable
class Relay:
    """An answer that may go to the client: checked, identity coding.

    `fields` has no framing field; the front adds `Content-Length` from `length`, which is the body's length, or
    for HEAD and 304 what the upstream said (None: leave it out).
    """

    status: int
    fields: Fields = field(repr=False)
    body: bytes = field(repr=False)
    length: int | None
