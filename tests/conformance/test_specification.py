"""The specification, sentence by sentence: each test's docstring is the sentence that it holds.

The grant is the specification's own example, unchanged. What can be seen without a wire is tested on the core, the rest
over sockets.
"""

from pathlib import Path
from typing import Any

import pytest
from support.cases import FOLDER
from support.client import NoAnswer
from support.conformance_field import Field
from support.upstream import answer

from grants.authorize import Allow, Granted, authorize_body, authorize_head
from grants.decision import Deny, Reason, Rule
from grants.endpoint import Endpoint
from grants.load import load_grant
from grants.message import Authority, Origin, Outgoing, Relay, RequestHead, Response
from grants.model import Effect, Grant
from grants.problems import GrantInvalid, Invalid
from grants.redirect import Hop, next_hop, start
from grants.references import Sealed, seal
from grants.response import check_response
from grants.secret import Secret
from proxy.settings import load_settings

EXAMPLE = (FOLDER / "specification.grant.yaml").read_text()
UPSTREAM = Origin(scheme="https", host="api.example.com", port=443)
HERE = Authority(host="api.example.com", port=443)
TOKEN = Secret(b"tok-0123456789abcdef")
BEARER = (b"Authorization", b"Bearer @secret:api")
JSON = (b"Content-Type", b"application/json")
ISSUES = "/repos/acme/widgets/issues"
GOOD = b'{"total_count":1,"items":[{"id":1}]}'

REDIRECTS = "redirects:\n  allow: true\n  maxHops: 1\n  allowedOrigins: [https://mirror.example.com]\n"


def endpoint(text: str = EXAMPLE) -> Endpoint:
    grant = load_grant(text, file="api-grant.yaml")
    return Endpoint.of(name="api", upstream=UPSTREAM, grant=grant, secrets=frozenset({"api"}))


def changed(old: str, new: str, *, count: int = 1) -> str:
    """The example with one thing changed."""
    assert old in EXAMPLE
    return EXAMPLE.replace(old, new, count)


def decide(
    method: str, target: str, *fields: tuple[bytes, bytes], body: bytes = b"", text: str = EXAMPLE
) -> Allow | Deny:
    announced = ((b"Content-Length", str(len(body)).encode()),) if body else ()
    head = RequestHead(
        method=method.encode(), target=target.encode(), fields=((b"Host", b"api.example.com"), *fields, *announced)
    )
    granted = authorize_head(endpoint(text), head, authority=HERE)
    return granted if isinstance(granted, Deny) else authorize_body(granted, body)


def reason(decision: Allow | Deny | Relay) -> Reason:
    assert isinstance(decision, Deny), decision
    return decision.reason


def allowed(decision: Allow | Deny) -> Allow:
    assert isinstance(decision, Allow), decision
    return decision


def listing(**query: str) -> str:
    return f"{ISSUES}?" + "&".join(f"{name}={value}" for name, value in query.items())


def hold(
    status: int = 200,
    body: bytes = GOOD,
    fields: tuple[tuple[bytes, bytes], ...] = (JSON,),
    operation: int = 0,
    method: bytes = b"GET",
    **more: Any,
) -> Relay | Deny:
    response = Response(status=status, reason=more.pop("reason", b"OK"), fields=fields, body=body, **more)
    grant = endpoint().grant
    return check_response(grant.operations[operation], method=method, response=response, needles=(TOKEN,))


def problems(text: str) -> str:
    with pytest.raises(GrantInvalid) as invalid:
        load_grant(text, file="api-grant.yaml")
    return "\n".join(str(problem) for problem in invalid.value.problems)


# Endpoints

SETTINGS = """\
proxy: 127.0.0.1:8080
endpoints:
  - name: api
    upstream: https://api.example.com
    assurance: semantic
    grant: grants/api-grant.yaml
    secrets: {api: env:API_TOKEN}
"""


