"""A whole request: target, operation, query, headers, body, in this order."""

from base64 import b64encode

import pytest
from support.grants import (
    AUTHORIZATION,
    BEARER,
    CDN,
    CREATE_ISSUE,
    GET_REPO,
    HERE,
    JSON,
    LIST_ISSUES,
    NAMESPACE,
    body,
    endpoint,
    head,
    operation,
    pattern,
    rule,
)

from grants.authorize import Allow, Granted, authorize_body, authorize_head, authorize_target
from grants.decision import Deny, Reason, Rule
from grants.endpoint import Endpoint
from grants.message import Origin
from grants.model import Redirects
from grants.target import RequestTarget

type Line = tuple[str | bytes, str | bytes]

API = endpoint(
    GET_REPO,
    LIST_ISSUES,
    CREATE_ISSUE,
    operation("label", "GET", "/repos/{owner}/{repo}/labels/{label}", {**NAMESPACE, "label": ["C++", "caf\u00e9"]}),
    operation("project", "GET", "/projects/{id}", {"id": ["group/project", "100%", "a;b"]}),
    operation("package", "GET", "/{package}", {"package": ["@scope/name"]}),
    operation("number", "GET", "/numbers/{id}", {"id": pattern("[0-9]{1,9}|[^0-9].*")}),
    operation("status", "HEAD", "/status"),
    operation(
        "basic", "GET", "/basic", headers=[rule("Authorization", matching="Basic x-access-token:@secret:[a-z]+")]
    ),
    operation("two", "GET", "/two", headers=[rule("Authorization", matching="Token @secret:[a-z]+,@secret:[a-z]+")]),
    operation("search", "GET", "/search", query=[rule("q", matching=".*")]),
)
STRIPPING = endpoint(
    operation("note", "POST", "/note", takes=body()),
    operation("typed", "POST", "/typed", headers=[rule("Content-Type", matching=".*")], takes=body()),
    operation("coded", "POST", "/coded", headers=[rule("Content-Encoding", matching=".*")], takes=body()),
    strip=True,
)


def decide(method: str, target: str | bytes, *lines: Line, at: Endpoint = API) -> Granted | Deny:
    return authorize_head(at, head(method, target, *lines), authority=HERE)


def granted(method: str, target: str | bytes, *lines: Line, at: Endpoint = API) -> Granted:
    found = decide(method, target, *lines, at=at)
    assert isinstance(found, Granted)
    return found


def denied(method: str, target: str | bytes, *lines: Line, at: Endpoint = API) -> Deny:
    found = decide(method, target, *lines, at=at)
    assert isinstance(found, Deny)
    return found


ISSUES = "/repos/acme/widgets/issues"
BASIC = "Basic " + b64encode(b"x-access-token:@secret:gh").decode()

ALLOWED = [
    pytest.param("GET", "/repos/acme/widgets", [], "get-repo", b"/repos/acme/widgets", id="plain"),
    pytest.param("GET", "/repos/acme/w%69dgets", [], "get-repo", b"/repos/acme/widgets", id="needless encoding"),
    pytest.param("GET", "/repos/acme/widgets?", [], "get-repo", b"/repos/acme/widgets", id="empty query"),
    pytest.param(
        "GET", "https://api.example.com/repos/acme/widgets", [], "get-repo", b"/repos/acme/widgets", id="absolute form"
    ),
    pytest.param(
        "GET", "/repos/acme/widgets/labels/C%2B%2B", [], "label", b"/repos/acme/widgets/labels/C%2B%2B", id="C++"
    ),
    pytest.param(
        "GET", "/repos/acme/widgets/labels/caf%c3%a9", [], "label", b"/repos/acme/widgets/labels/caf%C3%A9", id="UTF-8"
    ),
    pytest.param("GET", "/projects/group%2Fproject", [], "project", b"/projects/group%2Fproject", id="value with /"),
    pytest.param("GET", "/projects/100%25", [], "project", b"/projects/100%25", id="value with %"),
    pytest.param("GET", "/projects/a;b", [], "project", b"/projects/a%3Bb", id="value with ;"),
    pytest.param("GET", "/@scope%2fname", [], "package", b"/@scope%2Fname", id="scoped package"),
    pytest.param("GET", "/numbers/42", [], "number", b"/numbers/42", id="pattern"),
    pytest.param("HEAD", "/status", [], "status", b"/status", id="granted HEAD"),
    pytest.param(
        "GET", ISSUES + "?state=open", [BEARER], "list-open-issues", ISSUES.encode() + b"?state=open", id="all"
    ),
    pytest.param("GET", "/basic", [("Authorization", BASIC)], "basic", b"/basic", id="Basic"),
    pytest.param("GET", "/two", [("Authorization", "Token @secret:a,@secret:b")], "two", b"/two", id="two references"),
    pytest.param("GET", "/search?q=@secret:api", [], "search", b"/search?q=%40secret%3Aapi", id="reference in a query"),
    pytest.param(
        "GET", "/repos/acme/widgets", [("Content-Length", "0")], "get-repo", b"/repos/acme/widgets", id="CL 0"
    ),
]


