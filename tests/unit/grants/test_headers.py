"""Request headers: declared, once, fitting; what goes upstream is what was matched."""

from base64 import b64encode

import pytest
from support.grants import REFERENCE, head, operation, rule

from grants.decision import Deny, Reason, Rule
from grants.framing import Framing, read_framing
from grants.headers import Forwarded, check_headers
from grants.model import Operation

type Lines = list[tuple[str | bytes, str | bytes]]


def basic(credentials: str) -> str:
    return "Basic " + b64encode(credentials.encode()).decode()


OPERATION = operation(
    "get",
    "GET",
    "/",
    headers=[
        rule("Authorization", required=True, matching=REFERENCE + "|Basic [a-z-]+:@secret:[a-z]+|plain"),
        rule("X-Forwarded-For", "a"),
        rule("X-Long", matching=".*", max_bytes=4),
        rule("X-Both", "a", "z", matching="[a-m]"),
        rule("X_Own", "1"),
    ],
)
BEARER = ("Authorization", "Bearer @secret:api")


def check(lines: Lines, *, strip: bool = False, credential: bool = True, of: Operation = OPERATION) -> Forwarded | Deny:
    framing = read_framing(head("GET", "/", *lines).fields)
    assert isinstance(framing, Framing)
    return check_headers(of, framing, strip=strip, credential=credential)


ALLOWED = [
    pytest.param([BEARER], [BEARER], id="required alone"),
    pytest.param([("aUTHORIZATION", "plain")], [("Authorization", "plain")], id="the declared name is sent"),
    pytest.param(
        [("X-Long", "a"), BEARER, ("X-Forwarded-For", "a")],
        [("X-Long", "a"), BEARER, ("X-Forwarded-For", "a")],
        id="the client's order",
    ),
    pytest.param([("Host", "h"), ("Connection", "close"), ("TE", "x"), BEARER], [BEARER], id="hop-by-hop stays behind"),
    pytest.param([BEARER, ("X-Long", "")], [BEARER, ("X-Long", "")], id="empty value"),
    pytest.param([BEARER, ("X_Own", "1")], [BEARER, ("X_Own", "1")], id="underscore in a declared name"),
    pytest.param(
        [("Authorization", basic("x-token:@secret:gh"))],
        [("Authorization", basic("x-token:@secret:gh"))],
        id="Basic is matched decoded, sent as it came",
    ),
]

