"""Which request needs what."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.capabilities import (
    MethodNotAllowed,
    Needs,
    NotFound,
    Route,
    Served,
    feedback_words,
    find,
)
from grants.broker.extra import Extra, PatternInvalid, Scope, parse_path_pattern

SEARCH = Extra(
    name="search",
    routes=(b"/search", b"/lookup"),
    scopes=(
        Scope(method=b"GET", path=parse_path_pattern("/search/v1/query"), words=("read",)),
        Scope(method=b"GET", path=parse_path_pattern("/search/v1/{kind}/list"), words=("read", "list")),
        Scope(method=b"DELETE", path=parse_path_pattern("/lookup/**"), words=("write",)),
        Scope(method=b"GET", path=parse_path_pattern("/search/health"), words=()),
    ),
)
SERVED = Served(extras=(SEARCH,))
POST_ONLY = MethodNotAllowed(allow=b"POST")


def summary(found: Any) -> Any:
    """`ROUTE capability words upstream`, or the result itself."""
    if not isinstance(found, Needs):
        return found
    words = "?" if found.words is None else ",".join(found.words)
    return f"{found.route} {found.capability or '-'} {words or '-'} {found.upstream.decode() or '-'}"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        pytest.param("POST", "/api/box/declaration", "declaration - - -", id="report"),
        pytest.param("GET", "/api/box/declaration", POST_ONLY, id="report, wrong method"),
        pytest.param("POST", "/api/box/declaration/", NotFound(), id="report, slash"),
        pytest.param("HEAD", "/llm/anthropic/api/hello", "hello inference - -", id="hello"),
        pytest.param("GET", "/llm/anthropic/api/hello", "hello inference - -", id="hello, GET"),
        pytest.param("POST", "/llm/anthropic/api/hello", NotFound(), id="hello, POST"),
        pytest.param("POST", "/llm/anthropic/v1/messages", "inference inference agent /v1/messages", id="messages"),
        pytest.param(
            "POST",
            "/llm/anthropic/v1/messages/count_tokens",
            "inference inference agent /v1/messages/count_tokens",
            id="count",
        ),
        pytest.param("GET", "/llm/anthropic/v1/messages", NotFound(), id="messages, GET"),
        pytest.param("GET", "/llm/anthropic/v1/models", "inference inference agent /v1/models", id="models"),
        pytest.param(
            "GET", "/llm/anthropic/v1/models/a-1.b_c", "inference inference agent /v1/models/a-1.b_c", id="one model"
        ),
        pytest.param("GET", "/llm/anthropic/v1/models/..", NotFound(), id="model, dots"),
        pytest.param("GET", "/llm/anthropic/v1/models/a/b", NotFound(), id="model, deeper"),
        pytest.param("GET", "/llm/anthropic/v1/models/", NotFound(), id="models, slash"),
        pytest.param("GET", "/llm/anthropic/v1/models/a%2fb", NotFound(), id="model, encoded slash"),
        pytest.param("POST", "/llm/anthropic/v1/models", NotFound(), id="models, POST"),
        pytest.param("POST", "/llm/anthropic/v1/complete", NotFound(), id="not forwarded"),
        pytest.param("POST", "/llm/anthropic/v1/Messages", NotFound(), id="another case"),
        pytest.param("POST", "/llm/anthropic//v1/messages", NotFound(), id="two slashes"),
        pytest.param("POST", "/llm/anthropic/v1/%6dessages", NotFound(), id="encoded"),
        pytest.param("GET", "/llm/anthropic", NotFound(), id="prefix alone"),
        pytest.param("POST", "/decide/v1/systemone", "decide inference decide -", id="decide"),
        pytest.param("GET", "/decide/v1/systemone", POST_ONLY, id="decide, wrong method"),
        pytest.param("POST", "/decide/v1/other", NotFound(), id="decide, another path"),
        pytest.param("PUT", "/egress/STRIPE/v1/x%20y", "egress egress STRIPE /v1/x%20y", id="egress"),
        pytest.param("GET", "/egress/STRIPE", "egress egress STRIPE /", id="egress, name alone"),
        pytest.param("GET", "/egress/STRIPE//a;b", "egress egress STRIPE //a;b", id="egress, any path"),
        pytest.param("GET", "/egress/STRIPE/../OTHER", NotFound(), id="egress, dots"),
        pytest.param("GET", "/egress/STRIPE/a/%2e%2E/b", NotFound(), id="egress, encoded dots"),
        pytest.param("GET", "/egress/STRIPE/..%5Cb", NotFound(), id="egress, backslash"),
        pytest.param("GET", "/egress/stripe/v1", NotFound(), id="egress, lower case"),
        pytest.param("GET", "/egress/" + "A" * 40, "egress egress " + "A" * 40 + " /", id="egress, longest name"),
        pytest.param("GET", "/egress/" + "A" * 41, NotFound(), id="egress, name too long"),
        pytest.param("GET", "/egress/9A", NotFound(), id="egress, digit first"),
        pytest.param("GET", "/egress", NotFound(), id="egress, no name"),
        pytest.param("GET", "/egressX/A", NotFound(), id="egress, longer prefix"),
        pytest.param("POST", "/api/feedback", "feedback feedback ? -", id="feedback"),
        pytest.param("GET", "/api/feedback", POST_ONLY, id="feedback, wrong method"),
        pytest.param("GET", "/api/feedback/x", NotFound(), id="feedback, deeper"),
        pytest.param(
            "POST",
            "/fountain/api/conversations",
            "fountain fountain agent /api/conversations",
            id="conversation starts",
        ),
        pytest.param(
            "POST", "/fountain/api/conversations/", "fountain fountain agent /api/conversations/", id="starts, slash"
        ),
        pytest.param(
            "GET", "/fountain/api/conversations", "fountain fountain conversations /api/conversations", id="listed"
        ),
        pytest.param(
            "POST",
            "/fountain/api/conversations/c-1/messages",
            "fountain fountain conversations /api/conversations/c-1/messages",
            id="continued",
        ),
        pytest.param(
            "DELETE", "/fountain/api/sandboxes/s", "fountain fountain sandboxes /api/sandboxes/s", id="sandboxes"
        ),
        pytest.param("GET", "/fountain/api/vaults", "fountain fountain vault /api/vaults", id="vaults"),
        pytest.param(
            "POST",
            "/fountain/api/sandboxes/s-1/conversations",
            "fountain fountain sandboxes,agent /api/sandboxes/s-1/conversations",
            id="two families",
        ),
        pytest.param("SEARCH", "/fountain/api/vaults/v", NotFound(), id="fountain, another method"),
        pytest.param("PUT", "/fountain/api/vaults", NotFound(), id="fountain, method of a collection"),
        pytest.param("GET", "/fountain/api/vaults/a%62", NotFound(), id="fountain, encoded"),
        pytest.param("GET", "/fountain/api/vaultsx", NotFound(), id="longer family"),
        pytest.param("GET", "/fountain/api/agents", NotFound(), id="another family"),
        pytest.param("GET", "/fountain/api", NotFound(), id="no family"),
        pytest.param("GET", "/fountain/other/vaults", NotFound(), id="not its API"),
        pytest.param("GET", "/fountain", NotFound(), id="fountain alone"),
        pytest.param("GET", "/fountain/api/conversations/../sandboxes", NotFound(), id="fountain, dots"),
        pytest.param("GET", "/fountain/api/conversations/%2e%2e/sandboxes", NotFound(), id="fountain, encoded dots"),
        pytest.param("GET", "/fountain/api//sandboxes", NotFound(), id="fountain, empty segment"),
        pytest.param("GET", "/fountain/api/sandboxes/a%2Fb", NotFound(), id="fountain, encoded slash"),
        pytest.param("GET", "/fountain/api/sandboxes/a%5cb", NotFound(), id="fountain, backslash"),
        pytest.param("GET", "/fountain/api/sandboxes/a;b", NotFound(), id="fountain, path parameter"),
        pytest.param("GET", "/search/v1/query", "extra search read /v1/query", id="extra"),
        pytest.param("GET", "/search/v1/x/list", "extra search read,list /v1/x/list", id="extra, one segment"),
        pytest.param("GET", "/search/health", "extra search - /health", id="extra, no words"),
        pytest.param("DELETE", "/lookup/a/b", "extra search write /a/b", id="extra, rest"),
        pytest.param("DELETE", "/lookup", "extra search write /", id="extra, no rest"),
        pytest.param("POST", "/search/v1/query", NotFound(), id="extra, wrong method"),
        pytest.param("GET", "/search/v1/query/", NotFound(), id="extra, slash"),
        pytest.param("GET", "/search/v1//list", NotFound(), id="extra, empty segment"),
        pytest.param("DELETE", "/lookup/../search", NotFound(), id="extra, dots"),
        pytest.param("GET", "/searchx", NotFound(), id="extra, longer prefix"),
        pytest.param("GET", "/", NotFound(), id="root"),
        pytest.param("GET", "", NotFound(), id="empty"),
    ],
)
def test_table(method: str, path: str, expected: Any) -> None:
    """Each route has one spelling and needs its words; everything else is a 404, and a 405 on three paths."""
    assert summary(find(method.encode(), path.encode(), SERVED)) == expected


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/llm/anthropic/v1/messages"),
        ("POST", "/decide/v1/systemone"),
        ("GET", "/egress/STRIPE"),
        ("POST", "/api/feedback"),
        ("GET", "/api/feedback"),
        ("GET", "/fountain/api/vaults"),
        ("GET", "/search/health"),
    ],
)
def test_left_out_is_not_served(method: str, path: str) -> None:
    """The routes of a part that is not served are a 404; the report always is."""
    nothing = Served(standard=frozenset())
    assert find(method.encode(), path.encode(), nothing) == NotFound()
    assert find(b"POST", b"/api/box/declaration", nothing) == Needs(route=Route.DECLARATION, capability=None)


def test_only_hello_asks_for_no_token() -> None:
    """Every request shows the box's token, but the probe."""
    hello = find(b"HEAD", b"/llm/anthropic/api/hello", SERVED)
    egress = find(b"GET", b"/egress/STRIPE/x", SERVED)
    assert isinstance(hello, Needs)
    assert isinstance(egress, Needs)
    assert (hello.token, egress.token, egress.name) == (False, True, "STRIPE")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param({"entries": [1]}, ("agent",), id="entries"),
        pytest.param({"counts": {"a": 1}}, ("passive",), id="counts"),
        pytest.param({"entries": [1], "counts": {"a": 1}}, ("agent", "passive"), id="both"),
        pytest.param({"entries": [], "counts": {}}, (), id="empty"),
        pytest.param({"entries": {"a": 1}, "counts": [1]}, (), id="the other way round"),
        pytest.param({}, (), id="neither"),
        pytest.param([], (), id="array"),
        pytest.param(None, (), id="null"),
    ],
)
def test_feedback(body: Any, words: tuple[str, ...]) -> None:
    """Entries need `agent`, counts need `passive`."""
    assert feedback_words(body) == words


@pytest.mark.parametrize("text", ["", "a", "/a//b", "/../x", "/**/a", "/{}", "/{a", "/a b", "/a/", "/é"])
def test_no_pattern(text: str) -> None:
    """A pattern is literal segments, `{name}`, and `**` at the end."""
    with pytest.raises(PatternInvalid):
        parse_path_pattern(text)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=8), st.lists(st.sampled_from([b"/", b"..", b"fountain", b"api", b"egress", b"A", b"%"])))
def test_total(method: bytes, parts: list[bytes]) -> None:
    """No bytes raise."""
    assert isinstance(find(method, b"".join(parts), SERVED), Needs | NotFound | MethodNotAllowed)
