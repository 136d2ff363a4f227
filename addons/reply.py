"""A checked answer or a refusal as the bytes of an HTTP/1.1 response (RFC 9112, 4 and 6)."""

from grants.message import Relay

from .refusal import phrase

_STATUS_LINES = {status: b"HTTP/1.1 %d %s\r\n" % (status, phrase(status).encode()) for status in range(200, 600)}

BARE_500 = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""What a client is shown when there is nothing else that may be shown."""


def reply_bytes(relay: Relay, *, method: bytes, close: bool) -> bytes:
    """One response, framed by its length; without the body for HEAD."""
    parts = [_STATUS_LINES[relay.status]]
    for name, value in relay.fields:
        parts += (name, b": ", value, b"\r\n")
    if relay.length is not None:
        parts.append(b"Content-Length: %d\r\n" % relay.length)
    if close:
        parts.append(b"Connection: close\r\n")
    parts.append(b"\r\n")
    if method != b"HEAD":
        parts.append(relay.body)
    return b"".join(parts)
