"""Writing a request: the exact bytes, and no byte where they could be read as another request."""

import pytest

from addons.ports import UpstreamFailed
from grants.canonical import authority_bytes
from grants.decision import Reason, Rule
from grants.message import Fields, Origin, Outgoing
from proxy.upstream.request import write_request

ORIGIN = Origin(scheme="https", host="api.example", port=443)


def outgoing(
    method: bytes = b"GET", target: bytes = b"/a?b=c", fields: Fields = (), body: bytes | None = None
) -> Outgoing:
    return Outgoing(origin=ORIGIN, method=method, target=target, fields=fields, body=body)


WRITTEN = [
    pytest.param(outgoing(), b"GET /a?b=c HTTP/1.1\r\nHost: api.example\r\n\r\n", id="no fields, no defaults"),
    pytest.param(
        outgoing(fields=((b"x-B", b"1"), (b"Accept", b"a/b, c/d"), (b"E", b""))),
        b"GET /a?b=c HTTP/1.1\r\nHost: api.example\r\nx-B: 1\r\nAccept: a/b, c/d\r\nE: \r\n\r\n",
        id="fields in their order and case",
    ),
    pytest.param(
        outgoing(b"POST", body=b"{}"),
        b"POST /a?b=c HTTP/1.1\r\nHost: api.example\r\nContent-Length: 2\r\n\r\n{}",
        id="body",
    ),
    pytest.param(
        outgoing(b"POST", body=b"a\r\n\0\xff"),
        b"POST /a?b=c HTTP/1.1\r\nHost: api.example\r\nContent-Length: 5\r\n\r\na\r\n\0\xff",
        id="any bytes in a body",
    ),
    pytest.param(
        outgoing(b"POST", body=b""),
        b"POST /a?b=c HTTP/1.1\r\nHost: api.example\r\nContent-Length: 0\r\n\r\n",
        id="empty body",
    ),
    pytest.param(
        outgoing(b"PATCH"),
        b"PATCH /a?b=c HTTP/1.1\r\nHost: api.example\r\nContent-Length: 0\r\n\r\n",
        id="no body where one is expected",
    ),
    pytest.param(
        outgoing(b"DELETE"), b"DELETE /a?b=c HTTP/1.1\r\nHost: api.example\r\n\r\n", id="DELETE without a body"
    ),
    pytest.param(
        outgoing(b"DELETE", body=b""),
        b"DELETE /a?b=c HTTP/1.1\r\nHost: api.example\r\nContent-Length: 0\r\n\r\n",
        id="DELETE with an empty body",
    ),
]


@pytest.mark.parametrize(("request_", "expected"), WRITTEN)
def test_written(request_: Outgoing, expected: bytes) -> None:
    """What goes out is the request line, Host, the fields as given, a length where there is a body, and no more."""
    assert write_request(request_, authority_bytes(ORIGIN)) == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        pytest.param(ORIGIN, b"api.example", id="default port left out"),
        pytest.param(Origin(scheme="https", host="api.example", port=8443), b"api.example:8443", id="port"),
        pytest.param(Origin(scheme="https", host="192.0.2.1", port=443), b"192.0.2.1", id="IPv4"),
        pytest.param(Origin(scheme="https", host="2001:db8::1", port=443), b"[2001:db8::1]", id="IPv6"),
        pytest.param(Origin(scheme="https", host="::1", port=80), b"[::1]:80", id="IPv6 and port"),
    ],
)
def test_host(origin: Origin, expected: bytes) -> None:
    """Host is the origin's authority (RFC 9110, 7.2)."""
    assert authority_bytes(origin) == expected


FAULTS = [
    pytest.param(outgoing(b"GET "), id="method with a space"),
    pytest.param(outgoing(b"get"), id="lower-case method"),
    pytest.param(outgoing(b""), id="no method"),
    pytest.param(outgoing(b"GET\r\n"), id="method with a line end"),
    pytest.param(outgoing(b"CONNECT"), id="CONNECT"),
    pytest.param(outgoing(target=b""), id="no target"),
    pytest.param(outgoing(target=b"*"), id="asterisk form"),
    pytest.param(outgoing(target=b"https://api.example/"), id="absolute form"),
    pytest.param(outgoing(target=b"/a b"), id="target with a space"),
    pytest.param(outgoing(target=b"/a\tb"), id="target with a tab"),
    pytest.param(outgoing(target=b"/a\r\nX: y"), id="target with a line end"),
    pytest.param(outgoing(target=b"/a\nb"), id="target with LF"),
    pytest.param(outgoing(target=b"/a\0"), id="target with NUL"),
    pytest.param(outgoing(target=b"/\xc3\xa9"), id="target with raw UTF-8"),
    pytest.param(outgoing(target=b"/a#b"), id="target with a fragment"),
    pytest.param(outgoing(fields=((b"X", b"a\r\nY: b"),)), id="value with a line end"),
    pytest.param(outgoing(fields=((b"X", b"a\r\n\r\nGET / HTTP/1.1"),)), id="value with another request"),
    pytest.param(outgoing(fields=((b"X", b"a\nb"),)), id="value with LF"),
    pytest.param(outgoing(fields=((b"X", b"a\rb"),)), id="value with CR"),
    pytest.param(outgoing(fields=((b"X", b"a\0b"),)), id="value with NUL"),
    pytest.param(outgoing(fields=((b"X", b"a\x7f"),)), id="value with DEL"),
    pytest.param(outgoing(fields=((b"X", b"\xff"),)), id="value that is not ASCII"),
    pytest.param(outgoing(fields=((b"", b"a"),)), id="empty name"),
    pytest.param(outgoing(fields=((b"X Y", b"a"),)), id="name with a space"),
    pytest.param(outgoing(fields=((b"X:", b"a"),)), id="name with a colon"),
    pytest.param(outgoing(fields=((b"X\r\nY", b"a"),)), id="name with a line end"),
    *(
        pytest.param(outgoing(fields=((name, b"a"),)), id=f"{name.decode()} as a field")
        for name in (b"Host", b"content-length", b"Transfer-Encoding", b"Connection", b"Upgrade", b"Trailer", b"TE")
    ),
]


@pytest.mark.parametrize("request_", FAULTS)
def test_faults(request_: Outgoing) -> None:
    """A byte that could start another line, field or request is a fault; nothing is written."""
    with pytest.raises(UpstreamFailed) as caught:
        write_request(request_, b"api.example")
    assert (caught.value.rule, caught.value.reason, caught.value.status) == (Rule.FAULT, Reason.FAULT, 500)
