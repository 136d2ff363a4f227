"""Bodies and answers. Source: "Grant file" in the specification; docs/reference/grants.md."""

from types import MappingProxyType
from typing import Any, cast

from grants.model import BodyRule, Disclosure, JsonObject, JsonRule, JsonType, ResponseRule
from grants.place import Place
from grants.problems import quoted
from grants.schema import Schema, SchemaInvalid

from .rules import load_field_names


def load_body(operation: Place) -> BodyRule | None:
    """What the request's body must be; None when the operation has none, or it has problems."""
    place = operation.get("body")
    if place is None:
        return None
    rule, limit = _json_rule(place), place.get("maxBytes")
    if rule is None or limit is None:
        return None
    return BodyRule(max_bytes=limit.number, content_types=_content_types(place), json=rule)


def load_response(operation: Place) -> ResponseRule | None:
    """What the answer must be; None when it has problems."""
    place = operation.get("response")
    if place is None:
        return None
    rule, limit, fields = _json_rule(place), place.get("maxBytes"), load_field_names(place)
    if rule is None or limit is None:
        return None
    return ResponseRule(
        statuses=frozenset(status.number for status in place.items("statuses")),
        content_types=_content_types(place),
        max_bytes=limit.number,
        disclosure=Disclosure.DENY_EXACT,
        json=rule,
        empty=place.flag("empty"),
        headers=fields,
    )


def _content_types(place: Place) -> frozenset[str]:
    return frozenset(item.text.lower() for item in place.items("contentTypes"))


def _json_rule(place: Place) -> JsonRule | None:
    small, full = place.get("json"), place.get("schema")
    loaded = _json_object(small) if small else None
    schema = _schema(full) if full else None
    if loaded is None and schema is None:
        return None
    return JsonRule(object=loaded, schema=schema)


def _json_object(place: Place) -> JsonObject:
    properties = {name: cast("JsonType", kind.text) for name, kind in place.fields("properties").items()}
    declared = _keys(place, "properties")
    required = place.items("required")
    for name in required:
        if name.text not in declared:
            name.problem(f"{quoted(name.text)} is not declared; add it to `properties`")
    return JsonObject(
        properties=MappingProxyType(properties),
        required=frozenset(name.text for name in required),
        additional=place.flag("additionalProperties"),
    )


def _keys(place: Place, key: str) -> frozenset[str]:
    found: Any = place.value.get(key)
    return frozenset(found) if isinstance(found, dict) else frozenset()


def _schema(place: Place) -> Schema | None:
    if any(path[: len(place.path)] == place.path for path in place.report.refused):
        return None
    try:
        return Schema(place.value)
    except SchemaInvalid as invalid:
        place.at(invalid.path).problem(f"cannot be used: {invalid}; keep to JSON Schema 2020-12 within this file")
        return None