@pytest.mark.parametrize(("method", "target", "lines", "name", "sent"), ALLOWED)
def test_requests_that_pass(method: str, target: str, lines: list[Line], name: str, sent: bytes) -> None:
    """What is sent is what was authorized, in its one form."""
    found = granted(method, target, *lines)
    assert found.operation.name == name
    allow = authorize_body(found, b"")
    assert isinstance(allow, Allow)
    assert (allow.request.method, allow.request.target, allow.request.body) == (method.encode(), sent, None)
    assert allow.request.origin == API.upstream
    assert allow.request.fields == tuple((n, v) for n, v in head(method, "/", *lines).fields if n != b"Content-Length")


R = Reason
DENIED = [
    # target
    pytest.param("GET", "/repos/acme/../evil/widgets", [], R.PATH_SEGMENT, None, id="dot-dot"),
    pytest.param("GET", "/repos/acme/..;/x", [], R.PATH_SEGMENT, None, id="dot-dot with a parameter"),
    pytest.param("GET", "/repos/acme/%2e%2e;/x", [], R.PATH_SEGMENT, None, id="encoded dot-dot with a parameter"),
    pytest.param("GET", "/repos/acme%2Fwidgets", [], R.PATH_SEGMENT, None, id="encoded slash"),
    pytest.param("GET", "/repos/acme;x/widgets", [], R.PATH_SEGMENT, None, id="matrix parameter"),
    pytest.param("GET", "/repos/acme/widget%2573", [], R.PATH_SEGMENT, None, id="encoded twice"),
    pytest.param("GET", "/projects/group%2Fother", [], R.PATH_SEGMENT, None, id="slash in a value not listed"),
    pytest.param("GET", "/projects/group%252Fproject", [], R.PATH_SEGMENT, None, id="listed value encoded twice"),
    pytest.param("GET", "/numbers/x%2Fy", [], R.PATH_SEGMENT, None, id="a pattern takes no slash"),
    pytest.param("GET", "/numbers/x%3By", [], R.PATH_SEGMENT, None, id="a pattern takes no semicolon"),
    pytest.param("GET", "https://evil.example/repos/acme/widgets", [], R.TARGET_UNREADABLE, None, id="another host"),
    # operation
    pytest.param("HEAD", "/repos/acme/widgets", [], R.METHOD, "get-repo", id="HEAD where only GET is granted"),
    pytest.param("DELETE", ISSUES, [], R.METHOD, None, id="method that no operation has"),
    pytest.param("get", "/repos/acme/widgets", [], R.METHOD, "get-repo", id="method in lower case"),
    pytest.param("GET\t", "/repos/acme/widgets", [], R.METHOD, "get-repo", id="method with a tab"),
    pytest.param("PUT", "/nowhere/else/at/all", [], R.METHOD, None, id="neither method nor route"),
    pytest.param("PUT", "/projects/group%2Fproject", [], R.METHOD, "project", id="method, for a value with /"),
    pytest.param("GET", "/repos/evil/widgets", [], R.PATH_PARAMETER, "get-repo", id="another owner"),
    pytest.param("GET", "/repos/Acme/widgets", [], R.PATH_PARAMETER, "get-repo", id="owner in other case"),
    pytest.param("GET", "/numbers/1234567890", [], R.PATH_PARAMETER, "number", id="outside the pattern"),
    pytest.param(
        "GET", "/repos/acme/widgets/labels/cafe%CC%81", [], R.PATH_PARAMETER, "label", id="NFD for a value in NFC"
    ),
    pytest.param("GET", "/Repos/acme/widgets", [], R.ROUTE, None, id="literal in other case"),
    pytest.param("GET", "/repos/acme/widgets/branches", [], R.ROUTE, None, id="another literal"),
    pytest.param("GET", "/a/b/c/d/e/f/g", [], R.ROUTE, None, id="no route that long"),
    pytest.param("POST", "/repos/acme/widgets", [], R.METHOD, "get-repo", id="route of another method"),
    # query
    pytest.param("GET", ISSUES + "?state=open&page=2", [BEARER], R.QUERY_UNDECLARED, "list-open-issues", id="query"),
    pytest.param("GET", ISSUES + "?state=open&", [BEARER], R.QUERY_MALFORMED, "list-open-issues", id="malformed query"),
    pytest.param("GET", ISSUES, [BEARER], R.QUERY_MISSING, "list-open-issues", id="no query"),
    pytest.param("GET", "/repos/acme/widgets?x=1", [], R.QUERY_UNDECLARED, "get-repo", id="query where there is none"),
    # headers
    pytest.param("GET", ISSUES + "?state=open", [], R.HEADER_MISSING, "list-open-issues", id="header"),
    pytest.param("GET", "/repos/acme/widgets", [("Upgrade", "h2c")], R.HEADER_FORBIDDEN, "get-repo", id="upgrade"),
    pytest.param("GET", "/repos/acme/widgets", [("X", "a\nb")], R.HEADER_MALFORMED, "get-repo", id="malformed header"),
    # body
    pytest.param(
        "GET", "/repos/acme/widgets", [("Content-Length", "1")], R.BODY_NOT_ALLOWED, "get-repo", id="GET with a body"
    ),
    pytest.param(
        "GET",
        "/repos/acme/widgets",
        [("Transfer-Encoding", "chunked")],
        R.BODY_NOT_ALLOWED,
        "get-repo",
        id="GET with a chunked body",
    ),
    pytest.param("POST", ISSUES, [BEARER, JSON], R.BODY_MISSING, "create-issue", id="no body"),
    pytest.param("POST", ISSUES, [BEARER, JSON, ("Content-Length", "0")], R.BODY_MISSING, "create-issue", id="CL 0"),
]


