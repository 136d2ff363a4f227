"""What whoever runs the proxy can do about a refusal, by its reason. Pure: words only.

Every `Reason` has a remedy here, or is on `CLIENT_ONLY`, since what it names is the client's to change and its refusal
says how.
"""

from collections.abc import Mapping
from typing import Final

from grants.decision import Reason, Rule

_EXPLAIN = "`grantproxy explain GRANT METHOD URL` says what the grant lacks; widen it if the call is meant"
_ANSWER = (
    "the upstream answers with something that the operation's `response` does not declare; widen it if that is meant"
)
_REACH = "the upstream cannot be reached; check the endpoint's `upstream`, and the network of this machine"
_REPORT = "the box did not report that, or the broker has it not; compare its report with the `broker` settings"
_REDIRECT = "the upstream redirects to what the grant has no operation for; add one if that is meant"
_STRICT = "the upstream does not speak strict HTTP/1.1; put a server that does in front of it"

REMEDIES: Final[Mapping[str, str]] = {
    # who asks, and where it goes
    Reason.TLS_CLIENT: 'the client does not trust the proxy\'s CA; run `eval "$(grantproxy env)"` where it starts',
    Reason.NOT_HTTP: "the client speaks no TLS inside the tunnel; call the endpoint by https",
    Reason.PLAIN_HTTP: "call the endpoint by https",
    Reason.BOX_UNKNOWN: "the client shows no box's token; give it one, for `Proxy-Authorization` or the base URL",
    Reason.BOX_TOKEN_LEAK: (
        "the client sends its box's token elsewhere too; send it only where the proxy takes it; a client that repeats "
        "it inside the tunnel needs the endpoint's base URL instead, with `/box/TOKEN`"
    ),
    Reason.BOX_ENDPOINT: "the box may not use that endpoint; add it to the box's `endpoints` if it is meant",
    Reason.BOX_TUNNEL: "the box may open no tunnels; set its `tunnels` if they are meant",
    Reason.HOST_UNKNOWN: (
        "the host is no endpoint and no tunnel; if the call is meant, add an endpoint with that upstream, or the host "
        "and port to `tunnels.allow`"
    ),
    Reason.HOST_MISMATCH: "the client names two hosts; call a base URL by its own address, or add the name to `hosts`",
    Reason.CROSS_SITE: "a web page made this call; use a program",
    Reason.INSIDE_ADDRESS: (
        "the name resolves to an inside address; write the upstream as that address, or set `allowInside`, if meant"
    ),
    # the broker
    Reason.SCOPE: _REPORT,
    Reason.BROKER_ROUTE: "the broker has no such path; check the URLs that the box was given (`grantproxy box env`)",
    Reason.SECRET_UNHELD: "the broker holds no secret of that name; add it to `broker.secrets`",
    Reason.FEEDBACK_OFF: "no one takes feedback; set `broker.feedback` if it is wanted",
    Reason.ANSWER_UNUSABLE: _ANSWER,
    Reason.STATE: "the broker's database cannot be asked; see that it runs, and that its disk has room",
    # operation
    Reason.NO_OPERATION: _EXPLAIN,
    Reason.METHOD: _EXPLAIN,
    Reason.ROUTE: _EXPLAIN,
    Reason.PATH_PARAMETER: _EXPLAIN,
    Reason.PATH_SEGMENT: _EXPLAIN,
    Reason.ORIGIN: "the operation is for other origins than the endpoint's; its `origins` say which",
    Reason.AMBIGUOUS: "two operations match one request; tell them apart by route or values",
    Reason.QUERY_UNDECLARED: _EXPLAIN,
    Reason.QUERY_MISSING: _EXPLAIN,
    Reason.QUERY_VALUE: _EXPLAIN,
    Reason.QUERY_TOO_LONG: _EXPLAIN,
    Reason.QUERY_URL: _EXPLAIN,
    Reason.HEADER_UNDECLARED: "declare the header, or set `undeclaredHeaders: strip` at the top of the grant",
    Reason.HEADER_MISSING: _EXPLAIN,
    Reason.HEADER_VALUE: _EXPLAIN,
    Reason.HEADER_TOO_LONG: _EXPLAIN,
    Reason.BODY_NOT_ALLOWED: _EXPLAIN,
    Reason.BODY_MISSING: _EXPLAIN,
    Reason.BODY_TOO_LARGE: "the body is over the operation's `body.maxBytes`, or `limits.bodyBytes`; raise it if meant",
    Reason.BODY_MEDIA_TYPE: _EXPLAIN,
    Reason.BODY_SCHEMA: _EXPLAIN,
    # references
    Reason.REFERENCE_UNKNOWN: "the client names a secret that the endpoint does not hold; add it to `secrets`",
    Reason.REFERENCE_EMPTY: "the secret cannot be read; `grantproxy serve` says why at its start",
    # the answer
    Reason.CREDENTIAL: "an upstream showed a credential; replace it, and find what echoes it",
    Reason.STATUS: _ANSWER,
    Reason.MEDIA_TYPE: _ANSWER,
    Reason.RESPONSE_SCHEMA: _ANSWER,
    Reason.RESPONSE_JSON: _ANSWER,
    Reason.RESPONSE_EMPTY: _ANSWER,
    Reason.RESPONSE_NOT_EMPTY: _ANSWER,
    Reason.RESPONSE_TOO_LARGE: "the answer is over the operation's `response.maxBytes`; ask for less or raise it",
    Reason.RESPONSE_HEAD_TOO_LARGE: "the upstream's answer has a head over its limit; see what it sets there",
    Reason.RESPONSE_CODING: "the upstream codes its answer in a way that cannot be read; have it send gzip, or none",
    # redirects
    Reason.REDIRECT_NOT_ALLOWED: "the upstream redirects; set `redirects` in the grant if that is meant",
    Reason.REDIRECT_HOPS: "the upstream redirects too often; raise `redirects.maxHops` if that is meant",
    Reason.REDIRECT_METHOD: _REDIRECT,
    Reason.REDIRECT_LOCATION: "the upstream redirects to no URL that can be read in one way; use its final address",
    Reason.REDIRECT_ORIGIN: "a redirect leaves the upstream; add its origin to `redirects.allowedOrigins` if meant",
    Reason.REDIRECT_REQUEST: _REDIRECT,
    # transport to the upstream
    Reason.RESOLVE: _REACH,
    Reason.CONNECT: _REACH,
    Reason.TIMEOUT: "the upstream is too slow; raise the endpoint's `timeout` if that is usual",
    Reason.TLS: (
        "no verified TLS to the upstream: for `unknown-ca` set the endpoint's `ca` if it is a private one, for "
        "`name-mismatch` its `upstream`; anything else is the upstream's to mend"
    ),
    Reason.MALFORMED: _STRICT,
    Reason.INCOMPLETE: "the upstream ended its connection within an answer; its own messages tell why",
    Reason.UPGRADE: _STRICT,
    # ourselves
    Reason.LOG: "the decision log could not be written; make room on its disk",
    Reason.CAPACITY: "too much at one time; raise the endpoint's `concurrent`, or `limits.clients`, if it is yours",
    Reason.CLIENT_SLOW: "the client does not take its answer; see what it waits for",
    Reason.SHUTDOWN: "the proxy was stopping; give `serve` a longer `--grace` if calls last longer",
    Reason.WORKER_LOST: "a worker process was killed; see whether the machine ran out of memory",
    Rule.FAULT: "a fault of this program; its messages on standard error tell more",
}
"""What to do, by reason, or by rule where the reason has none."""

