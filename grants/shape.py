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

_SHOWN_CHARACTERS: Final = 64

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
    """What is wrong with a JSON body; `detail` completes a sentence that names the body."""

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
        return JsonProblem(kind=ProblemKind.JSON, detail=f"is not strict JSON: {invalid}{place}")
    detail = _object_detail(rule.object, value, show_names) if rule.object else None
    if detail is None and rule.schema and (error := rule.schema.first_error(value)) is not None:
        detail = f"does not match the schema: {error}"
    return None if detail is None else JsonProblem(kind=ProblemKind.SCHEMA, detail=detail)


def _object_detail(rule: JsonObject, value: JsonValue, show_names: bool) -> str | None:
    if not isinstance(value, dict):
        return "is not a JSON object"
    properties = rule.properties
    if not rule.additional and not value.keys() <= properties.keys():
        name = next(name for name in value if name not in properties)
        named = f"a property {_shown(name)}" if show_names else "a property"
        return f"holds {named} that is not declared; declared: {', '.join(properties) or 'none'}"
    if missing := rule.required - value.keys():
        return f"lacks the required property `{min(missing)}`"
    for name, kind in properties.items():
        if name in value and type(value[name]) not in _TYPES[kind]:
            return f"holds a property `{name}` that is not {_article(kind)}"
    return None


def _article(kind: JsonType) -> str:
    if kind == "null":
        return kind
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"


def _shown(name: str) -> str:
    """A name of the client's, safe within one line of text: escaped to ASCII, then cut."""
    escaped = name[:_SHOWN_CHARACTERS].encode("unicode_escape").decode().replace("`", "\\x60")
    return f"`{escaped[:_SHOWN_CHARACTERS]}`"
