"""Which part of an answer of Fountain is a box's: the id of what was created, and a list's own items."""

from typing import Final

from grants.jsontext import JsonValue

from .kinds import Kind, is_id

_ABOUT: Final = frozenset({"meta", "pagination", "page", "paging", "links"})


def created(kind: Kind, answer: JsonValue) -> str | None:
    """The id in the answer to a creation: its `id`, or that of the object under the kind's name or `data`."""
    if not isinstance(answer, dict):
        return None
    inner = [answer.get(kind.value), answer.get("data")]
    for holder in (answer, *inner):
        if isinstance(holder, dict) and (found := _id(holder.get("id"))):
            return found
    return None


def may_list(answer: JsonValue) -> bool:
    """Whether an answer without an id of its own could be a list: an array, or an object that has one in it."""
    return isinstance(answer, list) or (isinstance(answer, dict) and any(isinstance(v, list) for v in answer.values()))


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
