"""The words of a decision: rule, reason, refusal.

Their values are stable text in records and refusals: add, never rename.
Source: "What a refusal looks like" in docs/reference/refusals.md.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import final


class Rule(StrEnum):
    """The kind of refusal. The values are log text: add, never rename."""

    REQUEST = "semantic-request-deny"
    REDIRECT = "semantic-redirect-deny"
    RESPONSE_SIZE = "semantic-response-size"
    RESPONSE_CREDENTIAL = "semantic-response-credential"
    RESPONSE_STATUS = "semantic-response-status"
    RESPONSE_SCHEMA = "semantic-response-schema"
    TRANSPORT = "semantic-transport"
    UNRESOLVED_SECRET = "unresolved-secret-ref"  # noqa: S105 - a word, not a secret
    UPSTREAM_ERROR = "upstream-error"
    BAD_REQUEST = "bad-request"
    DENIED = "denied"
    MISDIRECTED = "misdirected"
    FAULT = "fault"


class Reason(StrEnum):
    """Why a request or an answer was refused. The values are log text: add, never rename."""

    # the request's head cannot be read in exactly one way
    HEAD_UNREADABLE = "head-unreadable"
    HEAD_TOO_LARGE = "head-too-large"
    HEAD_TOO_SLOW = "head-too-slow"
    BODY_TOO_SLOW = "body-too-slow"
    CLIENT_LEFT = "client-left"
    FRAMING = "framing"
    EXPECTATION = "expectation"
    # who asks, and where it goes
    BOX_UNKNOWN = "box-unknown"
    BOX_TOKEN_LEAK = "box-token-leak"  # noqa: S105 - a word, not a secret
    BOX_ENDPOINT = "box-endpoint"
    BOX_TUNNEL = "box-tunnel"
    HOST_UNKNOWN = "host-unknown"
    HOST_UNREADABLE = "host-unreadable"
    HOST_MISMATCH = "host-mismatch"
    PLAIN_HTTP = "plain-http"
    CROSS_SITE = "cross-site"
    NOT_HTTP = "not-http"
    TLS_CLIENT = "tls-client-error"
    INSIDE_ADDRESS = "inside-address"
    # the broker
    BROKER_ROUTE = "broker-route"
    BROKER_METHOD = "broker-method"
    SCOPE = "scope"
    SECRET_UNHELD = "secret-unheld"  # noqa: S105 - a word, not a secret
    REPORT_INVALID = "report-invalid"
    DECIDE_INVALID = "decide-invalid"
    FEEDBACK_INVALID = "feedback-invalid"
    FEEDBACK_OFF = "feedback-off"
    FEEDBACK_WITHHELD = "feedback-withheld"
    NOT_OWN = "not-own"
    ANSWER_UNUSABLE = "answer-unusable"
    STATE = "state-unavailable"
    # target
    TARGET_UNREADABLE = "target-unreadable"
    PATH_ENCODING = "path-encoding"
    PATH_SEGMENT = "path-segment"
    # operation
    NO_OPERATION = "no-operation"
    METHOD = "method"
    ROUTE = "route"
    PATH_PARAMETER = "path-parameter"
    ORIGIN = "origin"
    AMBIGUOUS = "ambiguous-operation"
    # query
    QUERY_MALFORMED = "query-malformed"
    QUERY_UNDECLARED = "query-undeclared"
    QUERY_REPEATED = "query-repeated"
    QUERY_MISSING = "query-missing"
    QUERY_VALUE = "query-value"
    QUERY_TOO_LONG = "query-too-long"
    QUERY_URL = "query-url"
    # headers
    HEADER_MALFORMED = "header-malformed"
    HEADER_FORBIDDEN = "header-forbidden"
    HEADER_UNDECLARED = "header-undeclared"
    HEADER_REPEATED = "header-repeated"
    HEADER_MISSING = "header-missing"
    HEADER_VALUE = "header-value"
    HEADER_TOO_LONG = "header-too-long"
    # body, of a request or of an answer
    BODY_NOT_ALLOWED = "body-not-allowed"
    BODY_MISSING = "body-missing"
    BODY_TOO_LARGE = "body-too-large"
    BODY_MEDIA_TYPE = "body-media-type"
    BODY_CODING = "body-coding"
    BODY_JSON = "body-json"
    BODY_SCHEMA = "body-schema"
    # references
    REFERENCE_UNKNOWN = "reference-unknown"
    REFERENCE_EMPTY = "reference-empty"
    # the answer
    STATUS = "status"
    MEDIA_TYPE = "media-type"
    CREDENTIAL = "credential"
    RESPONSE_TOO_LARGE = "response-too-large"
    RESPONSE_HEAD_TOO_LARGE = "response-head-too-large"
    RESPONSE_CODING = "response-coding"
    RESPONSE_EMPTY = "response-empty"
    RESPONSE_NOT_EMPTY = "response-not-empty"
    RESPONSE_JSON = "response-json"
    RESPONSE_SCHEMA = "response-schema"
    # redirects
    REDIRECT_NOT_ALLOWED = "redirect-not-allowed"
    REDIRECT_HOPS = "redirect-hops"
    REDIRECT_METHOD = "redirect-method"
    REDIRECT_LOCATION = "redirect-location"
    REDIRECT_ORIGIN = "redirect-origin"
    REDIRECT_REQUEST = "redirect-request"
    # transport to the upstream
    CONNECT = "connect"
    TLS = "tls"
    RESOLVE = "resolve"
    TIMEOUT = "timeout"
    MALFORMED = "malformed-response"
    INCOMPLETE = "incomplete-response"
    UPGRADE = "unasked-upgrade"
    # ourselves
    FAULT = "fault"
    LOG = "log-unavailable"
    CLIENT_SLOW = "client-slow"
    CAPACITY = "capacity"
    SHUTDOWN = "shutdown"
    WORKER_LOST = "worker-lost"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """A refusal.

    Attributes:
        rule: the kind of refusal.
        reason: the finer word.
        detail: one sentence for an agent to act on. Never holds a secret value, a header value
            of the client or any byte of an answer.
        status: the HTTP status of the refusal.
        operation: the operation's name, once one is known.
    """

    rule: Rule
    reason: Reason
    detail: str
    status: int = 403
    operation: str | None = None
