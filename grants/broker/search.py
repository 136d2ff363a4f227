"""The one search for what may not pass: the box's token on its way out, a credential's value on its way back.

A value is looked for as it is and in base64, at any place of a text and in both alphabets: in the text, and in each
view of it that percent-encoding and JSON's escapes, undone in any order up to `LAYERS` times, give. So it is found in
every mixture of them, such as the percent-encoding of base64 or JSON in a JSON string. Undoing in one order alone would
not do: what looks like an escape of one kind may be made of escapes of the other. A whole text is searched as a stream
of its pieces: there is no second way to search. Not found is base64 of one of these spellings, or of base64.
Source: "Credential guarantee" in the specification.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, final

from grants.basic import encoded_cores

from .scan import Disclosed, Scanner
from .undo import JSON, JSON_QUOTES, PERCENT, Undo

LAYERS: Final = 3
"""Times that percent-encoding or JSON's escapes are undone."""

_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_PIECE: Final = 256 * 1024


@final
class _View:
    """The stream with some escapes undone, and the search of it.

    Attributes:
        step: undoes one kind of escapes of `above`, the view that this one is made of; None: this is the stream itself.
        twin: the view that undoes the same without `above`'s step, which is this one while that step changes nothing.
        data: of the piece that was fed last.
        before: what waited before it, as `waits`.
    """

    __slots__ = ("above", "before", "data", "scanner", "step", "twin")

    def __init__(self, needles: tuple[bytes, ...], step: Undo, above: "_View | None", twin: "_View | None") -> None:
        self.scanner = Scanner(needles)
        self.step, self.above, self.twin = step, above, twin
        self.data = b""
        self.before = self.waits

    @property
    def waits(self) -> tuple[bytes, bytes]:
        """Of an escape, and of a value. Views in which the same waits give the same of the same."""
        return self.step.pending, self.scanner.tail

    def feed(self, piece: bytes, *, last: bool) -> bool:
        """Whether a value was found. The views before this one were fed; `piece` is of the stream."""
        self.before = self.waits
        above, twin = self.above, self.twin
        if above is None:
            self.data = piece
            return isinstance(self.scanner.feed(piece), Disclosed)
        if (
            twin is not None
            and self.before == twin.before
            and above.above is not None
            and above.data is above.above.data
        ):
            self.step.follow(twin.step)
            self.data, self.scanner.tail = twin.data, twin.scanner.tail
            return False
        self.data = self.step.feed(above.data)
        if last:
            self.data += self.step.finish()
        if self.data is above.data and self.scanner.tail == above.before[1]:
            self.scanner.tail = above.scanner.tail
            return False
        return isinstance(self.scanner.feed(self.data), Disclosed)

    def catch_up(self, stream: "_View", passed: int) -> None:
        """Be where the stream is, of which the last `passed` bytes held nothing to undo."""
        self.step.passed(passed)
        self.scanner.tail = stream.scanner.tail


@final
class Search:
    """Looks for values in one stream, and holds nothing back but what may begin one.

    Most texts hold few escapes, so most views are the same as a shorter way gives, and are neither made nor searched.
    While there are none at all, only the stream itself is: `_calm`, since `_quiet` bytes.
    """

    __slots__ = ("_calm", "_escapes", "_held", "_quiet", "_views")

    def __init__(self, values: Iterable[bytes]) -> None:
        needles = spellings(tuple(values))
        self._escapes = escapes = (PERCENT, JSON_QUOTES if any(b'"' in needle for needle in needles) else JSON)
        ways: dict[tuple[int, ...], _View] = {(): _View(needles, Undo(PERCENT), None, None)}
        for layers in range(LAYERS):
            for way in [way for way in ways if len(way) == layers]:
                for kind, escape in enumerate(escapes):
                    twin = ways[(*way[:-1], kind)] if way else None
                    ways[(*way, kind)] = _View(needles, Undo(escape), ways[way], twin)
        self._views = list(ways.values())
        self._held = b""
        self._calm, self._quiet = True, 0

    def __repr__(self) -> str:
        return "<search>"

    def feed(self, piece: bytes) -> bytes | Disclosed:
        """What may go on now. After `Disclosed` the search is over."""
        if self._found(piece, last=False):
            return Disclosed()
        data = self._held + piece
        cut = max(0, len(data) - self._unsure())
        self._held = data[cut:]
        return data[:cut]

    def finish(self) -> bytes | Disclosed:
        """What was held back, when the stream has ended whole."""
        return Disclosed() if self._found(b"", last=True) else self._held

    def _found(self, piece: bytes, *, last: bool) -> bool:
        stream = self._views[0]
        if self._calm and not any(escape.touches(piece) for escape in self._escapes):
            self._quiet += len(piece)
            return stream.feed(piece, last=last)
        if self._calm:
            for view in self._views[1:]:
                view.catch_up(stream, self._quiet)
        # in their order: each is made of what those before it gave
        if any(view.feed(piece, last=last) for view in self._views):
            return True
        self._calm, self._quiet = not any(any(view.waits) for view in self._views), 0
        return False

    def _unsure(self) -> int:
        """Bytes at the end of what came, at most, that may begin a value in one of the views."""
        if self._calm:
            return len(self._views[0].scanner.tail)
        counts = {view: len(view.scanner.tail) for view in self._views}
        for view in reversed(self._views):
            if view.above is not None:
                counts[view.above] = max(counts[view.above], view.step.before(counts[view]))
        return counts[self._views[0]]


def holds(text: bytes, *values: bytes) -> bool:
    """Whether one of `values` stands in `text`, in a spelling that is looked for."""
    search = Search(values)
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return any(isinstance(search.feed(piece), Disclosed) for piece in pieces) or isinstance(search.finish(), Disclosed)


@lru_cache(maxsize=256)
def spellings(values: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """What is looked for in each view: a value, also with its spaces as forms have them, and its base64 (RFC 4648)."""
    found: dict[bytes, None] = {}
    for value in values:
        cores = encoded_cores(value)
        safe = [core.translate(_URL_SAFE) for core in cores]
        found.update(dict.fromkeys((value, value.replace(b" ", b"+"), *cores, *safe)))
    return tuple(found)