@pytest.mark.parametrize(("method", "target", "lines", "reason", "name"), DENIED)
def test_requests_that_are_denied(
    method: str, target: str, lines: list[Line], reason: Reason, name: str | None
) -> None:
    """The first failure denies; the operation is named when it is the only one near."""
    denial = denied(method, target, *lines)
    assert (denial.rule, denial.reason, denial.status, denial.operation) == (Rule.REQUEST, reason, 403, name)


def test_first_failure_decides() -> None:
    """Target, operation, query, headers, body: a request with every fault is denied for the first."""
    lines: list[Line] = [("X", "\n"), ("Content-Length", "5")]
    assert denied("DELETE", "/..", *lines).reason is Reason.PATH_SEGMENT
    assert denied("DELETE", "/repos/evil/widgets?;", *lines).reason is Reason.METHOD
    assert denied("GET", "/repos/evil/widgets?;", *lines).reason is Reason.PATH_PARAMETER
    assert denied("GET", "/repos/acme/widgets?;", *lines).reason is Reason.QUERY_MALFORMED
    assert denied("GET", "/repos/acme/widgets?a", *lines).reason is Reason.QUERY_UNDECLARED
    assert denied("GET", "/repos/acme/widgets", *lines).reason is Reason.HEADER_MALFORMED
    assert denied("GET", "/repos/acme/widgets", lines[1]).reason is Reason.BODY_NOT_ALLOWED


