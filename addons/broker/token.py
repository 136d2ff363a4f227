"""Where a request shows its box's token: in `Authorization` or `x-api-key`, and on egress wherever an API has its key.

What is found are candidates; a box is found by the digest of one, so that how long that takes tells nothing. Every
field and the query are looked at on every route: the token of another box would go on from there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final
from urllib.parse import unquote_to_bytes

from grants.basic import decode_basic, is_basic
from grants.message import RequestHead
from grants.secret import MIN_SECRET_BYTES

MOST: Final = 256
"""Candidates that are looked up; a request with more is refused, as a token could stand behind them."""

_BEARER: Final = b"bearer"
_WORD: Final = re.compile(rb"[^\s,;=\"']{%d,}" % MIN_SECRET_BYTES)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What may be a token, each once.

    Attributes:
        read: where the box's own is read from.
        beside: in other places, where none may stand but the same.
    """

    read: tuple[bytes, ...]
    beside: tuple[bytes, ...]

    @property
    def too_many(self) -> bool:
        """Whether there are more than are looked up."""
        return len(self.read) + len(self.beside) > MOST


def candidates(head: RequestHead, query: bytes | None, *, anywhere: bool) -> Candidates:
    """What may be a token; `anywhere`: it is read from every field and from the query."""
    named = dict.fromkeys(_named(head))
    all_over = dict.fromkeys([*named, *_in_fields(head), *_in_query(query or b"")])
    read = all_over if anywhere else named
    return Candidates(
        read=tuple(filter(_long, read)), beside=tuple([text for text in all_over if text not in read and _long(text)])
    )


def _named(head: RequestHead) -> Iterator[bytes]:
    for name, value in head.fields:
        lower = name.lower()
        if lower == b"x-api-key":
            yield value
        elif lower == b"authorization":
            scheme, _, rest = value.partition(b" ")
            if scheme.lower() == _BEARER:
                yield rest.strip()


def _in_fields(head: RequestHead) -> Iterator[bytes]:
    for _, value in head.fields:
        yield from (value, value.partition(b" ")[2], *_WORD.findall(value))
        plain = decode_basic(value) if is_basic(value) else None
        if plain is not None:
            user, _, password = plain[6:].partition(b":")
            yield from (plain[6:], user, password)


def _in_query(query: bytes) -> Iterator[bytes]:
    for pair in re.split(rb"[&;]", query):
        value = pair.partition(b"=")[2]
        yield from (value, unquote_to_bytes(value), unquote_to_bytes(value.replace(b"+", b" ")))


def _long(text: bytes) -> bool:
    return len(text) >= MIN_SECRET_BYTES
