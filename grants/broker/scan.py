"""Values looked for in a stream, across the borders of its pieces, without holding the stream back.

Whatever cannot be part of a value goes on at once. Only an end that could be the beginning of one waits for the next
piece, so an event that ends in a line break is never delayed by a value that holds none.
Source: "Credential guarantee" in the specification.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Disclosed:
    """A value stands in the stream: nothing that was not given out yet may be."""


@final
class Scanner:
    """Looks for exact values in one stream. Never shows one.

    Args:
        needles: the values; empty ones are left out.
    """

    __slots__ = ("_found", "_needles", "_tail")

    def __init__(self, needles: Iterable[bytes]) -> None:
        self._needles = tuple({needle: None for needle in needles if needle})
        self._tail = b""
        self._found = False

    def __repr__(self) -> str:
        return f"<scanner for {len(self._needles)} values>"

    def feed(self, piece: bytes) -> bytes | Disclosed:
        """What may go on now. Once a value was found the answer stays `Disclosed`."""
        data = self._tail + piece
        if self._found or any(needle in data for needle in self._needles):
            self._found = True
            self._tail = b""
            return Disclosed()
        held = max((_beginning(data, needle) for needle in self._needles), default=0)
        cut = len(data) - held
        self._tail = data[cut:]
        return data[:cut]

    def finish(self) -> bytes | Disclosed:
        """What was held back, when the stream has ended whole."""
        rest, self._tail = self._tail, b""
        return Disclosed() if self._found else rest


def _beginning(data: bytes, needle: bytes) -> int:
    """The length of the longest end of `data` that is a beginning of `needle`, and not all of it."""
    start = max(0, len(data) - len(needle) + 1)
    while (start := data.find(needle[:1], start)) != -1:
        if needle.startswith(data[start:]):
            return len(data) - start
        start += 1
    return 0