def test_status_of_a_refusal() -> None:
    """417 for `Expect`, 400 for framing, 413 for a body over its limit, else 403."""
    assert denied("GET", "/repos/acme/widgets", ("Expect", "x")).status == 417
    assert denied("GET", "/repos/acme/widgets", ("Content-Length", "+1")).status == 400
    over = denied("POST", ISSUES, BEARER, JSON, ("Content-Length", "8193"))
    assert (over.status, over.reason) == (413, Reason.BODY_TOO_LARGE)


def test_granted_says_what_the_front_needs() -> None:
    """The limit of the body and the path parameters."""
    found = granted("POST", ISSUES, BEARER, JSON, ("Content-Length", "8192"), ("Expect", "100-continue"))
    assert found.body_limit == 8192
    assert found.parameters == (("owner", "acme"), ("repo", "widgets"))
    assert found.method == b"POST"
    chunked = granted("POST", ISSUES, BEARER, JSON, ("Transfer-Encoding", "chunked"))
    assert chunked.body_limit == 8192
    assert granted("GET", "/repos/acme/widgets").body_limit == 0


def test_refusals_name_what_is_near() -> None:
    """The detail is for an agent to act on: methods, routes and values of the grant, nothing of the client's."""
    assert denied("PUT", "/repos/acme/widgets").detail == (
        "the method is not granted for the route /repos/{owner}/{repo}; granted: GET"
    )
    assert denied("PUT", "/x/y").detail == "no operation has this method; granted: GET, HEAD, POST"
    assert denied("POST", "/x/y").detail == (
        "no route of this method fits the path; routes with this method: /repos/{owner}/{repo}/issues"
    )
    assert denied("GET", "/repos/evil/widgets").detail == (
        'path parameter "owner" of operation "get-repo" (/repos/{owner}/{repo}) is one of: acme'
    )
    assert denied("GET", "/repos/acme/gadgets").detail == (
        'path parameter "repo" of operation "get-repo" (/repos/{owner}/{repo}) is one of: widgets'
    )


MEDIA = [
    pytest.param("application/json", None, id="plain"),
    pytest.param("application/json; charset=utf-8", None, id="charset"),
    pytest.param("Application/JSON", None, id="other case"),
    pytest.param('application/json;charset="UTF-8"', None, id="quoted charset"),
    pytest.param("application/json; charset=utf-16", Reason.BODY_MEDIA_TYPE, id="another charset"),
    pytest.param("text/json", Reason.BODY_MEDIA_TYPE, id="another type"),
    pytest.param("application/vnd.api+json", Reason.BODY_MEDIA_TYPE, id="a suffix that is not declared"),
    pytest.param("", Reason.BODY_MEDIA_TYPE, id="empty"),
]


@pytest.mark.parametrize(("value", "reason"), MEDIA)
def test_media_type_of_a_body(value: str, reason: Reason | None) -> None:
    """Compared without parameters and without regard to case; `charset` absent or utf-8."""
    found = decide("POST", "/typed", ("Content-Type", value), ("Content-Length", "2"), at=STRIPPING)
    assert (found.reason if isinstance(found, Deny) else None) is reason


def test_content_type_that_is_left_out_is_still_checked_and_sent() -> None:
    """An undeclared Content-Type is judged all the same; the granted media type itself goes upstream, no parameter."""
    lines: list[Line] = [("Content-Length", "2"), ("X", "y")]
    found = granted("POST", "/note", ("content-type", "Application/JSON; charset=utf-8"), *lines, at=STRIPPING)
    assert found.fields == ((b"Content-Type", b"application/json"),)
    for types in ([], [("Content-Type", "text/plain")], [JSON, JSON]):
        assert denied("POST", "/note", *types, *lines, at=STRIPPING).reason is Reason.BODY_MEDIA_TYPE
    assert granted("POST", "/typed", JSON, *lines, at=STRIPPING).fields == ((b"Content-Type", b"application/json"),)


