"""RE2 patterns on bytes: linear time, bounded memory, the whole value or nothing.

Source: "Grant file" in the specification; https://github.com/google/re2/wiki/Syntax.
"""

from dataclasses import dataclass, field
from typing import Any, final

import re2

MAX_MEMORY = 8 * 1024 * 1024
"""Bytes that one compiled pattern, its matcher's cache included, may take."""


class PatternInvalid(ValueError):
    """Not an RE2 pattern, or one that needs too much memory. The message is RE2's."""


@final
@dataclass(frozen=True, slots=True)
class Re2Pattern:
    """A compiled pattern. Equal when its source is."""

    source: str
    _compiled: Any = field(repr=False, compare=False)

    def matches(self, value: bytes) -> bool:
        """Whether the whole of `value` matches. Bytes that are not UTF-8 match nothing."""
        return self._compiled.fullmatch(value) is not None


def compile_pattern(source: str) -> Re2Pattern:
    """Compile `source`, read as UTF-8.

    Raises:
        PatternInvalid: RE2 refuses it.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    options.never_capture = True
    try:
        return Re2Pattern(source, re2.compile(source.encode("utf-8"), options))
    except (re2.error, UnicodeEncodeError) as error:
        cause = error.args[0] if isinstance(error, re2.error) else "not Unicode text"
        raise PatternInvalid(cause.decode("utf-8", "replace") if isinstance(cause, bytes) else str(cause)) from None
