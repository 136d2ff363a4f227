"""What a request names at Fountain, by path, query, header fields and JSON body.

Three rules overlap on purpose. What stands under a name with a kind's word in it, or beside a kind's word, is named:
it has to be the box's own, and what cannot be read as an id is nobody's. A bare `id` is named where it tells of what
the request is about. And every text that could be an id is collected: none may be another box's.
Source: "fountain" in the specification.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, final
from urllib.parse import parse_qsl

from grants.jsontext import JsonInvalid, JsonValue, parse_json
from grants.message import Fields

from .keys import Key, read_key
from .kinds import WORDS, Kind, Named
from .path import FountainPath
from .texts import Texts

_TYPE_CHARACTERS: Final = 128


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What stands in a request, or a part of one.

    Attributes:
        names: what it names.
        texts: all that could be an id.
        full: it holds more than can be looked for, so the rest says nothing.
        override: it has a name whose value servers take for the method.
    """

    names: tuple[Named, ...]
    texts: frozenset[str] = field(repr=False)
    full: bool = False
    override: bool = False


def read_head(path: FountainPath, query: bytes = b"", fields: Fields = ()) -> Reading:
    """What a request's head names. Total: never raises.

    Args:
        path: as it goes upstream.
        query: without the question mark.
        fields: those that go upstream.
    """
    reader = _Reader()
    reader.names.update(dict.fromkeys(path.names))
    for text in (*path.segments, *(value.decode("latin-1") for _, value in fields)):
        reader.texts.add(text)
    reader.query(query.decode("latin-1"))
    return reader.reading()


def read_body(path: FountainPath, body: JsonValue) -> Reading:
    """What a request's JSON body names. Total: never raises."""
    reader = _Reader()
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

    def __init__(self) -> None:
        self.names: dict[Named, None] = {}
        self.texts: Final = Texts()
        self._override = False
        self._keys: dict[str, Key] = {}

    def reading(self) -> Reading:
        return Reading(
            names=tuple(self.names),
            texts=frozenset(self.texts.found),
            full=self.texts.full,
            override=self._override,
        )

    def query(self, text: str) -> None:
        """Some servers split at the semicolon too, so both readings count."""
        found = dict.fromkeys(
            pair for each in (text, text.replace(";", "&")) for pair in parse_qsl(each, keep_blank_values=True)
        )
        pairs = [(self._key(name), value) for name, value in found]
        typed = self._typed(pairs)
        for key, value in pairs:
            self.texts.add(value)
            self._override |= key.override
            wanted = [key.kind] if key.kind is not None else typed if key.identity else []
            if key.bare and not wanted:
                self._name(None, value.split(","))
            for kind in wanted:
                self._name(kind, value.split(","))
            if value.lstrip().startswith(("{", "[")):
                self._json(value)

    def top(self, item: dict[str, JsonValue], subject: Kind | None) -> None:
        """A JSON object that is the body, or one of those in it."""
        for key, below in self._members(item):
            self._override |= key.override
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
                    self.texts.add(_text(item))

    def _object(self, item: dict[str, JsonValue]) -> None:
        typed = self._typed((key, below) for key, below in self._members(item) if isinstance(below, str))
        for key, below in self._members(item):
            if key.kind is not None:
                self._name(key.kind, self._ids(below))
            if key.identity:
                for kind in typed:
                    self._name(kind, self._ids(below))

    def _json(self, text: str) -> None:
        try:
            value = parse_json(text.encode("utf-8", "replace"))
        except JsonInvalid:
            return
        for key, below in self._members(value) if isinstance(value, dict) else ():
            if key.bare:
                self._name(None, self._ids(below))
        self.value(value)

    def _typed(self, pairs: Iterable[tuple[Key, str]]) -> list[Kind]:
        """The kinds that are said by a value: it is a word for one, or under a name such as `type` has one in it."""
        found: dict[Kind, None] = {}
        for key, value in pairs:
            kind = WORDS.get(value.strip().lower()) if len(value) <= _TYPE_CHARACTERS else None
            if kind is None and key.type:
                kind = self._key(value).kind
            if kind is not None:
                found[kind] = None
        return list(found)

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
            key = self._keys[name] = read_key(name)
        return key

    def _name(self, kind: Kind | None, identifiers: Iterable[str]) -> None:
        self.names.update(dict.fromkeys([Named(kind=kind, id=each) for each in identifiers]))

    def _ids(self, value: JsonValue) -> Iterator[str]:
        """The ids that stand under a name for one, empty for what is none; null and booleans name nothing."""
        pending = [value]
        while pending and not self.texts.full:
            match pending.pop():
                case list() as item:
                    pending += self._below(item)
                case dict() as item:
                    told = [below for key, below in self._members(item) if key.identity and below is not None]
                    pending += reversed(told or [""])
                case None | bool():
                    pass
                case item:
                    yield _text(item) if not isinstance(item, float) else ""


def _text(value: bool | float | str | None) -> str:
    """A scalar as the text that an id would be; empty where it can be none."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
