"""A request as bytes (RFC 9112, 3): one buffer, built once, written once.

What comes in was built from a grant. The checks here are the last line all the same: a byte that could start another
line, another field or another request is a fault, and nothing is written.
"""

import re
from functools import lru_cache

from grants.message import Origin, Outgoing

from .failures import fault

_VISIBLE = bytes(range(0x21, 0x7F))
_LINE = b"\t\r\n " + _VISIBLE
_METHOD = re.compile(rb"[A-Z]+")
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OURS = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"trailer", b"te"})
_BODY_EXPECTED = frozenset({b"POST", b"PUT", b"PATCH"})


def host_field(origin: Origin) -> bytes:
    """The value of Host: IPv6 in brackets, the default port left out (RFC 9110, 7.2)."""
    return str(origin).partition("://")[2].encode("ascii", "replace")


def write_request(request: Outgoing, host: bytes) -> bytes:
    """The bytes of `request`: request line, Host, its fields in their order, Content-Length, body.

    Content-Length is written for every body, also an empty one, and as 0 where the method expects a body and there is
    none (RFC 9110, 8.6). Connection is not: persistence is the default.

    Raises:
        UpstreamFailed: it could be read as anything but this one request.
    """
    method, target, body = request.method, request.target, request.body
    if not _sendable_method(method) or target[:1] != b"/" or b"#" in target or target.translate(None, _VISIBLE):
        raise fault()
    lines = [b"%b %b HTTP/1.1" % (method, target), b"Host: " + host]
    for name, value in request.fields:
        if not _sendable_name(name):
            raise fault()
        lines.append(b"%b: %b" % (name, value))
    if body is not None or method in _BODY_EXPECTED:
        lines.append(b"Content-Length: %d" % len(body or b""))
    lines.append(b"\r\n")
    head = b"\r\n".join(lines)
    # Each line ends with the one CRLF that was put there, so any more of either byte came from a value.
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or head.translate(None, _LINE):
        raise fault()
    return head + body if body else head


@lru_cache(maxsize=256)
def _sendable_method(method: bytes) -> bool:
    # CONNECT would turn the connection into a tunnel.
    return _METHOD.fullmatch(method) is not None and method != b"CONNECT"


@lru_cache(maxsize=1024)
def _sendable_name(name: bytes) -> bool:
    return _TOKEN.fullmatch(name) is not None and name.lower() not in _OURS
