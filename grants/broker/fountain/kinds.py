"""What a box can own at Fountain, the words for it, and who is known to own what."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

MAX_ID: Final = 512
"""The longest id that is known, in characters."""


class Kind(StrEnum):
    """What a box can own."""

    AGENT = "agent"
    CONVERSATION = "conversation"
    SANDBOX = "sandbox"
    VAULT = "vault"


type Owned = Mapping[Kind, frozenset[str]]
"""The ids that are a box's own."""

WORDS: Final[Mapping[str, Kind]] = {
    "agent": Kind.AGENT,
    "agents": Kind.AGENT,
    "conversation": Kind.CONVERSATION,
    "conversations": Kind.CONVERSATION,
    "sandbox": Kind.SANDBOX,
    "sandboxes": Kind.SANDBOX,
    "vault": Kind.VAULT,
    "vaults": Kind.VAULT,
}
"""The words of each kind, in lower case."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Something that a request names.

    Attributes:
        kind: None where the request does not tell: then it has to be the box's own of any kind.
        id: empty where what stands there is no id: that is nobody's.
    """

    kind: Kind | None
    id: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """That a box, by its name, owns something."""

    box: str
    kind: Kind
    id: str


def is_id(text: str) -> bool:
    """Whether `text` can be an id: 1 to `MAX_ID` characters, all of them printable."""
    return 0 < len(text) <= MAX_ID and text.isprintable()


def foreign(names: Iterable[Named], texts: Iterable[str], box: str, holdings: Iterable[Holding]) -> Named | None:
    """The first thing in a request that is not the box's own: the request is a 404 then.

    Args:
        names: what the request names; all of it has to be the box's own.
        texts: what else stands in the request; none of it may be another box's, also in lower case, unless it is the
            box's own as well.
        holdings: who owns `names`, `texts` and, in lower case, `texts`.
    """
    own: set[tuple[Kind | None, str]] = set()
    others: set[str] = set()
    for held in holdings:
        if held.box == box:
            own |= {(held.kind, held.id), (None, held.id)}
        else:
            others.add(held.id)
    for name in names:
        if (name.kind, name.id) not in own:
            return name
    for text in texts:
        if (None, text) not in own and (text in others or text.lower() in others):
            return Named(kind=None, id=text)
    return None
