"""The heads of a relay: what of a client's request goes upstream, and what of an answer's head comes back.

End-to-end fields are relayed as they came; hop-by-hop ones (RFC 9110, 7.6.1) and the framing are made anew.
"""

from dataclasses import dataclass
from typing import Final, final

from grants.broker.capabilities import has_dot_segment
from grants.canonical import parse_authority
from grants.decision import Deny, Reason, Rule
from grants.framing import HOP_BY_HOP
from grants.message import Authority, Fields, Origin, Outgoing, RequestHead
from grants.target import encode_path

from .refusal import phrase
from .streams import ResponseHead

_MADE_ANEW: Final = HOP_BY_HOP | {b"host", b"content-length", b"expect"}
_WEBSOCKET: Final = b"websocket"
# CONNECT is the proxy's own; an answer to TRACE shows the request as the upstream got it (RFC 9110, 9.3.8).
_NEVER_RELAYED: Final = frozenset({b"CONNECT", b"TRACE"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A client's request as it goes upstream, references still in it.

    Attributes:
        upgrade: it asks for another protocol.
    """

    request: Outgoing
    upgrade: bool


def request_of(
    head: RequestHead,
    *,
    origin: Origin,
    base: tuple[str, ...],
    websocket: bool,
    authority: Authority | None,
    scheme: str,
    has_body: bool = False,
) -> Asked | Deny:
    """Build the request. `base` goes before the path (on a base URL); `authority` and `scheme` are those by which the
    client calls, for a target in absolute form.
    """
    if head.method in _NEVER_RELAYED:
        return _refuse(
            Reason.METHOD, "an answer to TRACE repeats the request, the credential in it too; it is not relayed"
        )
    target, prefix = head.target, f"{scheme}://".encode()
    if target.startswith(prefix):
        called, _, rest = target.removeprefix(prefix).partition(b"/")
        if authority is None or parse_authority(called, scheme=scheme) != authority:
            return _refuse(Reason.TARGET_UNREADABLE, "the target names another host than the connection")
        target = b"/" + rest
    if not target.startswith(b"/") or b"#" in target:
        return _refuse(Reason.TARGET_UNREADABLE, "the target is not a path, with a query or without one")
    if base and has_dot_segment(target.partition(b"?")[0]):
        return _refuse(Reason.PATH_SEGMENT, "a path below the upstream's own has no dot segment")
    for name, value in head.fields:
        if name.lower() == b"expect" and value.lower() != b"100-continue":
            detail = "the only expectation that is met is 100-continue"
            return Deny(rule=Rule.DENIED, reason=Reason.EXPECTATION, status=417, detail=detail)
    protocol, named = _connection(head.fields)
    # Any other protocol is not changed to: a server may leave an upgrade out of account (RFC 9110, 7.8).
    upgrade = protocol == _WEBSOCKET
    if upgrade and not websocket:
        return _refuse(Reason.UPGRADE, "this endpoint relays no WebSocket; set `websocket: true` to allow that")
    if upgrade and has_body:
        detail = "a request that asks for another protocol has no body"
        return Deny(rule=Rule.BAD_REQUEST, reason=Reason.FRAMING, status=400, detail=detail)
    fields = tuple(
        [(name, value) for name, value in head.fields if name.lower() not in _MADE_ANEW and name.lower() not in named]
    )
    if upgrade:
        fields += ((b"Connection", b"Upgrade"), (b"Upgrade", _WEBSOCKET))
    path = encode_path(base) if base else b""
    return Asked(
        request=Outgoing(origin=origin, method=head.method, target=path + target, fields=fields),
        upgrade=upgrade,
    )


def _connection(fields: Fields) -> tuple[bytes | None, frozenset[bytes]]:
    """The protocol that is asked for, and the fields that `Connection` names as hop-by-hop."""
    named: set[bytes] = set()
    upgrade: bytes | None = None
    for name, value in fields:
        if name.lower() == b"connection":
            named.update(word.strip().lower() for word in value.split(b","))
        elif name.lower() == b"upgrade":
            upgrade = value.lower()
    return (upgrade if b"upgrade" in named else None), frozenset(named)


def _refuse(reason: Reason, detail: str) -> Deny:
    return Deny(rule=Rule.DENIED, reason=reason, detail=detail)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """How a client calls a base URL, for a `Location` that leads back to it.

    Attributes:
        url: `http://host:port` and, where the box's token stands in the path, `/box/TOKEN`.
        upstream: the origin, and `base` the path, that the base URL stands for.
    """

    url: bytes
    upstream: Origin
    base: bytes

    def location(self, value: bytes) -> bytes:
        """A `Location` on the upstream's own origin, as the client can follow it; any other as it came."""
        rest = value
        for origin in _spellings(self.upstream):
            if value.lower().startswith(origin) and value[len(origin) : len(origin) + 1] in (b"", b"/", b"?"):
                rest = value[len(origin) :] or b"/"
                break
        else:
            if not value.startswith(b"/") or value.startswith(b"//"):
                return value
        path = rest.removeprefix(self.base) if self.base else rest
        if self.base and (path == rest or path[:1] not in (b"/", b"?", b"")):
            return value
        return self.url + (path if path.startswith(b"/") else b"/" + path)


def _spellings(origin: Origin) -> tuple[bytes, ...]:
    short = str(origin).encode()
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return f"{origin.scheme}://{host}:{origin.port}".encode(), short


def answer_head(head: ResponseHead, *, method: bytes, close: bool, called: Called | None) -> tuple[bytes, bool]:
    """The head of the answer as the client gets it, and whether the body goes out chunked."""
    named = _connection(head.fields)[1]
    parts = [b"HTTP/1.1 %d %s\r\n" % (head.status, phrase(head.status).encode())]
    lengths: list[bytes] = []
    for name, value in head.fields:
        lower = name.lower()
        if lower == b"content-length":
            lengths.append(value)
        elif lower not in _MADE_ANEW and lower not in named:
            shown = called.location(value) if called is not None and lower == b"location" else value
            parts += (name, b": ", shown, b"\r\n")
    if head.status == 101:
        parts += (b"Connection: Upgrade\r\n", b"Upgrade: ", _WEBSOCKET, b"\r\n\r\n")
        return b"".join(parts), False
    has_body = method != b"HEAD" and head.status not in (204, 304)
    chunked = has_body and head.length is None
    if chunked:
        parts.append(b"Transfer-Encoding: chunked\r\n")
    elif has_body:
        parts.append(b"Content-Length: %d\r\n" % (head.length or 0))
    elif lengths and head.status != 204:
        # What the body would be, had it come (RFC 9110, 8.6).
        parts.append(b"Content-Length: " + lengths[0] + b"\r\n")
    if close:
        parts.append(b"Connection: close\r\n")
    parts.append(b"\r\n")
    return b"".join(parts), chunked
