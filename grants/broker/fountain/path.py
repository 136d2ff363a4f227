"""The paths that Fountain is asked for: one spelling each, and what they name, list and create.

A path is `/api`, a family, and plain segments. A word for a kind, in singular or plural and in any case, stands before
an id or at the end; the end is then a collection. A segment of several words, such as `attached-vaults`, counts as the
kind that is in it.
"""

import re
from dataclasses import dataclass
from typing import Final, final

from .keys import read_key
from .kinds import WORDS, Kind, Named

_SEGMENT: Final = re.compile(rb"(?!\.{1,2}$)[A-Za-z0-9._~-]+")
_DIGIT: Final = re.compile(r"[0-9]")
_ROOT: Final = b"/api/"
_FAMILIES: Final = frozenset({"conversations", "sandboxes", "vaults"})
_SCOPE_WORDS: Final = {
    Kind.AGENT: "agent",
    Kind.CONVERSATION: "conversations",
    Kind.SANDBOX: "sandboxes",
    Kind.VAULT: "vault",
}
_METHODS: Final = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE"})
_OF_COLLECTIONS: Final = frozenset({b"GET", b"POST"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FountainPath:
    """A path that is in the grammar.

    Attributes:
        segments: what follows `/api`.
        names: what it names, each before what it is under.
        kinds: of the words in it, in its order, without `last`.
        last: the kind of a word at its end: what a GET there lists.
        collection: that word stands alone: a POST there creates.
        subject: the kind of what a body's own `id` would be: that of the collection, or of the thing at the end.
    """

    segments: tuple[str, ...]
    names: tuple[Named, ...]
    kinds: tuple[Kind, ...]
    last: Kind | None
    collection: bool
    subject: Kind | None


def read_path(path: bytes) -> FountainPath | None:
    """Read a path as it came, from `/api` on; one slash at its end is taken. None: it is not in the grammar."""
    if not path.startswith(_ROOT):
        return None
    rest = path.removeprefix(_ROOT).removesuffix(b"/").split(b"/")
    if not all(map(_SEGMENT.fullmatch, rest)):
        return None
    segments = tuple([segment.decode("ascii") for segment in rest])
    if segments[0] not in _FAMILIES:
        return None
    names: list[Named] = []
    kinds: list[Kind] = []
    before: tuple[Kind, ...] = ()
    last: tuple[Kind, ...] = ()
    for segment in segments:
        before, last = last, _kinds(segment, is_id=bool(last))
        names += [Named(kind=before[-1], id=segment)] if before else []
        kinds += last
    return FountainPath(
        segments=segments,
        names=tuple(names),
        kinds=tuple(kinds[:-1] if last else kinds),
        last=last[-1] if last else None,
        collection=segments[-1].lower() in WORDS,
        subject=(last or before or (None,))[-1],
    )


def scope_words(method: bytes, path: FountainPath) -> tuple[str, ...] | None:
    """The words that a request needs, one for each family in its path, or None: the method is not served there.

    To start a conversation needs `agent`.
    """
    if method not in (_OF_COLLECTIONS if path.collection else _METHODS) or (method == b"HEAD" and path.last):
        return None
    words = [_SCOPE_WORDS[kind] for kind in path.kinds]
    if path.last is not None:
        starts = method == b"POST" and path.last is Kind.CONVERSATION
        words.append(_SCOPE_WORDS[Kind.AGENT if starts else path.last])
    return tuple(dict.fromkeys(words))


def listed_kind(method: bytes, path: FountainPath) -> Kind | None:
    """What the answer to this request lists, or None when it is not a list."""
    return path.last if method == b"GET" else None


def created_kind(method: bytes, path: FountainPath) -> Kind | None:
    """What a successful answer to this request has created, or None when that is nothing that a box owns."""
    return path.last if method == b"POST" and path.collection else None


def _kinds(segment: str, *, is_id: bool) -> tuple[Kind, ...]:
    """The kinds that a segment names. An id names none, unless it is nothing but a word for one."""
    kind = WORDS.get(segment.lower())
    if kind is not None:
        return (kind,)
    return () if is_id or _DIGIT.search(segment) else read_key(segment).kinds
