"""The decision, and what kept each near operation from matching."""

import pytest
from support.grants import (
    BEARER,
    CREATE_ISSUE,
    GET_REPO,
    HERE,
    JSON,
    LIST_ISSUES,
    NAMESPACE,
    endpoint,
    head,
    operation,
    pattern,
    rule,
)

from grants.authorize import Allow
from grants.decision import Deny, Reason
from grants.explain import Explanation, explain

API = endpoint(
    GET_REPO,
    LIST_ISSUES,
    CREATE_ISSUE,
    operation("root", "GET", "/"),
    operation("one-issue", "GET", "/repos/{owner}/{repo}/issues/{id}", {**NAMESPACE, "id": pattern("[0-9]+")}),
    operation("other", "DELETE", "/other/{owner}/{repo}", NAMESPACE),
    operation("twin-a", "GET", "/twin", query=[rule("x", "1")]),
    operation("twin-b", "GET", "/twin", query=[rule("y", "1")]),
)
ISSUES = "/repos/acme/widgets/issues"

type Line = tuple[str | bytes, str | bytes]


def ask(method: str, target: str, *lines: Line, data: bytes = b"") -> Explanation:
    return explain(API, head(method, target, *lines), data, authority=HERE)


REFUSALS = [
    pytest.param("GET", ISSUES + "?state=closed", [BEARER], ("list-open-issues", Reason.QUERY_VALUE), id="query"),
    pytest.param("GET", ISSUES + "?state=open", [], ("list-open-issues", Reason.HEADER_MISSING), id="header"),
    pytest.param("DELETE", ISSUES, [], ("list-open-issues", Reason.METHOD), id="method"),
    pytest.param("GET", "/repos/acme/gadgets", [], ("get-repo", Reason.PATH_PARAMETER), id="parameter"),
    pytest.param("GET", "/repos/acme/widgets/pulls", [], ("list-open-issues", Reason.ROUTE), id="last segment"),
    pytest.param("GET", "/repos/acme/widgets/issues/x", [], ("one-issue", Reason.PATH_PARAMETER), id="last parameter"),
    pytest.param("POST", ISSUES, [BEARER, JSON], ("create-issue", Reason.BODY_MISSING), id="no body"),
]


@pytest.mark.parametrize(("method", "target", "lines", "first"), REFUSALS)
def test_the_nearest_operation_comes_first(
    method: str, target: str, lines: list[Line], first: tuple[str, Reason]
) -> None:
    """For a refusal, near operations with the first thing that kept each from matching, the nearest first."""
    found = ask(method, target, *lines)
    assert isinstance(found.decision, Deny)
    assert 1 <= len(found.near) <= 5
    assert (found.near[0].operation.name, found.near[0].denial.reason) == first


def test_an_allowed_request_needs_no_reasons() -> None:
    """The decision is the very one that the proxy takes."""
    found = ask("GET", ISSUES + "?state=open", BEARER)
    assert isinstance(found.decision, Allow)
    assert found.decision.granted.operation.name == "list-open-issues"
    assert found.near == ()
    body = b'{"title":"x"}'
    lines = [BEARER, JSON, ("Content-Length", "13")]
    assert isinstance(ask("POST", ISSUES, *lines, data=body).decision, Allow)
    wrong = ask("POST", ISSUES, *lines, data=b'{"name":"xx"}')
    assert isinstance(wrong.decision, Deny)
    assert wrong.decision.reason is Reason.BODY_SCHEMA
    assert wrong.near[0].denial == wrong.decision


def test_an_unreadable_target_is_near_to_nothing() -> None:
    """Where the target cannot be read no operation is near."""
    found = ask("GET", "/repos/../x")
    assert isinstance(found.decision, Deny)
    assert (found.decision.reason, found.near) == (Reason.PATH_SEGMENT, ())


def test_an_ambiguous_request() -> None:
    """Operations that match by themselves are not among those that were kept from matching."""
    found = ask("GET", "/twin")
    assert isinstance(found.decision, Deny)
    assert found.decision.reason is Reason.AMBIGUOUS
    assert not {"twin-a", "twin-b"} & {near.operation.name for near in found.near}


def test_prefix() -> None:
    """On a base URL the upstream's own path goes in front."""
    at = endpoint(operation("user", "GET", "/api/user"), base=("api",))
    assert isinstance(explain(at, head("GET", "/user"), authority=None, prefix=at.base).decision, Allow)
    near = explain(at, head("GET", "/users"), authority=None, prefix=at.base).near
    assert near[0].denial.reason is Reason.ROUTE
