"""What is remembered of a block of fields: an answer to exactly the question that was asked."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.grants import BEARER, CDN, HERE, JSON, body, endpoint, head, operation, rule

from grants import memo as module
from grants.authorize import Granted, authorize_head, authorize_target
from grants.decision import Deny, Reason
from grants.endpoint import Endpoint
from grants.framing import Framing, read_framing
from grants.memo import Memo, memo_of
from grants.message import Fields, RequestHead
from grants.model import Redirects
from grants.target import RequestTarget, parse_target

AUTHORIZATION = rule("Authorization", matching="Bearer @secret:[a-z]+")
ONE = operation("one", "GET", "/one", headers=[AUTHORIZATION, rule("X-A", "1")])
TWO = operation("two", "GET", "/two", headers=[AUTHORIZATION])
API = endpoint(ONE, TWO, redirects=Redirects(max_hops=1, origins=frozenset({CDN})))
STRIPPING = endpoint(ONE, TWO, strip=True)


def remembered(method: str, target: str, *lines: tuple[str, str]) -> RequestHead:
    """A head as a connection's reader makes it."""
    made = head(method, target, *lines)
    return replace(made, memo=Memo(fields=made.fields))


def decide(request: RequestHead, at: Endpoint = API) -> Granted | Deny:
    return authorize_head(at, request, authority=HERE)


LINES = (("Host", "h"), BEARER, ("X-A", "1"))
FIELDS = head("GET", "/one", *LINES).fields


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Fields]:
    """Each block that is taken apart."""
    seen: list[Fields] = []

    def reading(fields: Fields) -> Framing | Deny:
        seen.append(fields)
        return read_framing(fields)

    monkeypatch.setattr(module, "read_framing", reading)
    return seen


def to(target: str, at: Endpoint = API) -> Callable[[RequestHead], Granted | Deny]:
    return lambda request: decide(replace(request, target=target.encode()), at=at)


def elsewhere(request: RequestHead) -> Granted | Deny:
    """The request as a redirect's hop, to where no reference may go."""
    target = parse_target(request.target, authority=HERE)
    assert isinstance(target, RequestTarget)
    return authorize_target(API, request, target, origin=CDN)


QUESTIONS = [
    pytest.param(to("/one"), id="one operation"),
    pytest.param(to("/two"), id="another operation"),
    pytest.param(to("/two", at=STRIPPING), id="undeclared fields stripped"),
    pytest.param(to("/two", at=endpoint(TWO)), id="the same in another grant"),
    pytest.param(to("/one", at=endpoint(replace(ONE, headers={}))), id="an operation of the same name"),
    pytest.param(elsewhere, id="where references may not go"),
]


@pytest.mark.parametrize("after", QUESTIONS)
@pytest.mark.parametrize("before", QUESTIONS)
def test_an_answer_is_taken_over_for_the_same_question_only(
    before: Callable[[RequestHead], object], after: Callable[[RequestHead], object], readings: list[Fields]
) -> None:
    """Operation by identity, what becomes of undeclared fields, whether references may go there: all three count."""
    plain, request = head("GET", "/one", *LINES), remembered("GET", "/one", *LINES)
    expected = before(plain), after(plain), after(plain)
    readings.clear()
    assert (before(request), after(request), after(request)) == expected
    assert readings == [FIELDS]


def test_the_same_question_is_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second request with the block costs no look at its fields."""
    request = remembered("GET", "/one", *LINES)
    first = decide(request)
    assert isinstance(first, Granted)
    monkeypatch.delattr("grants.authorize.check_headers")
    assert decide(request) == first
    with pytest.raises(NameError):
        decide(replace(request, target=b"/two"))


REFUSED = [
    pytest.param([("Host", "h"), ("Upgrade", "x")], Reason.HEADER_FORBIDDEN, id="the connection's fields"),
    pytest.param([("Host", "h"), ("X-B", "1")], Reason.HEADER_UNDECLARED, id="the operation's fields"),
    pytest.param([("Host", "h"), ("Content-Length", "2")], Reason.BODY_NOT_ALLOWED, id="the body"),
]


@pytest.mark.parametrize(("lines", "reason"), REFUSED)
def test_a_refusal_is_remembered_too(lines: list[tuple[str, str]], reason: Reason, readings: list[Fields]) -> None:
    """It names the operation that was picked, not the one that was picked before."""
    request = remembered("GET", "/one", *lines)
    for target, name in [("/one", "one"), ("/one", "one"), ("/two", "two"), ("/one", "one")]:
        denial = decide(replace(request, target=target.encode()))
        assert isinstance(denial, Deny)
        assert (denial.reason, denial.operation) == (reason, name)
    assert len(readings) == 1


OTHERS = [
    pytest.param(lambda request: replace(request, fields=request.fields[:-1]), id="a field less"),
    pytest.param(lambda request: replace(request, fields=(*request.fields, (b"X-B", b"1"))), id="a field more"),
    pytest.param(lambda request: replace(request, fields=(*request.fields,)), id="an equal block"),
    pytest.param(lambda request: replace(request, memo=None), id="no memory"),
    pytest.param(lambda request: replace(request, memo=Memo(fields=())), id="the memory of another block"),
]


@pytest.mark.parametrize("change", OTHERS)
def test_a_memory_says_nothing_of_another_block(change: Callable[[RequestHead], RequestHead]) -> None:
    """A head that was made from another is judged by the fields that it has."""
    request = remembered("GET", "/one", *LINES)
    decide(request)
    other = change(request)
    assert memo_of(other) is not other.memo
    assert decide(other) == decide(RequestHead(method=other.method, target=other.target, fields=other.fields))
    assert request.memo is not None
    assert request.memo.fields is request.fields


def test_a_body_s_type_is_judged_with_the_fields() -> None:
    """What an operation adds for its body belongs to the answer."""
    at = endpoint(operation("note", "POST", "/note", takes=body()), strip=True)
    request = remembered("POST", "/note", ("Host", "h"), ("Content-Length", "2"), JSON)
    for _ in range(2):
        granted = decide(request, at=at)
        assert isinstance(granted, Granted)
        assert granted.fields == ((b"Content-Type", b"application/json"),)


def test_a_memory_is_no_part_of_a_head_and_shows_nothing() -> None:
    """Two heads are equal by what was sent; nothing that was sent is printed."""
    plain, request = head("GET", "/one", *LINES), remembered("GET", "/one", *LINES)
    decide(request)
    assert (plain, hash(plain), repr(plain)) == (request, hash(request), repr(request))
    assert "@secret:api" not in repr(request.memo)