@pytest.mark.parametrize("path", ["/note", "/coded"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param("identity", None, id="identity"),
        pytest.param("Identity", None, id="other case"),
        pytest.param("gzip", Reason.BODY_CODING, id="gzip"),
        pytest.param("identity, gzip", Reason.BODY_CODING, id="list"),
        pytest.param("", Reason.BODY_CODING, id="empty"),
    ],
)
def test_content_coding_of_a_body(path: str, value: str, reason: Reason | None) -> None:
    """`Content-Encoding` is absent or `identity`, declared or left out."""
    found = decide("POST", path, JSON, ("Content-Encoding", value), ("Content-Length", "2"), at=STRIPPING)
    assert (found.reason if isinstance(found, Deny) else None) is reason


BODIES = [
    pytest.param(b'{"title":"x"}', None, 200, id="fits"),
    pytest.param(b' {"body":"y", "title":"x"}\n', None, 200, id="white space and order"),
    pytest.param(b"", Reason.BODY_MISSING, 403, id="empty"),
    pytest.param(b'{"title":"' + b"x" * 8181 + b'"}', Reason.BODY_TOO_LARGE, 413, id="over the limit by one"),
    pytest.param(b'{"title":"x","title":"y"}', Reason.BODY_JSON, 403, id="duplicate key"),
    pytest.param(b'{"title":"x","\\u0074itle":"y"}', Reason.BODY_JSON, 403, id="duplicate key by escape"),
    pytest.param(b'\xef\xbb\xbf{"title":"x"}', Reason.BODY_JSON, 403, id="BOM"),
    pytest.param('{"title":"x"}'.encode("utf-16"), Reason.BODY_JSON, 403, id="UTF-16"),
    pytest.param(b'{"title":"x"} x', Reason.BODY_JSON, 403, id="trailing data"),
    pytest.param(b'{"title":1}', Reason.BODY_SCHEMA, 403, id="another type"),
    pytest.param(b'{"title":"x","admin":true}', Reason.BODY_SCHEMA, 403, id="undeclared property"),
    pytest.param(b"[]", Reason.BODY_SCHEMA, 403, id="no object"),
]


@pytest.mark.parametrize(("data", "reason", "status"), BODIES)
def test_bodies(data: bytes, reason: Reason | None, status: int) -> None:
    """A body is one strict JSON value of the declared shape, and goes upstream as it came."""
    found = granted("POST", ISSUES, BEARER, JSON, ("Transfer-Encoding", "chunked"))
    decision = authorize_body(found, data)
    if reason is None:
        assert isinstance(decision, Allow)
        assert decision.granted is found
        assert decision.request.body == data
        assert decision.request.fields == head("POST", "/", BEARER, JSON).fields
    else:
        assert isinstance(decision, Deny)
        assert (decision.rule, decision.reason, decision.status) == (Rule.REQUEST, reason, status)
        assert decision.operation == "create-issue"


def test_body_at_the_limit_passes() -> None:
    """The limit itself is allowed."""
    found = granted("POST", ISSUES, BEARER, JSON, ("Content-Length", "8192"))
    assert isinstance(authorize_body(found, b'{"title":"' + b"x" * 8180 + b'"}'), Allow)


def test_body_byte_where_there_is_no_body_rule() -> None:
    """No `body` rule means no body: any body byte denies, whatever the head said."""
    decision = authorize_body(granted("GET", "/repos/acme/widgets"), b"x")
    assert isinstance(decision, Deny)
    assert decision.reason is Reason.BODY_NOT_ALLOWED


def test_two_operations_that_match_are_ambiguous() -> None:
    """Two operations that both match deny the request, naming both; a query that tells them apart decides."""
    at = endpoint(
        operation("first", "GET", "/a", query=[rule("x", "1")]),
        operation("second", "GET", "/a", query=[rule("x", "2"), rule("y", "1")]),
        operation("third", "GET", "/a", query=[rule("z", "1", required=True)]),
    )
    assert granted("GET", "/a?x=1", at=at).operation.name == "first"
    assert granted("GET", "/a?x=2", at=at).operation.name == "second"
    assert granted("GET", "/a?y=1", at=at).operation.name == "second"
    assert granted("GET", "/a?z=1", at=at).operation.name == "third"
    denial = denied("GET", "/a", at=at)
    assert (denial.reason, denial.operation) == (Reason.AMBIGUOUS, None)
    assert denial.detail == 'more than one operation matches: "first", "second"; the grant has to tell them apart'


