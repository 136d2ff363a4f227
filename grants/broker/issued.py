"""The form of the tokens that the broker issues, and every text of that form in a text.

Only the digests of issued tokens are kept, so none can be looked for. But each begins with `gpx_` and has 43 characters
of base64 behind it, for 256 bits: whatever has that form is cut out, and whoever has the digests is asked. The base64
of such a text has a form as well, by what the base64 of `gpx_` is at each of three places (RFC 4648, 4 and 5).
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, final

PREFIX: Final = b"gpx_"
BYTES: Final = 32
"""Random bytes of a token."""
MOST: Final = 256
"""Different texts of the form that are asked about at once; among more a token could hide."""
MOST_LOOKS: Final = 4096
"""Places that may begin a text of the form, or its base64, in all of a text: each costs a look of its own."""

_CHARS: Final = -(-BYTES * 8 // 6)
_FORM: Final = re.compile(rb"gpx_(?=([A-Za-z0-9_-]{%d}))" % _CHARS)
_IN_NAME: Final = re.compile(rb"gpx_[A-Za-z0-9_-]{%d}" % _CHARS, re.IGNORECASE)
_LENGTH: Final = len(PREFIX) + _CHARS
_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def is_issued(text: bytes) -> bool:
    """Whether a text has the form of an issued token."""
    return len(text) == _LENGTH and _FORM.match(text) is not None


def may_name(name: bytes) -> bool:
    """Whether a field name may hold an issued token, in any case: folded (RFC 9110, 5.1) it has its digest no more."""
    return len(name) >= _LENGTH and _IN_NAME.search(name) is not None


def _encoded(before: int) -> tuple[bytes, bytes, int]:
    """What the base64 of the prefix begins with behind `before` other bytes, what is of it alone, and what follows."""
    first, end = -(-8 * before // 6), 8 * (before + len(PREFIX)) // 6
    whole = b64encode(bytes(before) + PREFIX)
    return whole[:first], whole[first:end], -(-8 * (before + _LENGTH) // 6) - end


_ENCODED: Final = tuple((before, *_encoded(before)) for before in range(3))
_IN_BASE64: Final = tuple(
    (before, lost, core, re.compile(rb"%b(?=([A-Za-z0-9+/_-]{%d}))" % (core, rest)))
    for before, lost, core, rest in _ENCODED
)


def _begun(prefix: bytes, rest: bytes, count: int) -> bytes:
    """A pattern of what may begin `prefix` and `count` characters of the class `rest`, at the end of a text."""
    pattern = rb"%b{0,%d}" % (rest, count - 1)
    for place in range(len(prefix) - 1, -1, -1):
        byte = re.escape(prefix[place : place + 1])
        pattern = rb"%b%b" % (byte, pattern) if place == 0 else rb"(?:%b%b)?" % (byte, pattern)
    return pattern


_ENDS: Final = re.compile(
    rb"(?:%b)\Z"
    % b"|".join(
        [_begun(PREFIX, rb"[A-Za-z0-9_-]", _CHARS)]
        + [_begun(core, rb"[A-Za-z0-9+/_-]", rest) for _, _, core, rest in _ENCODED]
    )
)
_LONGEST: Final = max(_LENGTH, *(len(core) + rest for _, _, core, rest in _ENCODED))


@final
class Bound(Enum):
    """What a text may hold so many of, and no more."""

    TEXTS = auto()
    """Different texts of the form, at most `MOST`."""
    LOOKS = auto()
    """Places that may begin one, at most `MOST_LOOKS`."""


@final
class Issued:
    """Implements `Pattern`: collects what has the form, and is found when that is too much to ask about.

    Args:
        besides: a text that is left out.

    Attributes:
        texts: those that have the form.
        over: the bound that was reached, so that `texts` are not all of them; None where none was.
    """

    __slots__ = ("_besides", "_looks", "over", "quotes", "texts")

    def __init__(self, besides: bytes = b"") -> None:
        self._besides = besides
        self._looks = 0
        self.quotes = False
        self.over: Bound | None = None
        self.texts: set[bytes] = set()

    def __repr__(self) -> str:
        return f"<issued: {len(self.texts)} texts>"

    def found(self, data: bytes) -> bool:
        """See `Pattern`."""
        for text in _cut(data):
            self._looks += 1
            if text is not None and text != self._besides:
                self.texts.add(text)
            if len(self.texts) > MOST:
                self.over = Bound.TEXTS
            elif self._looks > MOST_LOOKS:
                self.over = Bound.LOOKS
            if self.over is not None:
                break
        return self.over is not None

    def begun(self, data: bytes) -> int:
        """See `Pattern`."""
        match = _ENDS.search(data, max(0, len(data) - _LONGEST + 1))
        return 0 if match is None else len(data) - match.start()


def _cut(data: bytes) -> Iterator[bytes | None]:
    """Everything of the form, and None for what only begins so. One may begin in another, as in `gpx_gpx_...`."""
    if PREFIX in data:
        for match in _FORM.finditer(data):
            yield PREFIX + match[1]
    for before, lost, core, pattern in _IN_BASE64:
        if core not in data:
            continue
        for match in pattern.finditer(data):
            text = lost + core + match[1].translate(_SAFE)
            plain = b64decode(text + b"A" * (-len(text) % 4))[before : before + _LENGTH]
            yield plain if is_issued(plain) else None
