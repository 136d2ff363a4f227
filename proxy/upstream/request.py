"""A request as bytes (RFC 9112, 3): one buffer, built once, written once; with its body, or the head alone.

What comes in was built from a grant. The checks here are the last line all the same: a byte that could start another
line, another field or another request is a fault, and nothing is written.
"""

import re
from functools import lru_cache

from grants.message import Fields, Outgoing

from .failures import fault

_VISIBLE = bytes(range(0x21, 0x7F))
_LINE = b"\t\r\n " + _VISIBLE
_METHOD = re.compile(rb"[A-Z]+")
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PROTOCOL = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+(/[!#$%&'*+\-.^_`|~0-9A-Za-z]+)?")
_OURS = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"trailer", b"te"})
_BODY_EXPECTED = frozenset({b"POST", b"PUT", b"PATCH"})


def write_request(request: Outgoing, host: bytes) -> bytes:
    """The bytes of `request`: request line, Host, its fields in their order, Content-Length, body.

    Content-Length is written for every body, also an empty one, and as 0 where the method expects a body and there is
    none (RFC 9110, 8.6). Connection is not: persistence is the default.

    Raises:
        UpstreamFailed: it could be read as anything but this one request.
    """
    body = request.body
    framing: tuple[bytes, ...] = ()
    if body is not None or request.method in _BODY_EXPECTED:
        framing = (b"Content-Length: %d" % len(body or b""),)
    head = _head(request, host, request.fields, framing)
    return head + body if body else head


def write_head(request: Outgoing, host: bytes, *, length: int | None, upgrade: frozenset[bytes]) -> bytes:
    """The head of `request`, whose body is `length` bytes: 0 for none, None for a chunked one.

    With `upgrade`, the protocols that its one Upgrade field names, Connection is written with it (RFC 9110, 7.8).

    Raises:
        UpstreamFailed: it could be read as anything but this one request.
    """
    if upgrade:
        if length != 0:
            raise fault()
        fields = tuple(field for field in request.fields if field[0].lower() not in (b"connection", b"upgrade"))
        framing: tuple[bytes, ...] = (b"Connection: Upgrade", b"Upgrade: " + b", ".join(sorted(upgrade)))
        return _head(request, host, fields, framing)
    if length is None:
        framing = (b"Transfer-Encoding: chunked",)
    elif length or request.method in _BODY_EXPECTED:
        framing = (b"Content-Length: %d" % length,)
    else:
        framing = ()
    return _head(request, host, request.fields, framing)


def protocols_of(fields: Fields) -> frozenset[bytes]:
    """The protocols, lower case, that the one Upgrade field among `fields` asks for.

    Raises:
        UpstreamFailed: there is no such field, or more than one, or Connection says anything else.
    """
    asked = [value for name, value in fields if name.lower() == b"upgrade"]
    options = [value.lower() for name, value in fields if name.lower() == b"connection"]
    protocols = frozenset(protocol.strip().lower() for protocol in asked[0].split(b",")) if len(asked) == 1 else ()
    if not protocols or not all(_PROTOCOL.fullmatch(p) for p in protocols) or options not in ([], [b"upgrade"]):
        raise fault()
    return frozenset(protocols)


def _head(request: Outgoing, host: bytes, fields: Fields, framing: tuple[bytes, ...]) -> bytes:
    method, target = request.method, request.target
    if not _sendable_method(method) or target[:1] != b"/" or b"#" in target or target.translate(None, _VISIBLE):
        raise fault()
    lines = [b"%b %b HTTP/1.1" % (method, target), b"Host: " + host]
    for name, value in fields:
        if not _sendable_name(name):
            raise fault()
        lines.append(b"%b: %b" % (name, value))
    lines += framing
    lines.append(b"\r\n")
    head = b"\r\n".join(lines)
    # Each line ends with the one CRLF that was put there, so any more of either byte came from a value.
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or head.translate(None, _LINE):
        raise fault()
    return head


@lru_cache(maxsize=256)
def _sendable_method(method: bytes) -> bool:
    # CONNECT would turn the connection into a tunnel.
    return _METHOD.fullmatch(method) is not None and method != b"CONNECT"


@lru_cache(maxsize=1024)
def _sendable_name(name: bytes) -> bool:
    return _TOKEN.fullmatch(name) is not None and name.lower() not in _OURS