def test_the_nearest_of_several_says_why() -> None:
    """Where the query fits none of several operations, the one that came furthest says why, and none is named."""
    at = endpoint(
        operation("first", "GET", "/a", query=[rule("x", "1")]),
        operation("second", "GET", "/a", query=[rule("x", "2"), rule("y", "1")]),
    )
    denial = denied("GET", "/a?x=3&y=1", at=at)
    assert (denial.reason, denial.operation) == (Reason.QUERY_VALUE, None)
    assert '"second"' in denial.detail
    assert denied("GET", "/a?z", at=at).reason is Reason.QUERY_UNDECLARED
    assert denied("GET", "/a?;", at=at).operation is None


def test_headers_do_not_tell_operations_apart() -> None:
    """Method, route and query pick the operation; headers do not."""
    at = endpoint(
        operation("first", "GET", "/a", headers=[rule("Accept", "x")]),
        operation("second", "GET", "/a", headers=[rule("Accept", "y")]),
    )
    assert denied("GET", "/a", ("Accept", "x"), at=at).reason is Reason.AMBIGUOUS


def test_an_operation_for_other_origins_does_not_match() -> None:
    """Extension B: an operation with `origins` matches only requests to these."""
    redirects = Redirects(max_hops=1, origins=frozenset({CDN}))
    elsewhere = operation("elsewhere", "GET", "/a", origins=[CDN])
    at = endpoint(elsewhere, redirects=redirects)
    denial = denied("GET", "/a", at=at)
    assert (denial.reason, denial.operation) == (Reason.ORIGIN, "elsewhere")
    both = endpoint(elsewhere, operation("here", "GET", "/a"), redirects=redirects)
    assert granted("GET", "/a", at=both).operation.name == "here"
    named = endpoint(operation("here", "GET", "/a", origins=[both.upstream], headers=[AUTHORIZATION]))
    assert granted("GET", "/a", BEARER, at=named).fields == head("GET", "/", BEARER).fields


@pytest.mark.parametrize("redirects", [None, Redirects(max_hops=1, origins=frozenset({CDN}))])
def test_no_operation_is_for_an_origin_that_nobody_listed(redirects: Redirects | None) -> None:
    """Without `origins` an operation is for the upstream's origin and the allowed ones, whoever asks."""
    at = endpoint(operation("here", "GET", "/a"), redirects=redirects)
    target = RequestTarget(segments=("a",), special=frozenset(), query=None)
    other = Origin(scheme="https", host="other.example.com", port=443)
    denial = authorize_target(at, head("GET", "/a"), target, origin=other)
    assert isinstance(denial, Deny)
    assert denial.reason is Reason.ORIGIN
    assert isinstance(authorize_target(at, head("GET", "/a"), target, origin=CDN), Deny) == (redirects is None)


def test_prefix_of_a_base_url() -> None:
    """On a base URL the upstream's own path goes in front, and the route matches the whole."""
    at = endpoint(operation("user", "GET", "/api/v3/user"), base=("api", "v3"))
    found = authorize_head(at, head("GET", "/user"), authority=None, prefix=at.base)
    assert isinstance(found, Granted)
    assert found.target.wire == b"/api/v3/user"
    assert isinstance(authorize_head(at, head("GET", "/user"), authority=None), Deny)
    assert isinstance(authorize_head(at, head("GET", "/api/v3/user"), authority=None, prefix=at.base), Deny)


def test_values_are_not_in_a_repr() -> None:
    """A client's header value stands in no repr of a decision."""
    found = granted("POST", ISSUES, ("Authorization", "Bearer @secret:hunter2"), JSON, ("Content-Length", "1"))
    assert "hunter2" not in repr(found)
    assert "hunter2" not in repr(authorize_body(found, b'{"title":"hunter2"}'))
