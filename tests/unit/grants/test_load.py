"""Loading a grant: every rule of the file, with the place and the words of its refusal."""

# ruff: noqa: E501 - one case is one row

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.load import grant_structure, load_grant, notices
from grants.message import Origin
from grants.model import Effect, Grant, PathParameter, UndeclaredHeaders
from grants.problems import GrantInvalid
from grants.schema import Schema

EXAMPLES = Path(__file__).parents[3] / "examples"
SEED = (EXAMPLES / "github-issues.grant.yaml").read_text()

GRANT: dict[str, Any] = {
    "operations": [
        {
            "name": "read",
            "effect": "read",
            "method": "GET",
            "route": "/repos/{owner}/issues",
            "pathParameters": {"owner": ["acme"]},
            "query": [{"name": "state", "values": ["open"]}],
            "headers": [{"name": "Authorization", "pattern": "Bearer .*", "maxBytes": 64}],
            "body": {
                "maxBytes": 10,
                "contentTypes": ["application/json"],
                "json": {"type": "object", "properties": {"a": "string"}, "required": ["a"]},
            },
            "response": {
                "statuses": [200],
                "contentTypes": ["application/json"],
                "maxBytes": 100,
                "credentialDisclosure": "deny-exact",
                "json": {"type": "object"},
            },
        }
    ]
}
GONE = object()


class Plain(str):
    """A scalar without quotes."""

    __slots__ = ()


def dump(value: Any) -> str:
    """Flow YAML, so that a `Plain` text stays plain."""
    match value:
        case Plain():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)}: {dump(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(dump(item) for item in value) + "]"
        case _:
            return json.dumps(value)


def changed(*changes: tuple[str, Any]) -> str:
    """The grant above with values put in (or, with GONE, taken out) by path."""
    grant = copy.deepcopy(GRANT)
    for path, value in changes:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split("/")]
        at: Any = grant
        for step in steps:
            at = at[step]
        if value is GONE:
            del at[last]
        else:
            at[last] = value
    return dump(grant)


def load(*changes: tuple[str, Any]) -> Grant:
    return load_grant(changed(*changes), file="g.yaml")


def told(text: str | bytes) -> list[str]:
    """`path: message` of each problem."""
    with pytest.raises(GrantInvalid) as caught:
        load_grant(text, file="g.yaml")
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def test_the_grant_of_the_specification_loads() -> None:
    """The specification's own example means what it says."""
    grant = load_grant(SEED, file="g.yaml")
    first, second = grant.operations
    assert (first.name, first.effect, first.method, first.body) == ("list-open-issues", Effect.READ, "GET", None)
    owner = PathParameter(name="owner", values=frozenset({"acme"}))
    repo = PathParameter(name="repo", values=frozenset({"widgets"}))
    assert first.route.segments == ("repos", owner, repo, "issues")
    assert first.query["state"].values == {"open"}
    assert first.query["state"].required
    authorization = first.headers["authorization"]
    assert authorization.max_bytes == 128
    assert authorization.pattern is not None
    assert authorization.pattern.matches(b"Bearer @secret:api")
    assert second.effect is Effect.WRITE
    assert second.body is not None
    assert second.body.max_bytes == 8192
    assert second.body.json.object is not None
    assert second.body.json.object.properties == {"title": "string", "body": "string"}
    assert second.body.json.object.required == {"title"}
    assert not second.body.json.object.additional
    assert second.response.statuses == {201}
    assert grant.redirects is None
    assert grant.undeclared_headers is UndeclaredHeaders.DENY


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.grant.yaml")), ids=lambda path: path.name)
def test_every_sample_grant_loads_and_names_the_schema(path: Path) -> None:
    """A sample that does not load is no help; editors find the schema by the first line."""
    text = path.read_text()
    assert load_grant(text, file=path.name).operations
    reference = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / reference).is_file()


def test_the_digest_is_of_the_meaning_not_of_the_bytes() -> None:
    """`sha256:` over the canonical JSON form: order of keys, comments and quotes do not matter, values do."""
    grant = load()
    assert grant.digest.startswith("sha256:")
    assert len(grant.digest) == 71
    reordered = dump({"operations": [dict(reversed(GRANT["operations"][0].items()))]})
    assert load_grant(f"# a comment\n{reordered}", file="g").digest == grant.digest
    assert load(("operations/0/name", "other")).digest != grant.digest


def test_two_loads_are_equal() -> None:
    """A grant is a value."""
    assert load() == load()


