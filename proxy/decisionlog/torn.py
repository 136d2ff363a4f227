"""What a crash leaves of a record: a beginning of its own bytes, and nothing else.

A write that was cut short leaves the first bytes of a line (`lines.compose`). Whoever writes next ends them: in a file
with a line end alone, on a stream with `CUT`, perhaps more than once. Where power fails, a file may have its new length
before its bytes, which are then NULs. Any other line that is no record was changed, or is somebody else's.

The first keys are those that the chain rests on, in their order. Which ones follow is not asked, so that a log of
another version is judged alike.
"""

import re
from typing import Final

from .lines import FIELDS

CUT: Final = b"!"
"""Ends a line that was cut on a stream, so that it is no record even when only its line end was missing."""

_FIRST: Final = tuple(f'"{name}":'.encode() for name in FIELDS[: FIELDS.index("prev") + 1])
_PLAIN: Final = rb'(?:[ !#-\[\]-~]|\\(?:["\\bfnrt]|u[0-9a-f]{4}))*'
_TEXT: Final = rb'"' + _PLAIN + rb'"'
_TEXT_CUT: Final = rb'"' + _PLAIN + rb"(?:\\(?:u[0-9a-f]{0,3})?)?"
_KEY: Final = re.compile(rb'"[a-z_]+":')
_KEY_CUT: Final = re.compile(rb'(?:"(?:[a-z_]+"?)?)?')
_VALUE: Final = re.compile(
    rb"null|-?[0-9]+(?:\.[0-9]*)?|" + _TEXT + rb"|\[(?:" + _TEXT + rb"(?:," + _TEXT + rb")*)?\]",
)
_VALUE_CUT: Final = re.compile(
    rb"(?:n(?:ul?)?|-|" + _TEXT_CUT + rb"|\[(?:" + _TEXT + rb",)*(?:" + _TEXT + rb"|" + _TEXT_CUT + rb")?)?"
)


def is_torn(raw: bytes) -> bool:
    """Whether a line that is no record, with its line end where it has one, is what a crash leaves of one."""
    line = raw.removesuffix(b"\n")
    beginning = line.rstrip(CUT + b"\0")
    if not beginning:
        return True
    if _whole(beginning):
        return len(beginning) + 1 != len(raw)  # ended by its line end and nothing else, it would be a record
    return _cut(beginning)


def _whole(line: bytes) -> bool:
    """Whether these are all bytes of a record."""
    return line.endswith(b"}") and _cut(line[:-1] + b',"x":')  # which no text, list or number goes on with


def _cut(line: bytes) -> bool:
    """Whether these are the first bytes of a record, up to its last brace at most."""
    if line[:1] != b"{":
        return False
    at, number = 1, 0
    while True:
        key = _key(line, at, number)
        if key is None:
            rest = line[at:]
            return _FIRST[number].startswith(rest) if number < len(_FIRST) else bool(_KEY_CUT.fullmatch(rest))
        value = _VALUE.match(line, key)
        if value is None or value.end() == len(line):
            return value is not None or _VALUE_CUT.fullmatch(line, key) is not None
        at, number = value.end() + 1, number + 1
        if line[value.end() : at] != b",":
            return False


def _key(line: bytes, at: int, number: int) -> int | None:
    """Where the whole key at `at` ends; None where there is none that fits."""
    if number < len(_FIRST):
        return at + len(_FIRST[number]) if line.startswith(_FIRST[number], at) else None
    key = _KEY.match(line, at)
    return None if key is None else key.end()
