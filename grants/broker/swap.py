"""The box's token out, the secret's value in, and back again in what the host repeats.

A box sends its token wherever the API expects the key. Header values are swapped as they are and under the base64 of
Basic credentials; the query under its percent-encoding. Nothing else is changed: where the token stands after that,
in whatever spelling, the request is refused. In the answer everything that was put in is taken out again.
Source: "egress" in the specification.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import final
from urllib.parse import quote

from grants.basic import decode_basic, encode_basic, is_basic
from grants.message import Fields

from .search import holds


class Place(StrEnum):
    """Where a token was left over."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Swapped:
    """A request with the value in. Nothing of it may be shown.

    Attributes:
        fields: to be sent.
        query: to be sent, None when there is none.
        pairs: what went out, and what the box sent in its place: `restore` puts it back. The longest first.
    """

    fields: Fields = field(repr=False)
    query: bytes | None = field(repr=False)
    pairs: tuple[tuple[bytes, bytes], ...] = field(repr=False)

    @property
    def needles(self) -> tuple[bytes, ...]:
        """All spellings of the value that an answer may not hold."""
        return tuple(out for out, _ in self.pairs)


def swap(fields: Fields, query: bytes | None, *, token: bytes, value: bytes) -> Swapped:
    """Put `value` where the box put `token`. Total: never raises.

    Args:
        fields: the request's, hop-by-hop fields already left out.
        query: as it came, without the question mark; None when there is none.
        token: of the box; not empty.
        value: of the secret.
    """
    pairs = {value: token, _quoted(value): _quoted(token)}
    filled = tuple([(name, _swap_value(content, token, value, pairs)) for name, content in fields])
    if query is not None:
        for spelling in sorted({token, _quoted(token)}, key=len, reverse=True):
            query = query.replace(spelling, _quoted(value))
    return Swapped(fields=filled, query=query, pairs=tuple(sorted(pairs.items(), key=_longest)))


def leftover(token: bytes, *, path: bytes, query: bytes | None, fields: Fields) -> Place | None:
    """Where the token still stands, in any spelling that `grants.broker.search` knows, or in a field's name."""
    lower = token.lower()
    if any(lower in name.lower() for name, _ in fields):
        return Place.HEADER
    # no token holds a line break, so one search does for all that hold none
    contents = b"\n".join([content for _, content in fields])
    if not holds(b"\n".join((path, query or b"", contents)), token):
        return None
    if holds(path, token):
        return Place.PATH
    return Place.QUERY if query is not None and holds(query, token) else Place.HEADER


def restore(fields: Fields, pairs: tuple[tuple[bytes, bytes], ...]) -> Fields:
    """The fields of an answer, or its trailers, with the box's token where the value stood.

    A field whose name holds a value is left out.
    """
    restored = []
    for name, content in fields:
        if any(out.lower() in name.lower() for out, _ in pairs):
            continue
        for out, sent in pairs:
            content = content.replace(out, sent)
        restored.append((name, content))
    return tuple(restored)


def _swap_value(content: bytes, token: bytes, value: bytes, pairs: dict[bytes, bytes]) -> bytes:
    plain = decode_basic(content) if is_basic(content) else None
    if plain is None or token not in plain:
        return content.replace(token, value)
    whole = encode_basic(plain.replace(token, value))
    pairs[whole[6:]] = content[6:]
    return whole


def _quoted(text: bytes) -> bytes:
    return quote(text, safe="").encode("ascii")


def _longest(pair: tuple[bytes, bytes]) -> int:
    return -len(pair[0])
