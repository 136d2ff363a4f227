"""What the name of a member or a parameter says: of which kind its value is, or that its value tells which thing.

A name is taken apart at everything that is no letter and at each border of camel case. Its parts, and its neighbouring
parts joined, are compared in lower case with the words of the kinds, so that `conversation_id`, `filter[vault.id]`,
`parentConversationId` and `attached vaults` are all recognised without a list of spellings.
"""

import re
from dataclasses import dataclass
from typing import Final, final
from urllib.parse import unquote_plus

from .kinds import WORDS, Kind

_GLUED: Final = ("", "id", "ids", "uuid", "uuids", "guid", "guids", "ref", "refs", "name", "names", "key", "keys")
_KEYS: Final = {word + ending: kind for word, kind in WORDS.items() for ending in _GLUED}
_LONGEST: Final = max(map(len, _KEYS))
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_LONGEST_KEY: Final = 1024
_DECODINGS: Final = 3

_BARE: Final = frozenset({"id", "ids", "uuid", "uuids", "guid", "guids"})
_IDENTITIES: Final = _BARE | {
    *("ref", "refs", "name", "names", "key", "keys", "slug", "slugs", "value", "values", "identifier", "identifiers")
}
_TYPES: Final = frozenset({"type", "kind", "resource", "object", "entity", "class", "model", "typename"})
_OVERRIDES: Final = frozenset(
    {"methodoverride", "httpmethod", "httpmethodoverride", "xmethodoverride", "xhttpmethod", "xhttpmethodoverride"}
)
_UNDERSCORED: Final = "_method"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a name says.

    Attributes:
        kinds: that it names, in its order; the last is that of its value.
        bare: it is `id` or `uuid`, alone.
        identity: its value tells which thing is meant, of a kind that is said elsewhere: `id`, `ref`, `name`, `value`.
        type: its value says of which kind something is.
        override: servers take its value for the request's method.
    """

    kinds: tuple[Kind, ...]
    bare: bool = False
    identity: bool = False
    type: bool = False
    override: bool = False

    @property
    def kind(self) -> Kind | None:
        """Of its value."""
        return self.kinds[-1] if self.kinds else None


def read_key(text: str) -> Key:
    """What the name `text` says. Percent-encoding is taken off, also threefold. Total: never raises."""
    for _ in range(_DECODINGS):
        if "%" in text:
            text = unquote_plus(text)
    parts = [part.lower() for part in _PART.findall(text[:_LONGEST_KEY])]
    whole = "".join(parts) if len(text) <= _LONGEST_KEY else ""
    return Key(
        kinds=_kinds(parts),
        bare=whole in _BARE,
        identity=whole in _IDENTITIES,
        type=bool(parts) and parts[-1] in _TYPES,
        override=whole in _OVERRIDES or text.strip().lower() == _UNDERSCORED,
    )


def _kinds(parts: list[str]) -> tuple[Kind, ...]:
    found = []
    for start in range(len(parts)):
        joined = ""
        for part in parts[start:]:
            joined += part
            if len(joined) > _LONGEST:
                break
            if (kind := _KEYS.get(joined)) is not None:
                found.append(kind)
                break
    return tuple(found)
