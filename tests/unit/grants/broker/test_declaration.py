"""Reports: what is kept of them, and what makes them no report."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.declaration import Declaration, Kept, Report, ReportInvalid, kept_answer, read_report
from grants.broker.payer import Payer, PayerKind

ROW = {"principal": "github:ada", "usd": 1.5, "runs": 2, "unpriced": 0}
SPEND = {"month": "2026-10", "usd": 2, "runs": 3, "unpriced": 1, "byPrincipal": [ROW, {**ROW, "principal": None}]}
LISTING = {"published": False, "title": "A box", "line": "It builds things."}


def entry(name: Any = "inference", broker: Any = "lobby", scope: Any = ("agent",)) -> dict[str, Any]:
    return {"name": name, "broker": broker, "scope": scope}


def read(document: Any) -> Report | ReportInvalid:
    return read_report(json.dumps(document).encode(), word="lobby")


def report(*entries: Any, **more: Any) -> Report | ReportInvalid:
    return read({"capabilities": list(entries), **more})


def declaration(**scopes: tuple[str, ...]) -> Declaration:
    return Declaration(
        broker="lobby", capabilities=tuple(Kept(name=name, scope=scope) for name, scope in scopes.items())
    )


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        pytest.param([], declaration(), id="nothing"),
        pytest.param([entry(scope=["agent", "decide"])], declaration(inference=("agent", "decide")), id="one"),
        pytest.param([entry(broker="other")], declaration(), id="another broker"),
        pytest.param([entry(broker=None)], declaration(), id="no broker"),
        pytest.param([{"name": "x"}], declaration(), id="name alone"),
        pytest.param([entry(broker=7, scope=7)], declaration(), id="no broker's word, scope not looked at"),
        pytest.param([entry(broker="other", scope=["x"] * 51)], declaration(), id="another's scope is not counted"),
        pytest.param([{"name": "x", "broker": "lobby"}], declaration(x=()), id="no scope"),
        pytest.param([entry(scope=None)], declaration(inference=()), id="null scope"),
        pytest.param([entry(scope=["b", "a", "b"])], declaration(inference=("b", "a")), id="repeats"),
        pytest.param(
            [entry(scope=["a"]), entry("egress", scope=["X"]), entry(scope=["b", "a"])],
            declaration(inference=("a", "b"), egress=("X",)),
            id="merged by name",
        ),
        pytest.param([entry(scope=["w" * 64])], declaration(inference=("w" * 64,)), id="longest word"),
        pytest.param([entry(scope=[f"w{i}" for i in range(50)])], None, id="most words"),
        pytest.param([entry("a" + "-" * 62)], None, id="longest name"),
        pytest.param([entry(f"c{i}") for i in range(20)], None, id="most entries"),
    ],
)
def test_kept(entries: list[Any], kept: Declaration | None) -> None:
    """Kept are the entries that name this broker, merged by name, each word once."""
    result = report(*entries)
    assert isinstance(result, Report)
    if kept is not None:
        assert result == Report(declaration=kept)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param({"capability": []}, "not a report", id="another key"),
        pytest.param([], "not a report", id="array"),
        pytest.param({"capabilities": {}}, "not a report", id="capabilities an object"),
        pytest.param({"capabilities": [entry(f"c{i}") for i in range(21)]}, "at most 20", id="too many entries"),
        pytest.param({"capabilities": [7]}, "no name", id="entry not an object"),
        pytest.param({"capabilities": [entry(name=7)]}, "no name", id="name not text"),
        pytest.param({"capabilities": [entry("Upper", "other")]}, '"Upper"', id="name of another's entry"),
        pytest.param({"capabilities": [entry("a" * 64)]}, "not a capability name", id="name too long"),
        pytest.param({"capabilities": [entry("a\n")]}, "not a capability name", id="line end in a name"),
        pytest.param({"capabilities": [entry(scope="agent")]}, "at most 50", id="scope not an array"),
        pytest.param({"capabilities": [entry(scope=["w"] * 51)]}, "at most 50", id="counted before repeats go"),
        pytest.param({"capabilities": [entry(scope=[""])]}, "1 to 64", id="empty word"),
        pytest.param({"capabilities": [entry(scope=["w" * 65])]}, "1 to 64", id="word too long"),
        pytest.param({"capabilities": [entry(scope=["a\tb"])]}, "control", id="control character"),
        pytest.param({"capabilities": [entry(scope=["a\x7f"])]}, "control", id="DEL"),
        pytest.param({"capabilities": [entry(scope=[1])]}, "1 to 64", id="word not text"),
        pytest.param({"capabilities": [], "listing": []}, "`listing`", id="listing not an object"),
        pytest.param({"capabilities": [], "spend": 1}, "`spend`", id="spend not an object"),
    ],
)
def test_malformed(document: Any, said: str) -> None:
    """A body that is not a report is a 400 that says what is wrong, in one line."""
    result = read(document)
    assert isinstance(result, ReportInvalid)
    assert said in result.detail
    assert "\n" not in result.detail


def test_strict_json() -> None:
    """A body that reads in two ways is not a report."""
    result = read_report(b'{"capabilities": [], "capabilities": []}', word="lobby")
    assert result == ReportInvalid(detail="the body is not strict JSON: an object has the same key twice")


@pytest.mark.parametrize(
    ("given_listing", "kept"),
    [
        pytest.param(LISTING, LISTING, id="whole"),
        pytest.param({}, {"published": True, "title": "", "line": ""}, id="defaults"),
        pytest.param({"title": "t" * 60, "line": "é" * 140, "x": 1}, ..., id="longest, more members"),
        pytest.param(None, None, id="null is none"),
        pytest.param({"published": "no"}, False, id="published not boolean"),
        pytest.param({"published": None}, False, id="published null"),
        pytest.param({"title": "t" * 61}, False, id="title too long"),
        pytest.param({"line": "l" * 141}, False, id="line too long"),
        pytest.param({"title": "a\nb"}, False, id="line end"),
        pytest.param({"line": "a\x7f"}, False, id="DEL"),
        pytest.param({"line": 7}, False, id="not text"),
    ],
)
def test_listing(given_listing: Any, kept: Any) -> None:
    """A listing has the bounds that its writer has."""
    result = report(listing=given_listing)
    if kept is False:
        assert isinstance(result, ReportInvalid)
    else:
        assert isinstance(result, Report)
        assert result.listing == ({"published": True, "title": "t" * 60, "line": "é" * 140} if kept is ... else kept)


@pytest.mark.parametrize(
    ("change", "sound"),
    [
        pytest.param({}, True, id="whole"),
        pytest.param({"usd": 0, "runs": 0.0, "unpriced": 999_999_999}, True, id="ends of the range"),
        pytest.param({"byPrincipal": None}, True, id="no rows"),
        pytest.param({"byPrincipal": [ROW] * 50}, True, id="most rows"),
        pytest.param({"month": "2026-13"}, False, id="no such month"),
        pytest.param({"month": "2026-00"}, False, id="month zero"),
        pytest.param({"month": "2026-1"}, False, id="short month"),
        pytest.param({"month": "٢٠٢٦-10"}, False, id="other digits"),
        pytest.param({"month": 202610}, False, id="month a number"),
        pytest.param({"usd": -0.01}, False, id="negative"),
        pytest.param({"usd": 1e9}, False, id="too much"),
        pytest.param({"usd": "1"}, False, id="text"),
        pytest.param({"usd": True}, False, id="boolean"),
        pytest.param({"usd": None}, False, id="null"),
        pytest.param({"runs": 1.5}, False, id="half a run"),
        pytest.param({"runs": 1_000_000_000}, False, id="too many runs"),
        pytest.param({"unpriced": -1}, False, id="negative count"),
        pytest.param({"unpriced": False}, False, id="boolean count"),
        pytest.param({"byPrincipal": {}}, False, id="rows not an array"),
        pytest.param({"byPrincipal": [ROW] * 51}, False, id="too many rows"),
        pytest.param({"byPrincipal": [1]}, False, id="row not an object"),
        pytest.param({"byPrincipal": [{**ROW, "principal": ""}]}, False, id="empty principal"),
        pytest.param({"byPrincipal": [{**ROW, "principal": "p" * 201}]}, False, id="long principal"),
        pytest.param({"byPrincipal": [{**ROW, "principal": 7}]}, False, id="principal a number"),
        pytest.param({"byPrincipal": [{"usd": 1, "runs": 1, "unpriced": 0}]}, False, id="no principal"),
        pytest.param({"byPrincipal": [{**ROW, "runs": None}]}, False, id="row without runs"),
    ],
)
def test_spend(change: dict[str, Any], sound: bool) -> None:
    """A spend is a real month, figures in range, at most 50 rows, and is kept unchanged."""
    document = {**SPEND, **change}
    result = report(spend=document)
    if sound:
        assert isinstance(result, Report)
        assert result.spend == {**document, "byPrincipal": document["byPrincipal"] or []}
    else:
        assert isinstance(result, ReportInvalid)
        assert "spend" in result.detail


def test_not_finite() -> None:
    """A figure is finite: strict JSON has no other."""
    body = b'{"capabilities": [], "spend": {"month": "2026-10", "usd": 1e999, "runs": 0, "unpriced": 0}}'
    assert isinstance(read_report(body, word="lobby"), ReportInvalid)


def test_stored() -> None:
    """What is stored reads back as what it was, in one text."""
    kept = declaration(inference=("agent", "décide"), egress=())
    assert Declaration.from_json(kept.to_json()) == kept
    assert kept.to_json().isascii()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[]", id="array"),
        pytest.param("{}", id="no members"),
        pytest.param('{"broker":"x","capabilities":[[]]}', id="no name"),
        pytest.param('{"broker":"x","capabilities":[1]}', id="no row"),
        pytest.param('{"broker":"x","capabilities":[["a",1]]}', id="word not text"),
        pytest.param('{"broker":1,"capabilities":[["a","b"]]}', id="broker not text"),
        pytest.param('{"broker":1,"capabilities":[]}', id="broker not text, nothing kept"),
    ],
)
def test_stored_wrongly(text: str) -> None:
    """What cannot be read allows nothing: it raises."""
    with pytest.raises(ValueError, match=r"."):
        Declaration.from_json(text)


def test_answer() -> None:
    """A report is answered with what is kept, when, and who pays; listing and spend where they are kept."""
    kept = declaration(inference=("agent",))
    entries = [{"name": "inference", "broker": "lobby", "scope": ["agent"]}]
    assert kept_answer(kept, "2026-10-03T00:00:00Z") == {"capabilities": entries, "at": "2026-10-03T00:00:00Z"}
    whole = kept_answer(kept, "T", dict(LISTING), dict(SPEND), Payer(kind=PayerKind.SHARED))
    assert whole["payer"] == {"kind": "shared", "principal": None}
    assert (whole["listing"], whole["spend"]) == (LISTING, SPEND)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
WORDS = st.lists(st.text(max_size=6) | VALUES, max_size=5)
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "c-1"]), "broker": st.sampled_from(["lobby", "other", None])},
        optional={"scope": WORDS | VALUES},
    ),
    max_size=5,
)
DOCUMENTS = st.fixed_dictionaries(
    {"capabilities": ENTRIES | VALUES}, optional={"listing": VALUES, "spend": st.just(SPEND) | VALUES}
)


@settings(deadline=None, max_examples=200)
@given(VALUES | DOCUMENTS)
def test_any_json_is_answered(document: Any) -> None:
    """Any JSON is a report or none; what is kept was reported, under this broker's word."""
    result = read(document)
    if isinstance(result, ReportInvalid):
        assert result.detail
        return
    reported = {
        (each["name"], word)
        for each in document["capabilities"]
        if each.get("broker") == "lobby"
        for word in each.get("scope") or []
    }
    kept = {(each.name, word) for each in result.declaration.capabilities for word in each.scope}
    assert kept == reported
    assert Declaration.from_json(result.declaration.to_json()) == result.declaration


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60))
def test_any_bytes_are_answered(body: bytes) -> None:
    """No bytes raise."""
    assert isinstance(read_report(body, word="lobby"), Report | ReportInvalid)