def settings_problems(text: str, folder: Path) -> str:
    """What is wrong with the settings, in a folder with the example grant; empty when nothing is."""
    (folder / "grants").mkdir(exist_ok=True)
    (folder / "grants" / "api-grant.yaml").write_text(EXAMPLE)
    file = folder / "grantproxy.yaml"
    file.write_text(text)
    try:
        load_settings(file)
    except Invalid as invalid:
        return "\n".join(str(problem) for problem in invalid.problems)
    return ""


@pytest.mark.parametrize(
    ("upstream", "good"),
    [
        ("https://api.example.com", True),
        ("https://api.example.com:8443/v1", True),
        ("http://api.example.com", False),
        ("https://user:hunter22@api.example.com", False),
        ("https://token@api.example.com", False),
    ],
)
def test_https_upstreams(upstream: str, good: bool, tmp_path: Path) -> None:
    """Semantic mode requires an HTTPS upstream URL without embedded credentials."""
    found = settings_problems(SETTINGS.replace("https://api.example.com", upstream), tmp_path)
    assert (not found) is good, found
    assert "hunter22" not in found


def test_a_grant_is_required(tmp_path: Path) -> None:
    """Use semantic for a high-assurance endpoint: it requires HTTPS and requires a grant file."""
    assert "grant" in settings_problems(SETTINGS.replace("    grant: grants/api-grant.yaml\n", ""), tmp_path)


def test_assurance_is_said(tmp_path: Path) -> None:
    """trusted-upstream is an explicit lower-assurance choice: no endpoint is without its assurance."""
    assert "assurance" in settings_problems(SETTINGS.replace("    assurance: semantic\n", ""), tmp_path)


def test_grants_are_beside_the_settings(tmp_path: Path) -> None:
    """A relative grant path is resolved beside the file that names it."""
    assert settings_problems(SETTINGS, tmp_path) == ""


@pytest.mark.parametrize("front", ["base", "proxy"])
def test_the_credential_is_put_in_on_the_host(running: Field, front: str) -> None:
    """A broker endpoint always resolves and injects its credential on the host."""
    upstream = running.lit["main"]
    upstream.clear()
    upstream.handler = lambda request: answer(200, b'{"id":1}')
    host = f"localhost:{running.proxy.endpoint('main')[1] if front == 'base' else upstream.port}"
    with running.proxy.base("main") if front == "base" else running.proxy.tunnel(host) as client:
        wire = f"GET /info HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer @secret:api\r\n\r\n"
        assert client.exchange(wire.encode()).status == 200
    (request,) = upstream.requests
    assert request.get("authorization") == b"Bearer sk-api/0123456789"


# Grant file


def test_the_example() -> None:
    """This grant allows one read operation and one write operation in a single repository namespace."""
    grant: Grant = endpoint().grant
    assert [operation.effect for operation in grant.operations] == [Effect.READ, Effect.WRITE]
    read = allowed(decide("GET", listing(state="open"), BEARER))
    write = allowed(decide("POST", ISSUES, BEARER, JSON, body=b'{"title":"x"}'))
    assert read.granted.operation.name == "list-open-issues"
    assert write.granted.operation.name == "create-issue"
    assert reason(decide("GET", "/repos/acme/other/issues?state=open", BEARER)) is Reason.PATH_PARAMETER


def test_segments_are_whole() -> None:
    """The route matcher compares complete path segments."""
    for target in ("/repos/acme/widgets2/issues", "/repos/acme/widget/issues", "/repos/acmewidgets/issues"):
        assert isinstance(decide("GET", f"{target}?state=open", BEARER), Deny)
    assert reason(decide("GET", f"{ISSUES}/1?state=open", BEARER)) is Reason.ROUTE


def test_every_parameter_has_a_list() -> None:
    """Every {parameter} needs an exact value allowlist: the remote account, repository, bucket, or object namespace."""
    assert "repo" in problems(changed("      repo: [widgets]\n", ""))
    for owner in ("acm", "acmee", "ACME", "evil"):
        assert reason(decide("GET", f"/repos/{owner}/widgets/issues?state=open", BEARER)) is Reason.PATH_PARAMETER


