"""The query, parsed once and held to an operation's rules."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.grants import operation, rule

from grants.decision import Deny, Reason, Rule
from grants.query import STAGES, check_query, parse_query
from grants.target import encode_query

PARSED = [
    pytest.param(None, (), id="no query"),
    pytest.param(b"", (), id="lone question mark"),
    pytest.param(b"state=open", (("state", "open"),), id="pair"),
    pytest.param(b"b=2&a=1", (("b", "2"), ("a", "1")), id="order stays"),
    pytest.param(b"q=a+b", (("q", "a b"),), id="plus is a space"),
    pytest.param(b"q=a%2Bb", (("q", "a+b"),), id="encoded plus is a plus"),
    pytest.param(b"st%61te=open", (("state", "open"),), id="encoded name"),
    pytest.param(b"state", (("state", ""),), id="no equals sign"),
    pytest.param(b"state=", (("state", ""),), id="empty value"),
    pytest.param(b"a=b=c", (("a", "b=c"),), id="second equals sign"),
    pytest.param(b"a=%26%3D", (("a", "&="),), id="encoded separators"),
    pytest.param(b"a=%C3%A9", (("a", "é"),), id="UTF-8"),
    pytest.param(b"a=?/:@!", (("a", "?/:@!"),), id="delimiters without meaning"),
    pytest.param(b"a=1&a=2", (("a", "1"), ("a", "2")), id="twice is for the rules"),
]

MALFORMED = [
    pytest.param(b"a=%x&b=ok", id="bad percent"),
    pytest.param(b"a=%", id="lone percent"),
    pytest.param(b"a=%2", id="one digit"),
    pytest.param(b"a=%u0061", id="percent u"),
    pytest.param(b"a=1;b=2", id="semicolon"),
    pytest.param(b"a=%ff", id="not UTF-8"),
    pytest.param(b"a=%c0%af", id="overlong"),
    pytest.param(b"%ff=a", id="name not UTF-8"),
    pytest.param(b"=x", id="empty name"),
    pytest.param(b"=", id="empty name and value"),
    pytest.param(b"&", id="empty pairs"),
    pytest.param(b"state=open&", id="empty pair at the end"),
    pytest.param(b"&state=open", id="empty pair in front"),
    pytest.param(b"a=1&&b=2", id="empty pair inside"),
]


@pytest.mark.parametrize(("raw", "pairs"), PARSED)
def test_query_that_is_read(raw: bytes | None, pairs: tuple[tuple[str, str], ...]) -> None:
    """`application/x-www-form-urlencoded`: `+` is a space, `&` separates."""
    assert parse_query(raw) == pairs


@pytest.mark.parametrize("raw", MALFORMED)
def test_query_that_is_malformed(raw: bytes) -> None:
    """`;` in a raw query, a bad percent sequence, invalid UTF-8 or an empty name makes it malformed."""
    denial = parse_query(raw)
    assert isinstance(denial, Deny)
    assert (denial.rule, denial.reason) == (Rule.REQUEST, Reason.QUERY_MALFORMED)


ISSUES = operation(
    "list-open-issues",
    "GET",
    "/issues",
    query=[
        rule("state", "open", required=True),
        rule("q", matching=".*", max_bytes=8),
        rule("link", matching=".*", max_bytes=64, allow_url=True),
        rule("both", "a", "b", matching="[a-m]"),
    ],
)

RULES = [
    pytest.param(b"state=open", None, id="declared value"),
    pytest.param(b"state=open&q=a+b&both=a", None, id="all kinds of rule"),
    pytest.param(b"state=open&q=", None, id="empty value that the pattern takes"),
    pytest.param(b"state=open&link=https://x", None, id="URL where it is allowed"),
    pytest.param(b"state=open&q=%C3%A9%C3%A9%C3%A9%C3%A9", None, id="exactly at the limit, in bytes"),
    pytest.param(b"state=open&page=2", Reason.QUERY_UNDECLARED, id="undeclared key"),
    pytest.param(b"state=open&STATE=open", Reason.QUERY_UNDECLARED, id="key in other case"),
    pytest.param(b"state=open&state=closed", Reason.QUERY_REPEATED, id="key twice"),
    pytest.param(b"state=open&st%61te=open", Reason.QUERY_REPEATED, id="key twice, once encoded"),
    pytest.param(b"state", Reason.QUERY_VALUE, id="key alone: its value is empty"),
    pytest.param(b"st%61te=closed", Reason.QUERY_VALUE, id="encoded key, value outside"),
    pytest.param(b"state=Open", Reason.QUERY_VALUE, id="value in other case"),
    pytest.param(b"state=open&both=n", Reason.QUERY_VALUE, id="outside values"),
    pytest.param(b"state=open&q=123456789", Reason.QUERY_TOO_LONG, id="over the limit by one"),
    pytest.param(b"state=open&q=%C3%A9%C3%A9%C3%A9%C3%A9x", Reason.QUERY_TOO_LONG, id="over the limit in bytes"),
    pytest.param(b"state=open&q=//h", Reason.QUERY_URL, id="URL-shaped"),
    pytest.param(b"state=https://h", Reason.QUERY_URL, id="URL-shaped and outside values"),
    pytest.param(b"q=a", Reason.QUERY_MISSING, id="missing"),
    pytest.param(b"", Reason.QUERY_MISSING, id="missing, no query"),
]


@pytest.mark.parametrize(("raw", "reason"), RULES)
def test_query_rules(raw: bytes, reason: Reason | None) -> None:
    """A declared parameter comes at most once and fits its rule; every other one is denied."""
    pairs = parse_query(raw)
    assert not isinstance(pairs, Deny)
    denial = check_query(ISSUES, pairs)
    if reason is None:
        assert denial is None
    else:
        assert denial is not None
        assert (denial.rule, denial.reason, denial.status) == (Rule.REQUEST, reason, 403)
        assert denial.operation == "list-open-issues"
        assert reason in STAGES


def test_both_of_values_and_pattern_must_hold() -> None:
    """`values` and `pattern`: both must hold where both are given."""
    both = operation("o", "GET", "/", query=[rule("x", "a", "z", matching="[a-m]")])
    assert check_query(both, (("x", "a"),)) is None
    denial = check_query(both, (("x", "z"),))
    assert denial is not None
    assert denial.reason is Reason.QUERY_VALUE


def test_detail_says_what_is_declared() -> None:
    """The detail names the parameter and what the grant declares; what the client sent as a value stays out."""
    issues = operation("list-open-issues", "GET", "/issues", query=[rule("state", "open", required=True)])
    undeclared = check_query(issues, (("state", "open"), ("page", "2")))
    assert undeclared is not None
    assert undeclared.detail == (
        'query parameter "page" is not declared by operation "list-open-issues"; declared: state'
    )
    outside = check_query(issues, (("state", "hunter2"),))
    assert outside is not None
    assert outside.detail == (
        'query parameter "state" has a value that operation "list-open-issues" does not take; it is one of: open'
    )
    nothing = check_query(operation("o", "GET", "/"), (("\x1b[2J\n" + "x" * 100, ""),))
    assert nothing is not None
    assert "\x1b" not in nothing.detail
    assert nothing.detail.endswith("declared: none")


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1).map(tuple))
def test_what_is_written_reads_as_itself(pairs: tuple[tuple[str, str], ...]) -> None:
    """The canonical form is a fixed point: the upstream reads the names and values that were authorized."""
    raw = encode_query(pairs)
    assert parse_query(raw) == pairs


@settings(deadline=None, max_examples=200)
@given(st.one_of(st.binary(), st.from_regex(rb"[a-c&=+%;0-9]*", fullmatch=True)))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """Nothing raises, and what is read can be written."""
    pairs = parse_query(raw)
    if not isinstance(pairs, Deny) and pairs:
        assert parse_query(encode_query(pairs)) == pairs
