"""RE2 patterns on bytes: linear time, bounded memory, the whole value or nothing.

A value that matches is mostly told so by a set of one pattern, for which RE2 makes no match object. A set has only
RE2's automaton, which may run out of memory and then finds nothing, and a large pattern has none: so its yes counts,
and everything else is asked of the pattern itself.

Source: "Grant file" in the specification; https://github.com/google/re2/wiki/Syntax.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, final

import re2

MAX_MEMORY: Final = 8 * 1024 * 1024
"""Bytes that one compiled pattern, its matcher's cache included, may take."""

# The same for its set, which is made when a value first comes.
_SET_MEMORY: Final = 1024 * 1024

type _Found = Callable[[bytes], object]


class PatternInvalid(ValueError):
    """Not an RE2 pattern, or one that needs too much memory. The message is RE2's."""


@final
@dataclass(frozen=True, slots=True)
class Re2Pattern:
    """A compiled pattern. Equal when its source is."""

    source: str
    _compiled: Any = field(repr=False, compare=False)
    _found: _Found | None = field(default=None, init=False, repr=False, compare=False)

    def matches(self, value: bytes) -> bool:
        """Whether the whole of `value` matches. Bytes that are not UTF-8 match nothing."""
        found = self._found
        if found is None:
            found = _set_of(self.source)
            object.__setattr__(self, "_found", found)
        return bool(found(value)) or self._compiled.fullmatch(value) is not None


def _set_of(source: str) -> _Found:
    """The numbers of the set's patterns that match, or nothing."""
    only = re2.Set.FullMatchSet(re2_options(_SET_MEMORY))
    try:
        only.Add(source.encode("utf-8"))
        only.Compile()
    except re2.error:
        return _nothing
    found: _Found = only.Match
    return found


def _nothing(_value: bytes) -> None:
    """A pattern that is too large for a set."""


def compile_pattern(source: str) -> Re2Pattern:
    """Compile `source`, read as UTF-8.

    Raises:
        PatternInvalid: RE2 refuses it.
    """
    try:
        return Re2Pattern(source, re2.compile(source.encode("utf-8"), re2_options(MAX_MEMORY)))
    except (re2.error, UnicodeEncodeError) as error:
        cause = error.args[0] if isinstance(error, re2.error) else "not Unicode text"
        raise PatternInvalid(cause.decode("utf-8", "replace") if isinstance(cause, bytes) else str(cause)) from None


def re2_options(memory: int) -> Any:
    """Options of RE2 that are ours everywhere: it prints nothing, captures nothing, and takes so many bytes at most."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    options.never_capture = True
    return options
