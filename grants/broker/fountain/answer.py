"""Which part of an answer of Fountain is a box's: the id of what was created, and a list's own items."""

from typing import Final

from grants.jsontext import JsonValue

from .kinds import WORDS, Kind, is_id

_ABOUT: Final = frozenset({"meta", "pagination", "page", "paging", "links"})
_ECHOED: Final = frozenset({"input"})
"""Where an error repeats what was sent."""
_PROBLEM: Final = _ECHOED | {
    *("code", "ctx", "detail", "field", "loc", "location", "message", "msg", "param", "path", "pointer", "reason"),
    *("source", "status", "title", "type", "url"),
}


def created(kind: Kind, answer: JsonValue) -> str | None:
    """The id in the answer to a creation: its `id`, or that of the object under the kind's name or `data`.

    Empty for one that cannot be read, None where there is none.
    """
    if not isinstance(answer, dict):
        return None
    for holder in (answer, answer.get(kind.value), answer.get("data")):
        if isinstance(holder, dict) and holder.get("id") is not None:
            return _id(holder["id"])
    return None


def may_be_taken(identifier: str) -> bool:
    """Whether what was created can be known by this id: a word for a kind in its place would be read as that word."""
    return is_id(identifier) and identifier.lower() not in WORDS


def tells_no_list(answer: JsonValue, *, failed: bool) -> bool:
    """Whether an answer that is neither a list nor a thing can be shown: an object with no array of objects in it.

    Args:
        failed: its status is that of an error. Then objects that only say what is wrong may stand in arrays.
    """
    return isinstance(answer, dict) and _lists_nothing(answer, _PROBLEM if failed else frozenset())


def _lists_nothing(value: JsonValue, problem: frozenset[str]) -> bool:
    if isinstance(value, dict):
        return all(_lists_nothing(below, problem) for below in value.values())
    return not isinstance(value, list) or all(_is_plain(item, problem) for item in value)


def _is_plain(item: JsonValue, problem: frozenset[str]) -> bool:
    """An item of an array that is no thing."""
    if isinstance(item, dict):
        known = bool(problem) and item.keys() <= problem
        return known and all(_lists_nothing(item[key], problem) for key in item.keys() - _ECHOED)
    return _lists_nothing(item, problem)


def cut(answer: JsonValue, own: frozenset[str]) -> JsonValue | None:
    """A list answer with only the box's own in it, or None when it is not recognised as one.

    A list is an array of objects with `id`, or an object with exactly one array, of such objects, beside scalars and,
    under the names of what is said about lists, objects of scalars.
    """
    if isinstance(answer, list):
        return _own(answer, own)
    if not isinstance(answer, dict):
        return None
    arrays = [(key, value) for key, value in answer.items() if isinstance(value, list)]
    if len(arrays) != 1 or not all(_is_about(key, value) for key, value in answer.items()):
        return None
    key, items = arrays[0]
    kept = _own(items, own)
    return None if kept is None else {**answer, key: kept}


def _is_about(key: str, value: JsonValue) -> bool:
    if isinstance(value, dict):
        return key in _ABOUT and not any(isinstance(below, list | dict) for below in value.values())
    return True


def _own(items: list[JsonValue], own: frozenset[str]) -> list[JsonValue] | None:
    if not all(isinstance(item, dict) and _id(item.get("id")) for item in items):
        return None
    return [item for item in items if isinstance(item, dict) and _id(item["id"]) in own]


def _id(value: JsonValue) -> str:
    """An id as text, empty where `value` is none."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return text if isinstance(text, str) and is_id(text) else ""
