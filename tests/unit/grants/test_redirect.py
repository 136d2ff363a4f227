"""Redirects: each hop is decided like a request of its own, before it is sent."""

from base64 import b64encode

import pytest
from support.grants import (
    CDN,
    HERE,
    OPTIONAL_AUTHORIZATION,
    UPSTREAM,
    body,
    endpoint,
    head,
    operation,
    rule,
)

from grants.authorize import Granted, authorize_head
from grants.decision import Deny, Reason, Rule
from grants.endpoint import Endpoint
from grants.location import resolve
from grants.message import Origin, Response
from grants.model import Redirects
from grants.redirect import STATUSES, Chain, Hop, NotRedirect, next_hop, start
from grants.target import Target

type Line = tuple[str | bytes, str | bytes]

KEY = rule("X-Api-Key", matching="@secret:api|plain")
FOLLOWED = Redirects(max_hops=2, origins=frozenset({CDN}))
OPERATIONS = (
    operation("start", "GET", "/a/start", headers=[OPTIONAL_AUTHORIZATION, KEY, rule("X-Trace", "1")]),
    operation("start-head", "HEAD", "/a/start"),
    operation("next", "GET", "/a/next", query=[rule("page", "2")], headers=[OPTIONAL_AUTHORIZATION, KEY]),
    operation("next-head", "HEAD", "/a/next"),
    operation("top", "GET", "/"),
    operation("post", "POST", "/a/start", headers=[rule("Content-Type", "application/json")], takes=body()),
    operation("search", "GET", "/a/search", headers=[rule("Content-Type", "application/json")], takes=body()),
    operation("traced", "GET", "/a/traced", headers=[rule("X-Trace", "1", required=True)]),
    operation(
        "download",
        "GET",
        "/files/{name}",
        {"name": ["one", "a/b"]},
        headers=[rule("Authorization", required=True, matching="Bearer @secret:[a-z]+"), KEY, rule("X-Trace", "1")],
    ),
    operation(
        "named",
        "GET",
        "/named",
        headers=[rule("Authorization", required=True, matching="Bearer @secret:[a-z]+"), KEY],
        origins=[CDN],
    ),
    operation("here-only", "GET", "/here", origins=[UPSTREAM]),
)
API = endpoint(*OPERATIONS, redirects=FOLLOWED)
BEARER = ("Authorization", "Bearer @secret:api")


def begin(method: str = "GET", target: str = "/a/start", *lines: Line, at: Endpoint = API) -> Chain:
    granted = authorize_head(at, head(method, target, *lines), authority=HERE)
    assert isinstance(granted, Granted), granted
    return start(at, granted)


def answer(location: str | bytes | None, status: int = 302, *more: tuple[bytes, bytes]) -> Response:
    value = location.encode("latin-1") if isinstance(location, str) else location
    fields = () if value is None else ((b"Location", value),)
    return Response(status=status, reason=b"", fields=fields + more, body=b"")


def follow(location: str | bytes, *lines: Line, method: str = "GET") -> Hop:
    step = next_hop(begin(method, "/a/start", *lines), answer(location))
    assert isinstance(step, Hop), step
    return step


FOLLOWED_LOCATIONS = [
    pytest.param("/a/next", UPSTREAM, b"/a/next", id="absolute path"),
    pytest.param("next", UPSTREAM, b"/a/next", id="relative path"),
    pytest.param("./next", UPSTREAM, b"/a/next", id="relative path with a dot"),
    pytest.param("../a/next", UPSTREAM, b"/a/next", id="relative path with dot-dot"),
    pytest.param("../a/./x/../next", UPSTREAM, b"/a/next", id="dots inside a relative path"),
    pytest.param("..", UPSTREAM, b"/", id="up to the root"),
    pytest.param("https://api.example.com/a/next", UPSTREAM, b"/a/next", id="absolute"),
    pytest.param("HTTPS://API.EXAMPLE.com/a/next", UPSTREAM, b"/a/next", id="same host in other case"),
    pytest.param("https://api.example.com:443/a/next", UPSTREAM, b"/a/next", id="default port written out"),
    pytest.param("https://api.example.com", UPSTREAM, b"/", id="no path"),
    pytest.param("//api.example.com/a/next", UPSTREAM, b"/a/next", id="network path on the same host"),
    pytest.param("/a/next#frag", UPSTREAM, b"/a/next", id="a fragment is dropped"),
    pytest.param("/a/next#?page=3", UPSTREAM, b"/a/next", id="a query inside a fragment is dropped"),
    pytest.param("/a/next?page=2", UPSTREAM, b"/a/next?page=2", id="query"),
    pytest.param("/a/next?pa%67e=%32", UPSTREAM, b"/a/next?page=2", id="query, needlessly encoded"),
    pytest.param("/a/next?", UPSTREAM, b"/a/next", id="empty query"),
    pytest.param("/a/n%65xt", UPSTREAM, b"/a/next", id="path, needlessly encoded"),
    pytest.param("?", UPSTREAM, b"/a/start", id="the current path without a query"),
    pytest.param("https://cdn.example.com/a/next", CDN, b"/a/next", id="allowed origin"),
    pytest.param("//CDN.example.com:443/a/next", CDN, b"/a/next", id="allowed origin as a network path"),
]

