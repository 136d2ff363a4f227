"""What a request names at Fountain, by path, query, header fields and JSON body.

Three rules overlap on purpose. What stands under a name that ends with a kind's word, or beside a type that is one, is
named: it has to be the box's own, and what cannot be read as an id is nobody's. A bare `id` is named where it tells of
what the request is about. And every text that could be an id is collected: none may be another box's.
Source: "fountain" in the specification.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, final
from urllib.parse import parse_qsl, unquote

from grants.jsontext import JsonInvalid, JsonValue, parse_json
from grants.message import Fields

from .fields import holding_fields
from .keys import MAX_NAME, Key, read_key
from .kinds import Kind, Named
from .path import FountainPath
from .reading import Fault, Reading
from .texts import Texts, scalar_text

_JSON_BEGUN: Final = re.compile(r"[\s\0-\x1f\ufeff]*[\[{]")
_DECODINGS: Final = 3
_FLAGS: Final = frozenset({"true", "false", "null"})
_NUMBERED_FLAGS: Final = frozenset({"0", "1"})


def read_head(path: FountainPath, query: bytes = b"", fields: Fields = ()) -> Reading:
    """What a request's head names. Total: never raises.

    Args:
        path: as it goes upstream.
        query: without the question mark.
        fields: those that go upstream.
    """
    reader = _Reader(Fault.LONG_PARAMETER)
    reader.names.update(dict.fromkeys(path.names))
    for text in (*path.segments, *(value.decode("latin-1") for _, value in holding_fields(fields))):
        reader.texts.add(text)
    for _, value in fields:
        reader.parameter(value.decode("latin-1"))
    reader.query(query.decode("latin-1"))
    return reader.reading()


def read_body(path: FountainPath, body: JsonValue) -> Reading:
    """What a request's JSON body names. Total: never raises."""
    reader = _Reader(Fault.LONG_MEMBER)
    for top in body if isinstance(body, list) else [body]:
        if reader.texts.full:
            break
        reader.texts.step()
        if isinstance(top, dict):
            reader.top(top, path.subject)
    reader.value(body)
    return reader.reading()


@final
class _Reader:
    """One pass over a part of a request."""

    def __init__(self, too_long: Fault) -> None:
        self.names: dict[Named, None] = {}
        self.texts: Final = Texts()
        self._too_long = too_long
        self._fault: Fault | None = None
        self._keys: dict[str, Key] = {}

    def reading(self) -> Reading:
        fault = self._fault
        if self.texts.full:
            fault = Fault.MANY_TEXTS if self.texts.many else Fault.MANY_STEPS
        return Reading(names=tuple(self.names), texts=frozenset(self.texts.found), fault=fault)

    def query(self, text: str) -> None:
        """Some servers split at the semicolon too, so both readings count."""
        found = dict.fromkeys(
            pair for each in (text, text.replace(";", "&")) for pair in parse_qsl(each, keep_blank_values=True)
        )
        pairs = [(self._key(name), value) for name, value in found]
        typed = self._typed(pairs)
        for key, value in pairs:
            self.texts.add(value)
            self._method(key)
            wanted: list[Kind | None] = [key.kind] if key.kind is not None else [*typed] if key.identity else []
            if key.bare and not wanted:
                wanted = [None]
            for kind in () if _is_flag(key, value) else wanted:
                self._name(kind, value.split(","))
        for text in dict.fromkeys(text for pair in found for text in pair):
            self.parameter(text)

    def parameter(self, text: str) -> None:
        """A text that servers may read as JSON, if it begins so, also when its encoding is taken off once more."""
        for _ in range(_DECODINGS):
            if _JSON_BEGUN.match(text):
                self._json(text)
                return
            if "%" not in text:
                return
            text = unquote(text)

    def top(self, item: dict[str, JsonValue], subject: Kind | None) -> None:
        """A JSON object that is the body, or one of those in it."""
        for key, below in self._members(item):
            self._method(key)
            if key.bare and subject is not None:
                self._name(subject, self._ids(below))

    def value(self, value: JsonValue) -> None:
        """A JSON value and all that is in it."""
        pending = [value]
        while pending and not self.texts.full:
            match pending.pop():
                case dict() as item:
                    self._object(item)
                    pending += self._below(item.values())
                case list() as item:
                    pending += self._below(item)
                case item:
                    self.texts.add(scalar_text(item))

    def _object(self, item: dict[str, JsonValue]) -> None:
        typed = self._typed((key, below) for key, below in self._members(item) if isinstance(below, str))
        for key, below in self._members(item):
            if _is_flag(key, scalar_text(below) if not isinstance(below, list | dict) else ""):
                continue
            if key.kind is not None:
                self._name(key.kind, self._ids(below))
            if key.identity:
                for kind in typed:
                    self._name(kind, self._ids(below))

    def _json(self, text: str) -> None:
        try:
            value = parse_json(text.encode("utf-8", "replace"))
        except JsonInvalid:
            self._fault = self._fault or Fault.UNREAD
            return
        for key, below in self._members(value) if isinstance(value, dict) else ():
            if key.bare:
                self._name(None, self._ids(below))
        self.value(value)

    def _typed(self, pairs: Iterable[tuple[Key, str]]) -> list[Kind]:
        """The kinds that are said by the value of a name such as `type`."""
        types = [value.strip() for key, value in pairs if key.type]
        kinds = [self._key(value).kind for value in types if len(value) <= MAX_NAME]
        return list(dict.fromkeys([kind for kind in kinds if kind is not None]))

    def _below(self, values: Collection[JsonValue]) -> Iterator[JsonValue]:
        """The values, last first; none where they are too many."""
        self.texts.step(len(values) + 1)
        return iter(()) if self.texts.full else reversed(list(values))

    def _members(self, item: dict[str, JsonValue]) -> Iterator[tuple[Key, JsonValue]]:
        for name, below in item.items():
            if self.texts.full:
                return
            self.texts.step()
            yield self._key(name), below

    def _key(self, name: str) -> Key:
        key = self._keys.get(name)
        if key is None:
            self.texts.step(len(name))
            self.texts.add(name)
            key = self._keys[name] = read_key(name[:MAX_NAME])
            if len(name) > MAX_NAME:
                self._fault = self._fault or self._too_long
        return key

    def _method(self, key: Key) -> None:
        if key.override:
            self._fault = self._fault or Fault.OVERRIDE

    def _name(self, kind: Kind | None, identifiers: Iterable[str]) -> None:
        self.names.update(dict.fromkeys([Named(kind=kind, id=each) for each in identifiers]))

    def _ids(self, value: JsonValue) -> Iterator[str]:
        """The ids that stand under a name for one, empty for what is none.

        Null and booleans name nothing, and an object without a member that tells which names nothing itself.
        """
        pending = [value]
        while pending and not self.texts.full:
            match pending.pop():
                case list() as item:
                    pending += self._below(item)
                case dict() as item:
                    pending += reversed([below for key, below in self._members(item) if key.identity])
                case None | bool():
                    pass
                case item:
                    yield scalar_text(item) if not isinstance(item, float) else ""


def _is_flag(key: Key, text: str) -> bool:
    """Whether a value says yes or no, and so names nothing: `include_agent=true`, `expand[sandbox]=1`."""
    folded = text.strip().lower()
    return folded in _FLAGS or (folded in _NUMBERED_FLAGS and not (key.telling or key.identity))
