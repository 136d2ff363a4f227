"""The header section of an answer: bounded, well formed, and cut down to what a client may see.

Sources: RFC 9110, 5.5 (field values) and 7.6.1 (`Connection`); "What is relayed" in docs/reference/responses.md.
"""

from enum import StrEnum
from typing import Final

from .framing import HOP_BY_HOP
from .message import Fields, Response

MAX_FIELDS: Final = 256
"""Fields that a header section, and a trailer section, may have."""

MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes of a header section: reason phrase, names, values, and four for each field's colon, space and line end."""

_TOKEN: Final = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CONTROLS: Final = bytes(byte for byte in (*range(0x20), 0x7F) if byte != ord("\t"))

_NEVER_RELAYED: Final = HOP_BY_HOP | {b"content-encoding", b"set-cookie2", b"alt-svc", b"refresh"}
_NOT_RELAYED: Final = _NEVER_RELAYED | {b"set-cookie"}
"""A session minted for the injected credential is itself a credential, so a cookie needs to be granted by name."""

_MAX_LENGTH_DIGITS: Final = 18


class HeadFault(StrEnum):
    """Why the header section of an answer cannot be taken."""

    TOO_LARGE = "too-large"
    MALFORMED = "malformed"


def head_fault(response: Response) -> HeadFault | None:
    """What is wrong with the header section or the trailers. Total: never raises.

    A field name is a token; a value and the reason phrase hold no control character but the tab.
    """
    return _fault(response.reason, response.fields) or (_fault(b"", response.trailers) if response.trailers else None)


def _fault(reason: bytes, fields: Fields) -> HeadFault | None:
    if len(fields) > MAX_FIELDS:
        return HeadFault.TOO_LARGE
    names = [name for name, _ in fields]
    tokens = b"".join(names)
    text = b"".join([reason, *[value for _, value in fields]])
    if len(tokens) + len(text) + 4 * len(fields) > MAX_HEAD_BYTES:
        return HeadFault.TOO_LARGE
    if b"" in names or tokens.translate(None, _TOKEN) or len(text.translate(None, _CONTROLS)) != len(text):
        return HeadFault.MALFORMED
    return None


def relayed(fields: Fields, chosen: frozenset[str] | None) -> Fields:
    """The end-to-end fields that the client gets.

    Left out: the connection's own fields and those that `Connection` names, `Proxy-*`, the content coding, which is
    taken off, cookies, and what would send the client elsewhere (`Alt-Svc`, `Refresh`).

    Args:
        fields: as they came.
        chosen: names in lower case; only these are relayed, and `set-cookie` among them is. None: all that may be.
    """
    dropped = _NOT_RELAYED if chosen is None else _NEVER_RELAYED
    named = {
        option.strip(b" \t").lower()
        for name, value in fields
        if name.lower() == b"connection"
        for option in value.split(b",")
    }
    return tuple(
        [
            field
            for field in fields
            if (name := field[0].lower()) not in dropped
            and name not in named
            and not name.startswith(b"proxy-")
            and (chosen is None or name.decode("latin-1") in chosen)
        ]
    )


def announced_length(fields: Fields) -> int | None:
    """`Content-Length`, in bytes, of an answer whose body is not sent; None where it is absent or no plain number."""
    lengths = {value for name, value in fields if name.lower() == b"content-length"}
    value = lengths.pop() if len(lengths) == 1 else b""
    return int(value) if value.isdigit() and len(value) <= _MAX_LENGTH_DIGITS else None
