"""The decision record: metadata only, by its type. Source: "Decision log" in docs/reference/records.md."""

from enum import StrEnum
from typing import final

from grants.immutable import immutable


class Event(StrEnum):
    """What a record says happened."""

    ALLOW = "broker_request_allow"
    DENY = "broker_request_deny"
    INTENT = "broker_request_intent"
    END = "broker_request_end"


class Mode(StrEnum):
    """How the client reached the proxy."""

    TERMINATE = "terminate"
    PROXY = "proxy"
    CONNECT = "connect"
    BROKER = "broker"


class EndedBy(StrEnum):
    """Which side ended a stream. A label of its end record."""

    CLIENT = "ended-by-client"
    UPSTREAM = "ended-by-upstream"
    PROXY = "ended-by-proxy"


TLS_ALERT = "tls-alert:"
"""Begins the label of a failed handshake; behind it what the client said, such as `unknown-ca`."""

UPSTREAM_TLS = "upstream-tls:"
"""Begins the label of a failed handshake with the upstream; behind it a word of `TlsCause`."""


class TlsCause(StrEnum):
    """Why TLS to an upstream did not come about. The values are log text: add, never rename."""

    UNKNOWN_CA = "unknown-ca"
    NAME_MISMATCH = "name-mismatch"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    CERTIFICATE = "bad-certificate"
    """Another fault of the certificate or its chain."""
    VERSION = "protocol-version"
    """The two sides have no version or cipher of TLS in common."""
    PROTOCOL = "application-protocol"
    """The upstream chose another protocol than HTTP/1.1."""
    NO_TLS = "not-tls"
    """What came is no TLS."""
    ALERT = "refused-by-upstream"
    """The upstream ended the handshake with an alert, as one does that wants a client's certificate."""
    CLOSED = "closed"
    """The connection ended in the handshake."""
    OTHER = "other"


class Signal(StrEnum):
    """What a reader of the log wants to filter by."""

    DENIED = "denied"
    UNRESOLVED_SECRET = "unresolved-secret-ref"  # noqa: S105 - a word, not a secret
    CREDENTIAL_DISCLOSED = "credential-disclosed"
    MISDIRECTED = "misdirected"
    INSIDE_ADDRESS = "inside-address"


@final
@immutable
class Record:
    """One record, less what the log itself adds (`ts`, `seq`, `chain`, `prev`).

    No path, no query, no header, no body, no secret value can stand in it.

    Attributes:
        id: unique, opaque; the refusal carries it as `decision`.
        endpoint: the endpoint's name, or None where there is none.
        host: the canonical host asked for, when it is a known one.
        method: a known HTTP method, or None.
        route: the route's template.
        resource_digest: keyed digest of the object that the path parameters name.
        status: the status that the client is answered with.
        upstream_status: the status of the upstream's last answer, or None where there was none.
        bytes_out: body bytes sent upstream. bytes_in: body bytes received from it.
        duration_ms: from the head to the record. Its line has three decimals.
        secret_refs: names of references that were used.
    """

    id: str
    event: Event
    mode: Mode
    verdict: str
    box: str | None = None
    endpoint: str | None = None
    host: str | None = None
    method: str | None = None
    assurance: str | None = None
    rule: str | None = None
    reason: str | None = None
    operation: str | None = None
    effect: str | None = None
    route: str | None = None
    resource_digest: str | None = None
    redirect_hops: int = 0
    final_host: str | None = None
    final_operation: str | None = None
    final_effect: str | None = None
    final_route: str | None = None
    final_resource_digest: str | None = None
    status: int | None = None
    upstream_status: int | None = None
    bytes_out: int = 0
    bytes_in: int = 0
    duration_ms: float = 0.0
    secret_refs: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()
    labels: tuple[str, ...] = ()
    grant_digest: str | None = None
