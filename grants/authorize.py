"""Decide a request: target, operation, query, headers, body, in this order; the first failure denies.

Nothing here raises for any bytes. An `Allow` is built from the operation that was picked: its declared headers, the
query as it was parsed, the path as it was decoded, each encoded anew. No byte of the client's head is copied but the
values that were matched. The host has been judged before ("Host" in docs/reference/matching.md).
Source: "The order of the checks" in docs/reference/matching.md.
"""

from collections.abc import Iterable
from dataclasses import field, replace
from typing import final

from .decision import Deny, Reason, Rule
from .endpoint import Endpoint
from .entity import check_announced, too_large
from .framing import Framing
from .headers import check_headers
from .immutable import immutable
from .index import Entry
from .memo import Verdict, memo_of
from .message import Authority, Fields, Origin, Outgoing, RequestHead
from .misses import no_operation
from .model import Operation, UndeclaredHeaders
from .query import STAGES, Pairs, check_query, parse_query
from .shape import ProblemKind, check_json
from .target import RequestTarget, Target, parse_target
from .text import listed, quoted


@final
@immutable
class Granted:
    """A request whose head is authorized; its body is not judged yet.

    Attributes:
        operation: the one operation that matches.
        origin: where the request goes.
        target: path and query, canonical.
        fields: end-to-end fields that go upstream, references still in them.
        body_limit: the most bytes that the body may have; 0: no body is allowed.
        head: the head as the client sent it, for redirect hops.
        parameters: names and values of the path parameters.
    """

    operation: Operation
    origin: Origin
    target: Target
    fields: Fields = field(repr=False)
    body_limit: int
    head: RequestHead
    parameters: tuple[tuple[str, str], ...]

    @property
    def method(self) -> bytes:
        """The operation's method."""
        return self.operation.method.encode("ascii")

    def outgoing(self, body: bytes | None) -> Outgoing:
        """The request as it goes upstream, references still in it."""
        return Outgoing(origin=self.origin, method=self.method, target=self.target.wire, fields=self.fields, body=body)


@final
@immutable
class Allow:
    """A request that may be sent once its references are replaced."""

    granted: Granted
    request: Outgoing


def authorize_head(
    endpoint: Endpoint,
    head: RequestHead,
    *,
    authority: Authority | None,
    prefix: tuple[str, ...] = (),
    scheme: str = "https",
) -> Granted | Deny:
    """Decide on everything that the head tells. Total: never raises.

    Args:
        endpoint: the endpoint that the connection was made for.
        head: the request line and fields as sent.
        authority: the connection's own, for a target in absolute form; None: no absolute form is taken.
        prefix: segments that go before the path (the upstream's own path, on a base URL).
        scheme: the connection's own, for a target in absolute form.
    """
    target = parse_target(head.target, authority=authority, scheme=scheme)
    if isinstance(target, Deny):
        return target
    return authorize_target(endpoint, head, target.below(prefix), origin=endpoint.upstream)


def authorize_target(endpoint: Endpoint, head: RequestHead, target: RequestTarget, *, origin: Origin) -> Granted | Deny:
    """Decide on a head whose target is `target` at `origin`: the client's own, or a redirect hop's.

    References go only to the upstream's own origin, or to one that the operation names in its `origins`; elsewhere a
    header that carries one is left out.
    """
    picked = _pick(endpoint, head.method, target, origin)
    if isinstance(picked, Deny):
        return picked
    entry, pairs = picked
    operation = entry.operation
    fields = _fields(
        head,
        operation,
        strip=endpoint.grant.undeclared_headers is UndeclaredHeaders.STRIP,
        credential=origin == endpoint.upstream or (operation.origins is not None and origin in operation.origins),
    )
    if isinstance(fields, Deny):
        return fields
    return Granted(
        operation=operation,
        origin=origin,
        target=Target(segments=target.segments, query=pairs),
        fields=fields,
        body_limit=0 if operation.body is None else operation.body.max_bytes,
        head=head,
        parameters=tuple([(name, target.segments[position]) for position, name in entry.parameters]),
    )


