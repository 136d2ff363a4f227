"""Full JSON Schemas: 2020-12, nothing fetched, nothing of the value in the text."""

# ruff: noqa: E501 - one case is one row

from typing import Any

import pytest

from grants.schema import DIALECT, Schema, SchemaInvalid

ITEMS = {"type": "array", "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}}

CASES = [
    pytest.param(ITEMS, [{"id": 1}], None, id="array-at-the-top"),
    pytest.param(ITEMS, [{"id": "hunter2"}], "`type` at `/items/properties/id` of the schema does not hold", id="nested"),
    pytest.param(ITEMS, [{}], "`required` at `/items` of the schema does not hold", id="required"),
    pytest.param(ITEMS, {}, "`type` at `/` of the schema does not hold", id="top"),
    pytest.param({"type": "integer"}, 1.0, None, id="one-point-nought-is-an-integer"),
    pytest.param(False, 1, "`false` at `/` of the schema does not hold", id="false"),
    pytest.param(True, 1, None, id="true"),
    pytest.param({"$schema": DIALECT, "$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}}, 1, None, id="own-definitions"),
    pytest.param({"additionalProperties": {"type": "null"}}, {"hunter2": 1}, "`type` at `/additionalProperties` of the schema does not hold", id="an-unknown-name-is-not-told"),
    pytest.param({"$ref": "#"}, [[[1]]], None, id="reference-to-itself"),
    pytest.param({"type": "string"}, "\ud800", "the value cannot be held to the schema", id="lone-surrogate"),
]  # fmt: skip


@pytest.mark.parametrize(("definition", "value", "expected"), CASES)
def test_the_first_error_names_the_place_in_the_schema(definition: Any, value: Any, expected: str | None) -> None:
    """The text holds nothing of the value, not even a property's name."""
    assert Schema(definition).first_error(value) == expected


@pytest.mark.parametrize(
    ("definition", "path"),
    [
        pytest.param(5, (), id="number"),
        pytest.param({"type": "strng"}, ("type",), id="unknown-type"),
        pytest.param({"properties": {"a": {"minimum": "1"}}}, ("properties", "a", "minimum"), id="nested"),
        pytest.param({"pattern": "("}, ("pattern",), id="pattern"),
        pytest.param({"pattern": "(?=a)"}, ("pattern",), id="pattern-that-is-not-linear"),
        pytest.param({"$ref": "http://127.0.0.1:1/x.json"}, (), id="http"),
        pytest.param({"$ref": "file:///etc/passwd"}, (), id="file"),
        pytest.param({"$ref": "other.json"}, (), id="relative"),
        pytest.param({"$ref": "#/$defs/nope"}, (), id="leads-nowhere"),
        pytest.param({"$schema": "http://json-schema.org/draft-07/schema#"}, ("$schema",), id="dialect"),
        pytest.param({"items": [{"$schema": "https://x.example"}]}, ("items", 0, "$schema"), id="dialect-inside"),
        pytest.param({"a": float("nan")}, None, id="not-json"),
        pytest.param({"a": object()}, (), id="not-json-at-all"),
    ],
)
def test_what_is_no_schema_of_this_file_is_refused(definition: Any, path: tuple[str | int, ...] | None) -> None:
    """A schema is held to the meta-schema, names no other dialect, and no `$ref` leaves the file."""
    if path is None:
        assert Schema(definition).first_error(1) is None
        return
    with pytest.raises(SchemaInvalid) as caught:
        Schema(definition)
    assert caught.value.path == path
    assert "\n" not in str(caught.value)