def test_undeclared_is_denied() -> None:
    """Undeclared query keys and request headers are denied."""
    assert reason(decide("GET", listing(state="open", page="2"), BEARER)) is Reason.QUERY_UNDECLARED
    extra = (b"X-Extra", b"1")
    assert reason(decide("GET", listing(state="open"), BEARER, extra)) is Reason.HEADER_UNDECLARED


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        pytest.param("values: [open]", "open", "closed", id="exact"),
        pytest.param("{pattern}", "open", "OPEN", id="pattern"),
        pytest.param("values: [open, CLOSED]\n        {pattern}", "open", "CLOSED", id="both"),
    ],
)
def test_query_rules(rule: str, good: str, bad: str) -> None:
    """A query rule can use exact values, an RE2 pattern, or both."""
    text = changed("values: [open]", rule.replace("{pattern}", "pattern: '[a-z]+'\n        maxBytes: 8"))
    assert isinstance(decide("GET", listing(state=good), BEARER, text=text), Allow)
    assert reason(decide("GET", listing(state=bad), BEARER, text=text)) is Reason.QUERY_VALUE


def test_patterns_need_a_limit() -> None:
    """A pattern also requires a positive maxBytes."""
    assert "maxBytes" in problems(changed("values: [open]", "pattern: '[a-z]+'"))
    assert "maxBytes" in problems(changed("values: [open]", "pattern: '[a-z]+'\n        maxBytes: 0"))


def test_url_shaped_values() -> None:
    """URL-shaped values are denied unless that rule sets allowURL: true."""
    closed = changed("values: [open]", "pattern: '.*'\n        maxBytes: 64")
    opened = changed("values: [open]", "pattern: '.*'\n        maxBytes: 64\n        allowURL: true")
    target = listing(state="https://x.example/a")
    assert reason(decide("GET", target, BEARER, text=closed)) is Reason.QUERY_URL
    sent = allowed(decide("GET", target, BEARER, text=opened)).request
    assert sent.target.endswith(b"?state=https%3A%2F%2Fx.example%2Fa")


def test_required() -> None:
    """Set required: true when omitting a query parameter or header would widen the operation."""
    assert reason(decide("GET", ISSUES, BEARER)) is Reason.QUERY_MISSING
    assert reason(decide("GET", listing(state="open"))) is Reason.HEADER_MISSING
    optional = changed("        required: true\n        values: [open]", "        values: [open]")
    assert isinstance(decide("GET", ISSUES, BEARER, text=optional), Allow)


def test_unknown_fields_and_second_documents() -> None:
    """Unknown grant fields and multiple YAML documents are rejected rather than ignored."""
    assert "bodyy" in problems(changed("    body:\n", "    bodyy:\n"))
    assert problems(EXAMPLE + "\n---\noperations: []\n")


def test_at_most_once() -> None:
    """A declared query parameter or header may appear at most once per request."""
    assert reason(decide("GET", f"{ISSUES}?state=open&state=open", BEARER)) is Reason.QUERY_REPEATED
    assert reason(decide("GET", listing(state="open"), BEARER, BEARER)) is Reason.HEADER_REPEATED


def test_no_body_rule_no_body() -> None:
    """Omitting body means the operation accepts no request body."""
    assert reason(decide("GET", listing(state="open"), BEARER, body=b"x")) is Reason.BODY_NOT_ALLOWED