CLIENT_ONLY: Final = frozenset(
    {
        # the request's head or target cannot be read in exactly one way: the client's own bytes
        Reason.HEAD_UNREADABLE, Reason.HEAD_TOO_LARGE, Reason.HEAD_TOO_SLOW, Reason.BODY_TOO_SLOW, Reason.CLIENT_LEFT,
        Reason.FRAMING, Reason.EXPECTATION, Reason.HOST_UNREADABLE, Reason.TARGET_UNREADABLE, Reason.PATH_ENCODING,
        Reason.QUERY_MALFORMED, Reason.QUERY_REPEATED, Reason.HEADER_MALFORMED, Reason.HEADER_FORBIDDEN,
        Reason.HEADER_REPEATED, Reason.BODY_CODING, Reason.BODY_JSON,
        # what a box asked of the broker in a form that is not the protocol's, or that is another box's
        Reason.BROKER_METHOD, Reason.REPORT_INVALID, Reason.DECIDE_INVALID, Reason.FEEDBACK_INVALID,
        Reason.FEEDBACK_WITHHELD, Reason.NOT_OWN,
    }
)  # fmt: skip
"""Reasons that need no remedy of the operator's: nothing in settings or grants makes such a request a good one."""

_CREDENTIAL = "the upstream refused the credential; check the endpoint's `secrets`"
ANSWERS: Final[Mapping[int, str]] = {
    401: _CREDENTIAL,
    403: _CREDENTIAL + ", and what it may do there",
    429: "the upstream's own limit is reached; ask less often",
}
"""What to do about an upstream's answer, by its status."""


def once(told: dict[str, str], helps: str | None, what: str) -> str:
    """What helps with `what`; where that was told before, with what. Keeps in `told` what was. Empty: nothing does."""
    if not helps:
        return ""
    first = told.setdefault(helps, what)
    return helps if first == what else f"as for {first}"
