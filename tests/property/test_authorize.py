"""Properties of the decision that hold for any grant and any bytes."""

from collections.abc import Callable, Mapping
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st
from support.grants import CDN, HERE, body, endpoint, operation, pattern, rule

from grants.authorize import Allow, Granted, authorize_body, authorize_head
from grants.decision import Deny, Reason
from grants.endpoint import Endpoint
from grants.explain import explain
from grants.message import RequestHead, Response
from grants.model import Operation, Redirects, ValueRule
from grants.redirect import next_hop, start
from grants.references import Sealed, seal
from grants.secret import Secret
from grants.target import RequestTarget, parse_target

WORDS = ["a", "b", "1", "A"]
NAMES = ["x", "y", "X-A", "x_a"]
FOLLOWED = Redirects(max_hops=2, origins=frozenset({CDN}))


@st.composite
def rules(draw: st.DrawFn, name: str) -> ValueRule:
    values = draw(st.lists(st.sampled_from([*WORDS, "@secret:api"]), max_size=3))
    matching = draw(st.sampled_from([None, ".*", "[a-z]+", "[^:]*"])) if values else ".*"
    return rule(
        name,
        *values,
        required=draw(st.booleans()),
        matching=matching,
        max_bytes=draw(st.sampled_from([1, 8, 64])) if matching else None,
        allow_url=draw(st.booleans()),
    )


@st.composite
def operations(draw: st.DrawFn, name: str) -> Operation:
    parts = draw(st.lists(st.sampled_from([*WORDS, "{p}", "{q}"]), max_size=3, unique=True))
    parameters = {
        part[1:-1]: draw(
            st.one_of(
                st.sets(st.sampled_from([*WORDS, "a/b", "a;b", "%61"]), min_size=1),
                st.sampled_from(["[a-z]", ".*"]).map(pattern),
            )
        )
        for part in parts
        if part.startswith("{")
    }
    return operation(
        name,
        draw(st.sampled_from(["GET", "HEAD", "POST"])),
        "/" + "/".join(parts),
        parameters,
        query=[draw(rules(key)) for key in draw(st.sets(st.sampled_from(NAMES[:2])))],
        headers=[draw(rules(key)) for key in draw(st.sets(st.sampled_from(NAMES)))],
        takes=draw(st.sampled_from([None, None, body()])),
    )


@st.composite
def grants(draw: st.DrawFn) -> tuple[Operation, ...]:
    return tuple(draw(operations(f"o{number}")) for number in range(draw(st.integers(1, 4))))


SEGMENT = st.sampled_from(["a", "b", "1", "A", "%61", "a%2Fb", "a;b", "%2561", "..", "%2e", "", "\\", "%zz", "\xff"])
QUERY = st.lists(st.sampled_from(["x=a", "x=", "x", "y=//h", "y=b", "x=%61", "z=1", "", ";", "y=https:a"]), max_size=3)
TARGETS = st.one_of(
    st.binary(max_size=20),
    st.builds(
        lambda parts, query: ("/" + "/".join(parts) + ("?" + "&".join(query) if query else "")).encode("latin-1"),
        st.lists(SEGMENT, max_size=3),
        QUERY,
    ),
)
NAME = st.one_of(
    st.sampled_from([b"X-A", b"x_a", b"X", b"y", b"Host", b"Content-Type", b"Connection", b"Expect", b"Authorization"]),
    st.binary(max_size=5),
)
VALUE = st.one_of(
    st.sampled_from([b"a", b"1", b"@secret:api", b"Basic dTpAc2VjcmV0OmFwaQ==", b"application/json", b"close", b"0"]),
    st.binary(max_size=8),
)
HEADS = st.builds(
    lambda method, target, fields: RequestHead(method=method, target=target, fields=tuple(fields)),
    st.one_of(st.sampled_from([b"GET", b"HEAD", b"POST"]), st.binary(max_size=5)),
    TARGETS,
    st.lists(st.tuples(NAME, VALUE), max_size=4),
)


@st.composite
def near(draw: st.DrawFn, made: tuple[Operation, ...]) -> RequestHead:
    """A request that one of the operations may well take."""
    each = draw(st.sampled_from(made))
    parts = []
    for part in each.route.segments:
        plain = part if isinstance(part, str) else draw(st.sampled_from(sorted(part.values or {"a", "zz", "1"})))
        parts.append(
            draw(st.sampled_from([quote(plain, safe=""), quote(plain, safe=";"), "%" + plain.encode().hex("%")]))
        )
    query = [f"{name}={value}" for name, value in _fields(draw, each.query)]
    target = "/" + "/".join(parts) + ("?" + "&".join(query) if query else "")
    fields = [(name.encode(), value.encode()) for name, value in _fields(draw, each.headers)]
    if each.body is not None:
        fields += [(b"Content-Length", b"13"), (b"Content-Type", b"application/json")]
    if not draw(st.integers(0, 3)):
        fields.append((draw(NAME), draw(VALUE)))
    return RequestHead(method=each.method.encode(), target=target.encode(), fields=tuple(fields))


def _fields(draw: st.DrawFn, rules: Mapping[str, ValueRule]) -> list[tuple[str, str]]:
    return [
        (name, draw(st.sampled_from(sorted(each.values or {"a", "b", "1"}))))
        for name, each in rules.items()
        if each.required or draw(st.booleans())
    ]


@st.composite
def asked(draw: st.DrawFn) -> tuple[tuple[Operation, ...], RequestHead]:
    """Some operations and a request: near to one of them, or any."""
    made = draw(grants())
    return made, draw(near(made) if draw(st.integers(0, 4)) else HEADS)


def decide(at: Endpoint, request: RequestHead) -> Granted | Deny:
    return authorize_head(at, request, authority=HERE)


