"""The heads of a relay: end-to-end fields go through, framing and hop-by-hop fields are made anew."""

import pytest

from addons.relay_head import Asked, Called, answer_head, request_of
from addons.streams import ResponseHead
from grants.decision import Deny, Reason
from grants.message import Authority, Fields, Origin, RequestHead

ORIGIN = Origin(scheme="https", host="api.example", port=443)
HERE = Authority(host="127.0.0.1", port=9001)


def asked(
    target: bytes = b"/a?b",
    fields: Fields = (),
    *,
    method: bytes = b"GET",
    base: tuple[str, ...] = (),
    websocket: bool = False,
) -> Asked | Deny:
    """The request upstream for a client of a base URL."""
    head = RequestHead(method=method, target=target, fields=fields)
    return request_of(head, origin=ORIGIN, base=base, websocket=websocket, authority=HERE, scheme="http")


@pytest.mark.parametrize(
    ("target", "base", "expected"),
    [
        pytest.param(b"/a?b", (), b"/a?b", id="as it came"),
        pytest.param(b"/a/../%zz;x?b", (), b"/a/../%zz;x?b", id="not judged"),
        pytest.param(b"/a", ("v1", "x y"), b"/v1/x%20y/a", id="behind the upstream's own path"),
        pytest.param(b"http://127.0.0.1:9001/a", (), b"/a", id="absolute form"),
        pytest.param(b"http://127.0.0.1:9001", (), b"/", id="absolute form without a path"),
        pytest.param(b"http://other:9001/a", (), None, id="absolute form of another host"),
        pytest.param(b"https://127.0.0.1:9001/a", (), None, id="absolute form of another scheme"),
        pytest.param(b"*", (), None, id="asterisk"),
        pytest.param(b"/a#b", (), None, id="fragment"),
        pytest.param(b"a", (), None, id="no slash"),
    ],
)
def test_the_target_goes_through(target: bytes, base: tuple[str, ...], expected: bytes | None) -> None:
    """A relay judges no path; but a target that is none, or of another host, is refused."""
    made = asked(target, base=base)
    if expected is None:
        assert isinstance(made, Deny)
        assert made.reason is Reason.TARGET_UNREADABLE
    else:
        assert isinstance(made, Asked)
        assert (made.request.target, made.request.origin) == (expected, ORIGIN)


@pytest.mark.parametrize("method", [b"CONNECT", b"TRACE"])
def test_some_methods_are_not_relayed(method: bytes) -> None:
    """CONNECT is the proxy's own; an answer to TRACE holds the credential that was put in (RFC 9110, 9.3.8)."""
    made = asked(method=method)
    assert isinstance(made, Deny)
    assert made.reason is Reason.METHOD


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/../../admin", b"/a/%2e%2E/b", b"/./a", b"/..", b"/a%2f..%2fb", b"/a\\..", b"/..%5cb",
        b"/..;/admin", b"/a/..;x=y/b", b"/%2e%2e;/a", b"/..%3b/a", b"/..%00/a", b"/.%09./a", b"/%20../a",
        b"/%252e%252e/a", b"/%25252e./a", b"/a/.%253bx",
    ],
)  # fmt: skip
def test_nothing_climbs_out_of_the_upstream_s_own_path(path: bytes) -> None:
    """A base URL stands for what lies below it."""
    made = asked(path, base=("v1",))
    assert isinstance(made, Deny)
    assert made.reason is Reason.PATH_SEGMENT
    assert isinstance(asked(b"/a?b=/../c", base=("v1",)), Asked)


@pytest.mark.parametrize("path", [b"/a..b", b"/...", b"/;..", b"/a;..", b"/..a;b", b"/.well-known/x", b"/a%252fb"])
def test_what_climbs_nowhere_goes_on(path: bytes) -> None:
    """Dots in a name are none of a segment."""
    assert isinstance(asked(path, base=("v1",)), Asked)


def test_only_100_continue_is_an_expectation_that_is_met() -> None:
    """RFC 9110, 10.1.1."""
    made = asked(fields=((b"Expect", b"200-ok"),))
    assert isinstance(made, Deny)
    assert made.status == 417


