"""Examples of lists and maps for messages, made of the schema: a list or map that has none of its own gets one.

An example is short: of a map its first key that must be there, or else its first one, with the value that the schema
shows, has as a default or describes between backticks.
"""

import json
import re
from collections.abc import Callable
from typing import Any

type Schema = dict[str, Any]

_BETWEEN = re.compile(r"`([^`]+)`")
KEY = "x-example"


def give_examples(schema: Any, resolve: Callable[[Schema], Schema]) -> None:
    """Give every list and map at `schema` and below it its example, as the annotation `x-example`.

    `resolve`: the schema that a `$ref` stands for.
    """
    if isinstance(schema, list):
        for item in schema:
            give_examples(item, resolve)
    if not isinstance(schema, dict):
        return
    for below in schema.values():
        give_examples(below, resolve)
    if schema.get("type") in ("array", "object") and "examples" not in schema and "x-expected" not in schema:
        schema[KEY] = _block(schema, resolve)


def _block(schema: Schema, resolve: Callable[[Schema], Schema]) -> str:
    """The example as it stands on a line of its own."""
    if schema["type"] == "object":
        return _entry(schema, resolve)
    items = _whole(schema["items"], resolve)
    return f"- {_entry(items, resolve) if items.get('type') == 'object' else _value(items, resolve)}"


def _entry(schema: Schema, resolve: Callable[[Schema], Schema]) -> str:
    key = next(iter(schema.get("required") or schema["properties"]))
    return f"{key}: {_value(schema['properties'][key], resolve)}"


def _value(schema: Schema, resolve: Callable[[Schema], Schema]) -> str:
    """The example between brackets and commas. A map or a number that is the first of a map shows one of its own."""
    schema = _whole(schema, resolve)
    for shown in (schema.get("examples", [])[:1], schema.get("enum", [])[:1], [schema.get("default")]):
        if shown and shown[0] is not None:
            return shown[0] if isinstance(shown[0], str) else json.dumps(shown[0])
    if schema.get("type") == "array":
        return f"[{_value(schema['items'], resolve)}]"
    return str(_BETWEEN.findall(schema["x-expected"])[0])


def _whole(schema: Schema, resolve: Callable[[Schema], Schema]) -> Schema:
    return {**resolve(schema), **schema}
