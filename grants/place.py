"""A value together with where it stands, for the code that checks what a file means.

The structure has been checked when a `Place` is read: a child that is absent, or that was refused already, is not
there. So the checks of meaning need no types of their own, and nobody complains twice about one thing.
"""

from dataclasses import dataclass, field
from typing import Any, final

from .document import ListNode, MapNode, Node
from .problems import Path, Problem, written


@final
@dataclass(slots=True)
class Report:
    """The problems of one file, and the paths of the values that were refused."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    refused: set[Path] = field(default_factory=set)

    def add(self, node: Any, path: Path, message: str) -> None:
        """Note a problem at the place of `node` (anything with `line` and `column`)."""
        self.problems.append(Problem(self.file, node.line, node.column, written(path), message))


@final
@dataclass(frozen=True, slots=True)
class Place:
    """One value of the document.

    Attributes:
        value: what the schema's type made of it: dict, list, str, int, float, bool or None.
    """

    node: Node
    value: Any
    path: Path
    report: Report

    @property
    def text(self) -> str:
        """The value, where the structure says that it is a text."""
        return str(self.value)

    @property
    def number(self) -> int:
        """The value, where the structure says that it is an integer."""
        return int(self.value)

    def problem(self, message: str) -> None:
        """Note that this value is wrong."""
        self.report.add(self.node, self.path, message)

    def key_problem(self, key: str, message: str) -> None:
        """Note that `key` of this map should not be here, or, if it is not, that it should."""
        entry = self.node.entries.get(key) if isinstance(self.node, MapNode) else None
        self.report.add(entry or self.node, (*self.path, key), message)

    def has(self, key: str) -> bool:
        """Whether the map has the key, refused or not."""
        return isinstance(self.value, dict) and key in self.value

    def get(self, key: str) -> "Place | None":
        """The value of `key`, or None when it is absent or refused."""
        if not isinstance(self.node, MapNode) or key not in self.value or (*self.path, key) in self.report.refused:
            return None
        return Place(self.node.entries[key].value, self.value[key], (*self.path, key), self.report)

    def at(self, path: Path) -> "Place":
        """The place at `path` below this one, refused or not; the deepest there is when `path` leads nowhere."""
        node, value, gone = self.node, self.value, self.path
        for step in path:
            if isinstance(node, MapNode) and step in node.entries:
                node = node.entries[str(step)].value
            elif isinstance(node, ListNode) and isinstance(step, int) and step < len(node.items):
                node = node.items[step]
            else:
                break
            value, gone = value[step], (*gone, step)
        return Place(node, value, gone, self.report)

    def flag(self, key: str) -> bool:
        """The boolean at `key`; False when it is absent."""
        found = self.get(key)
        return found is not None and found.value is True

    def items(self, key: str) -> "list[Place]":
        """The items of the list at `key` that were not refused; none when there is no such list."""
        found = self.get(key)
        return found.own_items() if found else []

    def own_items(self) -> "list[Place]":
        """The items of this list that were not refused; none when it is no list."""
        if not isinstance(self.node, ListNode):
            return []
        places = (
            Place(node, value, (*self.path, index), self.report)
            for index, (node, value) in enumerate(zip(self.node.items, self.value, strict=True))
        )
        return [place for place in places if place.path not in self.report.refused]

    def fields(self, key: str) -> "dict[str, Place]":
        """The values of the map at `key` that were not refused; none when there is no such map."""
        found = self.get(key)
        if found is None or not isinstance(found.node, MapNode):
            return {}
        return {name: place for name in found.value if (place := found.get(name)) is not None}