TYPES = "contentTypes: [application/json]"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(f"maxBytes: 8192\n      {TYPES}", "maxBytes: 8192", id="body-type"),
        pytest.param(f"8192\n      {TYPES}", "8192\n      contentTypes: [text/plain]", id="body-other-type"),
        pytest.param("maxBytes: 8192", "maxBytes: 0", id="body-limit"),
        pytest.param("      maxBytes: 8192\n", "", id="body-no-limit"),
        pytest.param("maxBytes: 65536", "maxBytes: -1", id="response-limit"),
        pytest.param(f"{TYPES}\n      maxBytes: 65536", "maxBytes: 65536", id="response-type"),
    ],
)
def test_bodies_are_bounded_json(old: str, new: str) -> None:
    """A declared body and every response use application/json and require a positive byte limit plus a JSON schema."""
    assert problems(changed(old, new))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'{"title":"x"}', None, id="required"),
        pytest.param(b'{"title":"x","body":"y"}', None, id="optional"),
        pytest.param(b"{}", Reason.BODY_SCHEMA, id="missing"),
        pytest.param(b'{"title":1}', Reason.BODY_SCHEMA, id="type"),
        pytest.param(b'{"title":"x","more":1}', Reason.BODY_SCHEMA, id="additional"),
        pytest.param(b'["title"]', Reason.BODY_SCHEMA, id="not-an-object"),
        pytest.param(b"title", Reason.BODY_JSON, id="not-json"),
    ],
)
def test_the_small_schema(body: bytes, expected: Reason | None) -> None:
    """The deliberately small schema validates a top-level object, required and additional properties, and types."""
    decision = decide("POST", ISSUES, BEARER, JSON, body=body)
    assert (decision.reason if isinstance(decision, Deny) else None) is expected


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("string", b'"x"', b"1"),
        ("number", b"1.5", b'"1"'),
        ("integer", b"1", b"1.5"),
        ("boolean", b"true", b"1"),
        ("object", b"{}", b"[]"),
        ("array", b"[]", b"{}"),
        ("null", b"null", b"0"),
    ],
)
def test_the_seven_types(name: str, good: bytes, bad: bytes) -> None:
    """The property types string, number, integer, boolean, object, array, and null."""
    text = changed("body: string", f"body: '{name}'")
    assert isinstance(decide("POST", ISSUES, BEARER, JSON, body=b'{"title":"x","body":%s}' % good, text=text), Allow)
    assert isinstance(decide("POST", ISSUES, BEARER, JSON, body=b'{"title":"x","body":%s}' % bad, text=text), Deny)


@pytest.mark.parametrize("key", ["statuses", "contentTypes", "maxBytes", "credentialDisclosure"])
def test_responses_declare(key: str) -> None:
    """Every response declares allowed status codes, content types, a positive byte limit, and credentialDisclosure."""
    head, _, response = EXAMPLE.partition("    response:\n")
    lines = response.splitlines(keepends=True)
    without = "".join(line for number, line in enumerate(lines) if number > 5 or not line.strip().startswith(key))
    assert problems(f"{head}    response:\n{without}")


@pytest.mark.parametrize(
    ("outcome", "rule"),
    [
        pytest.param(hold(body=b'{"items":[],"x":"%s"}' % (b"y" * 65536)), Rule.RESPONSE_SIZE, id="size"),
        pytest.param(hold(status=201), Rule.RESPONSE_STATUS, id="status"),
        pytest.param(hold(fields=((b"Content-Type", b"text/html"),)), Rule.RESPONSE_SCHEMA, id="content-type"),
        pytest.param(hold(body=b'{"total_count":1}'), Rule.RESPONSE_SCHEMA, id="schema"),
        pytest.param(hold(body=b'{"items":["%s"]}' % TOKEN.reveal()), Rule.RESPONSE_CREDENTIAL, id="credential"),
    ],
)
def test_mismatches(outcome: Relay | Deny, rule: Rule) -> None:
    """A size, status, content-type, schema, or exact-credential mismatch returns a broker error."""
    assert isinstance(outcome, Deny)
    assert (outcome.rule, outcome.status) == (rule, 502)


# Redirects


