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

    Attributes:
        tail: what was held back. Two scanners of the same needles that hold the same back are in the same state.
    """

    __slots__ = ("_found", "_needles", "tail")

    def __init__(self, needles: Iterable[bytes]) -> None:
        self._needles = tuple({needle: None for needle in needles if needle})
        self.tail = b""
        self._found = False

    def __repr__(self) -> str:
        return f"<scanner for {len(self._needles)} values>"

    def feed(self, piece: bytes) -> bytes | Disclosed:
        """What may go on now. Once a value was found the answer stays `Disclosed`."""
        data = self.tail + piece
        if self._found or any(needle in data for needle in self._needles):
            self._found = True
            self.tail = b""
            return Disclosed()
        held = max((_beginning(data, needle) for needle in self._needles), default=0) if data else 0
        cut = len(data) - held
        self.tail = data[cut:]
        return data[:cut]

    def finish(self) -> bytes | Disclosed:
        """What was held back, when the stream has ended whole."""
        rest, self.tail = self.tail, b""
        return Disclosed() if self._found else rest


def _beginning(data: bytes, needle: bytes) -> int:
    """The length of the longest end of `data` that is a beginning of `needle`, not all; `data` is not empty."""
    last = data[-1:]
    end = min(len(needle) - 1, len(data))
    # few bytes of a value are the last one of the data, so few beginnings are compared
    while (end := needle.rfind(last, 0, end)) != -1:
        if data.endswith(needle[: end + 1]):
            return end + 1
    return 0