@settings(deadline=None, max_examples=120)
@given(asked(), st.one_of(st.just(b'{"title":"x"}'), st.binary(max_size=20)), st.booleans())
def test_nothing_raises_for_any_bytes(
    case: tuple[tuple[Operation, ...], RequestHead], data: bytes, strip: bool
) -> None:
    """A decision, its explanation, the secrets put in and a redirect never raise."""
    made, request = case
    at = endpoint(*made, redirects=FOLLOWED, strip=strip)
    found = decide(at, request)
    explained = explain(at, request, data, authority=HERE)
    if isinstance(found, Deny):
        assert explained.decision == found
        return
    allow = authorize_body(found, data)
    assert explained.decision == allow
    if isinstance(allow, Allow):
        sealed = seal(allow.request, {"api": Secret(b"0123456789")}, frozenset({"api"}))
        assert isinstance(sealed, Sealed | Deny)
        next_hop(start(at, found), Response(status=302, reason=b"", fields=((b"Location", data),), body=b""))


@settings(deadline=None, max_examples=120)
@given(asked())
def test_what_is_sent_is_authorized_again_as_itself(case: tuple[tuple[Operation, ...], RequestHead]) -> None:
    """The canonical form is a fixed point: sent through once more, the same operation grants the same request."""
    made, request = case
    at = endpoint(*made)
    found = decide(at, request)
    if isinstance(found, Deny):
        return
    sent = found.outgoing(None)
    framing = tuple((n, v) for n, v in request.fields if n.lower() in {b"content-length", b"transfer-encoding"})
    again = decide(at, RequestHead(method=sent.method, target=sent.target, fields=sent.fields + framing))
    assert isinstance(again, Granted)
    assert (again.operation, again.outgoing(None)) == (found.operation, sent)


@settings(deadline=None, max_examples=120)
@given(asked(), operations("more"))
def test_a_further_operation_never_changes_which_one_allows(
    case: tuple[tuple[Operation, ...], RequestHead], more: Operation
) -> None:
    """Adding an operation never turns an allow into an allow of a different operation: at most it is ambiguous."""
    made, request = case
    before = decide(endpoint(*made), request)
    after = decide(endpoint(*made, more), request)
    if isinstance(before, Granted):
        if isinstance(after, Granted):
            assert after.operation.name == before.operation.name
        else:
            assert after.reason is Reason.AMBIGUOUS
    elif isinstance(after, Granted):
        assert after.operation.name == "more"


TIGHTEN: list[Callable[[Operation], Operation]] = [
    lambda each: _changed(each, query={k: _required(r) for k, r in each.query.items()}),
    lambda each: _changed(each, headers={k: _required(r) for k, r in each.headers.items()}),
    lambda each: _changed(each, query={k: _shorter(r) for k, r in each.query.items()}),
    lambda each: _changed(each, headers={k: _shorter(r) for k, r in each.headers.items()}),
    lambda each: _changed(each, query={k: _narrower(r) for k, r in each.query.items()}),
    lambda each: _changed(each, headers={k: _narrower(r) for k, r in each.headers.items()}),
    lambda each: _changed(each, query={}),
    lambda each: _changed(each, headers={}),
]


@settings(deadline=None, max_examples=120)
@given(asked(), st.sampled_from(TIGHTEN))
def test_a_tighter_rule_never_allows_more(
    case: tuple[tuple[Operation, ...], RequestHead], tighten: Callable[[Operation], Operation]
) -> None:
    """Requiring a field, shortening it, listing fewer values or declaring fewer never allows what was denied.

    To declare fewer lifts what was required of them, so that is left out of this.
    """
    (made, *_), request = case
    tighter = tighten(made)
    dropped = {**made.query, **made.headers}.keys() - {**tighter.query, **tighter.headers}.keys()
    if any({**made.query, **made.headers}[name].required for name in dropped):
        return
    if isinstance(decide(endpoint(made), request), Deny):
        assert isinstance(decide(endpoint(tighter), request), Deny)


@settings(deadline=None, max_examples=120)
@given(asked())
def test_an_allowed_path_is_one_that_the_route_names(case: tuple[tuple[Operation, ...], RequestHead]) -> None:
    """What is granted has exactly the route's segments, each literal or listed, however it was spelt."""
    made, request = case
    found = decide(endpoint(*made), request)
    if isinstance(found, Deny):
        return
    target = parse_target(found.target.wire, authority=None)
    assert isinstance(target, RequestTarget)
    values = dict(found.parameters)
    expected = tuple(part if isinstance(part, str) else values[part.name] for part in found.operation.route.segments)
    assert target.segments == expected
    for part in found.operation.route.segments:
        if not isinstance(part, str) and part.values is not None:
            assert values[part.name] in part.values


def _changed(each: Operation, **changes: object) -> Operation:
    fields = {
        "name": each.name,
        "effect": each.effect,
        "method": each.method,
        "route": each.route,
        "response": each.response,
        "query": each.query,
        "headers": each.headers,
        "body": each.body,
    }
    return Operation(**(fields | changes))  # type: ignore[arg-type]


def _required(each: ValueRule) -> ValueRule:
    return _rule(each, required=True)


def _shorter(each: ValueRule) -> ValueRule:
    return _rule(each, max_bytes=1)


def _narrower(each: ValueRule) -> ValueRule:
    return _rule(each, values=frozenset({"a"}) & (each.values or {"a"}))


def _rule(each: ValueRule, **changes: object) -> ValueRule:
    fields = {
        "name": each.name,
        "required": each.required,
        "values": each.values,
        "pattern": each.pattern,
        "max_bytes": each.max_bytes,
        "allow_url": each.allow_url,
    }
    return ValueRule(**(fields | changes))  # type: ignore[arg-type]