L, ORIGIN, Q = Reason.REDIRECT_LOCATION, Reason.REDIRECT_ORIGIN, Reason.REDIRECT_REQUEST
REFUSED_LOCATIONS = [
    pytest.param("", L, id="empty"),
    pytest.param("#frag", L, id="fragment only"),
    pytest.param("http://api.example.com/a/next", L, id="http on the same host"),
    pytest.param("ftp://api.example.com/a/next", L, id="another scheme"),
    pytest.param("javascript:x", L, id="a scheme without slashes"),
    pytest.param("a:b", L, id="what reads as a scheme"),
    pytest.param("https:evil", L, id="https without slashes"),
    pytest.param("https:/a/next", L, id="https with one slash"),
    pytest.param("https:a/next", L, id="https and a relative path"),
    pytest.param("https:", L, id="https alone"),
    pytest.param("https://", L, id="no host"),
    pytest.param("https:///a/next", L, id="empty host"),
    pytest.param("https://user@api.example.com/a/next", L, id="userinfo"),
    pytest.param("https://api.example.com:443@evil/", L, id="a port that is userinfo"),
    pytest.param("http://localhost:80@evil/", L, id="userinfo on http"),
    pytest.param("https://api.example.com./a/next", L, id="trailing dot"),
    pytest.param("https://api.example.com:/a/next", L, id="empty port"),
    pytest.param("https://api.example.com:0443/a/next", L, id="port with a leading zero"),
    pytest.param("https://2130706433/", L, id="an address as a number"),
    pytest.param("https://127.1/", L, id="a short address"),
    pytest.param("https://[::ffff:127.0.0.1]/", L, id="a mapped address"),
    pytest.param("/\\evil", L, id="slash, backslash"),
    pytest.param("\\\\evil", L, id="two backslashes"),
    pytest.param("/a/next?x=\\", L, id="backslash in the query"),
    pytest.param(" /a/next", L, id="space in front"),
    pytest.param("/a/ne xt", L, id="space inside"),
    pytest.param("/a/ne\txt", L, id="tab"),
    pytest.param("/a/next\r\n", L, id="line end"),
    pytest.param("/a/next#\n", L, id="line end in the fragment"),
    pytest.param("/a/next\x00", L, id="NUL"),
    pytest.param("/caf\xe9", L, id="raw byte that is not ASCII"),
    pytest.param("/a/../a/next", L, id="dot-dot in an absolute path"),
    pytest.param("/a/./next", L, id="dot in an absolute path"),
    pytest.param("/a/%2e%2e/a/next", L, id="encoded dot-dot"),
    pytest.param("%2e%2e/next", L, id="encoded dot-dot in a relative path"),
    pytest.param("../../x", L, id="past the root"),
    pytest.param("next/", L, id="trailing slash"),
    pytest.param("next/..", L, id="dot-dot at the end leaves a trailing slash"),
    pytest.param(".", L, id="the current folder"),
    pytest.param("x//next", L, id="empty segment"),
    pytest.param("/a//next", L, id="empty segment in an absolute path"),
    pytest.param("https://api.example.com//evil/x", L, id="empty segment after the host"),
    pytest.param("/a/%zz", L, id="bad percent sequence"),
    pytest.param("/a/%c0%ae", L, id="overlong"),
    pytest.param("/a/x%5cy", L, id="encoded backslash"),
    pytest.param("https://evil.example/a/next", ORIGIN, id="another host"),
    pytest.param("https://api.example.com.evil.example/a/next", ORIGIN, id="a longer host"),
    pytest.param("https://api.example.com:8443/a/next", ORIGIN, id="another port"),
    pytest.param("https://cdn.example.com:8443/a/next", ORIGIN, id="another port of an allowed origin"),
    pytest.param("//evil", ORIGIN, id="network path to another host"),
    pytest.param("https://127.0.0.1/a/next", ORIGIN, id="an address"),
    pytest.param("/a/other", Q, id="route"),
    pytest.param("/a/next?page=3", Q, id="query value"),
    pytest.param("/a/next?other=1", Q, id="query name"),
    pytest.param("/a/next?page=2;x", Q, id="malformed query"),
    pytest.param("/a/n%2fext", Q, id="encoded slash"),
    pytest.param("/files/two", Q, id="namespace"),
    pytest.param("/named", Q, id="an operation of another origin"),
    pytest.param("https://cdn.example.com/here", Q, id="an operation of the upstream alone"),
    pytest.param("/a/traced", Q, id="a required header that is missing"),
    pytest.param("/a/search", Q, id="an operation that needs a body"),
]


