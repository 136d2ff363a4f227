"""A YAML text as nodes that keep what was written and where.

The events of libyaml's parser are built into nodes with a stack of our own: no recursion, no implicit types (a
plain `no` or `1.0` stays the text that it is), and everything that gives YAML a second meaning is refused where it
stands: anchors, aliases, merge keys, tags, keys that are not texts, keys twice, more than one document. What was
refused but can be stepped over becomes `Broken`, so that the rest is still looked at.

Source: "Grant file" in the specification; "The file" in docs/reference/grants.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import yaml

from .problems import Path, Problem, quoted, written

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A text as written. `plain`: without quotes, so that it may stand for a number or a boolean."""

    line: int
    column: int
    text: str
    plain: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Something that was refused already. Nothing more is said about it."""

    line: int
    column: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode:
    """A sequence."""

    line: int
    column: int
    items: tuple["Node", ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key of a mapping, with the key's own place, and its value."""

    line: int
    column: int
    value: "Node"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    """A mapping, in the order of the file."""

    line: int
    column: int
    entries: Mapping[str, Entry]


type Node = Scalar | ListNode | MapNode | Broken


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What could be read. `root` is None when nothing could."""

    root: Node | None
    problems: tuple[Problem, ...]


# Not printable in YAML (1.2.2, 5.1), and the line ends of YAML 1.1 that 1.2 does not know: two readers would count
# lines differently.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

_SYNTAX_REMEDIES = (
    ("cannot start any token", "indent with spaces, and put a text that begins with this character into quotes"),
    ("mapping values are not allowed", "put a text that holds `: ` into quotes, or check the indentation"),
    ("could not find expected ':'", "write `key: value`"),
    ("did not find expected key", "check the indentation, and that quotes are closed"),
    ("did not find expected '-' indicator", "indent each item of the list alike"),
    ("unexpected end of stream", "close the quote or bracket that is open"),
    ("did not find expected ',' or", "close the bracket, or put a comma between the items"),
    ("unknown escape character", "double a backslash in double quotes, or use single quotes"),
    ("tab character", "indent with spaces"),
    ("nesting depth", "flatten it"),
    ("did not find expected node content", "close the bracket that is open"),
    ("incompatible YAML", "leave the `%YAML` line out"),
    ("Unicode character escape", "write a character that Unicode has"),
    ("did not find expected alphabetic", "put a text that begins with `*` or `&` into quotes"),
)


def parse(text: bytes | str, *, file: str) -> Document:
    """Read one YAML document. Never raises: what is wrong is in `problems`."""
    decoded = _decode(text, file)
    if isinstance(decoded, Problem):
        return Document(root=None, problems=(decoded,))
    return _Builder(file).build(decoded)


def _decode(text: bytes | str, file: str) -> str | Problem:
    if isinstance(text, bytes):
        if len(text) > MAX_BYTES:
            return Problem(file, 1, 1, written(()), f"is larger than {MAX_BYTES} bytes; split it into smaller files")
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as error:
            before = text[: error.start].decode("utf-8")
            return _at(before, file, "is not UTF-8 from here on; save the file as UTF-8")
    else:
        decoded = text
        if len(decoded.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            return Problem(file, 1, 1, written(()), f"is larger than {MAX_BYTES} bytes; split it into smaller files")
    decoded = decoded.removeprefix("\ufeff")
    if found := _UNPRINTABLE.search(decoded):
        name = f"U+{ord(found.group()):04X}"
        return _at(
            decoded[: found.start()], file, f"holds the character {name}; write it as an escape in double quotes"
        )
    return decoded


def _at(before: str, file: str, message: str) -> Problem:
    lines = re.split(r"\r\n|\r|\n", before.removeprefix("\ufeff"))
    return Problem(file, len(lines), len(lines[-1]) + 1, written(()), message)


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come. `is_key`: it stands where a key should and is dropped."""

    line: int
    column: int
    path: Path
    is_map: bool
    is_key: bool = False
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    key: tuple[str, int, int] | None = None
    key_refused: bool = False

    def child_path(self) -> Path:
        if not self.is_map:
            return (*self.path, len(self.items))
        return (*self.path, self.key[0]) if self.key else self.path

    def wants_key(self) -> bool:
        return self.is_map and self.key is None and not self.key_refused

    def close(self) -> Node:
        if self.is_map:
            return MapNode(line=self.line, column=self.column, entries=self.entries)
        return ListNode(line=self.line, column=self.column, items=tuple(self.items))


