"""What a refused client is shown: a problem document (RFC 9457) that an agent can act on."""

import json
from http import HTTPStatus

from grants.broker.refusals import refusal_body
from grants.decision import Deny
from grants.message import Relay

_TITLES = {
    400: "unreadable request",
    403: "outside the grant",
    407: "client unknown",
    408: "too slow",
    413: "request body over its limit",
    417: "expectation not met",
    421: "misdirected request",
    429: "budget used up",
    431: "request header too large",
    500: "the proxy failed",
    502: "no answer that may be shown",
    503: "not now",
    504: "the upstream was too slow",
}


def phrase(status: int) -> str:
    """The standard reason phrase, empty where there is none. An upstream's own is never relayed."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def refusal(denial: Deny, decision: str, *, terse: bool) -> Relay:
    """The document for `denial`. `decision` is the id of its record; `terse` leaves the detail out."""
    document: dict[str, object] = {
        "type": f"tag:grantproxy,2026:{denial.rule.value}",
        "title": _TITLES.get(denial.status, phrase(denial.status).lower()),
        "status": denial.status,
    }
    if not terse:
        document["detail"] = denial.detail
    document["rule"] = denial.rule.value
    document["reason"] = denial.reason.value
    if denial.operation is not None:
        document["operation"] = denial.operation
    document["decision"] = decision
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
    fields: tuple[tuple[bytes, bytes], ...] = (
        (b"Content-Type", b"application/problem+json"),
        (b"Cache-Control", b"no-store"),
    )
    if denial.status == 503:
        fields += ((b"Retry-After", b"1"),)
    if denial.status == 407:
        fields += ((b"Proxy-Authenticate", b'Basic realm="grantproxy"'),)
    return Relay(status=denial.status, fields=fields, body=body, length=len(body))


def broker_refusal(denial: Deny, methods: bytes) -> Relay:
    """The document of the broker protocol. Its message is part of that protocol, so it is always there.

    `methods`: the value of `Allow` for a 405, else empty.
    """
    body = refusal_body(denial.status, denial.detail)
    fields: tuple[tuple[bytes, bytes], ...] = ((b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store"))
    if methods:
        fields += ((b"Allow", methods),)
    if denial.status == 401:
        fields += ((b"WWW-Authenticate", b'Bearer realm="grantproxy"'),)
    if denial.status == 503:
        fields += ((b"Retry-After", b"1"),)
    return Relay(status=denial.status, fields=fields, body=body, length=len(body))
