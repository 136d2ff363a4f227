"""Fields of a request that are about the connection, not about the operation: read, never forwarded, never matched.

Source: "Headers" in docs/reference/matching.md; RFC 9110, 7.6.1 and 10.1.1; RFC 9112, 6.
"""

import re
from typing import Final, final

from .decision import Deny, Reason, Rule
from .immutable import immutable
from .message import Fields

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Names, in lower case, that a request's own connection consumes."""

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[\t\x20-\x7e]*")
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")
_STAYS = "the connection stays HTTP/1.1: set the client to that version, so that it sends no `Upgrade`"
_OPTIONS = frozenset({b"", b"close", b"keep-alive"})


def folded(name: bytes) -> bytes:
    """A field name as a server reads it that tells neither cases nor `_` from `-` (RFC 3875, 4.1.18)."""
    return name.lower().replace(b"_", b"-")


@final
@immutable
class Framing:
    """What the connection's fields say.

    Attributes:
        length: `Content-Length` in bytes, or None without one.
        chunked: the body comes in chunks.
        expect_continue: the client waits for a 100 before it sends the body.
        rest: every other field, its name as sent and in lower case, and its value, in the client's order.
    """

    length: int | None
    chunked: bool
    expect_continue: bool
    rest: tuple[tuple[bytes, bytes, bytes], ...]

    @property
    def has_body(self) -> bool:
        """Whether a body is announced. A chunked one may turn out to be empty; it counts."""
        return self.chunked or bool(self.length)


def read_framing(fields: Fields) -> Framing | Deny:
    """Take the connection's fields apart from the rest. Total: never raises."""
    rest: list[tuple[bytes, bytes, bytes]] = []
    own: dict[bytes, bytes] = {}
    for name, value in fields:
        lower = name.lower()
        if _TOKEN.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            return _malformed(_TOKEN.fullmatch(name) is not None, lower)
        if lower not in HOP_BY_HOP:
            rest.append((name, lower, value))
        elif denial := _refused(lower, value):
            return denial
        elif lower in own and lower in _ONCE:
            return _repeated(lower)
        else:
            own[lower] = value
    length = own.get(b"content-length")
    coding = own.get(b"transfer-encoding")
    if length is not None and coding is not None:
        return _framing("the request has both Content-Length and Transfer-Encoding")
    return Framing(
        length=None if length is None else int(length),
        chunked=coding is not None,
        expect_continue=b"expect" in own,
        rest=tuple(rest),
    )


_ONCE = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect"})


def _refused(name: bytes, value: bytes) -> Deny | None:
    match name:
        case b"connection":
            options = {option.strip(b" \t").lower() for option in value.split(b",")}
            if b"upgrade" in options:
                return _forbidden(_STAYS)
            if not options <= _OPTIONS:
                return _forbidden("`Connection` may name only close and keep-alive")
        case b"upgrade":
            return _forbidden(_STAYS)
        case b"proxy-authorization":
            return _forbidden(
                "`Proxy-Authorization` belongs to the proxy, not to a request inside a tunnel; leave it out, or give "
                "a client that repeats it there the endpoint's base URL"
            )
        case b"expect":
            if value.lower() != b"100-continue":
                detail = "the only `Expect` that is met is 100-continue"
                return Deny(rule=Rule.REQUEST, reason=Reason.EXPECTATION, detail=detail, status=417)
        case b"content-length":
            if _LENGTH.fullmatch(value) is None:
                return _framing("`Content-Length` is not a plain decimal number")
        case b"transfer-encoding":
            if value.lower() != b"chunked":
                return _framing("the only `Transfer-Encoding` that is read is chunked")
        case _:
            pass
    return None


def _repeated(name: bytes) -> Deny:
    if name in {b"content-length", b"transfer-encoding"}:
        return _framing("the request has two lengths or two transfer codings")
    detail = f"`{name.decode('ascii').title()}` is given more than once"
    return Deny(rule=Rule.REQUEST, reason=Reason.HEADER_REPEATED, detail=detail)


def _malformed(name_is_good: bool, name: bytes) -> Deny:
    if name_is_good:
        detail = f"the value of request header `{name.decode('ascii')}` is not visible ASCII, spaces and tabs"
    else:
        detail = "a request header has a name that is not a token"
    return Deny(rule=Rule.REQUEST, reason=Reason.HEADER_MALFORMED, detail=detail)


def _forbidden(detail: str) -> Deny:
    return Deny(rule=Rule.REQUEST, reason=Reason.HEADER_FORBIDDEN, detail=detail)


def _framing(detail: str) -> Deny:
    return Deny(rule=Rule.BAD_REQUEST, reason=Reason.FRAMING, detail=detail, status=400)