def hop(location: bytes, text: str, *, status: int = 302) -> object:
    allow = allowed(decide("GET", listing(state="open"), BEARER, text=text))
    chain = start(endpoint(text), allow.granted)
    return next_hop(chain, Response(status=status, reason=b"", fields=((b"Location", location),), body=b""))


WITH_REDIRECTS = changed("redirects:\n  allow: false", REDIRECTS.rstrip())


def test_redirects_are_denied() -> None:
    """Redirects are denied unless the grant opts in with a positive maxHops."""
    denial = hop(b"/repos/acme/widgets/issues?state=open", EXAMPLE)
    assert isinstance(denial, Deny)
    assert denial.rule is Rule.REDIRECT
    assert "maxHops" in problems(changed("  allow: false", "  allow: true"))
    assert problems(changed("  allow: false", "  allow: true\n  maxHops: 0"))
    assert isinstance(hop(b"/repos/acme/widgets/issues?state=open", WITH_REDIRECTS), Hop)


def test_redirects_stay() -> None:
    """Allowed redirects must remain on the HTTPS upstream origin or an exact HTTPS origin in allowedOrigins."""
    path = b"/repos/acme/widgets/issues?state=open"
    for origin in (b"https://api.example.com", b"https://mirror.example.com"):
        assert isinstance(hop(origin + path, WITH_REDIRECTS), Hop)
    for origin in (b"http://api.example.com", b"https://mirror.example.com:8443", b"https://a.mirror.example.com"):
        assert isinstance(hop(origin + path, WITH_REDIRECTS), Deny)


@pytest.mark.parametrize(
    "location",
    [
        pytest.param(b"/repos/acme/widgets/pulls?state=open", id="route"),
        pytest.param(b"/repos/acme/secrets/issues?state=open", id="namespace"),
        pytest.param(b"/repos/acme/widgets/issues?state=closed", id="query"),
        pytest.param(b"/repos/acme/widgets/issues", id="query-missing"),
    ],
)
def test_each_hop_is_reauthorized(location: bytes) -> None:
    """Every hop is reauthorized against a declared method, route, namespace, query, and header contract."""
    denial = hop(location, WITH_REDIRECTS)
    assert isinstance(denial, Deny)
    assert denial.reason is Reason.REDIRECT_REQUEST


def test_only_bodyless_reads_redirect() -> None:
    """Semantic redirects are limited to bodyless GET and HEAD operations."""
    allow = allowed(decide("POST", ISSUES, BEARER, JSON, body=b'{"title":"x"}', text=WITH_REDIRECTS))
    chain = start(endpoint(WITH_REDIRECTS), allow.granted)
    fields = ((b"Location", b"/repos/acme/widgets/issues?state=open"),)
    for status in (301, 302, 303, 307, 308):
        denial = next_hop(chain, Response(status=status, reason=b"", fields=fields, body=b""))
        assert isinstance(denial, Deny)
        assert denial.reason is Reason.REDIRECT_METHOD


