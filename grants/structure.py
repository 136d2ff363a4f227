"""The structure of a file, held to the JSON Schema that ships for editors, with messages made for people.

First the nodes become values, guided by the schema: where it wants a text, every scalar is the text that was
written; where it wants a number or a boolean, a plain one is read. Then the schema is applied to those values, and
each keyword that fails is told in our words. Annotations of our own carry the words that no keyword has: `x-refused`
(a key or a value that is understood but refused, and what to do), `x-expected` (what a text should look like),
`x-empty` (a text that may be empty) and each property's `description`. Lists and maps have an example in `examples`.
"""

import json
import math
import pkgutil
import re
from typing import Any, final

import jsonschema_rs

from .document import Broken, Document, ListNode, MapNode, Node, Scalar, parse
from .example import KEY as EXAMPLE
from .example import give_examples
from .place import Place, Report
from .problems import Path, quoted, unknown_key
from .schema import DIALECT

MAX_ERRORS = 1000
"""So many failures of structure are told in one go. Nobody reads more."""

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,99})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,99})?([eE][+-]?[0-9]{1,3})?")

_WORDS = {
    "string": "a text",
    "integer": "a plain number",
    "number": "a plain number",
    "boolean": "plain `true` or `false`",
    "array": "a list",
    "object": "a map",
}


