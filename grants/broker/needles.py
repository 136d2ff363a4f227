"""Values compiled for one search: few are looked for one by one, many by the words of their bytes.

A text that holds a value of at least fifteen bytes holds eight bytes of it that begin at a multiple of eight, whatever
stands before. So a text is cut into such words, all of them are looked up at once in C, and only a value of which a
word was met is looked for itself: a thousand values cost hardly more than ten. Shorter values have words of four.
"""

import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal, Protocol, Self, final

from grants.basic import encoded_cores

_ONE_BY_ONE: Final = 12
"""Spellings up to which it is quickest to look for each in turn."""
type _Letter = Literal["Q", "I", "B"]
_SIZES: Final[tuple[tuple[int, _Letter], ...]] = ((8, "Q"), (4, "I"), (1, "B"))
"""Bytes of a word, and what reads it; a needle has at least twice as many less one."""
_START: Final = 4
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


class Pattern(Protocol):
    """What is looked for in a stream.

    Attributes:
        quotes: it may hold a quotation mark, so that it matters whether those of a text are escaped.
    """

    @property
    def quotes(self) -> bool:
        """See above."""
        ...

    def found(self, data: bytes) -> bool:
        """Whether it stands in `data`."""
        ...

    def begun(self, data: bytes) -> int:
        """The length of the longest end of `data` that may be a beginning of it, and is not all of it."""
        ...


@final
class Needles:
    """Exact values, each in every way that is looked for. Never shows one.

    Args:
        values: empty ones are left out.
        spelled: also with spaces as forms have them, and in base64; else as they are alone.

    Attributes:
        shortest: bytes of the shortest; 0 where there are none.
    """

    __slots__ = ("_besides", "_longest", "_needles", "_starts", "_words", "quotes", "shortest")

    def __init__(self, values: Iterable[bytes], *, spelled: bool = True) -> None:
        found: dict[bytes, set[bytes]] = {}
        for value in dict.fromkeys(values):
            for needle in spellings((value,)) if spelled else (value,):
                found.setdefault(needle, set()).add(value)
        self._needles = {needle: frozenset(of) for needle, of in sorted(found.items()) if needle}
        self._longest = max(map(len, self._needles), default=0)
        self.shortest = min(map(len, self._needles), default=0)
        self._besides: frozenset[bytes] = frozenset()
        self.quotes = any(b'"' in needle for needle in self._needles)
        many = len(self._needles) > _ONE_BY_ONE
        self._words = _words(self._needles) if many else None
        self._starts = (sorted(self._needles), {needle[:_START] for needle in self._needles}) if many else None

    def __repr__(self) -> str:
        return f"<needles for {len(self._needles)} spellings>"

    def besides(self, value: bytes) -> Self:
        """The same without one value, which shares what was compiled."""
        other = object.__new__(type(self))
        for slot in self.__slots__:
            setattr(other, slot, getattr(self, slot))
        other._besides = frozenset({value})
        return other

    def found(self, data: bytes) -> bool:
        """See `Pattern`."""
        near: Iterable[bytes] = self._needles if self._words is None else _near(self._words, data)
        return any(needle in data and not self._needles[needle] <= self._besides for needle in near)

    def begun(self, data: bytes) -> int:
        """See `Pattern`."""
        if self._starts is None:
            return max((_beginning(data, needle) for needle in self._needles), default=0) if data else 0
        needles, starts = self._starts
        for place in range(max(0, len(data) - self._longest + 1), len(data)):
            if len(data) - place >= _START and data[place : place + _START] not in starts:
                continue
            end = data[place:]
            after = bisect_left(needles, end)
            # the needle itself is no beginning, but what follows it in their order may be
            after += after < len(needles) and needles[after] == end
            if after < len(needles) and needles[after].startswith(end):
                return len(end)
        return 0


@final
class Either:
    """Several patterns, of which one is enough."""

    __slots__ = ("_patterns", "quotes")

    def __init__(self, *patterns: Pattern) -> None:
        self._patterns = patterns
        self.quotes = any(pattern.quotes for pattern in patterns)

    def found(self, data: bytes) -> bool:
        """See `Pattern`."""
        return any(pattern.found(data) for pattern in self._patterns)

    def begun(self, data: bytes) -> int:
        """See `Pattern`."""
        return max(pattern.begun(data) for pattern in self._patterns)


@lru_cache(maxsize=256)
def needles(values: tuple[bytes, ...]) -> Needles:
    """The same needles for the same values, since few values are looked for often."""
    return Needles(values)


def spellings(values: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """What is looked for in each view: a value, also with its spaces as forms have them, and its base64 (RFC 4648)."""
    found: dict[bytes, None] = {}
    for value in values:
        cores = encoded_cores(value)
        safe = [core.translate(_URL_SAFE) for core in cores]
        found.update(dict.fromkeys((value, value.replace(b" ", b"+"), *cores, *safe)))
    return tuple(found)


type _Words = list[tuple[int, _Letter, frozenset[int], dict[int, list[bytes]]]]


def _words(needles: Iterable[bytes]) -> _Words:
    """By size of word: the words by which needles are met, and which needles each may be of.

    Of a needle those of one stretch are enough: of its beginning, middle and end the one that the fewest others have.
    """
    stretches: dict[int, dict[bytes, list[bytes]]] = defaultdict(dict)
    for needle in needles:
        size = next(size for size, _ in _SIZES if len(needle) >= 2 * size - 1)
        most = len(needle) - (2 * size - 1)
        stretches[size][needle] = [needle[start : start + 2 * size - 1] for start in (most, most // 2, 0)]
    found: _Words = []
    for size, letter in _SIZES:
        shared = Counter(stretch for each in stretches[size].values() for stretch in set(each))
        owners: dict[int, list[bytes]] = defaultdict(list)
        for needle, each in stretches[size].items():
            stretch = min(each, key=shared.__getitem__)
            for word in {stretch[start : start + size] for start in range(size)}:
                owners[int.from_bytes(word, sys.byteorder)].append(needle)
        if owners:
            found.append((size, letter, frozenset(owners), dict(owners)))
    return found


def _near(words: _Words, data: bytes) -> set[bytes]:
    """The needles of which a word stands in `data` at a multiple of its size."""
    near: set[bytes] = set()
    for size, letter, met, owners in words:
        whole = memoryview(data)[: len(data) // size * size]
        for word in met.intersection(whole.cast(letter)):
            near.update(owners[word])
    return near


def _beginning(data: bytes, needle: bytes) -> int:
    """The length of the longest end of `data` that is a beginning of `needle`, not all; `data` is not empty."""
    last = data[-1:]
    end = min(len(needle) - 1, len(data))
    # few bytes of a value are the last one of the data, so few beginnings are compared
    while (end := needle.rfind(last, 0, end)) != -1:
        if data.endswith(needle[: end + 1]):
            return end + 1
    return 0
