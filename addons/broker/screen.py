"""Searches a body while it is relayed: codings off, values out, and nothing held back but what may begin one."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import final
from urllib.parse import quote

from addons.relay_rules import Withheld
from grants.basic import encoded_cores
from grants.broker.coded import StreamDecoder
from grants.broker.scan import Disclosed, Scanner
from grants.coding import CodingError
from grants.decision import Deny
from grants.secret import Secret

from .denials import uncoded


@final
class BodyScreen:
    """Implements `addons.relay_rules.Screen`.

    Args:
        needles: what may not go on.
        denial: the refusal when one is found.
        codings: taken off first: what goes on is what was searched.

    Raises:
        CodingError: one of the codings is not known, or there are too many.
    """

    def __init__(self, needles: Iterable[bytes], denial: Deny, codings: Sequence[bytes] = ()) -> None:
        self._scanner = Scanner(needles)
        self._decoder = StreamDecoder(codings)
        self._denial = denial

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """See `Screen`."""
        pieces = self._decoder.feed(piece)
        while (decoded := _next(pieces)) is not None:
            yield from self._let(self._scanner.feed(decoded))

    def finish(self) -> Iterator[bytes]:
        """See `Screen`."""
        try:
            self._decoder.finish()
        except CodingError:
            raise Withheld(uncoded()) from None
        yield from self._let(self._scanner.finish())

    def _let(self, found: bytes | Disclosed) -> Iterator[bytes]:
        if isinstance(found, Disclosed):
            raise Withheld(self._denial)
        if found:
            yield found


def _next(pieces: Iterator[bytes]) -> bytes | None:
    try:
        return next(pieces, None)
    except CodingError:
        raise Withheld(uncoded()) from None


def spellings(needles: Iterable[Secret]) -> tuple[bytes, ...]:
    """Each value as it is, percent-encoded in either case, as it stands in base64, and as writers of JSON escape it."""
    found: dict[bytes, None] = {}
    for needle in needles:
        value = needle.reveal()
        quoted = quote(value, safe="").encode()
        lower = re.sub(rb"%[0-9A-F]{2}", lambda octet: octet[0].lower(), quoted)
        found.update(dict.fromkeys((value, quoted, lower, *encoded_cores(value), *_escaped(value))))
    return tuple(found)


def _escaped(value: bytes) -> Iterator[bytes]:
    """The value inside of a JSON string, as its writers have it: only what must be is escaped, or the slash too, or
    some, or all that is no letter or digit, or everything as `\\u00XX`.
    """
    least = json.dumps(value.decode("ascii"))[1:-1].encode()
    yield least
    yield least.replace(b"/", b"\\/")
    for chosen in (rb"[\"&'+<>\\`]", rb"[^A-Za-z0-9]", rb"."):
        for form in ("\\u%04x", "\\u%04X"):
            yield re.sub(chosen, lambda octet, form=form: (form % octet[0][0]).encode(), value)
