"""Which things at Fountain a request names, and which of an answer's are the box's own.

Fountain knows only the operator, so ownership is the broker's: what a request names, by path, query or JSON body,
has to be the box's. A name is looked for under every key that could hold one, at any depth; what stands there and
cannot be read as an id is taken for a foreign one. A list is cut down to the box's own, and a list that cannot be
recognised is shown to nobody.
Source: "fountain" in the specification.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, final
from urllib.parse import parse_qsl, unquote

from grants.jsontext import JsonValue


class Kind(StrEnum):
    """What a box can own."""

    AGENT = "agent"
    CONVERSATION = "conversation"
    SANDBOX = "sandbox"
    VAULT = "vault"


type Owned = Mapping[Kind, frozenset[str]]
"""The ids that are a box's own."""

_PLURALS: Final = {
    "agents": Kind.AGENT,
    "conversations": Kind.CONVERSATION,
    "sandboxes": Kind.SANDBOX,
    "vaults": Kind.VAULT,
}
_KEYS: Final = {
    name + ending: kind
    for plural, kind in _PLURALS.items()
    for name in (kind.value, plural)
    for ending in ("", "id", "ids")
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Something that a request names. `id` is empty where what stands there is no id: that is nobody's."""

    kind: Kind
    id: str


def named(path: bytes, query: bytes = b"", body: JsonValue = None) -> tuple[Named, ...]:
    """All that a request names, in the order path, query, body. Total: never raises.

    Args:
        path: as it goes upstream, without the query.
        query: without the question mark.
        body: the parsed JSON body; None where there is none.
    """
    return (*_in_path(path), *_in_query(query), *_in_json(body))


def foreign(names: Iterable[Named], owned: Owned) -> Named | None:
    """The first that is not the box's own: the request is a 404 then."""
    return next((name for name in names if name.id not in owned.get(name.kind, frozenset())), None)


def listed_kind(method: bytes, path: bytes) -> Kind | None:
    """What the answer to this request lists, or None when it is not a list."""
    segments = _segments(path)
    return _PLURALS.get(segments[-1]) if method == b"GET" else None


def created_kind(method: bytes, path: bytes) -> Kind | None:
    """What a successful answer to this request has created, or None when that is nothing that a box owns."""
    return _PLURALS.get(_segments(path)[-1]) if method == b"POST" else None


def created(kind: Kind, answer: JsonValue) -> str | None:
    """The id in the answer to a creation: its `id`, or that of the object under the kind's name or `data`."""
    if not isinstance(answer, dict):
        return None
    inner = [answer.get(kind.value), answer.get("data")]
    for holder in (answer, *inner):
        if isinstance(holder, dict) and (found := _id(holder.get("id"))):
            return found
    return None


def cut(answer: JsonValue, own: frozenset[str]) -> JsonValue | None:
    """A list answer with only the box's own in it, or None when it is not recognised as one.

    A list is an array of objects with `id`, or an object with one such array and no other array that holds anything.
    """
    if isinstance(answer, list):
        return _own(answer, own)
    if not isinstance(answer, dict):
        return None
    arrays = {key: value for key, value in answer.items() if isinstance(value, list)}
    full = [key for key, value in arrays.items() if value]
    if not arrays or len(full) > 1:
        return None
    if not full:
        return answer
    kept = _own(arrays[full[0]], own)
    return None if kept is None else {**answer, full[0]: kept}


def _own(items: list[JsonValue], own: frozenset[str]) -> JsonValue | None:
    if not all(isinstance(item, dict) and _id(item.get("id")) for item in items):
        return None
    return [item for item in items if isinstance(item, dict) and _id(item["id"]) in own]


def _segments(path: bytes) -> list[str]:
    return [unquote(part) for part in path.decode("latin-1").removesuffix("/").split("/")]


def _in_path(path: bytes) -> list[Named]:
    segments = _segments(path)
    return [Named(kind=_PLURALS[before], id=segment) for before, segment in pairwise(segments) if before in _PLURALS]


def _in_query(query: bytes) -> list[Named]:
    text = query.decode("latin-1").replace(";", "&")
    return [
        Named(kind=kind, id=value)
        for key, value in parse_qsl(text, keep_blank_values=True)
        if (kind := _kind(key)) is not None
    ]


def _in_json(value: JsonValue) -> list[Named]:
    found: list[Named] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending += reversed(item)
        elif isinstance(item, dict):
            pending += reversed(item.values())
            for key, below in item.items():
                if (kind := _kind(key)) is not None:
                    found += [Named(kind=kind, id=each) for each in _ids(below)]
    return found


def _kind(key: str) -> Kind | None:
    """The kind that a key names: `sandbox`, `sandbox_id`, `sandboxId`, `vault_ids[]` and the like."""
    return _KEYS.get(key.partition("[")[0].replace("_", "").replace("-", "").lower())


def _ids(value: JsonValue) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [_id(item.get("id") if isinstance(item, dict) else item) for item in value if item is not None]
    return [_id(value.get("id") if isinstance(value, dict) else value)]


def _id(value: JsonValue) -> str:
    """An id as text, empty where `value` is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""
