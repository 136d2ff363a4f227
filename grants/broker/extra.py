"""Capabilities that the settings add: a name, prefixes, and which words a method and path need.

A path pattern is literal segments, `{name}` for exactly one segment, and `**` at its end for whatever follows. The
first row that fits tells the words, none where it lists none; where no row fits, the request is not served.
Source: "Adding a capability" in the specification.
"""

import re
from dataclasses import dataclass
from typing import Final, final

_LITERAL: Final = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%-]+")
_ONE: Final = re.compile(r"\{[A-Za-z][A-Za-z0-9_]*\}")
_REST: Final = "**"


class PatternInvalid(ValueError):
    """The text is not a path pattern."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PathPattern:
    """A path pattern.

    Attributes:
        segments: each literal, or None for any one segment.
        rest: whatever follows is taken, also nothing.
    """

    segments: tuple[bytes | None, ...]
    rest: bool = False

    def matches(self, path: bytes) -> bool:
        """Whether it takes `path`, which is compared as it came; a slash at its end counts."""
        given = path.split(b"/")[1:]
        if len(given) < len(self.segments) or (len(given) > len(self.segments) and not self.rest):
            return False
        return all(
            segment == wanted if wanted is not None else segment != b""
            for segment, wanted in zip(given, self.segments, strict=False)
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One row: what a request with this method and path needs. `path` is from the broker's base URL."""

    method: bytes
    path: PathPattern
    words: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """A capability of the settings.

    Attributes:
        name: a capability name that is none of the specification's.
        routes: the prefixes that it owns, without a slash at the end.
        scopes: its rows.
    """

    name: str
    routes: tuple[bytes, ...]
    scopes: tuple[Scope, ...]


def parse_path_pattern(text: str) -> PathPattern:
    """Read a pattern as the settings file has it.

    Raises:
        PatternInvalid: it is not one. The message has no full stop and no more of the text than a segment.
    """
    if not text.startswith("/"):
        raise PatternInvalid("a path pattern starts with `/`")
    parts = text[1:].split("/")
    rest = parts[-1] == _REST
    segments: list[bytes | None] = []
    for part in parts[:-1] if rest else parts:
        if _ONE.fullmatch(part):
            segments.append(None)
        elif _LITERAL.fullmatch(part) and part not in {".", "..", _REST}:
            segments.append(part.encode("ascii"))
        else:
            raise PatternInvalid(f"`{part}` is not a segment; write it literally, as `{{name}}`, or `**` at the end")
    return PathPattern(segments=tuple(segments), rest=rest)


def extra_words(extra: Extra, method: bytes, path: bytes) -> tuple[str, ...] | None:
    """The words of the first row that fits, or None when none does."""
    return next((row.words for row in extra.scopes if row.method == method and row.path.matches(path)), None)