class _Stop(Exception):
    """The rest of the text cannot be read."""


class _Builder:
    def __init__(self, file: str) -> None:
        self._file = file
        self._problems: list[Problem] = []
        self._stack: list[_Open] = []
        self._root: Node | None = None
        self._documents = 0

    def build(self, text: str) -> Document:
        try:
            for event in yaml.parse(text.encode("utf-8"), Loader=yaml.CSafeLoader):
                self._take(event)
            if self._root is None or (isinstance(self._root, Scalar) and self._root.plain and not self._root.text):
                self._root = None
                self._say(1, 1, (), "is empty; write the file's keys")
        except yaml.YAMLError as error:
            self._root = None
            self._syntax(error)
        except _Stop:
            self._root = None
        return Document(root=self._root, problems=tuple(self._problems))

    def _say(self, line: int, column: int, path: Path, message: str) -> None:
        self._problems.append(Problem(self._file, line, column, written(path), message))

    def _path(self) -> Path:
        return self._stack[-1].child_path() if self._stack else ()

    def _syntax(self, error: yaml.YAMLError) -> None:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        what = str(getattr(error, "problem", None) or "cannot be read").replace("\n", " ")
        remedy = next((remedy for words, remedy in _SYNTAX_REMEDIES if words in what), "check indentation and quotes")
        self._say(line, column, self._stack[-1].path if self._stack else (), f"is not YAML: {what}; {remedy}")

    def _take(self, event: Any) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._document(event)
            case yaml.AliasEvent():
                line, column = _place(event)
                self._say(line, column, self._path(), f"is the alias {quoted(f'*{event.anchor}')}; write the value out")
                self._add(Broken(line=line, column=column))
            case yaml.ScalarEvent():
                line, column = _place(event)
                self._refuse_properties(event)
                plain = event.style is None or event.style == ""
                self._add(Scalar(line=line, column=column, text=event.value, plain=plain))
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._open(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._close()
            case _:
                pass

    def _document(self, event: Any) -> None:
        self._documents += 1
        line, column = _place(event)
        if self._documents > 1:
            self._say(line, column, (), "is a second document; keep one document in a file")
            raise _Stop
        if event.tags:
            self._say(line, column, (), "declares a tag; leave tags out")

    def _refuse_properties(self, event: Any) -> None:
        line, column = _place(event)
        if event.anchor is not None:
            self._say(line, column, self._path(), f"has the anchor {quoted(f'&{event.anchor}')}; leave anchors out")
        if event.tag is not None:
            self._say(line, column, self._path(), f"has the tag {quoted(event.tag)}; leave tags out")

    def _open(self, event: Any) -> None:
        line, column = _place(event)
        self._refuse_properties(event)
        path = self._path()
        if len(self._stack) == MAX_DEPTH:
            self._say(line, column, path, f"is nested deeper than {MAX_DEPTH} levels; flatten it")
            raise _Stop
        is_key = bool(self._stack) and self._stack[-1].wants_key()
        if is_key:
            self._say(line, column, path, "has a list or a map as a key; write a text")
        self._stack.append(_Open(line, column, path, isinstance(event, yaml.MappingStartEvent), is_key))

    def _close(self) -> None:
        closed = self._stack.pop()
        if closed.is_key:
            self._stack[-1].key_refused = True
        else:
            self._add(closed.close())

    def _add(self, node: Node) -> None:
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        if not parent.is_map:
            parent.items.append(node)
        elif parent.wants_key():
            self._key(parent, node)
        else:
            if parent.key is not None:
                text, line, column = parent.key
                parent.entries[text] = Entry(line=line, column=column, value=node)
            parent.key, parent.key_refused = None, False

    def _key(self, parent: _Open, node: Node) -> None:
        """Take `node` as a key, or note that what follows has none."""
        if not isinstance(node, Scalar):
            parent.key_refused = True
            return
        path = (*parent.path, node.text)
        if node.plain and node.text == "<<":
            self._say(node.line, node.column, path, "is a merge key; write the keys out")
        elif node.plain and not node.text:
            self._say(node.line, node.column, parent.path, "has an empty key; write a name before the colon")
        elif node.text in parent.entries:
            first = parent.entries[node.text].line
            self._say(node.line, node.column, path, f"is here twice, first in line {first}; keep one of them")
        else:
            parent.key = (node.text, node.line, node.column)
            return
        parent.key_refused = True


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
