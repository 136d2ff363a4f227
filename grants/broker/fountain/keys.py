"""What the name of a member or a parameter says: of which kind its value is, or that its value tells which thing.

A name is taken apart at everything that is no letter and at each border of camel case. Its parts, and its neighbouring
parts joined, are compared in lower case with the words of the kinds, so that `conversation_id`, `filter[vault.id]`,
`parentConversationId` and `attached vaults` are all recognised without a list of spellings. A word for a kind is its
value's kind where it stands last, or before nothing but what says that the value tells which: `vault_name_in`, and not
`vault_size`.
"""

import re
from dataclasses import dataclass
from typing import Final, final
from urllib.parse import unquote_plus

from .kinds import WORDS, Kind

MAX_NAME: Final = 1024
"""The longest name that is read, in characters. A request with a longer one is refused."""

_DECODINGS: Final = 3

_BARE: Final = frozenset({"id", "ids", "uuid", "uuids", "guid", "guids"})
_TELLING: Final = _BARE | {
    *("ref", "refs", "reference", "references", "name", "names", "key", "keys", "slug", "slugs", "handle", "handles"),
    *("identifier", "identifiers", "pk", "pks", "oid", "oids"),
}
_IDENTITIES: Final = _TELLING | {"value", "values"}
_OPERATORS: Final = frozenset({"eq", "ne", "in", "nin", "is", "not", "any", "all", "equals", "exact", "iexact"})
_TYPES: Final = frozenset({"type", "kind", "resource", "object", "entity", "class", "typename"})

_KEYS: Final = {word + ending: kind for word, kind in WORDS.items() for ending in ("", *_TELLING)}
_LONGEST: Final = max(map(len, _KEYS))
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_PROGRAM: Final = ("user", "agent")
"""The program that asks (RFC 9110, 10.1.5), which is no agent of Fountain's."""

_OVERRIDES: Final = frozenset(
    {"methodoverride", "httpmethod", "httpmethodoverride", "xmethodoverride", "xhttpmethod", "xhttpmethodoverride"}
)
_UNDERSCORED: Final = "_method"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a name says.

    Attributes:
        kinds: whose words are in it, in its order.
        kind: that its value is of; None where its value is none of a kind.
        telling: it says itself that its value tells which: `vault_id`, and not `vault`.
        bare: it is `id` or `uuid`, alone.
        identity: its value tells which thing is meant, of a kind that is said elsewhere: `id`, `ref`, `name`, `value`.
        type: its value says of which kind something is.
        override: servers take its value for the request's method.
    """

    kinds: tuple[Kind, ...]
    kind: Kind | None
    telling: bool
    bare: bool
    identity: bool
    type: bool
    override: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """A word for a kind in a name, also with an ending glued to it, and the parts before and behind it."""

    text: str
    before: list[str]
    behind: list[str]

    @property
    def last(self) -> bool:
        """Nothing stands behind it that makes the value something else."""
        program = not self.behind and (*self.before[-1:], self.text) == _PROGRAM
        return not program and all(part in _TELLING or part in _OPERATORS for part in self.behind)

    @property
    def telling(self) -> bool:
        """It, or what stands behind it, says that the value tells which."""
        return self.text not in WORDS or any(part in _TELLING for part in self.behind)


def read_key(text: str) -> Key:
    """What the name `text` says. Percent-encoding is taken off, also threefold. Total: never raises.

    Args:
        text: at most `MAX_NAME` characters.
    """
    for _ in range(_DECODINGS):
        if "%" in text:
            text = unquote_plus(text)
    parts = [part.lower() for part in _PART.findall(text)]
    whole = "".join(parts)
    words = _words(parts)
    last = words[-1] if words and words[-1].last else None
    return Key(
        kinds=tuple([_KEYS[word.text] for word in words]),
        kind=_KEYS[last.text] if last else None,
        telling=last is not None and last.telling,
        bare=whole in _BARE,
        identity=whole in _IDENTITIES,
        type=bool(parts) and parts[-1] in _TYPES,
        override=whole in _OVERRIDES or text.strip().lower() == _UNDERSCORED,
    )


def _words(parts: list[str]) -> list[_Word]:
    found = []
    for start in range(len(parts)):
        joined = ""
        for end, part in enumerate(parts[start:], start + 1):
            joined += part
            if len(joined) > _LONGEST:
                break
            if joined in _KEYS:
                found.append(_Word(text=joined, before=parts[:start], behind=parts[end:]))
                break
    return found