@pytest.mark.parametrize(("location", "origin", "target"), FOLLOWED_LOCATIONS)
def test_redirects_that_are_followed(location: str, origin: Origin, target: bytes) -> None:
    """Resolved against the current URL, canonical, on the upstream's or a listed origin, and matched anew."""
    step = follow(location)
    assert (step.allow.request.origin, step.allow.request.target) == (origin, target)
    assert (step.allow.request.method, step.allow.request.body) == (b"GET", None)
    assert (step.chain.hops, step.chain.current) == (1, step.allow.granted)
    assert step.chain.first.operation.name == "start"


@pytest.mark.parametrize(("location", "reason"), REFUSED_LOCATIONS)
def test_redirects_that_are_refused(location: str, reason: Reason) -> None:
    """Refused before the hop is sent; the text holds nothing of the answer."""
    denial = next_hop(begin(), answer(location))
    assert isinstance(denial, Deny)
    assert (denial.rule, denial.reason, denial.status) == (Rule.REDIRECT, reason, 403)
    assert denial.operation == "start"
    assert "evil" not in denial.detail


@pytest.mark.parametrize("status", sorted(STATUSES))
def test_statuses(status: int) -> None:
    """301, 302, 303, 307 and 308 with a `Location` are redirects."""
    assert isinstance(next_hop(begin(), answer("/a/next", status)), Hop)
    assert isinstance(next_hop(begin(), answer(None, status)), NotRedirect)


@pytest.mark.parametrize("status", [200, 201, 300, 304, 305, 306, 404])
def test_other_statuses(status: int) -> None:
    """A `Location` on any other answer means nothing here."""
    assert isinstance(next_hop(begin(), answer("https://evil.example", status)), NotRedirect)


@pytest.mark.parametrize("second", [b"/a/next", b"/a/start"])
def test_two_locations(second: bytes) -> None:
    """Two `Location` fields cannot be read in one way, even when they agree."""
    denial = next_hop(begin(), answer("/a/next", 302, (b"location", second)))
    assert isinstance(denial, Deny)
    assert denial.reason is Reason.REDIRECT_LOCATION


def test_without_leave_nothing_is_followed() -> None:
    """Without `allow` such an answer is a refusal, even where `statuses` lists it."""
    at = endpoint(*OPERATIONS)
    denial = next_hop(begin(at=at), answer("/a/next"))
    assert isinstance(denial, Deny)
    assert (denial.rule, denial.reason, denial.status) == (Rule.REDIRECT, Reason.REDIRECT_NOT_ALLOWED, 403)
    assert isinstance(next_hop(begin(at=at), answer(None)), NotRedirect)


def test_at_most_max_hops() -> None:
    """At most `maxHops` are followed: exactly as many pass, a loop stops there."""
    chain = begin()
    for hops in (1, 2):
        step = next_hop(chain, answer("/a/start"))
        assert isinstance(step, Hop)
        assert step.chain.hops == hops
        chain = step.chain
    denial = next_hop(chain, answer("/a/start"))
    assert isinstance(denial, Deny)
    assert (denial.rule, denial.reason) == (Rule.REDIRECT, Reason.REDIRECT_HOPS)
    assert isinstance(next_hop(chain, answer(None, 200)), NotRedirect)


@pytest.mark.parametrize("status", sorted(STATUSES))
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_chain_with_a_body_is_not_followed(method: str, status: int) -> None:
    """Only a chain that began as GET or HEAD without a body: no 303 after a POST, no 307 or 308 of one."""
    lines: list[Line] = [("Content-Type", "application/json"), ("Content-Length", "2")]
    chain = begin(method, "/a/start" if method == "POST" else "/a/search", *lines)
    denial = next_hop(chain, answer("/a/next", status))
    assert isinstance(denial, Deny)
    assert (denial.rule, denial.reason) == (Rule.REDIRECT, Reason.REDIRECT_METHOD)


def test_head_stays_head() -> None:
    """A chain stays what it began as."""
    step = follow("/a/next", method="HEAD")
    assert (step.allow.request.method, step.chain.current.operation.name) == (b"HEAD", "next-head")