DENIED = [
    pytest.param([], Reason.HEADER_MISSING, id="missing"),
    pytest.param([BEARER, ("Accept", "*/*")], Reason.HEADER_UNDECLARED, id="undeclared"),
    pytest.param([BEARER, ("X-HTTP-Method-Override", "DELETE")], Reason.HEADER_UNDECLARED, id="method override"),
    pytest.param([BEARER, ("X-Other", "@secret:api")], Reason.HEADER_UNDECLARED, id="reference where none is declared"),
    pytest.param([BEARER, ("Cookie", "a=b")], Reason.HEADER_UNDECLARED, id="cookie"),
    pytest.param([BEARER, BEARER], Reason.HEADER_REPEATED, id="twice"),
    pytest.param([BEARER, ("authorization", "plain")], Reason.HEADER_REPEATED, id="twice in other case"),
    pytest.param([("Authorization", "bearer @secret:api")], Reason.HEADER_VALUE, id="pattern"),
    pytest.param([("Authorization", "Bearer @secret:")], Reason.HEADER_VALUE, id="empty reference name"),
    pytest.param([BEARER, ("X-Forwarded-For", "b")], Reason.HEADER_VALUE, id="values"),
    pytest.param([BEARER, ("X-Forwarded-For", "a, a")], Reason.HEADER_VALUE, id="list of values"),
    pytest.param([BEARER, ("X-Both", "z")], Reason.HEADER_VALUE, id="pattern beside values"),
    pytest.param([BEARER, ("X-Long", "12345")], Reason.HEADER_TOO_LONG, id="too long by one"),
    pytest.param([BEARER, ("X_Forwarded_For", "a")], Reason.HEADER_MALFORMED, id="underscore folds"),
    pytest.param([BEARER, ("x_forwarded-for", "a")], Reason.HEADER_MALFORMED, id="one underscore folds"),
    pytest.param([BEARER, ("X-Own", "1")], Reason.HEADER_UNDECLARED, id="hyphen for a declared underscore"),
    pytest.param([("Authorization", "Basic")], Reason.HEADER_VALUE, id="Basic without credentials"),
    pytest.param([("Authorization", "Basic ")], Reason.HEADER_VALUE, id="Basic with empty credentials"),
    pytest.param([("Authorization", "Basic a-token:@secret:gh")], Reason.HEADER_VALUE, id="Basic not encoded"),
    pytest.param([("Authorization", "Basic  eDp5")], Reason.HEADER_VALUE, id="Basic, two spaces"),
    pytest.param([("Authorization", "Basic\teDp5")], Reason.HEADER_VALUE, id="Basic, tab"),
    pytest.param([("Authorization", "Basic eDp5 ")], Reason.HEADER_VALUE, id="Basic, space behind"),
    pytest.param([("Authorization", "Basic eDp5eQ")], Reason.HEADER_VALUE, id="Basic, padding missing"),
    pytest.param([("Authorization", "Basic eDp5=eQ==")], Reason.HEADER_VALUE, id="Basic, padding inside"),
    pytest.param([("Authorization", "Basic eDp5eR==")], Reason.HEADER_VALUE, id="Basic, stray bits"),
    pytest.param([("Authorization", "Basic eDp_")], Reason.HEADER_VALUE, id="Basic, URL-safe alphabet"),
    pytest.param([("Authorization", "Basic /w==")], Reason.HEADER_VALUE, id="Basic, not UTF-8"),
    pytest.param([("Authorization", basic("x:\n"))], Reason.HEADER_VALUE, id="Basic, control character"),
    pytest.param([("Authorization", basic("x:\x85"))], Reason.HEADER_VALUE, id="Basic, C1 control character"),
    pytest.param([("Authorization", basic("x:other"))], Reason.HEADER_VALUE, id="Basic, outside the pattern"),
    pytest.param([("Authorization", "basic eDpAc2VjcmV0OmdoCg==")], Reason.HEADER_VALUE, id="scheme in other case"),
]


def encoded(lines: Lines) -> tuple[tuple[bytes, bytes], ...]:
    return head("GET", "/", *lines).fields


@pytest.mark.parametrize(("lines", "sent"), ALLOWED)
def test_headers_that_pass(lines: Lines, sent: Lines) -> None:
    """What goes upstream is the declared name with the value that was matched, references still in it."""
    assert check(lines) == Forwarded(fields=encoded(sent))


@pytest.mark.parametrize(("lines", "reason"), DENIED)
def test_headers_that_are_denied(lines: Lines, reason: Reason) -> None:
    """Every field is declared, comes exactly once, and passes its rule."""
    denial = check(lines)
    assert isinstance(denial, Deny)
    assert (denial.rule, denial.reason, denial.status, denial.operation) == (Rule.REQUEST, reason, 403, "get")


def test_undeclared_fields_are_left_out_where_the_grant_says_so() -> None:
    """Extension U: undeclared fields are left out; declared ones are judged as ever."""
    lines: Lines = [("User-Agent", "x"), BEARER, ("Accept", "a"), ("Accept", "b"), ("X-Api-Key", "@secret:api")]
    found = check(lines, strip=True)
    assert isinstance(found, Forwarded)
    assert found.fields == encoded([BEARER])
    assert [name for name, _ in found.stripped] == [b"user-agent", b"accept", b"accept", b"x-api-key"]
    for lines, reason in (
        ([BEARER, ("X_Forwarded_For", "a")], Reason.HEADER_MALFORMED),
        ([BEARER, BEARER], Reason.HEADER_REPEATED),
        ([("User-Agent", "x")], Reason.HEADER_MISSING),
    ):
        denial = check(lines, strip=True)
        assert isinstance(denial, Deny)
        assert denial.reason is reason