@pytest.mark.parametrize("text", ["no", "on", "1.0", "2024-01-01", "0123", "true", "~", "1e3"])
def test_a_text_is_taken_as_written(text: str) -> None:
    """`values: [no, on, 1.0, 2024-01-01, 0123]` are five strings."""
    grant = load(("operations/0/query/0/values", [Plain(text)]), ("operations/0/name", Plain(text)))
    assert grant.operations[0].query["state"].values == {text}
    assert grant.operations[0].name == text


NUMBERS = ["0x10", "0o7", "010", "1_0", "1.0", "1e1", "+1", ".inf", "ten", "-1", "0", "99999999999999999999"]


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_is_a_plain_decimal_one(text: str) -> None:
    """Where a number is meant, only a plain YAML number will do; a size is at least 1."""
    (problem,) = told(changed(("operations/0/response/maxBytes", Plain(text))))
    assert problem.startswith(f"operations[0].response.maxBytes: is `{text}`; write a ")


@pytest.mark.parametrize("text", ["yes", "no", "on", "True", "TRUE", "1", "y"])
def test_a_boolean_is_plain_true_or_false(text: str) -> None:
    """Where a boolean is meant, only `true` or `false` will do."""
    (problem,) = told(changed(("operations/0/query/0/required", Plain(text))))
    assert problem.startswith(f"operations[0].query[0].required: is `{text}`; write plain `true` or `false`")


