"""Whether an answer holds a credential, in any place where its reader would see it.

Strategy: bytes are searched, never structures, so that neither a media type that lies nor a text that no parser takes
hides anything. Two transformations are covered: the escapes of JSON, which every reader undoes, are undone for the
whole text at once (outside of its strings JSON has no backslash); and of the base64 that Basic credentials are sent
in, the characters that come from the value alone are searched for as further values, whatever the user name.

Every step is one call that runs in C, in linear time: the longest, on 16 MiB, is a few milliseconds or lets other
threads run. So whoever checks a large answer in a thread does not hold up the rest.
Source: "Credential guarantee" in the specification.
"""

import re
from binascii import a2b_qp
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final, final

import re2

from .basic import encoded_cores
from .message import Response
from .pattern import re2_options
from .secret import Secret

_NESTED: Final = 2
"""Times that JSON escapes are undone: a string may hold JSON itself, as in a webhook's log."""

_BACKSLASH: Final = b"\\"
_QUOTE: Final = b'\\"'
_ESCAPE_BYTES: Final = 6
_CHUNK_BYTES: Final = 256 * 1024

_ESCAPE: Final = rb"\\(?:u00|[\\/])"
_escape: Final = re.compile(_ESCAPE)
_SMALL: Final = 4 * 1024
"""Up to so many bytes, Python's own search for an escape is quicker than RE2's."""

_ONE_BY_ONE: Final = 1024 * 1024
_FEW: Final = 8
"""Up to so many values, and so many bytes of a text times values, it is quickest to look for each value in turn."""

# Few and short endings: RE2 needs its fast matcher, which has to fit into the memory together with them.
_END_BYTES: Final = 16
_PATTERN_VALUES: Final = 1024
_PATTERN_MEMORY: Final = 8 * 1024 * 1024


@final
class Scanner:
    """Looks for exact values, and for their base64. Never shows one."""

    __slots__ = ("_quoted", "_shortest", "_values")

    def __init__(self, needles: Iterable[Secret]) -> None:
        self._values, self._shortest, self._quoted = _prepared(tuple([needle.reveal() for needle in needles]))

    def in_response(self, response: Response, layers: Sequence[bytes]) -> bool:
        """Whether a value stands anywhere in an answer.

        Args:
            response: the answer; its reason phrase, all field names and values, and the trailers are searched.
            layers: its body as received, after each coding taken off, and decoded.
        """
        fields = response.fields + response.trailers
        # one search for all: no value holds a line break, so none is found across two parts
        head = b"\n".join([response.reason, *[value for _, value in fields]])
        return (
            self.in_bytes(head)
            or self.in_names([name for name, _ in fields])
            or any(map(self.in_bytes, layers))
            or self.in_json(layers[-1])
        )

    def in_bytes(self, data: bytes) -> bool:
        """Whether a value stands in `data` as it is."""
        values = self._values
        many = len(values) > _FEW or len(values) * len(data) > _ONE_BY_ONE
        if many and not any(end.search(data) for end in _endings(values)):
            return False
        for value in values:  # noqa: SIM110 - a generator costs more than the search
            if value in data:
                return True
        return False

    def in_names(self, names: Sequence[bytes]) -> bool:
        """Whether a value stands in a field name, in any case: whoever reads names may fold it (RFC 9110, 5.1)."""
        longest = max(map(len, names), default=0)
        if longest < self._shortest:
            return False
        return any(value.lower() in name.lower() for value in self._values if len(value) <= longest for name in names)

    def in_json(self, data: bytes) -> bool:
        """Whether a value stands in a key or a string of `data` once JSON's escapes are undone (RFC 8259, 7).

        `data` need not be JSON: what is undone in any other text is at most searched in vain.
        """
        for _ in range(_NESTED):
            if _BACKSLASH not in data or not (_hides(data) or (self._quoted and _QUOTE in data)):
                return False
            data = b"".join(map(unescaped, _chunks(data)))
            if self.in_bytes(data):
                return True
        return False


@lru_cache(maxsize=256)
def _prepared(values: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], int, bool]:
    """`values` and the base64 that each of them gives in Basic credentials; the bytes of the shortest; and whether one
    holds a quotation mark, so that it matters whether those of a text are escaped.
    """
    every = tuple(dict.fromkeys([*values, *[core for value in values for core in encoded_cores(value)]]))
    return every, min(map(len, every), default=0), any(b'"' in value for value in every)


def _hides(data: bytes) -> bool:
    """Whether there are escapes in `data` that may stand for a character of a value."""
    pattern = _escape if len(data) <= _SMALL else _large_escape()
    return pattern.search(data) is not None


@cache
def _large_escape() -> Any:
    return re2.compile(_ESCAPE, _options())


@lru_cache(maxsize=16)
def _endings(values: tuple[bytes, ...]) -> tuple[Any, ...]:
    """RE2 patterns of which one is found wherever one of `values` is: the ends, since beginnings are often public."""
    options = _options()
    ends = [re2.escape(value[-_END_BYTES:]) for value in values]
    groups = [ends[start : start + _PATTERN_VALUES] for start in range(0, len(ends), _PATTERN_VALUES)]
    return tuple([re2.compile(b"|".join(group), options) for group in groups])


def _options() -> Any:
    options = re2_options(_PATTERN_MEMORY)
    options.encoding = re2.Options.Encoding.LATIN1
    return options


def _chunks(data: bytes) -> Iterator[bytes]:
    """`data` in parts of bounded size, cut so that no escape is in two of them."""
    start = 0
    while len(data) - start > _CHUNK_BYTES:
        end = start + _CHUNK_BYTES
        last = data.rfind(_BACKSLASH, end - _ESCAPE_BYTES + 1, end)
        if last >= 0:
            # a backslash begins an escape if the ones right before it make pairs
            run = data[start : last + 1]
            end = last + (len(run) - len(run.rstrip(_BACKSLASH)) + 1) % 2
        yield data[start:end]
        start = end
    yield data[start:]


def unescaped(text: bytes) -> bytes:
    """`text` with each of JSON's escapes undone that may stand for a character of a value.

    Quoted-printable writes a byte as `=41` where JSON writes `\\u0041`, and its decoder runs in C (RFC 2045, 6.7). What
    follows a pair of backslashes is not escaped by it. A return would make the decoder skip what follows, and of two
    signs in a row it would skip the second: then the first is half an escape, and stands for itself.
    """
    text = text.replace(b"=", b"=3d").replace(b"\r", b"\n")
    text = text.replace(b"\\\\", b"=5c").replace(b"\\u00", b"=")
    for _ in range(2):  # of three in a row the first time leaves two
        text = text.replace(b"==", b"=3d=")
    return a2b_qp(text.replace(b"\\/", b"/").replace(b'\\"', b'"'))
