"""A line is put together from remembered texts: its bytes are those of a line that is made anew."""

from collections.abc import Iterator
from dataclasses import fields, replace
from decimal import ROUND_HALF_EVEN, Decimal
from http import HTTPStatus
from json.encoder import encode_basestring_ascii as quote
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addons.record import EndedBy, Event, Mode, Record, Signal
from grants.decision import Reason, Rule
from grants.model import Effect
from proxy.decisionlog import FIELDS, compose
from proxy.decisionlog import lines as lines_module

STAMPED = {"ts": "2026-01-01T00:00:00.000Z", "seq": 7, "chain": "0" * 16, "prev": "a" * 64}
PLAIN = Record(id="d", event=Event.ALLOW, mode=Mode.PROXY, verdict="allow")


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    lines_module._kept.clear()
    yield
    lines_module._kept.clear()


def reference(record: Record) -> bytes:
    """The format, field by field: strings quoted, integers in digits, the duration with three decimals."""
    values: dict[str, object] = {field.name: getattr(record, field.name) for field in fields(Record)} | STAMPED

    def text(name: str, value: object) -> str:
        if name == "duration_ms":
            assert isinstance(value, float)
            known = 0 <= value < 1e12
            return str(Decimal(value if known else 0).quantize(Decimal("0.001"), ROUND_HALF_EVEN))
        if isinstance(value, tuple):
            return "[" + ",".join(quote(part) for part in value) + "]"
        if value is None:
            return "null"
        return quote(value) if isinstance(value, str) else str(int(value))  # type: ignore[call-overload]

    return ("{" + ",".join(f'"{name}":{text(name, values[name])}' for name in FIELDS) + "}").encode("ascii")


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


# Few values each, so that records share what is remembered, among them ones that are equal only in part.
WORDS = st.one_of(st.sampled_from(["", "a", "A", "api", "null", "%s", "{}", '"', "\\", "é", "\U0001f600"]), st.text())
COUNTS = st.one_of(st.sampled_from([0, 1, 200, True, False]), st.integers(min_value=0))
STATUSES = st.one_of(st.sampled_from([200, 404, HTTPStatus.OK]), st.integers(min_value=100, max_value=599))
RECORDS = st.builds(
    Record,
    id=WORDS,
    event=st.sampled_from(Event),
    mode=st.sampled_from(Mode),
    verdict=st.sampled_from(["allow", "deny"]),
    rule=maybe(st.one_of(st.sampled_from(Rule), WORDS)),
    reason=maybe(st.one_of(st.sampled_from(Reason), WORDS)),
    effect=maybe(st.one_of(st.sampled_from(Effect), WORDS)),
    final_effect=maybe(st.sampled_from(Effect)),
    redirect_hops=COUNTS,
    status=maybe(STATUSES),
    upstream_status=maybe(STATUSES),
    bytes_out=COUNTS,
    bytes_in=COUNTS,
    duration_ms=st.one_of(st.floats(), st.floats(min_value=0, max_value=1e6), st.sampled_from([0.0005, 0.0625, 2.5])),
    secret_refs=st.lists(WORDS, max_size=3).map(tuple),
    signals=st.lists(st.sampled_from(Signal), max_size=3).map(tuple),
    labels=st.lists(st.one_of(st.sampled_from(EndedBy), WORDS), max_size=3).map(tuple),
    **{
        name: maybe(WORDS)
        for name in (
            "box", "endpoint", "host", "method", "assurance", "operation", "route", "resource_digest", "final_host",
            "final_operation", "final_route", "final_resource_digest", "grant_digest",
        )
    },
)  # fmt: skip


@given(st.lists(RECORDS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=300)
def test_a_line_is_that_of_the_format_whatever_came_before(records: list[Record]) -> None:
    """What is remembered of other records, and of this one, changes nothing of a line."""
    for record in (*records, *records):
        assert compose(record, **STAMPED) == reference(record)


@pytest.mark.parametrize("name", [field.name for field in fields(Record)])
def test_each_value_counts(name: str) -> None:
    """Two records that differ in one value have lines that differ, whichever came first."""
    values = {"event": Event.END, "mode": Mode.BROKER, "verdict": "deny", "duration_ms": 1.5}
    kinds = {int: 3, tuple: ("x",)}
    other = values.get(name, kinds.get(type(getattr(PLAIN, name)), 3 if "status" in name else "x"))
    changed = replace(PLAIN, **{name: other})
    for record in (PLAIN, changed, PLAIN):
        assert compose(record, **STAMPED) == reference(record)
    assert compose(PLAIN, **STAMPED) != compose(changed, **STAMPED)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("id", "x", id="id"),
        pytest.param("box", "agent-1", id="box"),
        pytest.param("host", "made-up.example", id="host"),
        pytest.param("resource_digest", "0" * 64, id="resource"),
        pytest.param("bytes_in", 5, id="bytes"),
        pytest.param("labels", ("word:made up",), id="labels"),
    ],
)
def test_what_a_client_makes_up_is_not_remembered(name: str, value: object) -> None:
    """What differs from request to request, and what a client can choose, takes no place."""
    compose(PLAIN, **STAMPED)
    compose(replace(PLAIN, **{name: value}), **STAMPED)
    assert len(lines_module._kept) == 1


def test_what_is_remembered_is_bounded() -> None:
    """There are never more texts than there may be, nor longer ones."""
    for number in range(2 * lines_module._MOST_KEPT + 1):
        compose(replace(PLAIN, operation=str(number)), **STAMPED)
        assert 0 < len(lines_module._kept) <= lines_module._MOST_KEPT
    lines_module._kept.clear()
    compose(PLAIN, **STAMPED)
    [texts] = lines_module._kept.values()
    lines_module._kept.clear()
    room = lines_module._LONGEST_KEPT - sum(map(len, texts))
    for length, kept in ((room + 3, 0), (room + 2, 1)):  # `null` goes, and two quotes come
        record = replace(PLAIN, operation="x" * length)
        assert compose(record, **STAMPED) == reference(record)
        assert len(lines_module._kept) == kept
