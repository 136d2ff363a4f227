"""Value rules: what a query parameter, a request header or a path parameter may be, and how a refusal says it.

Source: "Value rules" in docs/reference/grants.md.
"""

from enum import Enum, auto

from .model import PathParameter, ValueRule
from .text import listed


class Misfit(Enum):
    """How a value fails its rule."""

    TOO_LONG = auto()
    VALUE = auto()


def misfit(rule: ValueRule, value: str, data: bytes) -> Misfit | None:
    """Hold a value to its rule: length, then exact values, then pattern. Both must hold where both are given.

    `data` is `value` in UTF-8: limits and patterns count bytes.
    """
    if rule.max_bytes is not None and len(data) > rule.max_bytes:
        return Misfit.TOO_LONG
    if rule.values is not None and value not in rule.values:
        return Misfit.VALUE
    if rule.pattern is not None and not rule.pattern.matches(data):
        return Misfit.VALUE
    return None


def fits_segment(parameter: PathParameter, segment: str) -> bool:
    """Whether a decoded segment is one that the path parameter takes."""
    if parameter.values is not None and segment not in parameter.values:
        return False
    if parameter.pattern is None:
        return parameter.values is not None
    data = segment.encode("utf-8")
    if parameter.max_bytes is not None and len(data) > parameter.max_bytes:
        return False
    return parameter.pattern.matches(data)


def described(rule: ValueRule | PathParameter) -> str:
    """What a rule declares, for a refusal's text: its values, its pattern, its limit."""
    parts = []
    if rule.values is not None:
        parts.append(f"one of: {listed(sorted(rule.values))}")
    if rule.pattern is not None:
        parts.append(f"a match of the pattern {listed([rule.pattern.source])}")
    if rule.max_bytes is not None:
        parts.append(f"at most {rule.max_bytes} bytes")
    return ", ".join(parts)