O = "operations/0/"  # noqa: E741
P = "operations[0]."
REFUSED = [
    # structure
    pytest.param([("extra", 1)], ["extra: is an unknown key; the keys here are `operations`, `redirects`, `undeclaredHeaders`"], id="unknown-key"),
    pytest.param([(O + "methd", "GET")], [P + "methd: is an unknown key; did you mean `method`?"], id="misspelt-key"),
    pytest.param([(O + "MaxBytes", 1), (O + "Query", [])], [P + "MaxBytes: is an unknown key; the keys here are `name`, `effect`, `method`, `route`, `pathParameters`, `query`, `headers`, `body`, `response`, `origins`", P + "Query: is an unknown key; did you mean `query`?"], id="key-in-another-case"),
    pytest.param([(O + "limits", {})], [P + "limits: is not in this version; leave it out"], id="extension-not-built"),
    pytest.param([(O + "method", GONE)], [P + "method: is missing; add a text: the method, compared as sent, such as `GET`"], id="missing-key"),
    pytest.param([(O + "effect", "Read")], [P + "effect: is the text `Read`; write one of `read`, `write`"], id="effect"),
    pytest.param([(O + "effect", ["read"])], [P + "effect: is a list; write one of `read`, `write`"], id="effect-as-a-list"),
    pytest.param([("operations", [])], ["operations: is empty; list at least 1"], id="no-operation"),
    pytest.param([("operations", {"a": 1})], ["operations: is a map; write a list: what may be done, such as `- name: list-open-issues`"], id="operations-as-a-map"),
    pytest.param([("operations", Plain(""))], ["operations: has no value; write a list: what may be done, such as `- name: list-open-issues`"], id="no-value"),
    pytest.param([(O + "name", Plain(""))], [P + "name: has no value; write a text: a text, as it is written"], id="no-text"),
    pytest.param([(O + "response", "hunter2")], [P + "response: is a text; write a map: what the answer must be, such as `statuses: [200]`"], id="a-text-for-a-map-is-not-repeated"),
    pytest.param([(O + "response/maxBytes", "65536")], [P + "response.maxBytes: is the text `65536`; write a plain number: a limit in bytes, such as `65536`"], id="quoted-number"),
    pytest.param([("undeclaredHeaders", "drop")], ["undeclaredHeaders: is the text `drop`; write one of `deny`, `strip`"], id="undeclared-headers"),
    # names
    pytest.param([(O + "name", " ")], [P + "name: is blank; write a name, such as `list-open-issues`"], id="blank-name"),
    pytest.param([(O + "name", "a\nb")], [P + "name: holds a control character; write a name on one line"], id="name-on-two-lines"),
    # method
    pytest.param([(O + "method", "get")], [P + "method: is the text `get`; write upper-case letters A to Z, such as `GET`"], id="lower-case-method"),
    pytest.param([(O + "method", "M-SEARCH")], [P + "method: is the text `M-SEARCH`; write upper-case letters A to Z, such as `GET`"], id="method-with-a-hyphen"),
    # route
    pytest.param([(O + "route", "repos")], [P + "route: is the text `repos`; write a path that starts with `/`, such as `/repos/{owner}/issues`"], id="relative-route"),
    *(
        pytest.param([(O + "route", route), (O + "pathParameters", {})], [P + "route: " + message], id=f"route-{name}")
        for name, route, message in [
            ("trailing-slash", "/a/", "ends in `/`; write `/a`"),
            ("only-slashes", "//", "ends in `/`; write `/`"),
            ("empty-segment", "/a//b", "has an empty segment; write one `/` between segments"),
            ("dot", "/a/./b", "has the segment `.`; write the path without it"),
            ("dot-dot", "/a/../b", "has the segment `..`; write the path without it"),
            ("percent", "/a%20b", "holds `%`; write the path decoded, without query or fragment"),
            ("backslash", "/a\\b", "holds `\\`; write the path decoded, without query or fragment"),
            ("query", "/a?b", "holds `?`; write the path decoded, without query or fragment"),
            ("fragment", "/a#b", "holds `#`; write the path decoded, without query or fragment"),
            ("semicolon", "/a;b", "holds `;`; write the path decoded, without query or fragment"),
            ("control", "/a\x01b", "holds `\\x01`; write the path decoded, without query or fragment"),
            ("part-of-a-segment", "/a/x{b}", "has the segment `x{b}`; a parameter is a whole segment, such as `{name}`"),
            ("empty-parameter", "/a/{}", "has the segment `{}`; a parameter is a whole segment, such as `{name}`"),
            ("open-brace", "/a/{b", "has the segment `{b`; a parameter is a whole segment, such as `{name}`"),
            ("parameter-twice", "/{a}/{a}", "has `{a}` twice; give each parameter its own name"),
        ]
    ),
    # path parameters
    pytest.param([(O + "pathParameters", GONE)], [P + "pathParameters: is missing for `{owner}` of the route; list its values"], id="no-path-parameters"),
    pytest.param([(O + "pathParameters", {})], [P + "pathParameters.owner: is missing for `{owner}` of the route; list its values"], id="path-parameter-missing"),
    pytest.param([(O + "pathParameters/repo", ["x"])], [P + "pathParameters.repo: is not in the route `/repos/{owner}/issues`; its parameters are `owner`"], id="path-parameter-extra"),
    pytest.param([(O + "route", "/a")], [P + "pathParameters.owner: is not in the route `/a`; it has none"], id="path-parameter-of-a-route-without"),
    pytest.param([(O + "pathParameters", ["a"])], [P + "pathParameters: is a list; write a map: for each `{name}` of the route, the values that it may have, such as `{\"repo\": [\"widgets\"]}`"], id="path-parameters-as-a-list"),
    pytest.param([(O + "pathParameters/owner", "acme")], [P + "pathParameters.owner: is a text; write a list or a map: a list of exact values, or a map with `values` or with `pattern` and `maxBytes`"], id="path-parameter-as-a-text"),
    pytest.param([(O + "pathParameters/owner", [])], [P + "pathParameters.owner: is empty; list at least 1"], id="no-path-value"),
    *(
        pytest.param([(O + "pathParameters/owner", [value])], [P + "pathParameters.owner[0]: is " + message], id=f"path-value-{name}")
        for name, value, message in [
            ("empty", "", "empty; a segment is never empty"),
            ("dot", ".", "`.`, which no segment may be; write the real value"),
            ("dot-dot", "..", "`..`, which no segment may be; write the real value"),
            ("control", "a\x7f", "`a\\x7f`; a segment holds no control character and no backslash"),
            ("c1-control", "a\x9f", "`a\\x9f`; a segment holds no control character and no backslash"),
            ("backslash", "a\\b", "`a\\b`; a segment holds no control character and no backslash"),
            ("slash", "a/b", "`a/b`, which holds `/`; write the map form `{values: [...]}` to allow that"),
            ("semicolon", "a;b", "`a;b`, which holds `;`; write the map form `{values: [...]}` to allow that"),
            ("percent", "a%b", "`a%b`, which holds `%`; write the map form `{values: [...]}` to allow that"),
        ]
    ),
    # extension P
    pytest.param([(O + "pathParameters/owner", {})], [P + "pathParameters.owner: has neither `values` and `pattern`; write one of them"], id="map-with-nothing"),
    pytest.param([(O + "pathParameters/owner", {"values": ["a"], "pattern": "a", "maxBytes": 1})], [P + "pathParameters.owner: has both `values` and `pattern`; write one of them"], id="map-with-both"),
    pytest.param([(O + "pathParameters/owner", {"pattern": "a"})], [P + "pathParameters.owner.maxBytes: is missing, which `pattern` needs; add a plain number: a limit in bytes, such as `9`"], id="map-pattern-without-a-limit"),
    pytest.param([(O + "pathParameters/owner", {"pattern": "(", "maxBytes": 1})], [P + "pathParameters.owner.pattern: is not an RE2 pattern: missing ): (; RE2 has no lookaround and no backreferences"], id="map-pattern-wrong"),
    pytest.param([(O + "pathParameters/owner", {"values": ["a/../b"]})], [P + "pathParameters.owner.values[0]: is `a/../b`, which climbs when it is decoded again; write it without dot segments"], id="map-value-that-climbs"),
    pytest.param([(O + "pathParameters/owner", {"values": "a"})], [P + "pathParameters.owner.values: is a text; write a list, such as `- widgets`"], id="map-values-as-a-text"),
    # value rules
    pytest.param([(O + "query/0/values", GONE)], [P + "query[0]: has none of `values`, `pattern`; add one of them"], id="neither-values-nor-pattern"),
    pytest.param([(O + "query/0/values", [])], [P + "query[0].values: is empty; list at least 1"], id="no-values"),
    pytest.param([(O + "query/0/pattern", "a")], [P + "query[0].maxBytes: is missing, which `pattern` needs; add a plain number: the value's limit in UTF-8 bytes, such as `128`"], id="pattern-without-a-limit"),
    pytest.param([(O + "headers/0/pattern", "(?=a)")], [P + "headers[0].pattern: is not an RE2 pattern: invalid perl operator: (?=; RE2 has no lookaround and no backreferences"], id="pattern-that-re2-refuses"),
    pytest.param([(O + "query/0/name", "")], [P + "query[0].name: is empty; write the parameter's name"], id="query-without-a-name"),
    pytest.param([(O + "query", [{"name": "a", "values": ["x"]}, {"name": "a", "values": ["y"]}])], [P + "query[1].name: `a` has a rule already; put both into one"], id="query-name-twice"),
    pytest.param([(O + "query/0/values", ["https://a", "ok"])], [P + "query[0].values[0]: `https://a` is URL-shaped; add `allowURL: true` to the rule, or leave it out"], id="url-shaped-value"),
    pytest.param([(O + "query/0/values", ["a%2f", "%2f%2fa"])], [P + "query[0].values[1]: `%2f%2fa` is URL-shaped; add `allowURL: true` to the rule, or leave it out"], id="url-shaped-when-decoded"),
    pytest.param([(O + "query/0/secret", Plain("true"))], [P + "query[0].secret: is not in this version; leave it out"], id="secret-in-a-query"),
    pytest.param([(O + "query/0/name", GONE)], [P + "query[0].name: is missing; add a text: the parameter's name, decoded, such as `state`"], id="rule-without-a-name"),
    pytest.param([(O + "headers/0/name", GONE)], [P + "headers[0].name: is missing; add a text: the field name, in any case, such as `Authorization`"], id="header-without-a-name"),
    pytest.param([(O + "headers/0/allowURL", Plain("true"))], [P + "headers[0].allowURL: is for query rules only; leave it out"], id="allow-url-on-a-header"),
    pytest.param([(O + "headers", [{"name": "A", "values": ["x"]}, {"name": "a", "values": ["x"]}])], [P + "headers[1].name: `a` has a rule already (case and `_` make no difference); keep one"], id="header-twice"),
    pytest.param([(O + "headers", [{"name": "X-A", "values": ["x"]}, {"name": "x_a", "values": ["x"]}])], [P + "headers[1].name: `x_a` has a rule already (case and `_` make no difference); keep one"], id="header-twice-folded"),
    pytest.param([(O + "headers/0", {"name": "X", "values": ["a\nb", " a", "a ", "é"]})], [f"{P}headers[0].values[{index}]: can be no field value; write visible ASCII without spaces around it" for index in range(4)], id="header-value-that-is-none"),
    *(
        pytest.param([(O + "headers/0/name", name)], [P + f"headers[0].name: `{name}` is never matched and never forwarded; leave it out"], id=f"header-{name}")
        for name in ["Connection", "Content-Length", "Expect", "HOST", "keep-alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "proxy-x"]
    ),
    *(
        pytest.param([(O + "headers/0/name", name)], [P + f"headers[0].name: `{name}` is not a field name; write letters, digits and hyphens"], id=f"header-name-{index}")
        for index, name in enumerate(["", "a b", "a:", "é", ":authority", "a\u212a"])
    ),
    # body and response
    pytest.param([(O + "body/json", GONE)], [P + "body: has none of `json`, `schema`; add one of them"], id="body-without-json"),
    pytest.param([(O + "body/maxBytes", Plain("0"))], [P + "body.maxBytes: is `0`; write a number that is at least 1"], id="body-of-nothing"),
    pytest.param([(O + "body/contentTypes", ["text/plain"])], [P + "body.contentTypes[0]: is the text `text/plain`; write `application/json`, or a type that ends in `+json`, without parameters"], id="content-type"),
    pytest.param([(O + "body/contentTypes", ["application/json; charset=utf-8"])], [P + "body.contentTypes[0]: is the text `application/json; charset=utf-8`; write `application/json`, or a type that ends in `+json`, without parameters"], id="content-type-with-a-parameter"),
    pytest.param([(O + "response", GONE)], [P + "response: is missing; add a map: what the answer must be, such as `statuses: [200]`"], id="no-response"),
    pytest.param([(O + "response/json", GONE)], [P + "response: has none of `json`, `schema`; add one of them"], id="response-without-json"),
    pytest.param([(O + "response/statuses", [199, 600, "200"])], [P + "response.statuses[0]: is `199`; write a number that is at least 200", P + "response.statuses[1]: is `600`; write a number that is at most 599", P + "response.statuses[2]: is the text `200`; write a status code from 200 to 599"], id="statuses"),
    pytest.param([(O + "response/credentialDisclosure", "allow")], [P + "response.credentialDisclosure: is the text `allow`; write `deny-exact`"], id="disclosure"),
    pytest.param([(O + "response/credentialDisclosure", "deny-encoded")], [P + "response.credentialDisclosure: the text `deny-encoded` is not in this version; write `deny-exact`"], id="disclosure-not-built"),
    pytest.param([(O + "response/opaque", Plain("true"))], [P + "response.opaque: is not in this version; leave it out"], id="opaque"),
    pytest.param([(O + "response/headers", [])], [P + "response.headers: is empty; list at least 1"], id="no-response-headers"),
    pytest.param([(O + "response/headers", ["ETag", "etag", "Connection", "a b"])], [P + "response.headers[1]: `etag` is listed already (case makes no difference); keep one", P + "response.headers[2]: `Connection` is never passed on; leave it out", P + "response.headers[3]: `a b` is not a field name; write letters, digits and hyphens"], id="response-headers"),
    # json
    pytest.param([(O + "body/json/type", "array")], [P + "body.json.type: the text `array` is only possible in a `schema`; move this there, or write `object`"], id="json-array"),
    pytest.param([(O + "body/json/type", GONE)], [P + "body.json.type: is missing; add `object`: always an object; `schema` takes other kinds"], id="json-without-a-type"),
    pytest.param([(O + "body/json/properties/a", "int")], [P + "body.json.properties.a: is the text `int`; write one of `string`, `number`, `integer`, `boolean`, `object`, `array`, `null`"], id="json-property-type"),
    pytest.param([(O + "body/json/required", ["b"])], [P + "body.json.required[0]: `b` is not declared; add it to `properties`"], id="json-required-undeclared"),
    pytest.param([(O + "body/json/properties", GONE)], [P + "body.json.required[0]: `a` is not declared; add it to `properties`"], id="json-required-without-properties"),
    # extension S
    pytest.param([(O + "body/schema", {"type": "strng"})], [P + "body.schema.type: is not JSON Schema 2020-12: \"strng\" is not valid under any of the schemas listed in the 'anyOf' keyword; correct the keyword"], id="schema-type"),
    pytest.param([(O + "body/schema", {"$ref": "https://x.example/s.json"})], [P + "body.schema: cannot be used: Resource 'https://x.example/s.json' is not present in a registry and retrieving it failed: ValueError: a reference leaves the file; keep to JSON Schema 2020-12 within this file"], id="schema-that-leaves-the-file"),
    pytest.param([(O + "body/schema", {"properties": {"a": {"pattern": "(?=a)"}}})], [P + "body.schema.properties.a.pattern: cannot be used: \"(?=a)\" is not a \"regex\"; keep to JSON Schema 2020-12 within this file"], id="schema-pattern"),
    pytest.param([(O + "body/schema", "x")], [P + "body.schema: is not JSON Schema 2020-12: \"x\" is not of types \"boolean\", \"object\"; correct the keyword"], id="schema-as-a-text"),
    # redirects
    pytest.param([("redirects", {"allow": Plain("true")})], ["redirects.maxHops: is missing, which `allow: true` needs; add a positive number such as `3`"], id="redirects-without-hops"),
    pytest.param([("redirects", {"allow": Plain("true"), "maxHops": 0})], ["redirects.maxHops: is `0`; write a number that is at least 1"], id="no-hops"),
    pytest.param([("redirects", {"maxHops": 1, "allowedOrigins": ["https://a"]})], ["redirects.maxHops: needs `allow: true`; add that, or leave it out", "redirects.allowedOrigins: needs `allow: true`; add that, or leave it out"], id="hops-without-allow"),
    pytest.param([("redirects", {"allow": "true", "maxHops": 1})], ["redirects.allow: is the text `true`; write plain `true` or `false`: redirects are followed"], id="allow-in-quotes"),
    *(
        pytest.param([("redirects", {"allow": Plain("true"), "maxHops": 1, "allowedOrigins": [origin]})], [f"redirects.allowedOrigins[0]: is {words}`{origin}`; write `https://host` or `https://host:port` and nothing more"], id=f"origin-{name}")
        for name, origin, words in [
            ("http", "http://a", "the text "), ("path", "https://a/", "the text "), ("userinfo", "https://u@a", "the text "), ("query", "https://a?b", "the text "),
            ("port-with-a-nought", "https://a:0443", ""), ("short-address", "https://127.1", ""), ("trailing-dot", "https://a.", ""),
        ]
    ),
    # extension B
    pytest.param([(O + "origins", [])], [P + "origins: is empty; list at least 1"], id="no-origins"),
    pytest.param([(O + "origins", ["https://a:b"])], [P + "origins[0]: is `https://a:b`; write `https://host` or `https://host:port` and nothing more"], id="origins"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), REFUSED)
def test_what_is_wrong_is_told_with_its_remedy(changes: list[tuple[str, Any]], expected: list[str]) -> None:
    """Each rule of the file, with the path and the words of its refusal, and nothing besides."""
    assert told(changed(*changes)) == expected


@pytest.mark.parametrize("root", ["[]", "text", "{}", "'operations'"])
def test_a_file_that_is_no_grant_is_refused(root: str) -> None:
    """The top level is a map with `operations`."""
    assert len(told(root)) == 1


def test_problems_come_in_file_order_with_their_places() -> None:
    """All problems in one go, `FILE:LINE:COLUMN: path: …`, in file order, of syntax, structure and meaning."""
    text = SEED.replace("effect: read", "effect: Read", 1).replace("owner: [acme]", "owner: [.., *x]", 1)
    text = text.replace("statuses: [201]", "statuses: ['201']").replace("name: create-issue", "name: list-open-issues")
    with pytest.raises(GrantInvalid) as caught:
        load_grant(text, file="dir/g.yaml")
    assert str(caught.value).splitlines() == [
        "dir/g.yaml:4:13: operations[0].effect: is `Read`; write one of `read`, `write`",
        "dir/g.yaml:8:15: operations[0].pathParameters.owner[0]: is `..`, which no segment may be; write the real value",
        "dir/g.yaml:8:19: operations[0].pathParameters.owner[1]: is the alias `*x`; write the value out",
        "dir/g.yaml:32:11: operations[1].name: is `list-open-issues`, as in line 3; give each operation its own name",
        "dir/g.yaml:58:18: operations[1].response.statuses[0]: is the text `201`; write a status code from 200 to 599",
    ]


def test_a_value_that_was_refused_is_not_complained_about_again() -> None:
    """One mistake is one problem, however many rules it touches."""
    assert told(changed((O + "body/json/properties", "hunter2"))) == [
        P
        + 'body.json.properties: is a text; write a map: the declared properties and their types, such as `{"title": "string"}`',
        P + "body.json.required[0]: `a` is not declared; add it to `properties`",
    ]
    assert len(told(changed((O + "response/json", "x"), (O + "response/maxBytes", "x")))) == 2
    assert len(told(changed((O + "body/json", []), (O + "body/maxBytes", [])))) == 2
    assert len(told(changed((O + "query", "x"), (O + "headers", "x"), (O + "route", [])))) == 3
    assert len(told(changed((O + "pathParameters/owner", {"pattern": [], "maxBytes": []})))) == 2
    assert len(told(changed((O + "query/0/allowURL", "x"), (O + "query/0/values", ["https://a"])))) == 1


def test_a_file_of_nothing_but_errors_is_told_in_part() -> None:
    """A thousand failures of structure are enough, and what they left unchecked is not looked at."""
    assert len(told(changed((O + "response/statuses", ["x"] * 1500)))) == 1000


def test_extension_p_lists_values_with_special_characters_or_a_pattern() -> None:
    """The map form allows `/`, `;` and `%` in exact values, or a bounded pattern."""
    values = load((O + "pathParameters/owner", {"values": ["group/project", "a;b", "50%"]})).operations[0].route
    assert values.segments[1] == PathParameter(name="owner", values=frozenset({"group/project", "a;b", "50%"}))
    grant = load((O + "pathParameters/owner", {"pattern": "[0-9]{1,9}", "maxBytes": 9}))
    segment = grant.operations[0].route.segments[1]
    assert isinstance(segment, PathParameter)
    assert (segment.values, segment.max_bytes) == (None, 9)
    assert segment.pattern is not None
    assert segment.pattern.source == "[0-9]{1,9}"


def test_notices_tell_of_each_pattern() -> None:
    """`check` prints a notice for each pattern of a path parameter."""
    assert notices(load((O + "body", GONE))) == []
    pattern = (O + "pathParameters/owner", {"pattern": "[0-9]{1,9}", "maxBytes": 9})
    assert notices(load(pattern, (O + "body", GONE))) == [
        "operation `read`: path parameter `owner` is the pattern `[0-9]{1,9}`; every value that matches is granted"
    ]


def test_notices_tell_of_an_operation_that_nobody_can_use() -> None:
    """A body needs a `Content-Type`, which is denied where it is not declared."""
    assert notices(load()) == [
        "operation `read`: takes a body, but no `Content-Type`; add a header rule, or every request is refused"
    ]
    assert notices(load(("undeclaredHeaders", "strip"))) == []
    assert notices(load((O + "headers", [{"name": "content-type", "values": ["application/json"]}]))) == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.grant.yaml")), ids=lambda path: path.name)
def test_an_editor_finds_nothing_wrong_with_a_sample(path: Path) -> None:
    """The schema also holds for what an ordinary YAML reader makes of a good file."""
    schema = Schema(grant_structure().schema)
    assert schema.first_error(yaml.safe_load(path.read_text())) is None
    assert schema.first_error({"operations": [], "extra": 1}) is not None


def test_extensions_of_the_response_and_of_the_file() -> None:
    """U, S, E, H, B and `+json`."""
    grant = load(
        ("undeclaredHeaders", "strip"),
        ("redirects", {"allow": Plain("true"), "maxHops": 2, "allowedOrigins": ["https://CDN.example:443"]}),
        (O + "origins", ["https://cdn.example:8443"]),
        (O + "response/empty", Plain("true")),
        (O + "response/headers", ["ETag", "Set-Cookie"]),
        (O + "response/contentTypes", ["application/json", "Application/Vnd.Github+JSON"]),
        (O + "response/schema", {"type": "array", "maxItems": Plain("2"), "items": {"const": Plain("true")}}),
        (O + "response/json", GONE),
    )
    (operation,) = grant.operations
    assert grant.undeclared_headers is UndeclaredHeaders.STRIP
    assert grant.redirects is not None
    assert grant.redirects.max_hops == 2
    assert grant.redirects.origins == {Origin(scheme="https", host="cdn.example", port=443)}
    assert operation.origins == {Origin(scheme="https", host="cdn.example", port=8443)}
    assert operation.response.empty
    assert operation.response.headers == {"etag", "set-cookie"}
    assert operation.response.content_types == {"application/json", "application/vnd.github+json"}
    assert operation.response.json.object is None
    assert operation.response.json.schema is not None
    assert operation.response.json.schema.first_error([True, True]) is None
    assert operation.response.json.schema.first_error(["true"]) is not None


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1), ("-0", 0), ("1.5", 1.5), ("1e3", 1000.0), ("true", True), ("false", False), ("null", None),
        ("123456789012345678901234567890", 123456789012345678901234567890), ("no", "no"), ("0123", "0123"), ("~", "~"),
        ("1e999", "1e999"), ("'1'", "1"), ("'null'", "null"), (".5", ".5"), ("0x1", "0x1"),
    ],
)  # fmt: skip
def test_a_schema_holds_json_values(written: str, value: object) -> None:
    """Within `schema`, a plain scalar that is a JSON number, boolean or null is that; everything else is a text."""
    schema = load((O + "body/schema", {"const": Plain(written)})).operations[0].body
    assert schema is not None
    assert schema.json.schema is not None
    assert schema.json.schema.first_error(value) is None
    assert schema.json.schema.first_error([value]) is not None


