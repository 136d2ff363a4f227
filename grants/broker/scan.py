"""Values looked for in a stream, across the borders of its pieces, without holding the stream back.

Whatever cannot be part of a value goes on at once. Only an end that could be the beginning of one waits for the next
piece, so an event that ends in a line break is never delayed by a value that holds none.
Source: "Credential guarantee" in the specification.
"""

from dataclasses import dataclass
from typing import final

from .needles import Pattern


@final
@dataclass(frozen=True, slots=True)
class Disclosed:
    """A value stands in the stream: nothing that was not given out yet may be."""


@final
class Scanner:
    """Looks for a pattern in one stream. Never shows what it looks for.

    Attributes:
        tail: what was held back. Two scanners of the same pattern that hold the same back are in the same state.
    """

    __slots__ = ("_found", "_pattern", "tail")

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self.tail = b""
        self._found = False

    def __repr__(self) -> str:
        return "<scanner>"

    def feed(self, piece: bytes) -> bytes | Disclosed:
        """What may go on now. Once a value was found the answer stays `Disclosed`."""
        data = self.tail + piece
        if self._found or self._pattern.found(data):
            self._found = True
            self.tail = b""
            return Disclosed()
        cut = len(data) - self._pattern.begun(data)
        self.tail = data[cut:]
        return data[:cut]

    def finish(self) -> bytes | Disclosed:
        """What was held back, when the stream has ended whole."""
        rest, self.tail = self.tail, b""
        return Disclosed() if self._found else rest