def test_a_websocket_is_asked_for_without_a_body() -> None:
    """What came behind the head would be the new protocol's."""
    head = RequestHead(method=b"GET", target=b"/", fields=((b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")))
    made = request_of(head, origin=ORIGIN, base=(), websocket=True, authority=None, scheme="https", has_body=True)
    assert isinstance(made, Deny)
    assert (made.reason, made.status) == (Reason.FRAMING, 400)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(((b"X-A", b"1"), (b"x-a", b"2")), ((b"X-A", b"1"), (b"x-a", b"2")), id="repeated"),
        pytest.param(
            ((b"Host", b"h"), (b"Content-Length", b"2"), (b"Transfer-Encoding", b"chunked")), (), id="framing"
        ),
        pytest.param(((b"Keep-Alive", b"5"), (b"TE", b"trailers"), (b"Proxy-Connection", b"x")), (), id="hop-by-hop"),
        pytest.param(
            ((b"Connection", b"close, X-Hop"), (b"X-Hop", b"1"), (b"X-B", b"2")), ((b"X-B", b"2"),), id="named"
        ),
        pytest.param(((b"Expect", b"100-continue"),), (), id="expect"),
        pytest.param(((b"Upgrade", b"h2c"),), (), id="upgrade that Connection does not name"),
        pytest.param(
            ((b"Cookie", b"a=b"), (b"Origin", b"null")), ((b"Cookie", b"a=b"), (b"Origin", b"null")), id="rest"
        ),
    ],
)
def test_end_to_end_fields_go_upstream(fields: Fields, expected: Fields) -> None:
    """RFC 9110, 7.6.1."""
    made = asked(fields=fields)
    assert isinstance(made, Asked)
    assert made.request.fields == expected


@pytest.mark.parametrize(
    ("protocol", "websocket", "upgrade"),
    [
        pytest.param(b"websocket", True, True, id="allowed"),
        pytest.param(b"WebSocket", True, True, id="in other case"),
        pytest.param(b"websocket", False, None, id="not allowed"),
        pytest.param(b"h2c", True, False, id="another protocol"),
        pytest.param(b"h2c", False, False, id="another protocol where none is allowed"),
    ],
)
def test_an_upgrade_is_asked_for_only_where_it_may_be(protocol: bytes, websocket: bool, upgrade: bool | None) -> None:
    """WebSocket when `websocket: true`, refused otherwise; no other protocol is changed to (RFC 9110, 7.8)."""
    made = asked(fields=((b"Connection", b"keep-alive, Upgrade"), (b"Upgrade", protocol)), websocket=websocket)
    if upgrade is None:
        assert isinstance(made, Deny)
        assert made.reason is Reason.UPGRADE
    else:
        assert isinstance(made, Asked)
        assert made.upgrade is upgrade
        assert made.request.fields == (((b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")) if upgrade else ())


CALLED = Called(url=b"http://127.0.0.1:9001/box/t", upstream=ORIGIN, base=b"/v1")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"https://api.example/v1/a?b", b"http://127.0.0.1:9001/box/t/a?b"),
        (b"HTTPS://API.example:443/v1/a", b"http://127.0.0.1:9001/box/t/a"),
        (b"https://api.example/v1", b"http://127.0.0.1:9001/box/t/"),
        (b"https://api.example/v1?b", b"http://127.0.0.1:9001/box/t/?b"),
        (b"/v1/a", b"http://127.0.0.1:9001/box/t/a"),
        (b"https://api.example/v2/a", b"https://api.example/v2/a"),
        (b"https://api.example/v10", b"https://api.example/v10"),
        (b"https://api.example", b"https://api.example"),
        (b"https://api.example.evil/v1/a", b"https://api.example.evil/v1/a"),
        (b"https://api.example:8443/v1/a", b"https://api.example:8443/v1/a"),
        (b"//api.example/v1/a", b"//api.example/v1/a"),
        (b"a", b"a"),
        (b"", b""),
    ],
)
def test_a_location_that_leads_here_is_told_as_the_client_calls_it(value: bytes, expected: bytes) -> None:
    """Only what lies under the base URL; anything else as it came."""
    assert CALLED.location(value) == expected


def test_an_ipv6_upstream_is_recognized() -> None:
    """With and without its default port."""
    called = Called(url=b"http://h", upstream=Origin(scheme="https", host="2001:db8::1", port=443), base=b"")
    assert called.location(b"https://[2001:db8::1]/a") == b"http://h/a"
    assert called.location(b"https://[2001:db8::1]:443/a") == b"http://h/a"


@pytest.mark.parametrize(
    ("status", "method", "length", "fields", "close", "expected", "chunked"),
    [
        pytest.param(
            200, b"GET", 5, ((b"X", b"y"),), False, b"200 OK\r\nX: y\r\nContent-Length: 5", False, id="length"
        ),
        pytest.param(200, b"GET", None, (), False, b"200 OK\r\nTransfer-Encoding: chunked", True, id="no length"),
        pytest.param(200, b"GET", 0, (), True, b"200 OK\r\nContent-Length: 0\r\nConnection: close", False, id="close"),
        pytest.param(
            200, b"HEAD", 0, ((b"Content-Length", b"7"),), False, b"200 OK\r\nContent-Length: 7", False, id="HEAD"
        ),
        pytest.param(200, b"HEAD", 0, (), False, b"200 OK", False, id="HEAD without a length"),
        pytest.param(204, b"GET", 0, ((b"Content-Length", b"0"),), False, b"204 No Content", False, id="204"),
        pytest.param(
            304,
            b"GET",
            0,
            ((b"Content-Length", b"7"),),
            False,
            b"304 Not Modified\r\nContent-Length: 7",
            False,
            id="304",
        ),
        pytest.param(
            200,
            b"GET",
            1,
            ((b"Connection", b"X-Hop"), (b"X-Hop", b"1"), (b"Transfer-Encoding", b"gzip"), (b"Trailer", b"X")),
            False,
            b"200 OK\r\nContent-Length: 1",
            False,
            id="hop-by-hop",
        ),
        pytest.param(
            101,
            b"GET",
            0,
            ((b"X", b"y"),),
            False,
            b"101 Switching Protocols\r\nX: y\r\nConnection: Upgrade\r\nUpgrade: websocket",
            False,
            id="101",
        ),
    ],
)
def test_an_answer_s_head_is_framed_anew(
    status: int,
    method: bytes,
    length: int | None,
    fields: Fields,
    close: bool,
    expected: bytes,
    chunked: bool,
) -> None:
    """RFC 9112, 6; RFC 9110, 8.6. Content codings and cookies pass."""
    head = ResponseHead(status=status, reason=b"whatever", fields=fields, length=length)
    shown = answer_head(head, method=method, close=close, called=None)
    assert shown == (b"HTTP/1.1 " + expected + b"\r\n\r\n", chunked)