def test_two_declared_names_that_fold_together_are_denied() -> None:
    """A name with an underscore that folds onto a declared name is denied, even if it is declared itself."""
    folding = operation("o", "GET", "/", headers=[rule("X-A", "1"), rule("X_A", "1")])
    denial = check([("X-A", "1"), ("X_A", "1")], of=folding)
    assert isinstance(denial, Deny)
    assert denial.reason is Reason.HEADER_MALFORMED


FOREIGN = [
    pytest.param([BEARER], [], id="a reference is left out and counts as present"),
    pytest.param([("Authorization", basic("a:@secret:gh"))], [], id="inside Basic too"),
    pytest.param([("Authorization", "plain")], [("Authorization", "plain")], id="without a reference it is sent"),
    pytest.param([BEARER, ("X-Api-Key", "@secret:api")], [], id="undeclared, with a reference"),
    pytest.param([BEARER, ("X-Forwarded-For", "a")], [("X-Forwarded-For", "a")], id="others are sent"),
]


@pytest.mark.parametrize(("lines", "sent"), FOREIGN)
def test_references_stay_behind_where_they_may_not_go(lines: Lines, sent: Lines) -> None:
    """Elsewhere a header that carries a reference is left out, and counts as present for `required`."""
    assert check(lines, credential=False) == Forwarded(fields=encoded(sent))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param([("Authorization", "Token @secret:api")], Reason.HEADER_VALUE, id="its rule still holds"),
        pytest.param([BEARER, BEARER], Reason.HEADER_REPEATED, id="once still"),
        pytest.param([BEARER, ("Accept", "x")], Reason.HEADER_UNDECLARED, id="undeclared without a reference"),
        pytest.param([("X-Long", "a")], Reason.HEADER_MISSING, id="missing still"),
    ],
)
def test_the_other_rules_hold_where_references_may_not_go(lines: Lines, reason: Reason) -> None:
    """A hop is matched with the headers as the client sent them."""
    denial = check(lines, credential=False)
    assert isinstance(denial, Deny)
    assert denial.reason is reason


def test_detail_holds_no_value_of_the_client() -> None:
    """The detail names the header and what the grant declares, never the client's value."""
    for lines in (
        [("Authorization", "Bearer hunter2-hunter2")],
        [BEARER, ("Cookie", "hunter2")],
        [BEARER, ("X-Long", "hunter2")],
        [("Authorization", basic("hunter2:\x01"))],
    ):
        denial = check(list(lines))
        assert isinstance(denial, Deny)
        assert "hunter2" not in denial.detail
    denial = check([BEARER, ("Accept", "x")])
    assert isinstance(denial, Deny)
    assert denial.detail == (
        'request header "Accept" is not declared by operation "get"; '
        "declared: Authorization, X-Forwarded-For, X-Long, X-Both, X_Own"
    )


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        pytest.param([("A", "1")], 'request header "A" is not declared', id="one"),
        pytest.param([("A", "1"), ("a", "2")], 'request headers "A", "a" are not declared', id="as they were written"),
        pytest.param(
            [("B", "1"), BEARER, ("A", "1"), ("B", "2")], 'request headers "B", "A" are not declared', id="two"
        ),
        pytest.param(
            [(name, "1") for name in "ABCDEFGHIJ"],
            'request headers "A", "B", "C", "D", "E", "F", "G", "H" and 2 more are not declared',
            id="over eight",
        ),
    ],
)
def test_every_undeclared_field_is_named(lines: list[tuple[str, str]], says: str) -> None:
    """All of them at once, in the client's order, each once, and no more than eight."""
    denial = check([BEARER, *lines] if BEARER not in lines else lines)
    assert isinstance(denial, Deny)
    assert denial.reason is Reason.HEADER_UNDECLARED
    assert denial.detail.startswith(says)


def test_values_are_not_in_a_repr() -> None:
    """A client's header value stands in no repr."""
    found = check([("Authorization", "plain"), ("Cookie", "hunter2")], strip=True)
    assert "plain" not in repr(found)
    assert "hunter2" not in repr(found)