def test_a_reference_to_the_dialect_stays_within_the_program() -> None:
    """The meta-schema is known already, so nothing is fetched for it."""
    assert load((O + "body/schema", {"$ref": "https://json-schema.org/draft/2020-12/schema"})).operations[0].body


def test_an_allowed_url_loads() -> None:
    """A URL-shaped value needs `allowURL`, and then it is a value like any other. A header's value may be one anyway."""
    grant = load((O + "query/0/allowURL", Plain("true")), (O + "query/0/values", ["https://a"]))
    assert grant.operations[0].query["state"].allow_url
    header = {"name": "Referer", "values": ["https://a", ""]}
    assert load((O + "headers/0", header)).operations[0].headers["referer"].values == {"https://a", ""}


def test_the_root_is_a_route() -> None:
    """`/` alone has no segments."""
    assert load((O + "route", "/"), (O + "pathParameters", GONE)).operations[0].route.segments == ()


def test_lists_of_rules_may_be_left_out() -> None:
    """No `query`, no `headers`, no `body`: none is allowed. `redirects: {allow: false}` is the same as none."""
    grant = load(
        (O + "query", GONE), (O + "headers", GONE), (O + "body", GONE), ("redirects", {"allow": Plain("false")})
    )
    (operation,) = grant.operations
    assert (operation.query, operation.headers, operation.body, grant.redirects) == ({}, {}, None, None)


