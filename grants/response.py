"""Hold a complete answer to the contract of its operation, and say what of it may go to the client.

The order is part of the contract: size, credential, status, content type, schema. A refusal shows nothing of the
answer: its text is made of the grant's words only. Source: "Grant file" in the specification;
docs/reference/responses.md.
"""

from collections.abc import Iterable
from typing import Final

from .coding import MAX_CODINGS, CodingError, CodingFault, content_codings, decode
from .decision import Deny, Reason, Rule
from .disclosure import Scanner
from .mediatype import parse_media_type
from .message import Relay, Response
from .model import Operation, ResponseRule
from .response_head import MAX_FIELDS, MAX_HEAD_BYTES, HeadFault, announced_length, head_fault, relayed
from .secret import Secret
from .shape import ProblemKind, check_json
from .text import listed

MAX_INTERMEDIATE_BYTES: Final = 64 * 1024
"""Limit of a body that is read and dropped on the way through a redirect, as received and decoded."""

_WITHOUT_CONTENT: Final = frozenset({204, 304})


def check_response(
    operation: Operation, *, method: bytes, response: Response, needles: Iterable[Secret]
) -> Relay | Deny:
    """Hold `response` to the operation. Pure, total, never raises.

    Args:
        operation: the one that the request was authorized by; of the last hop, where redirects were followed.
        method: as sent upstream. An answer to HEAD has no body.
        response: complete.
        needles: every value that it may not hold, injected into this request or not, and encoded Basic credentials.
    """
    rule = operation.response
    body = _examine(response, needles, rule.max_bytes, operation.name)
    if isinstance(body, Deny):
        return body
    denial = _status(rule, response, operation.name)
    if denial is not None:
        return denial
    if method == b"HEAD" or response.status in _WITHOUT_CONTENT:
        return _without_content(rule, response, operation.name)
    denial = _content(rule, response, body, operation.name)
    if denial is not None:
        return denial
    return Relay(status=response.status, fields=relayed(response.fields, rule.headers), body=body, length=len(body))


def scan_intermediate(response: Response, needles: Iterable[Secret], *, operation: str | None = None) -> Deny | None:
    """Whether a redirect's answer, which is dropped, may be followed. Pure, total, never raises.

    It is held to a limit of its own and holds no credential; what else it is does not matter.
    """
    if len(response.body) > MAX_INTERMEDIATE_BYTES:
        return _too_large(MAX_INTERMEDIATE_BYTES, operation)
    body = _examine(response, needles, MAX_INTERMEDIATE_BYTES, operation)
    return body if isinstance(body, Deny) else None


def _examine(response: Response, needles: Iterable[Secret], limit: int, operation: str | None) -> bytes | Deny:
    """Size and credential: what every answer is held to. Returns the decoded body."""
    fault = head_fault(response)
    if fault is HeadFault.MALFORMED:
        detail = "the upstream's answer has a field that is not well formed"
        return _deny(Rule.UPSTREAM_ERROR, Reason.MALFORMED, detail, operation)
    if fault is HeadFault.TOO_LARGE:
        detail = f"the answer's header is over {MAX_FIELDS} fields or {MAX_HEAD_BYTES} bytes"
        return _deny(Rule.RESPONSE_SIZE, Reason.RESPONSE_HEAD_TOO_LARGE, detail, operation)
    try:
        layers = decode(content_codings(response.fields), response.body, limit=limit)
    except CodingError as error:
        return _undecodable(error.fault, limit, operation)
    if len(layers[-1]) > limit:
        return _too_large(limit, operation)
    if Scanner(needles).in_response(response, layers):
        detail = "the answer holds a credential of this endpoint"
        return _deny(Rule.RESPONSE_CREDENTIAL, Reason.CREDENTIAL, detail, operation)
    return layers[-1]


def _undecodable(fault: CodingFault, limit: int, operation: str | None) -> Deny:
    if fault is CodingFault.TOO_LARGE:
        return _too_large(limit, operation)
    if fault is CodingFault.MALFORMED:
        detail = "the answer's body is not one complete stream of its content coding"
    else:
        detail = f"the answer's content coding is not at most {MAX_CODINGS} of gzip, deflate, br, zstd"
    return _deny(Rule.UPSTREAM_ERROR, Reason.RESPONSE_CODING, detail, operation)


def _too_large(limit: int, operation: str | None) -> Deny:
    detail = f"the answer's body is over its limit of {limit} bytes"
    return _deny(Rule.RESPONSE_SIZE, Reason.RESPONSE_TOO_LARGE, detail, operation)


def _status(rule: ResponseRule, response: Response, operation: str) -> Deny | None:
    if response.status in rule.statuses:
        return None
    detail = f"the answer's status is not one of those granted: {listed(map(str, sorted(rule.statuses)))}"
    return _deny(Rule.RESPONSE_STATUS, Reason.STATUS, detail, operation)


def _without_content(rule: ResponseRule, response: Response, operation: str) -> Relay | Deny:
    """An answer that never has a body (RFC 9110, 9.3.2, 15.3.5, 15.4.5) needs no content type and no JSON."""
    if response.body:
        detail = "the upstream's answer has a body where none may be"
        return _deny(Rule.UPSTREAM_ERROR, Reason.RESPONSE_NOT_EMPTY, detail, operation)
    coded = bool(content_codings(response.fields))
    length = None if coded or response.status == 204 else announced_length(response.fields)
    return Relay(status=response.status, fields=relayed(response.fields, rule.headers), body=b"", length=length)


def _content(rule: ResponseRule, response: Response, body: bytes, operation: str) -> Deny | None:
    """Content type and schema."""
    if not body:
        if rule.empty:
            return None
        detail = f"the answer is empty; granted is one of {listed(sorted(rule.content_types))}"
        return _deny(Rule.RESPONSE_SCHEMA, Reason.RESPONSE_EMPTY, detail, operation)
    types = [value for name, value in response.fields if name.lower() == b"content-type"]
    if len(types) != 1 or parse_media_type(types[0]) not in rule.content_types:
        detail = (
            f"the answer's content type is not one of those granted: {listed(sorted(rule.content_types))}, in UTF-8"
        )
        return _deny(Rule.RESPONSE_SCHEMA, Reason.MEDIA_TYPE, detail, operation)
    problem = check_json(rule.json, body, show_names=False)
    if problem is None:
        return None
    reason = Reason.RESPONSE_JSON if problem.kind is ProblemKind.JSON else Reason.RESPONSE_SCHEMA
    return _deny(Rule.RESPONSE_SCHEMA, reason, f"the answer's body: {problem.detail}", operation)


def _deny(rule: Rule, reason: Reason, detail: str, operation: str | None) -> Deny:
    return Deny(rule=rule, reason=reason, detail=detail, status=502, operation=operation)
