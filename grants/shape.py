"""Whether a JSON body has the shape that a grant declares.

Strategy: the bytes are parsed once, and the one value is held to the small schema (`json`) and to the full one
(`schema`), whichever are declared. What is wrong is told in the grant's own words; only of a request, whose sender
knows it anyway, the name of an undeclared property is shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from .jsontext import JsonInvalid, JsonValue, parse_json
from .model import JsonObject, JsonRule, JsonType
from .text import listed, quoted

_TYPES: Final[Mapping[JsonType, frozenset[type]]] = {
    "string": frozenset({str}),
    "number": frozenset({int, float}),
    "integer": frozenset({int}),
    "boolean": frozenset({bool}),
    "object": frozenset({dict}),
    "array": frozenset({list}),
    "null": frozenset({type(None)}),
}


class ProblemKind(StrEnum):
    """Whether a body is no JSON at all, or JSON of another shape."""

    JSON = "json"
    SCHEMA = "schema"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JsonProblem:
    """What is wrong with a JSON body; `detail` goes after words that name the body."""

    kind: ProblemKind
    detail: str


def check_json(rule: JsonRule, data: bytes, *, show_names: bool) -> JsonProblem | None:
    """Hold `data` to `rule`. Pure, total, never raises.

    An `integer` of `json` is a JSON number written without `.`, `e` or `E`; a `number` is any; `true` and `false` are
    neither. `schema` follows its own standard, where `1.0` is an integer.

    Args:
        rule: what is declared.
        data: the whole body.
        show_names: the body came from the one who reads the detail, so the name of an undeclared property and the
            place of a fault may be shown. Values never are.
    """
    try:
        value = parse_json(data)
    except JsonInvalid as invalid:
        place = f" ({invalid.position})" if show_names and invalid.position else ""
        return JsonProblem(kind=ProblemKind.JSON, detail=f"not strict JSON: {invalid}{place}")
    detail = _object_detail(rule.object, value, show_names) if rule.object else None
    if detail is None and rule.schema and (error := rule.schema.first_error(value)) is not None:
        detail = error
    return None if detail is None else JsonProblem(kind=ProblemKind.SCHEMA, detail=detail)


def _object_detail(rule: JsonObject, value: JsonValue, show_names: bool) -> str | None:
    if not isinstance(value, dict):
        return "not a JSON object"
    properties = rule.properties
    if not rule.additional and not value.keys() <= properties.keys():
        name = next(name for name in value if name not in properties)
        named = f"property {quoted(name)}" if show_names else "a property"
        return f"{named} is not declared; declared: {listed(properties)}"
    if missing := rule.required - value.keys():
        return f"required property {quoted(min(missing))} is missing"
    for name, kind in properties.items():
        if name in value and type(value[name]) not in _TYPES[kind]:
            return f"property {quoted(name)} is not {_article(kind)}"
    return None


def _article(kind: JsonType) -> str:
    if kind == "null":
        return kind
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"
