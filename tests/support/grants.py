"""Grants and requests for the tests of the core, built by hand from the model's own values."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grants.endpoint import Endpoint
from grants.message import Authority, Origin, RequestHead
from grants.model import (
    BodyRule,
    Disclosure,
    Effect,
    Grant,
    JsonObject,
    JsonRule,
    Operation,
    PathParameter,
    Redirects,
    ResponseRule,
    Route,
    UndeclaredHeaders,
    ValueRule,
)

UPSTREAM = Origin(scheme="https", host="api.example.com", port=443)
CDN = Origin(scheme="https", host="cdn.example.com", port=443)
HERE = Authority(host="api.example.com", port=443)
REFERENCE = "Bearer @secret:[A-Za-z0-9._/-]+"


@dataclass(frozen=True, slots=True)
class RegexPattern:
    """A pattern on the standard library's engine: enough for the tests' own patterns."""

    source: str

    def matches(self, value: bytes) -> bool:
        return re.fullmatch(self.source.encode(), value, re.DOTALL) is not None


def pattern(source: str) -> RegexPattern:
    return RegexPattern(source)


def rule(
    name: str,
    *values: str,
    required: bool = False,
    matching: str | None = None,
    max_bytes: int | None = None,
    allow_url: bool = False,
) -> ValueRule:
    return ValueRule(
        name=name,
        required=required,
        values=frozenset(values) if values else None,
        pattern=None if matching is None else pattern(matching),
        max_bytes=128 if matching is not None and max_bytes is None else max_bytes,
        allow_url=allow_url,
    )


def route(template: str, parameters: Mapping[str, Iterable[str] | RegexPattern] | None = None) -> Route:
    declared = parameters or {}
    segments: list[str | PathParameter] = []
    for part in template.split("/")[1:] if template != "/" else []:
        if not part.startswith("{"):
            segments.append(part)
            continue
        name = part[1:-1]
        what = declared[name]
        if isinstance(what, RegexPattern):
            segments.append(PathParameter(name=name, pattern=what, max_bytes=64))
        else:
            segments.append(PathParameter(name=name, values=frozenset(what)))
    return Route(template=template, segments=tuple(segments))


def response(**changes: object) -> ResponseRule:
    fields: dict[str, object] = {
        "statuses": frozenset({200}),
        "content_types": frozenset({"application/json"}),
        "max_bytes": 65536,
        "disclosure": Disclosure.DENY_EXACT,
        "json": JsonRule(object=JsonObject(properties={}, required=frozenset(), additional=True)),
    }
    return ResponseRule(**(fields | changes))  # type: ignore[arg-type]


def body(max_bytes: int = 8192, *content_types: str) -> BodyRule:
    return BodyRule(
        max_bytes=max_bytes,
        content_types=frozenset(content_types or ("application/json",)),
        json=JsonRule(
            object=JsonObject(
                properties={"title": "string", "body": "string"}, required=frozenset({"title"}), additional=False
            )
        ),
    )


def operation(
    name: str,
    method: str,
    template: str,
    parameters: Mapping[str, Iterable[str] | RegexPattern] | None = None,
    *,
    query: Iterable[ValueRule] = (),
    headers: Iterable[ValueRule] = (),
    takes: BodyRule | None = None,
    origins: Iterable[Origin] | None = None,
    answer: ResponseRule | None = None,
) -> Operation:
    return Operation(
        name=name,
        effect=Effect.READ if method in {"GET", "HEAD"} else Effect.WRITE,
        method=method,
        route=route(template, parameters),
        response=answer or response(),
        query={one.name: one for one in query},
        headers={one.name.lower(): one for one in headers},
        body=takes,
        origins=None if origins is None else frozenset(origins),
    )


def grant(*operations: Operation, redirects: Redirects | None = None, strip: bool = False) -> Grant:
    return Grant(
        operations=operations,
        redirects=redirects,
        digest="sha256:" + "0" * 64,
        undeclared_headers=UndeclaredHeaders.STRIP if strip else UndeclaredHeaders.DENY,
    )


def endpoint(
    *operations: Operation,
    redirects: Redirects | None = None,
    strip: bool = False,
    base: tuple[str, ...] = (),
    upstream: Origin = UPSTREAM,
    secrets: Iterable[str] = ("api",),
) -> Endpoint:
    return Endpoint.of(
        name="api",
        upstream=upstream,
        base=base,
        grant=grant(*operations, redirects=redirects, strip=strip),
        secrets=frozenset(secrets),
    )


def head(method: str | bytes, target: str | bytes, *fields: tuple[str | bytes, str | bytes]) -> RequestHead:
    return RequestHead(
        method=_bytes(method),
        target=_bytes(target),
        fields=tuple((_bytes(name), _bytes(value)) for name, value in fields),
    )


def _bytes(text: str | bytes) -> bytes:
    return text.encode("latin-1") if isinstance(text, str) else text


NAMESPACE = {"owner": ["acme"], "repo": ["widgets"]}
AUTHORIZATION = rule("Authorization", required=True, matching=REFERENCE)
OPTIONAL_AUTHORIZATION = rule("Authorization", matching=REFERENCE)

GET_REPO = operation("get-repo", "GET", "/repos/{owner}/{repo}", NAMESPACE)
LIST_ISSUES = operation(
    "list-open-issues",
    "GET",
    "/repos/{owner}/{repo}/issues",
    NAMESPACE,
    query=[rule("state", "open", required=True)],
    headers=[AUTHORIZATION],
)
CREATE_ISSUE = operation(
    "create-issue",
    "POST",
    "/repos/{owner}/{repo}/issues",
    NAMESPACE,
    headers=[AUTHORIZATION, rule("Content-Type", "application/json", required=True)],
    takes=body(),
)
BEARER = ("Authorization", "Bearer @secret:api")
JSON = ("Content-Type", "application/json")