def test_final_hosts_are_reported(running: Field) -> None:
    """Allowed decisions report the final host and operation when a redirect occurs."""
    upstream = running.lit["redirects"]
    upstream.clear()
    upstream.answers.append(b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n")
    upstream.handler = lambda request: answer(200, b'{"id":1}')
    running.proxy.new_records()
    with running.proxy.tunnel(f"localhost:{upstream.port}") as client:
        assert client.exchange(f"GET /start HTTP/1.1\r\nHost: localhost:{upstream.port}\r\n\r\n".encode()).status == 200
    (record,) = running.proxy.decisions()
    assert (record["operation"], record["final_operation"]) == ("start", "next")
    assert record["final_host"] == "localhost"
    assert record["redirect_hops"] == 1


# The semantic transport


def sealed(allow: Allow) -> Outgoing:
    found = seal(allow.request, {"api": TOKEN}, frozenset({"api"}))
    assert isinstance(found, Sealed)
    return found.request


def test_framing_is_ours() -> None:
    """The host, content length, and other HTTP framing fields come from the approved upstream URL and bounded body."""
    allow = allowed(decide("POST", ISSUES, BEARER, JSON, (b"Connection", b"close"), body=b'{"title":"x"}'))
    request = sealed(allow)
    names = [name.lower() for name, _ in request.fields]
    assert names == [b"authorization", b"content-type"]
    assert request.origin == UPSTREAM
    assert isinstance(allow.granted, Granted)


def test_nothing_is_added(running: Field) -> None:
    """The transport disables environment proxies, cookie jars, implicit compression, and a default user agent."""
    upstream = running.lit["main"]
    upstream.clear()
    upstream.handler = lambda request: answer(200, b'{"id":1}', ("Set-Cookie", "session=1"))
    host, port = running.proxy.endpoint("main")
    for _ in range(2):
        with running.proxy.base("main") as client:
            shown = client.exchange(f"GET /info HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            assert shown.status == 200
            assert shown.get("set-cookie") is None
    for request in upstream.requests:
        assert {name.lower() for name, _ in request.fields} <= {b"host", b"connection"}


def test_answers_are_complete_first(running: Field) -> None:
    """The broker buffers the complete bounded response before writing status, headers, or body to the guest."""
    upstream = running.lit["main"]
    upstream.clear()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n"
    upstream.answers.append([head + b'{"id"', 0.4, b":1}"])
    host, port = running.proxy.endpoint("main")
    with running.proxy.base("main", timeout=0.2) as client:
        client.send(f"GET /info HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        with pytest.raises(NoAnswer, match="after b''"):
            client.read()
        client.socket.settimeout(5)
        assert client.read().body == b'{"id":1}'


# Credential guarantee


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(hold(fields=(JSON, (b"X-Debug", TOKEN.reveal()))), id="header-value"),
        pytest.param(hold(fields=(JSON, (TOKEN.reveal(), b"x"))), id="header-name"),
        pytest.param(hold(fields=(JSON, (b"Set-Cookie", b"t=" + TOKEN.reveal()))), id="header-not-relayed"),
        pytest.param(hold(body=b'{"items":[]} ' + TOKEN.reveal()), id="body"),
        pytest.param(hold(body=b'{"items":["\\u0074ok-0123456789abcdef"]}'), id="body-escaped"),
        pytest.param(hold(reason=TOKEN.reveal()), id="reason"),
    ],
)
def test_exact_scan(outcome: Relay | Deny) -> None:
    """deny-exact scans all response headers and the complete bounded response body for each exact credential value."""
    assert isinstance(outcome, Deny)
    assert outcome.rule is Rule.RESPONSE_CREDENTIAL
    assert TOKEN.reveal().decode() not in repr(outcome)


def test_chunks_do_not_matter(running: Field) -> None:
    """Buffering makes the check independent of network chunk boundaries."""
    upstream = running.lit["main"]
    upstream.clear()
    body = b'{"id":1,"note":"sk-api/0123456789"}'
    host, port = running.proxy.endpoint("main")
    for cut in range(16, 33):
        pieces = [body[:cut], body[cut:]]
        chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        upstream.answers.append([head + chunks[0], 0.001, chunks[1] + b"0\r\n\r\n"])
        with running.proxy.base("main") as client:
            shown = client.exchange(f"GET /info HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert shown.status == 502
        assert b"semantic-response-credential" in shown.body


def test_transformed_credentials_are_not_claimed() -> None:
    """This is not a claim that a malicious upstream cannot transform a static credential."""
    assert isinstance(hold(body=b'{"items":["%s"]}' % TOKEN.reveal()[::-1]), Relay)


def test_the_readme_shows_this_grant() -> None:
    """The pages' examples are the specification's own operations."""
    readme = Path(FOLDER.parents[1] / "docs" / "guides" / "first-grant.md").read_text()
    assert EXAMPLE.rstrip() in readme
