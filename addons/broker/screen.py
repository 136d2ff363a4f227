"""Searches a body while it is relayed: codings off, values out, and nothing held back but what may begin one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import final

from addons.relay_rules import Withheld
from grants.broker.coded import StreamDecoder
from grants.broker.scan import Disclosed
from grants.broker.search import Search
from grants.coding import CodingError
from grants.decision import Deny

from .denials import uncoded


@final
class BodyScreen:
    """Implements `addons.relay_rules.Screen`.

    Args:
        values: what may not go on, in any spelling that `grants.broker.search` knows.
        denial: the refusal when one is found.
        codings: taken off first: what goes on is what was searched.

    Raises:
        CodingError: one of the codings is not known, or there are too many.
    """

    def __init__(self, values: Iterable[bytes], denial: Deny, codings: Sequence[bytes] = ()) -> None:
        self._search = Search(values)
        self._decoder = StreamDecoder(codings)
        self._denial = denial

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """See `Screen`."""
        pieces = self._decoder.feed(piece)
        while (decoded := _next(pieces)) is not None:
            yield from self._let(self._search.feed(decoded))

    def finish(self) -> Iterator[bytes]:
        """See `Screen`."""
        try:
            self._decoder.finish()
        except CodingError:
            raise Withheld(uncoded()) from None
        yield from self._let(self._search.finish())

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
