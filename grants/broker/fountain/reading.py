"""What stands in a request, or that this cannot be told."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import final

from .kinds import Named


@final
class Fault(Enum):
    """Why it cannot be told what a request names."""

    MANY_TEXTS = auto()
    """It holds more texts than are looked for, so the rest of its reading says nothing."""
    MANY_STEPS = auto()
    """It holds more than is looked at, so the rest of its reading says nothing."""
    OVERRIDE = auto()
    """It has a name whose value servers take for the method."""
    UNREAD = auto()
    """A parameter or a header field begins as JSON does and is not strict JSON."""
    LONG_PARAMETER = auto()
    """The name of a parameter is longer than names are read."""
    LONG_MEMBER = auto()
    """The name of a member of the body is longer than names are read."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What stands in a request, or a part of one.

    Attributes:
        names: what it names.
        texts: all that could be an id.
        fault: why that is not all, or may be another request's.
    """

    names: tuple[Named, ...]
    texts: frozenset[str] = field(repr=False)
    fault: Fault | None = None
