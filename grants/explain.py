"""Why a request is allowed or refused: the decision, and what kept each near operation from matching.

The decision is the very one that the proxy takes. Only where it is a refusal are the near operations decided again,
each as if it were the grant's only one: its refusal is the first thing that keeps it from taking the request. Nearest
first: whose method and route fit, whose route fits, whose route fits furthest; then whose refusal comes later in the
order of the checks.
"""

from dataclasses import dataclass, replace
from typing import final

from .authorize import Allow, authorize_body, authorize_head
from .decision import Deny, Reason
from .endpoint import Endpoint
from .index import build_index
from .message import Authority, RequestHead
from .model import Operation, PathParameter
from .rule import fits_segment
from .target import parse_target

_NEAR = 5
_ORDER = {reason: place for place, reason in enumerate(Reason)}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """An operation that did not match, and the first thing that kept it from matching."""

    operation: Operation
    denial: Deny


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision with its reasons.

    Attributes:
        decision: what the proxy decides.
        near: for a refusal, the operations that came nearest, the nearest first.
    """

    decision: Allow | Deny
    near: tuple[Near, ...] = ()


def explain(
    endpoint: Endpoint,
    head: RequestHead,
    body: bytes = b"",
    *,
    authority: Authority | None,
    prefix: tuple[str, ...] = (),
) -> Explanation:
    """Decide on a request and say why. Total: never raises.

    `body` is the complete body; `head` announces it (`Content-Length`) as on the wire. The rest is as for
    `authorize_head`.
    """
    decision = _decide(endpoint, head, body, authority, prefix)
    target = parse_target(head.target, authority=authority)
    if isinstance(decision, Allow) or isinstance(target, Deny):
        return Explanation(decision=decision)
    segments = target.below(prefix).segments
    ranked = sorted(
        [(_nearness(operation, head.method, segments), operation) for operation in endpoint.grant.operations],
        key=lambda one: one[0],
        reverse=True,
    )
    near = []
    for nearness, operation in ranked[:_NEAR]:
        alone = _decide(_with_only(endpoint, operation), head, body, authority, prefix)
        if isinstance(alone, Deny):
            near.append((nearness, _ORDER[alone.reason], Near(operation=operation, denial=alone)))
    near.sort(key=lambda one: one[:2], reverse=True)
    return Explanation(decision=decision, near=tuple([one for _, _, one in near]))


def _decide(
    endpoint: Endpoint, head: RequestHead, body: bytes, authority: Authority | None, prefix: tuple[str, ...]
) -> Allow | Deny:
    granted = authorize_head(endpoint, head, authority=authority, prefix=prefix)
    return granted if isinstance(granted, Deny) else authorize_body(granted, body)


def _with_only(endpoint: Endpoint, operation: Operation) -> Endpoint:
    grant = replace(endpoint.grant, operations=(operation,))
    return replace(endpoint, grant=grant, index=build_index(grant))


def _nearness(operation: Operation, method: bytes, segments: tuple[str, ...]) -> tuple[bool, bool, int, bool, int]:
    declared = operation.route.segments
    leading = 0
    for segment, part in zip(segments, declared, strict=False):
        if not (fits_segment(part, segment) if isinstance(part, PathParameter) else part == segment):
            break
        leading += 1
    fits = leading == len(segments) == len(declared)
    same = operation.method.encode("utf-8") == method
    return fits and same, fits, leading, same, -abs(len(segments) - len(declared))