def test_the_next_location_is_resolved_against_the_hop() -> None:
    """A relative `Location` is resolved against the URL that answered, origin included."""
    step = follow("https://cdn.example.com/files/one", BEARER)
    again = next_hop(step.chain, answer("/a/next"))
    assert isinstance(again, Hop)
    assert again.allow.request.origin == CDN


def test_an_exact_value_with_a_slash_is_one_segment_on_a_hop_too() -> None:
    """Extension P holds for a hop's path as for a request's own."""
    assert follow("/files/a%2fb", BEARER).allow.request.target == b"/files/a%2Fb"


def test_headers_of_a_hop_are_matched_as_the_client_sent_them() -> None:
    """A header that the hop's operation does not declare denies the hop."""
    chain = begin("GET", "/a/start", ("X-Trace", "1"))
    denial = next_hop(chain, answer("/a/next"))
    assert isinstance(denial, Deny)
    assert denial.reason is Reason.REDIRECT_REQUEST
    assert "header-undeclared" in denial.detail
    step = next_hop(chain, answer("/a/traced"))
    assert isinstance(step, Hop)
    assert step.allow.request.fields == ((b"X-Trace", b"1"),)


CREDENTIALS = [
    pytest.param("/files/one", [BEARER, ("X-Api-Key", "@secret:api")], [0, 1], id="the upstream's own origin"),
    pytest.param("https://cdn.example.com/files/one", [BEARER], [], id="another origin"),
    pytest.param(
        "https://cdn.example.com/files/one", [BEARER, ("X-Api-Key", "@secret:api")], [], id="X-Api-Key is no exception"
    ),
    pytest.param(
        "https://cdn.example.com/files/one", [BEARER, ("X-Trace", "1")], [1], id="what carries no reference is sent"
    ),
    pytest.param(
        "https://cdn.example.com/files/one", [BEARER, ("X-Api-Key", "plain")], [1], id="nor does a plain X-Api-Key"
    ),
    pytest.param("https://cdn.example.com/named", [BEARER], [0], id="an origin that the operation names"),
    pytest.param("https://cdn.example.com/", [BEARER], [], id="undeclared there, left out all the same"),
    pytest.param(
        "https://cdn.example.com/",
        [("Authorization", "Basic " + b64encode(b"u:@secret:api").decode())],
        [],
        id="inside Basic",
    ),
]


@pytest.mark.parametrize(("location", "lines", "kept"), CREDENTIALS)
def test_where_a_credential_goes(location: str, lines: list[Line], kept: list[int]) -> None:
    """On another origin references are sent only if the hop's operation names it in `origins`; else they stay."""
    at = endpoint(
        *(
            each
            if each.name != "start"
            else operation(
                "start", "GET", "/a/start", headers=[rule("Authorization", matching=".*"), KEY, rule("X-Trace", "1")]
            )
            for each in OPERATIONS
        ),
        redirects=FOLLOWED,
    )
    step = next_hop(begin("GET", "/a/start", *lines, at=at), answer(location))
    assert isinstance(step, Hop), step
    sent = head("GET", "/", *lines).fields
    assert step.allow.request.fields == tuple(sent[place] for place in kept)


def test_a_required_credential_that_was_never_sent_is_missing_on_a_hop() -> None:
    """Only a header that is left out counts as present."""
    denial = next_hop(begin(), answer("https://cdn.example.com/files/one"))
    assert isinstance(denial, Deny)
    assert "header-missing" in denial.detail


def test_references_in_a_location_are_never_replaced() -> None:
    """A reference in a `Location` is text like any other."""
    at = endpoint(
        operation("start", "GET", "/"),
        operation("q", "GET", "/q", query=[rule("x", matching=".*")]),
        redirects=FOLLOWED,
    )
    step = next_hop(begin("GET", "/", at=at), answer("/q?x=@secret:api"))
    assert isinstance(step, Hop)
    assert step.allow.request.target == b"/q?x=%40secret%3Aapi"


def test_resolving_against_the_root() -> None:
    """A relative path below the root has no folder to keep (RFC 3986, 5.2.3)."""
    place = resolve(b"next", origin=UPSTREAM, target=Target(segments=()))
    assert place is not None
    assert place.target.segments == ("next",)
    kept = resolve(b"?page=2", origin=UPSTREAM, target=Target(segments=("a/b", "c")))
    assert kept is not None
    assert (kept.target.segments, kept.target.query) == (("a/b", "c"), b"page=2")
    below = resolve(b"d", origin=UPSTREAM, target=Target(segments=("a/b", "c")))
    assert below is not None
    assert below.target.segments == ("a/b", "d")