def _fields(head: RequestHead, operation: Operation, *, strip: bool, credential: bool) -> Fields | Deny:
    """The fields that go upstream. Follows from the head's fields and what is given, so it may be remembered."""
    memo = memo_of(head)
    fields = memo.judged(operation, strip=strip, credential=credential)
    if fields is None:
        fields = _judged(memo.framing, operation, strip=strip, credential=credential)
        memo.verdict = Verdict(operation=operation, strip=strip, credential=credential, fields=fields)
    return fields


def _judged(framing: Framing | Deny, operation: Operation, *, strip: bool, credential: bool) -> Fields | Deny:
    if isinstance(framing, Deny):
        return replace(framing, operation=operation.name)
    forwarded = check_headers(operation, framing, strip=strip, credential=credential)
    if isinstance(forwarded, Deny):
        return forwarded
    return check_announced(operation, framing, forwarded)


def authorize_body(granted: Granted, body: bytes) -> Allow | Deny:
    """Decide on the complete body (transfer coding off); empty when there was none. Total: never raises."""
    operation = granted.operation
    rule = operation.body
    if rule is None:
        if body:
            return _deny(Reason.BODY_NOT_ALLOWED, f"{_of(operation)} takes no body", operation)
        return Allow(granted=granted, request=granted.outgoing(None))
    if not body:
        return _deny(Reason.BODY_MISSING, f"{_of(operation)} needs a body", operation)
    if len(body) > rule.max_bytes:
        return too_large(operation, rule)
    problem = check_json(rule.json, body, show_names=True)
    if problem is not None:
        reason = Reason.BODY_JSON if problem.kind is ProblemKind.JSON else Reason.BODY_SCHEMA
        return _deny(reason, f"the body of {_of(operation)}: {problem.detail}", operation)
    return Allow(granted=granted, request=granted.outgoing(body))


def _pick(endpoint: Endpoint, method: bytes, target: RequestTarget, origin: Origin) -> tuple[Entry, Pairs] | Deny:
    """The one operation that method, route, origin and query pick, and the parsed query."""
    index = endpoint.index
    shape = index.shape(target.segments)
    bits = 0 if shape is None else shape.on_path(target.segments, target.special, shape.methods.get(method, 0))
    if shape is None or not bits:
        return no_operation(index, method, target)
    pairs = parse_query(target.query)
    if isinstance(pairs, Deny):
        only = bits.bit_count() == 1
        return replace(pairs, operation=next(shape.chosen(bits)).operation.name) if only else pairs
    matched: list[Entry] = []
    missed: list[Deny] = []
    for entry in shape.chosen(shape.narrowed(bits, pairs)):
        denial = _origin(endpoint, entry.operation, origin) or check_query(entry.operation, pairs)
        if denial is None:
            matched.append(entry)
        else:
            missed.append(denial)
    if len(matched) == 1:
        return matched[0], pairs
    return _ambiguous(matched) if matched else _nearest(missed)


def _origin(endpoint: Endpoint, operation: Operation, origin: Origin) -> Deny | None:
    allowed = operation.origins
    if allowed is None:
        redirects = endpoint.grant.redirects
        if origin == endpoint.upstream or (redirects is not None and origin in redirects.origins):
            return None
    elif origin in allowed:
        return None
    return _deny(Reason.ORIGIN, f"{_of(operation)} is not for this origin", operation)


def _ambiguous(entries: Iterable[Entry]) -> Deny:
    names = listed(quoted(entry.operation.name) for entry in entries)
    detail = f"more than one operation matches: {names}; the grant has to tell them apart"
    return Deny(rule=Rule.REQUEST, reason=Reason.AMBIGUOUS, detail=detail)


def _nearest(missed: list[Deny]) -> Deny:
    """The refusal of the operation that came furthest; its name only when it was the only one."""
    nearest = max(missed, key=lambda denial: STAGES.index(denial.reason) if denial.reason in STAGES else -1)
    if len(missed) == 1:
        return nearest
    return replace(nearest, operation=None)


def _of(operation: Operation) -> str:
    return f"operation {quoted(operation.name)}"


def _deny(reason: Reason, detail: str, operation: Operation) -> Deny:
    return Deny(rule=Rule.REQUEST, reason=reason, detail=detail, operation=operation.name)