def test_a_loaded_grant_cannot_be_changed() -> None:
    """What was checked is what is used."""
    grant = load()
    with pytest.raises(TypeError):
        grant.operations[0].headers["x"] = grant.operations[0].headers["authorization"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        grant.digest = ""  # type: ignore[misc]


SCALARS = st.sampled_from(
    [
        "''",
        "a",
        "1",
        "true",
        "no",
        "*x",
        "&x a",
        "!!int 1",
        "[]",
        "{}",
        "{a: b}",
        "[a]",
        "null",
        "",
        "'\\ud800'",
        "{a: b, a: c}",
    ]
)


@settings(deadline=None, max_examples=400)
@given(st.data())
def test_any_change_to_a_grant_loads_or_is_told(data: st.DataObject) -> None:
    """Whatever stands in whatever place: a grant, or `GrantInvalid` with located problems, and nothing else."""
    lines = changed((O + "body/schema", {"type": "object"})).replace(", ", ", \n").split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        head, colon, _ = lines[at].rpartition(": ")
        lines[at] = head + colon + data.draw(SCALARS) + data.draw(st.sampled_from([",", "", "}", "]"]))
    loads_or_is_told("\n".join(lines))


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300)))
def test_any_bytes_load_or_are_told(text: bytes | str) -> None:
    """Loading raises the one error type, for any bytes."""
    loads_or_is_told(text)


@settings(deadline=None, max_examples=200)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.one_of(st.text(max_size=5), st.sampled_from(["$ref", "$id", "type", "items", "$schema", "$dynamicRef", "pattern", "enum"])), inner, max_size=4),
        ),
        max_leaves=12,
    ),
    st.sampled_from(["body/schema", "response/schema", "pathParameters", "query", "headers", "response/json", "origins"]),
)  # fmt: skip
def test_any_value_in_any_field_loads_or_is_told(value: Any, path: str) -> None:
    """A field takes what it should and tells what it should not."""
    loads_or_is_told(changed((O + path, value)))


def loads_or_is_told(text: bytes | str) -> None:
    try:
        grant = load_grant(text, file="g.yaml")
    except GrantInvalid as invalid:
        problems = invalid.problems
    else:
        assert grant.operations
        return
    assert problems
    assert all("\n" not in str(problem) and problem.line >= 1 for problem in problems)
    places = [(problem.line, problem.column) for problem in problems]
    assert places == sorted(places)
