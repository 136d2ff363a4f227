"""The ways in which an exchange fails, each with its words for the record and its status.

Every low-level error becomes one of these where it is caught; nothing of its text is kept.
"""

from addons.ports import UpstreamFailed
from addons.record import TlsCause
from grants.decision import Reason, Rule


def fault() -> UpstreamFailed:
    """The request cannot be written as one request: nothing of it was sent."""
    return UpstreamFailed(Rule.FAULT, Reason.FAULT, 500)


def inside_address() -> UpstreamFailed:
    """The origin is, or resolves to, an inside address that nobody consented to."""
    return UpstreamFailed(Rule.DENIED, Reason.INSIDE_ADDRESS, 403)


def unresolved() -> UpstreamFailed:
    """The name has no address."""
    return UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.RESOLVE)


def unreachable() -> UpstreamFailed:
    """No address took the connection."""
    return UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.CONNECT)


def untrusted(cause: TlsCause) -> UpstreamFailed:
    """The TLS handshake failed: certificate, name, version or protocol."""
    return UpstreamFailed(Rule.TRANSPORT, Reason.TLS, tls=cause)


def timed_out() -> UpstreamFailed:
    """The time to connect, or for the whole exchange, is over."""
    return UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504)


def at_capacity() -> UpstreamFailed:
    """No connection became free in time."""
    return UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.CAPACITY, 503)


def shutting_down() -> UpstreamFailed:
    """The pool is closed."""
    return UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.SHUTDOWN, 503)


def malformed() -> UpstreamFailed:
    """The answer cannot be read in exactly one way."""
    return UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.MALFORMED)


def incomplete() -> UpstreamFailed:
    """The connection ended before the answer did."""
    return UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.INCOMPLETE)


def unasked_upgrade() -> UpstreamFailed:
    """101, which no request asked for."""
    return UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.UPGRADE)


def head_too_large() -> UpstreamFailed:
    """More header or trailer than is read."""
    return UpstreamFailed(Rule.RESPONSE_SIZE, Reason.RESPONSE_HEAD_TOO_LARGE)


def body_too_large() -> UpstreamFailed:
    """More body than the operation allows."""
    return UpstreamFailed(Rule.RESPONSE_SIZE, Reason.RESPONSE_TOO_LARGE)