@final
class Structure:
    """A kind of file. `resource` is its schema's name in `package`."""

    def __init__(self, package: str, resource: str) -> None:
        data = pkgutil.get_data(package, resource)
        if data is None:  # pragma: no cover
            raise FileNotFoundError(resource)
        self.schema: dict[str, Any] = json.loads(data)
        give_examples(self.schema, self._resolve)
        self._validator = jsonschema_rs.Draft202012Validator(self.schema, ignore_unknown_formats=True)

    def read(self, text: bytes | str, *, file: str) -> tuple[Place | None, Report]:
        """Read a file of this kind. No place: its meaning cannot be looked at. Never raises."""
        return self.hold(parse(text, file=file), file=file)

    def hold(self, document: Document, *, file: str) -> tuple[Place | None, Report]:
        """Hold a document to the schema. As `read`, for a document that is there already."""
        report = Report(file, list(document.problems))
        if document.root is None:
            return None, report
        value = self._value(document.root, self.schema, (), report)
        place = Place(document.root, value, (), report)
        broken = frozenset(report.refused)
        for count, error in enumerate(self._validator.iter_errors(value), start=1):
            if count > MAX_ERRORS:
                # What is not refused counts as sound, so nothing may look at this any further.
                return None, report
            path = tuple(error.instance_path)
            if not any(path[:end] in broken for end in range(len(path) + 1)):
                self._explain(error, path, place)
        return place, report

    # --- from nodes to values -----------------------------------------------------------------------------------

    def _value(self, node: Node, schema: dict[str, Any], path: Path, report: Report) -> Any:
        schema = self._resolve(schema)
        match node:
            case Broken():
                report.refused.add(path)
                return ""
            case MapNode():
                properties = schema.get("properties", {})
                rest = schema.get("additionalProperties")
                rest = rest if isinstance(rest, dict) else {}
                return {
                    key: self._value(entry.value, properties.get(key, rest), (*path, key), report)
                    for key, entry in node.entries.items()
                }
            case ListNode():
                items = schema.get("items", {})
                return [self._value(item, items, (*path, index), report) for index, item in enumerate(node.items)]
        return _scalar(node, schema, path, report)

    def _resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Follow `$ref`. A reference to the dialect itself marks a place where a whole JSON Schema stands."""
        while isinstance(reference := schema.get("$ref"), str):
            if reference == DIALECT:
                return _ANY_JSON
            schema = self._at(reference.removeprefix("#/").split("/"))
        return schema

    def _at(self, steps: list[str | int] | list[str]) -> dict[str, Any]:
        found: Any = self.schema
        for step in steps:
            found = found[step]
        return found if isinstance(found, dict) else {}

    # --- from errors to messages --------------------------------------------------------------------------------

    def _explain(self, error: jsonschema_rs.ValidationError, path: Path, root: Place) -> None:
        report, place = root.report, root.at(path)
        if self._in_json_schema(path):
            report.refused.add(path)
            report.add(place.node, path, f"is not JSON Schema 2020-12: {_one_line(error.message)}; correct the keyword")
            return
        schema = self._at(list(error.schema_path[:-1]))
        keyword = str(error.schema_path[-1])
        kind: Any = error.kind
        match keyword:
            case "additionalProperties":
                for key in kind.unexpected:
                    place.key_problem(key, _unknown(key, schema))
            case "required" | "dependentRequired":
                described = self._resolve(schema.get("properties", {}).get(kind.property, {}))
                described = {**described, **schema.get("properties", {}).get(kind.property, {})}
                because = _because(schema, kind.property, place) if keyword == "dependentRequired" else ""
                report.add(place.node, (*path, kind.property), f"is missing{because}; add {_described(described)}")
            case "anyOf":
                keys = [option["required"][0] for option in schema["anyOf"]]
                report.add(place.node, path, f"has none of {_listed(keys)}; add one of them")
            case _:
                report.refused.add(path)
                place.problem(_of_value(keyword, kind, schema, place))

    def _in_json_schema(self, path: Path) -> bool:
        schema: dict[str, Any] = self.schema
        for step in path:
            schema = self._resolve(schema)
            if isinstance(step, int):
                schema = schema.get("items", {})
            else:
                rest = schema.get("additionalProperties")
                schema = schema.get("properties", {}).get(step, rest if isinstance(rest, dict) else {})
            if schema.get("$ref") == DIALECT:
                return True
        return False


_ANY_JSON: dict[str, Any] = {"x-json": True}
_ANY_JSON |= {"additionalProperties": _ANY_JSON, "items": _ANY_JSON}


def _scalar(node: Scalar, schema: dict[str, Any], path: Path, report: Report) -> Any:
    types = _types(schema)
    if node.plain and not node.text:
        report.refused.add(path)
        empty = ", or `''` for an empty text" if schema.get("x-empty") else ""
        report.add(node, path, f"has no value; write {_expected(schema)}{empty}")
        return ""
    if schema.get("x-json"):
        return _json_scalar(node)
    if "string" in types or not node.plain:
        return node.text
    if "integer" in types and _INTEGER.fullmatch(node.text):
        return int(node.text)
    if "boolean" in types and node.text in ("true", "false"):
        return node.text == "true"
    return node.text


def _json_scalar(node: Scalar) -> Any:
    """A scalar where any JSON value may stand: plain `true`, `false`, `null` and JSON numbers are those."""
    if not node.plain:
        return node.text
    if node.text in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[node.text]
    if _WHOLE.fullmatch(node.text):
        return int(node.text)
    if _NUMBER.fullmatch(node.text) and math.isfinite(number := float(node.text)):
        return number
    return node.text


def _unknown(key: str, schema: dict[str, Any]) -> str:
    if remedy := schema.get("x-refused", {}).get(key):
        return str(remedy)
    return unknown_key(key, list(schema.get("properties", {})))


def _because(schema: dict[str, Any], missing: str, place: Place) -> str:
    causes = [key for key, needs in schema["dependentRequired"].items() if missing in needs and place.has(key)]
    return f", which {quoted(causes[0])} needs"


def _described(schema: dict[str, Any]) -> str:
    text = f"{_type_words(schema)}: {schema['description']}" if "description" in schema else _type_words(schema)
    shown = _shown(schema["examples"][0]) if "examples" in schema else schema.get(EXAMPLE)
    return text if shown is None else f"{text}, such as {quoted(shown)}"


def _type_words(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return _one_of(schema["enum"])
    names = _types(schema)
    if "string" in names:
        return _WORDS["string"]
    return " or ".join(_WORDS[name] for name in names)


def _types(schema: dict[str, Any]) -> list[str]:
    types = schema.get("type", "string")
    return [types] if isinstance(types, str) else types


def _of_value(keyword: str, kind: Any, schema: dict[str, Any], place: Place) -> str:
    shown = _found(place, schema)
    match keyword:
        case "type":
            return f"is {shown}; write {_expected(schema)}"
        case "enum":
            if remedy := schema.get("x-refused", {}).get(place.value) if isinstance(place.value, str) else None:
                return f"{shown} {remedy}"
            return f"is {shown}; write {_one_of(kind.options)}"
        case "minimum" | "maximum":
            return (
                f"is {shown}; write a number that is {'at least' if keyword == 'minimum' else 'at most'} {kind.limit}"
            )
        case "minItems" | "minProperties":
            return f"is empty; list at least {kind.limit}"
        case _:
            return f"is {shown}; write {_expected(schema)}"


def _expected(schema: dict[str, Any]) -> str:
    return str(schema["x-expected"]) if "x-expected" in schema else _described(schema)


def _found(place: Place, schema: dict[str, Any]) -> str:
    """What stands there. A text that may be a credential, or is where a collection should be, is not repeated."""
    silent = schema.get("x-secret") or not {"string", "integer", "boolean"} & set(_types(schema))
    match place.node:
        case MapNode():
            return "a map"
        case ListNode():
            return "a list"
        case Scalar() if silent:
            return "a text"
        case Scalar(text=text, plain=plain):
            return quoted(text) if plain else f"the text {quoted(text)}"
        case Broken():  # pragma: no cover
            return "refused"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _listed(values: list[Any]) -> str:
    return ", ".join(quoted(_shown(value)) for value in values)


def _one_of(values: list[Any]) -> str:
    return f"one of {_listed(values)}" if len(values) > 1 else _listed(values)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
