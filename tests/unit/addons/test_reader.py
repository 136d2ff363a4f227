"""The request reader: one reading or none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.events import events_of

from addons.front.events import BodyRead, HeadRead, ReadEvent, Unreadable
from addons.front.reader import RequestReader
from grants.decision import Reason

POST = b"POST / HTTP/1.1\r\nHost: h\r\n"


def read(data: bytes, *, limit: int = 1000, max_head: int = 65536, piece: int | None = None) -> list[ReadEvent]:
    """All events of `data`, fed in pieces of `piece` bytes; a body may have `limit` bytes."""
    size = piece or max(len(data), 1)
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return events_of(RequestReader(max_head=max_head), pieces, limit=limit)


UNREADABLE = [
    ("bare LF ends a line", b"GET / HTTP/1.1\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("bare LF in a field", b"GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("bare CR in a field", b"GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("CR CR LF", b"GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("obs-fold", b"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("obs-fold by tab", b"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n\tb\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("fold before the first field", b"GET / HTTP/1.1\r\n Host: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("space before the colon", b"GET / HTTP/1.1\r\nHost : h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("empty field name", b"GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("no colon", b"GET / HTTP/1.1\r\nHost: h\r\nabc\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("NUL in a value", b"GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("control character in a value", b"GET / HTTP/1.1\r\nHost: h\r\nX: a\x01b\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("non-ASCII value", b"GET / HTTP/1.1\r\nHost: h\r\nX: \xc3\xa9\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("non-ASCII path", b"GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("two spaces before the target", b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("two spaces behind the target", b"GET /  HTTP/1.1\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("space in the target", b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("tab behind the method", b"GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("no target", b"GET HTTP/1.1\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("HTTP/1.0", b"GET / HTTP/1.0\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("HTTP/1.2", b"GET / HTTP/1.2\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("version in lower case", b"GET / http/1.1\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("no version", b"GET /\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("unknown method", b"FROBNICATE / HTTP/1.1\r\nHost: h\r\n\r\n", Reason.HEAD_UNREADABLE),
    ("method in lower case", b"get / HTTP/1.1\r\nHost: h\r\n\r\n", Reason.NOT_HTTP),
    ("empty line first", b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", Reason.NOT_HTTP),
    ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n", Reason.HEAD_UNREADABLE),
    ("TLS", b"\x16\x03\x01\x02\x00\x01", Reason.NOT_HTTP),
    ("empty lines", b"\n\n", Reason.NOT_HTTP),
    ("two Content-Length", POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nab", None),
    ("two different Content-Length", POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nab", None),
    ("Content-Length list", POST + b"Content-Length: 2, 2\r\n\r\nab", None),
    ("signed Content-Length", POST + b"Content-Length: +2\r\n\r\nab", None),
    ("negative Content-Length", POST + b"Content-Length: -2\r\n\r\nab", None),
    ("leading zero", POST + b"Content-Length: 02\r\n\r\nab", Reason.FRAMING),
    ("hexadecimal Content-Length", POST + b"Content-Length: 0x2\r\n\r\nab", None),
    ("empty Content-Length", POST + b"Content-Length:\r\n\r\nab", None),
    ("huge Content-Length", POST + b"Content-Length: 99999999999999999999\r\n\r\nab", None),
    ("CL and TE", POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", None),
    ("TE and CL", POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", None),
    ("chunked,", POST + b"Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n", None),
    (", chunked", POST + b"Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n", Reason.FRAMING),
    ("gzip, chunked", POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Reason.FRAMING),
    ("chunked, gzip", POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", None),
    ("identity", POST + b"Transfer-Encoding: identity\r\n\r\nab", None),
    (
        "two Transfer-Encoding",
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        None,
    ),
    ("x-chunked", POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", None),
    ("Trailer announced", POST + b"Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: y\r\n\r\n", Reason.FRAMING),
    ("trailer unannounced", POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", Reason.FRAMING),
    ("chunk size 0_2", POST + b"Transfer-Encoding: chunked\r\n\r\n0_2\r\nab\r\n0\r\n\r\n", Reason.FRAMING),
    ("chunk size 0x2", POST + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\nab\r\n0\r\n\r\n", Reason.FRAMING),
    ("chunk size +2", POST + b"Transfer-Encoding: chunked\r\n\r\n+2\r\nab\r\n0\r\n\r\n", Reason.FRAMING),
    ("chunk size with a space", POST + b"Transfer-Encoding: chunked\r\n\r\n2 \r\nab\r\n0\r\n\r\n", Reason.FRAMING),
    ("empty chunk size", POST + b"Transfer-Encoding: chunked\r\n\r\n\r\nab\r\n0\r\n\r\n", Reason.FRAMING),
    ("chunk size too large", POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", Reason.FRAMING),
    ("chunk end is LF", POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\n0\r\n\r\n", Reason.FRAMING),
    ("chunk end is other bytes", POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n", Reason.FRAMING),
    ("size line ends by LF", POST + b"Transfer-Encoding: chunked\r\n\r\n2\nab\r\n0\r\n\r\n", Reason.FRAMING),
    ("CONNECT with a body", b"CONNECT h:443 HTTP/1.1\r\nContent-Length: 2\r\n\r\nab", Reason.FRAMING),
]


@pytest.mark.parametrize(("data", "reason"), [pytest.param(data, reason, id=name) for name, data, reason in UNREADABLE])
@pytest.mark.parametrize("piece", [None, 1])
def test_what_has_more_than_one_reading_is_unreadable(data: bytes, reason: Reason | None, piece: int | None) -> None:
    """RFC 9112, 2.2 to 7: a stream is read in exactly one way or refused, however it is cut into pieces.

    Where no reason is named, llhttp and our own check both object, and which is first does not matter.
    """
    events = read(data, piece=piece)
    assert isinstance(events[-1], Unreadable)
    assert events[-1].denial.status == 400
    assert not any(isinstance(event, BodyRead) for event in events)
    if reason is not None:
        assert events[-1].denial.reason is reason


READABLE = [
    ("no field at all", b"GET / HTTP/1.1\r\n\r\n", (), b""),
    ("outer white space is no part of a value", b"GET / HTTP/1.1\r\nX: \t a b \t\r\n\r\n", ((b"X", b"a b"),), b""),
    ("empty value", b"GET / HTTP/1.1\r\nX:\r\nY: \r\n\r\n", ((b"X", b""), (b"Y", b"")), b""),
    ("Content-Length 0", POST + b"Content-Length: 0\r\n\r\n", ((b"Host", b"h"), (b"Content-Length", b"0")), b""),
    ("a body", POST + b"Content-Length: 2\r\n\r\nab", ((b"Host", b"h"), (b"Content-Length", b"2")), b"ab"),
    (
        "a chunked body",
        POST + b"Transfer-Encoding: Chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        ((b"Host", b"h"), (b"Transfer-Encoding", b"Chunked")),
        b"abc",
    ),
    (
        "chunk extensions mean nothing",
        POST + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0\r\n\r\n",
        ((b"Host", b"h"), (b"Transfer-Encoding", b"chunked")),
        b"ab",
    ),
]


@pytest.mark.parametrize(
    ("data", "fields", "body"), [pytest.param(data, fields, body, id=name) for name, data, fields, body in READABLE]
)
@pytest.mark.parametrize("piece", [None, 1, 3])
def test_a_strict_request_is_read(
    data: bytes, fields: tuple[tuple[bytes, bytes], ...], body: bytes, piece: int | None
) -> None:
    """Fields come as they were sent, less the outer white space of the value (RFC 9112, 5.1)."""
    events = read(data, piece=piece)
    head = events[0]
    assert isinstance(head, HeadRead)
    assert head.head.fields == fields
    bodies = [event.body for event in events if isinstance(event, BodyRead)]
    assert bodies == ([body] if head.body != 0 else [])


def test_requests_may_follow_each_other_in_one_piece() -> None:
    """Pipelining: each request ends where its framing says (RFC 9112, 9.3.2)."""
    events = read(POST + b"Content-Length: 2\r\n\r\nab" + b"GET /b HTTP/1.1\r\n\r\n" + b"GET /c HTTP/1.1\r\n\r\n")
    assert [event.head.target for event in events if isinstance(event, HeadRead)] == [b"/", b"/b", b"/c"]
    assert [event.body for event in events if isinstance(event, BodyRead)] == [b"ab"]


@pytest.mark.parametrize(
    "rest",
    [
        b"GET /b HTTP/1.1\r\n\r\n",
        b"rubbish",
        b"\r\nGET /b HTTP/1.1\r\nX: y\r\n\r\n",
        POST + b"Content-Length: 2\r\n\r\nab",
    ],
)
def test_what_follows_a_chunked_body_in_one_piece_ends_the_stream(rest: bytes) -> None:
    """llhttp does not tell where a chunked body ended, so what stands behind it is left unread."""
    reader = RequestReader(max_head=65536)
    reader.feed(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n" + rest)
    assert isinstance(reader.next_event(), HeadRead)
    reader.read_body(10)
    assert reader.next_event() == BodyRead(body=b"ab")
    assert reader.ended
    assert reader.next_event() is None


def test_requests_go_on_behind_a_chunked_body_that_ends_a_piece() -> None:
    """A kept-alive connection goes on after a chunked request."""
    reader = RequestReader(max_head=65536)
    reader.feed(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n")
    reader.next_event()
    reader.read_body(10)
    assert reader.next_event() == BodyRead(body=b"ab")
    reader.feed(b"GET /b HTTP/1.1\r\n\r\n")
    assert isinstance(reader.next_event(), HeadRead)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(POST + b"Content-Length: 3\r\n\r\nabc", id="Content-Length"),
        pytest.param(POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", id="chunked"),
    ],
)
@pytest.mark.parametrize("piece", [None, 1])
def test_a_body_over_its_limit_is_a_413(data: bytes, piece: int | None) -> None:
    """A body is counted while it is read; one byte over the limit is too many."""
    assert isinstance(read(data, limit=3, piece=piece)[-1], BodyRead)
    last = read(data, limit=2, piece=piece)[-1]
    assert isinstance(last, Unreadable)
    assert (last.denial.status, last.denial.reason) == (413, Reason.BODY_TOO_LARGE)


def test_one_byte_chunks_with_long_extensions_do_not_go_on_for_ever() -> None:
    """What frames a body may not outweigh it."""
    data = POST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1;" + b"x" * 2000 + b"\r\na\r\n") * 40
    last = read(data, limit=10_000, piece=1000)[-1]
    assert isinstance(last, Unreadable)
    assert last.denial.reason is Reason.FRAMING


@pytest.mark.parametrize("piece", [None, 100])
def test_a_head_is_bounded_while_it_comes(piece: int | None) -> None:
    """The limit of a head counts all of its bytes, and is a 431 (RFC 6585, 5)."""
    fits = b"GET / HTTP/1.1\r\nX: " + b"a" * 77 + b"\r\n\r\n"
    assert len(fits) == 100
    assert isinstance(read(fits, max_head=100, piece=piece)[0], HeadRead)
    for data in (fits.replace(b"X:", b"XX:"), b"GET / HTTP/1.1\r\nX: " + b"a" * 300):
        event = read(data, max_head=100, piece=piece)[0]
        assert isinstance(event, Unreadable)
        assert (event.denial.status, event.denial.reason) == (431, Reason.HEAD_TOO_LARGE)


def test_a_head_has_at_most_256_fields() -> None:
    """The number of fields is bounded too."""
    assert isinstance(read(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 256 + b"\r\n")[0], HeadRead)
    event = read(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 257 + b"\r\n")[0]
    assert isinstance(event, Unreadable)
    assert event.denial.status == 431


@pytest.mark.parametrize(
    ("fields", "keep_alive", "continues"),
    [
        pytest.param(b"", True, False, id="neither"),
        pytest.param(b"Connection: close\r\n", False, False, id="close"),
        pytest.param(b"Connection: CLOSE\r\n", False, False, id="close in capitals"),
        pytest.param(b"Connection: close\r\nConnection: keep-alive\r\n", False, False, id="close and keep-alive"),
        pytest.param(b"Expect: 100-continue\r\n", True, True, id="expect"),
        pytest.param(b"Expect: 200-ok\r\n", True, False, id="expects something else"),
    ],
)
def test_a_head_says_how_the_connection_goes_on(fields: bytes, keep_alive: bool, continues: bool) -> None:
    """RFC 9112, 9.6 and RFC 9110, 10.1.1."""
    (event,) = read(b"GET / HTTP/1.1\r\n" + fields + b"\r\n")
    assert isinstance(event, HeadRead)
    assert (event.keep_alive, event.continues) == (keep_alive, continues)


def test_a_connect_leaves_what_follows_to_the_tunnel() -> None:
    """RFC 9110, 9.3.6: bytes behind the head of CONNECT belong to the tunnel."""
    reader = RequestReader(max_head=65536)
    reader.feed(b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n\x16\x03\x01")
    event = reader.next_event()
    assert isinstance(event, HeadRead)
    assert (event.head.method, event.head.target) == (b"CONNECT", b"h:443")
    assert reader.take_rest() == b"\x16\x03\x01"
    assert reader.take_rest() == b""


def test_a_connect_may_be_of_http_1_0() -> None:
    """Old clients open tunnels so; nothing else of that version is read."""
    (event,) = read(b"CONNECT h:443 HTTP/1.0\r\n\r\n")
    assert isinstance(event, HeadRead)
    assert isinstance(read(b"GET / HTTP/1.0\r\nHost: h\r\n\r\n")[0], Unreadable)


def test_an_upgrade_is_read_as_a_request() -> None:
    """Whether it may be asked for is decided behind the reader."""
    (event,) = read(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert isinstance(event, HeadRead)


OFFERS = [b"", b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"]
BODIES = [
    pytest.param(b"Content-Length: 2\r\n\r\nhi", b"hi", id="length"),
    pytest.param(b"Content-Length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", id="like a request"),
    pytest.param(b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\n\r\n", b"hi", id="chunked"),
    pytest.param(b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"", id="chunked, empty"),
    pytest.param(b"Transfer-Encoding: chunked\r\n\r\nGET / HTTP/1.1\r\n\r\n", None, id="no chunks"),
    pytest.param(b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: y\r\n\r\n", None, id="trailers"),
]


@pytest.mark.parametrize("piece", [None, 1])
@pytest.mark.parametrize("offer", OFFERS, ids=["nothing", "h2c", "websocket"])
@pytest.mark.parametrize("method", [b"POST", b"DELETE"])
@pytest.mark.parametrize(("rest", "body"), BODIES)
def test_a_body_is_read_as_its_framing_says(
    rest: bytes, body: bytes | None, method: bytes, offer: bytes, piece: int | None
) -> None:
    """RFC 9112, 6.3: whatever else the head asks for, and the next request is read behind it."""
    first = method + b" / HTTP/1.1\r\nHost: h\r\n" + offer + rest
    size = piece or len(first)
    pieces = [first[start : start + size] for start in range(0, len(first), size)]
    pieces.append(b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n")
    events = events_of(RequestReader(max_head=65536), pieces, limit=1000)
    assert isinstance(events[0], HeadRead)
    if body is None:
        assert isinstance(events[1], Unreadable)
        assert events[1].denial.reason is Reason.FRAMING
    else:
        assert events[1] == BodyRead(body=body)
        assert isinstance(events[2], HeadRead)
        assert events[2].head.target == b"/next"
    assert len(events) == (2 if body is None else 3)


def test_nothing_is_read_behind_an_unreadable_head() -> None:
    """After an unreadable head the stream is over: no byte behind it can become a request."""
    reader = RequestReader(max_head=65536)
    reader.feed(b"GET / HTTP/1.0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    assert isinstance(reader.next_event(), Unreadable)
    reader.feed(b"GET / HTTP/1.1\r\n\r\n")
    assert reader.next_event() is None


@settings(deadline=None, max_examples=300)
@given(
    data=st.one_of(
        st.binary(max_size=300),
        st.lists(
            st.sampled_from(
                [
                    POST,
                    b"GET / HTTP/1.1\r\n",
                    b"\r\n",
                    b"\n",
                    b"Content-Length: 2\r\n",
                    b"2\r\nab\r\n",
                    b"0\r\n\r\n",
                    b"ab",
                    b"Transfer-Encoding: chunked\r\n",
                    b"X: y\r\n",
                    b" ",
                    b"\0",
                    b"Upgrade: x\r\n",
                    b"Connection: upgrade\r\n",
                ]
            ),
            max_size=14,
        ).map(b"".join),
    ),
    cut=st.integers(1, 40),
)
def test_any_bytes_read_the_same_however_they_are_cut(data: bytes, cut: int) -> None:
    """Garbage is accepted or refused, nothing else; and what is read does not depend on how TCP cuts the stream.

    Only behind a chunked body may the cut matter: what follows it in one piece ends the stream.
    """
    whole, pieces = read(data), read(data, piece=cut)
    if b"chunked" in data:
        assert not isinstance(whole, Exception)
        return
    reasons = [event.denial.status if isinstance(event, Unreadable) else event for event in whole]
    assert reasons == [event.denial.status if isinstance(event, Unreadable) else event for event in pieces]
