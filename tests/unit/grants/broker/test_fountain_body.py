"""The body of a request to Fountain has one reading."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.fountain import JSON_FIELDS, take_body
from grants.decision import Deny, Reason, Rule


def fields(*values: str) -> tuple[tuple[bytes, bytes], ...]:
    return tuple([(b"content-TYPE", value.encode()) for value in values])


@pytest.mark.parametrize(
    "value",
    [
        *(
            "application/json",
            "Application/JSON",
            'application/json; charset="UTF-8"',
            "application/json;charset=utf-8",
        ),
        *("application/merge-patch+json", "application/json-patch+json", "application/json; v=1"),
    ],
)
@pytest.mark.parametrize(("body", "read"), [(b'{"a": 1}', {"a": 1}), (b" [1] ", [1]), (b"{}", {}), (b"[]", [])])
def test_taken(value: str, body: bytes, read: object) -> None:
    """JSON in UTF-8, under whatever name for it; what is sent on says so in one way."""
    assert take_body(((b"Accept", b"text/html"), *fields(value)), body) == read
    assert JSON_FIELDS == ((b"Content-Type", b"application/json"),)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([], id="none"),
        pytest.param(["application/x-www-form-urlencoded"], id="form"),
        pytest.param(["multipart/form-data; boundary=x"], id="parts"),
        pytest.param(["text/plain"], id="text"),
        pytest.param(["application/x-ndjson"], id="lines"),
        pytest.param(["application/json-seq"], id="sequence"),
        pytest.param(["application/jsonp"], id="longer"),
        pytest.param(["application/json; charset=utf-7"], id="UTF-7"),
        pytest.param(["application/json; charset=utf-16"], id="UTF-16"),
        pytest.param(["application/json; charset=latin-1"], id="latin"),
        pytest.param(["application/json; charset*=utf-7''x"], id="charset, extended"),
        pytest.param(["application/json; charset=utf-8; charset=utf-7"], id="charset twice"),
        pytest.param(["application/json, application/x-www-form-urlencoded"], id="two in one"),
        pytest.param(["application/json", "application/json"], id="twice"),
        pytest.param(["application/json", "application/x-www-form-urlencoded"], id="two"),
        pytest.param(["json"], id="no media type"),
        pytest.param([""], id="empty"),
    ],
)
@pytest.mark.parametrize("body", [b'"&vault_id=v-9&x="', b"{}", b"x"])
def test_another_media_type(values: list[str], body: bytes) -> None:
    """A server would go by it, and read another thing than the broker."""
    denial = take_body(fields(*values), body)
    assert isinstance(denial, Deny)
    assert (denial.rule, denial.reason, denial.status) == (Rule.BAD_REQUEST, Reason.BODY_MEDIA_TYPE, 415)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'"&vault_id=v-9&x="', id="text"),
        *(pytest.param(body, id=body.decode()) for body in (b"7", b"1.5", b"true", b"null")),
        *(pytest.param(body, id=repr(body)) for body in (b"a=1", b" ", b"{", b'{"a":1}{}', b'{"a":NaN}', b"\xff")),
        pytest.param(b'{"a":1,"a":2}', id="a key twice"),
        pytest.param(b"\xef\xbb\xbf{}", id="mark"),
        pytest.param('{"a":1}'.encode("utf-16"), id="UTF-16"),
    ],
)
def test_no_object_and_no_array(body: bytes) -> None:
    """What is not strict JSON, or is a scalar, could be something else to others."""
    denial = take_body(fields("application/json"), body)
    assert isinstance(denial, Deny)
    assert (denial.rule, denial.reason, denial.status) == (Rule.BAD_REQUEST, Reason.BODY_JSON, 400)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=30), st.binary(max_size=30))
def test_total(value: bytes, body: bytes) -> None:
    """Nothing raises."""
    assert isinstance(take_body(((b"Content-Type", value),), body), list | dict | Deny)
    assert isinstance(take_body(fields("application/json"), body), list | dict | Deny)
