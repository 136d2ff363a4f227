"""What of an answer of Fountain is a box's, and the header fields that pass."""

from typing import Any

import pytest

from grants.broker.fountain import Kind, asked_fields, created, cut, framing_fields, list_fields, may_list


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param({"id": "v"}, "v", id="id"),
        pytest.param({"id": 7}, "7", id="number"),
        pytest.param({"vault": {"id": "v"}}, "v", id="under its kind"),
        pytest.param({"data": {"id": "v"}}, "v", id="under data"),
        pytest.param({"id": None, "data": []}, None, id="none"),
        pytest.param({"id": True}, None, id="boolean"),
        pytest.param({"id": "x" * 513}, None, id="long"),
        pytest.param({"id": "a\nb"}, None, id="line"),
        pytest.param([], None, id="array"),
    ],
)
def test_created(answer: Any, found: str | None) -> None:
    """The id of what was created stands in the answer."""
    assert created(Kind.VAULT, answer) == found


@pytest.mark.parametrize(
    ("answer", "may"),
    [
        pytest.param([], True, id="array"),
        pytest.param({"vaults": [{"id": "v"}]}, True, id="array in an object"),
        pytest.param({"ok": True}, False, id="object"),
        pytest.param(None, False, id="nothing"),
        pytest.param("x", False, id="text"),
    ],
)
def test_may_list(answer: Any, may: bool) -> None:
    """An answer to a creation that has no id is shown unless it may be a list."""
    assert may_list(answer) is may


LISTS = [
    pytest.param([{"id": "a"}, {"id": "b"}, {"id": 1}], [{"id": "a"}, {"id": 1}], id="array"),
    pytest.param([], [], id="empty array"),
    pytest.param({"data": [{"id": "b"}], "next": "x"}, {"data": [], "next": "x"}, id="object"),
    pytest.param({"data": []}, {"data": []}, id="object, empty"),
    pytest.param([{"id": "a", "vaults": ["b"]}], [{"id": "a", "vaults": ["b"]}], id="own, whole"),
    *(
        pytest.param({"data": [{"id": "b"}], name: {"n": 1}}, {"data": [], name: {"n": 1}}, id=name)
        for name in ("meta", "pagination", "page", "paging", "links")
    ),
    pytest.param({"data": [{"id": "a"}], "errors": []}, None, id="empty second"),
    pytest.param({"data": [], "errors": []}, None, id="two, empty"),
    pytest.param({"data": [{"id": "a"}], "ids": ["b"]}, None, id="two arrays"),
    pytest.param({"data": [{"id": "a"}], "byId": {"b": {"id": "b"}}}, None, id="by id"),
    pytest.param({"data": [{"id": "a"}], "byId": {"b": 1}}, None, id="by id, scalars"),
    pytest.param({"data": [{"id": "a"}], "included": [{"id": "b"}]}, None, id="included"),
    pytest.param({"data": [{"id": "a"}], "included": {"id": "b"}}, None, id="included, object"),
    pytest.param({"data": [{"id": "a"}], "meta": {"all": ["b"]}}, None, id="array in meta"),
    pytest.param({"data": [{"id": "a"}], "meta": {"last": {"id": "b"}}}, None, id="object in meta"),
    pytest.param({"data": {"items": [{"id": "a"}]}}, None, id="array below"),
    pytest.param({"path": "/"}, None, id="no array"),
    pytest.param({"data": ["a"]}, None, id="not objects"),
    pytest.param([{"id": "a"}, {"name": "b"}], None, id="no id"),
    pytest.param([{"id": {"id": "a"}}], None, id="id is no id"),
    pytest.param("a", None, id="text"),
]


@pytest.mark.parametrize(("answer", "shown"), LISTS)
def test_cut(answer: Any, shown: Any) -> None:
    """A list shows the box's own and nothing else; what is no list is not shown."""
    assert cut(answer, frozenset({"a", "1"})) == shown


def fields(names: str) -> tuple[tuple[bytes, bytes], ...]:
    return tuple([(name.encode(), b"x") for name in names.split()])


NAMING = (
    "X-HTTP-Method-Override X-Vault-Id Idempotency-Key Cookie X-Forwarded-For X-Original-URL X-Rewrite-URL Forwarded "
    "Prefer Link Authorization X-Api-Key"
)
CONDITIONS = "IF-MATCH If-None-Match If-Modified-Since Range"
PLAIN = "accept Accept-Language Content-Type User-Agent Last-Event-ID Traceparent Tracestate X-Request-Id"
FRAMING = "Host Content-Length Connection"


def test_fields_of_requests_are_a_list() -> None:
    """What is not known to be harmless is left out; conditions on a list are about others' things too."""
    sent = fields(f"{PLAIN} {NAMING} {CONDITIONS} {FRAMING}")
    assert asked_fields(sent, listed=False) == fields(f"{PLAIN} {CONDITIONS}")
    assert asked_fields(sent, listed=True) == fields(PLAIN)
    assert framing_fields(sent) == fields(FRAMING)


def test_fields_of_lists_are_a_list() -> None:
    """Counts, links and tags speak of what was cut out."""
    kept = "Content-Type Cache-Control Location Retry-After"
    assert list_fields(fields(f"{kept} Link X-Total-Count ETag Last-Modified Content-Range X-Next")) == fields(kept)
