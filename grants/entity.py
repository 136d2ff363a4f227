"""What the head of a request says about its body, held to the operation's body rule before the body is read.

Source: "Body" in docs/reference/matching.md.
"""

from .decision import Deny, Reason, Rule
from .framing import Framing
from .headers import Forwarded
from .mediatype import parse_media_type
from .message import Fields
from .model import BodyRule, Operation
from .text import listed, quoted

_TYPE = b"content-type"
_CODING = b"content-encoding"


def check_announced(operation: Operation, framing: Framing, forwarded: Forwarded) -> Fields | Deny:
    """Hold the announced body to the rule and return the fields that go upstream. Total: never raises.

    A `Content-Type` that was left out because the operation does not declare it is checked all the same, and goes
    upstream as the bare media type that was granted: the upstream would read the body by it.
    """
    rule = operation.body
    if rule is None:
        if framing.has_body:
            detail = f"{_of(operation)} takes no body"
            return Deny(rule=Rule.REQUEST, reason=Reason.BODY_NOT_ALLOWED, detail=detail, operation=operation.name)
        return forwarded.fields
    if not framing.has_body:
        return _deny(Reason.BODY_MISSING, f"{_of(operation)} needs a body of {_types(rule)}", operation)
    if framing.length is not None and framing.length > rule.max_bytes:
        return too_large(operation, rule)
    types = [value for _, lower, value in framing.rest if lower == _TYPE]
    media_type = parse_media_type(types[0]) if len(types) == 1 else None
    if media_type is None or media_type not in rule.content_types:
        detail = f"{_of(operation)} takes a body with one Content-Type of {_types(rule)}, in UTF-8"
        return _deny(Reason.BODY_MEDIA_TYPE, detail, operation)
    if any(lower == _CODING and value.lower() != b"identity" for _, lower, value in framing.rest):
        return _deny(Reason.BODY_CODING, f"{_of(operation)} takes a body without a content coding", operation)
    if any(name == _TYPE for name, _ in forwarded.stripped):
        return (*forwarded.fields, (b"Content-Type", media_type.encode("ascii")))
    return forwarded.fields


def too_large(operation: Operation, rule: BodyRule) -> Deny:
    """The refusal of a body that is over its limit."""
    detail = f"the body is larger than {_of(operation)} takes, which is {rule.max_bytes} bytes"
    return Deny(rule=Rule.REQUEST, reason=Reason.BODY_TOO_LARGE, detail=detail, status=413, operation=operation.name)


def _types(rule: BodyRule) -> str:
    return listed(sorted(rule.content_types))


def _of(operation: Operation) -> str:
    return f"operation {quoted(operation.name)}"


def _deny(reason: Reason, detail: str, operation: Operation) -> Deny:
    return Deny(rule=Rule.REQUEST, reason=reason, detail=detail, operation=operation.name)
