"""JSON bodies against the small schema and the full one."""

import pytest

from grants.model import JsonObject, JsonRule, JsonType
from grants.schema import Schema
from grants.shape import ProblemKind, check_json


def rule(properties: dict[str, JsonType], *required: str, additional: bool = False) -> JsonRule:
    return JsonRule(
        object=JsonObject(properties=properties, required=frozenset(required), additional=additional), schema=None
    )


ISSUES = rule({"total_count": "integer", "items": "array"}, "items")
ONE_OF_EACH: dict[JsonType, bytes] = {
    "string": b'"1"',
    "number": b"1.5",
    "integer": b"1",
    "boolean": b"true",
    "object": b"{}",
    "array": b"[]",
    "null": b"null",
}


@pytest.mark.parametrize("declared", ONE_OF_EACH)
@pytest.mark.parametrize("sent", ONE_OF_EACH)
def test_each_type_is_itself_only(declared: JsonType, sent: JsonType) -> None:
    """A property has the declared type; every integer is a number too, and a boolean is neither."""
    problem = check_json(rule({"a": declared}), b'{"a":' + ONE_OF_EACH[sent] + b"}", show_names=True)
    if declared == sent or (declared, sent) == ("number", "integer"):
        assert problem is None
    else:
        assert problem is not None
        assert problem.kind is ProblemKind.SCHEMA
        article = {"null": "", "integer": "an ", "object": "an ", "array": "an "}.get(declared, "a ")
        assert problem.detail == f'property "a" is not {article}{declared}'


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        pytest.param(b"0", True, id="zero"),
        pytest.param(b"-0", True, id="minus zero"),
        pytest.param(b"12345678901234567890123", True, id="long"),
        pytest.param(b"1.0", False, id="fraction of zero"),
        pytest.param(b"1e2", False, id="exponent"),
        pytest.param(b"1E2", False, id="exponent in upper case"),
        pytest.param(b"false", False, id="boolean"),
    ],
)
def test_an_integer_is_written_as_one(text: bytes, passes: bool) -> None:
    """`integer` is a JSON number written without `.`, `e` or `E`."""
    assert (check_json(rule({"a": "integer"}), b'{"a":%s}' % text, show_names=False) is None) is passes


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        pytest.param(b"", "json", "not strict JSON: it ends too early", id="empty"),
        pytest.param(b"{", "json", "not strict JSON: it ends too early", id="cut short"),
        pytest.param(
            b'{"items":[],"items":[]}',
            "json",
            "not strict JSON: an object has the same key twice",
            id="key twice",
        ),
        pytest.param(b'{"items":[1e999]}', "json", "not strict JSON: a number is too large", id="overflow"),
        pytest.param(b"[]", "schema", "not a JSON object", id="array at the top"),
        pytest.param(b"null", "schema", "not a JSON object", id="null at the top"),
        pytest.param(b"{}", "schema", 'required property "items" is missing', id="missing"),
        pytest.param(b'{"items":{}}', "schema", 'property "items" is not an array', id="wrong type"),
        pytest.param(
            b'{"items":[],"hidden":1}',
            "schema",
            "a property is not declared; declared: total_count, items",
            id="undeclared",
        ),
        pytest.param(
            b'{"items":[],"ITEMS":1}',
            "schema",
            "a property is not declared; declared: total_count, items",
            id="undeclared by case",
        ),
    ],
)
def test_what_is_wrong_is_told_in_the_words_of_the_grant(text: bytes, kind: str, detail: str) -> None:
    """A refusal of an answer names what the grant declares and shows nothing of the answer."""
    problem = check_json(ISSUES, text, show_names=False)
    assert problem is not None
    assert (problem.kind, problem.detail) == (kind, detail)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param(b"extra", '"extra"', id="plain"),
        pytest.param(b"a\\nb\xc3\xa9", '"a\\nb\\xe9"', id="escaped"),
        pytest.param(b"n" * 1000, f'"{"n" * 64}..."', id="cut"),
    ],
)
def test_a_sender_is_told_the_name_that_it_sent(name: bytes, shown: str) -> None:
    """The name of an undeclared property of a request is shown, escaped and cut to 64 characters."""
    problem = check_json(rule({}), b'{"%s":1}' % name, show_names=True)
    assert problem is not None
    assert problem.detail == f"property {shown} is not declared; declared: none"


def test_a_sender_is_told_the_place() -> None:
    """The place where a request's JSON goes wrong is shown, where there is one."""
    problem = check_json(ISSUES, b'{"items":\n01}', show_names=True)
    assert problem is not None
    assert problem.detail == "not strict JSON: it is not one JSON value (line 2, column 2)"
    problem = check_json(ISSUES, b'{"items":[1e999]}', show_names=True)
    assert problem is not None
    assert problem.detail == "not strict JSON: a number is too large"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"items":[]}', id="only the required one"),
        pytest.param(b'{"total_count":2,"items":[{"any":"thing"},null]}', id="all"),
        pytest.param(b'{"\\u0069tems":[]}', id="a key by escape"),
    ],
)
def test_what_matches_passes(text: bytes) -> None:
    """Declared properties of their types pass; what arrays and objects hold is not looked at."""
    assert check_json(ISSUES, text, show_names=False) is None


def test_additional_properties_may_be_allowed() -> None:
    """With `additionalProperties: true` other properties pass, and declared ones are still checked."""
    loose = rule({"id": "integer"}, "id", additional=True)
    assert check_json(loose, b'{"id":1,"other":{}}', show_names=False) is None
    problem = check_json(loose, b'{"other":{}}', show_names=False)
    assert problem is not None
    assert problem.detail == 'required property "id" is missing'


SCHEMA = Schema({"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}})


@pytest.mark.parametrize("show_names", [pytest.param(True, id="request"), pytest.param(False, id="answer")])
def test_a_full_schema(show_names: bool) -> None:
    """A body is held to `schema` by that standard: arrays at the top, nested checks, `1.0` an integer."""
    full = JsonRule(object=None, schema=SCHEMA)
    assert check_json(full, b'[{"id":1.0}]', show_names=show_names) is None
    problem = check_json(full, b'[{"id":"k3y-of-someone"}]', show_names=show_names)
    assert problem is not None
    assert problem.kind is ProblemKind.SCHEMA
    assert problem.detail.endswith("of the schema does not hold")
    assert "k3y" not in problem.detail


def test_both_must_hold() -> None:
    """Where `json` and `schema` are declared, a body is held to both."""
    both = JsonRule(
        object=JsonObject(properties={"id": "integer"}, required=frozenset(), additional=False),
        schema=Schema({"required": ["id"]}),
    )
    assert check_json(both, b'{"id":1}', show_names=False) is None
    for text, start in ((b"{}", "`required` at"), (b'{"id":1.0}', 'property "id"')):
        problem = check_json(both, text, show_names=False)
        assert problem is not None
        assert problem.detail.startswith(start)
