"""Reading an answer: bytes in, a complete `Response` or a failure out, wherever the bytes are split."""

import contextlib
import gc
import gzip
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addons.ports import UpstreamFailed
from grants.decision import Reason, Rule
from grants.message import Fields, Response
from proxy.upstream.answer import CODED_SLACK, MAX_FIELDS, MAX_HEAD_BYTES, MAX_INTERIM
from proxy.upstream.reader import ResponseReader

LIMIT = 1000
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def read(
    *pieces: bytes, method: bytes = b"GET", limit: int = LIMIT, clean: bool | None = None
) -> tuple[Response | None, bool]:
    """The answer in `pieces`, and whether the connection may be used again; `clean` ends it after them."""
    reader = ResponseReader(method, limit)
    response = None
    for piece in pieces:
        assert response is None
        response = reader.feed(piece)
    if response is None and clean is not None:
        response = reader.eof(clean=clean)
    return response, reader.reusable


def answer(
    status: int = 200, reason: bytes = b"OK", fields: Fields = (), body: bytes = b"", trailers: Fields = ()
) -> Response:
    return Response(status=status, reason=reason, fields=fields, body=body, trailers=trailers)


def length(value: bytes) -> Fields:
    return ((b"Content-Length", value),)


TE: Fields = ((b"Transfer-Encoding", b"chunked"),)

# method, bytes, how the connection ends after them (None: it does not), answer, reusable
READ = [
    pytest.param(
        b"GET", OK + b"Content-Length: 2\r\n\r\nhi", None, answer(fields=length(b"2"), body=b"hi"), True, id="length"
    ),
    pytest.param(b"GET", OK + b"Content-Length: 0\r\n\r\n", None, answer(fields=length(b"0")), True, id="length 0"),
    pytest.param(
        b"GET",
        CHUNKED + b"2\r\nhi\r\n1;x=y\r\n!\r\n0\r\n\r\n",
        None,
        answer(fields=TE, body=b"hi!"),
        True,
        id="chunked",
    ),
    pytest.param(b"GET", CHUNKED + b"0\r\n\r\n", None, answer(fields=TE), True, id="chunked, empty"),
    pytest.param(
        b"GET",
        CHUNKED + b"2\r\nhi\r\n0\r\nA: 1 \r\nB:\t2\r\n\r\n",
        None,
        answer(fields=TE, body=b"hi", trailers=((b"A", b"1"), (b"B", b"2"))),
        True,
        id="trailers are kept",
    ),
    pytest.param(
        b"GET",
        OK + b"transfer-encoding: Chunked\r\n\r\n0\r\n\r\n",
        None,
        answer(fields=((b"transfer-encoding", b"Chunked"),)),
        True,
        id="coding in another case",
    ),
    pytest.param(
        b"GET",
        OK + b"Transfer-Encoding:chunked\t \t\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        None,
        answer(fields=TE, body=b"hi"),
        True,
        id="coding with tabs after it",
    ),
    pytest.param(
        b"GET",
        OK + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        None,
        answer(fields=((b"Connection", b"close"), *TE), body=b"hi"),
        False,
        id="chunked, close",
    ),
    pytest.param(
        b"GET",
        OK + b"X: y\r\n\r\nhi",
        True,
        answer(fields=((b"X", b"y"),), body=b"hi"),
        False,
        id="ends with the connection",
    ),
    pytest.param(b"GET", OK + b"\r\n", True, answer(), False, id="ends with the connection, empty"),
    pytest.param(
        b"HEAD", OK + b"Content-Length: 5\r\n\r\n", None, answer(fields=length(b"5")), False, id="HEAD with a length"
    ),
    pytest.param(
        b"HEAD", OK + b"Content-Length: 99999\r\n\r\n", None, answer(fields=length(b"99999")), False, id="HEAD, large"
    ),
    pytest.param(
        b"HEAD", OK + b"Content-Length: 0\r\n\r\n", None, answer(fields=length(b"0")), True, id="HEAD, length 0"
    ),
    pytest.param(b"HEAD", CHUNKED, None, answer(fields=TE), False, id="HEAD with a coding"),
    pytest.param(b"HEAD", OK + b"\r\n", None, answer(), True, id="HEAD without framing"),
    pytest.param(
        b"HEAD", OK + b"Content-Length: 2\r\n\r\nhi", None, answer(fields=length(b"2")), False, id="HEAD with a body"
    ),
    pytest.param(b"GET", b"HTTP/1.1 204 None\r\n\r\n", None, answer(204, b"None"), True, id="204"),
    pytest.param(
        b"GET",
        b"HTTP/1.1 204 N\r\nContent-Length: 0\r\n\r\n",
        None,
        answer(204, b"N", length(b"0")),
        True,
        id="204, length 0",
    ),
    pytest.param(
        b"GET",
        b"HTTP/1.1 204 N\r\nContent-Length: 2\r\n\r\n",
        None,
        answer(204, b"N", length(b"2")),
        False,
        id="204 that announces a body",
    ),
    pytest.param(b"GET", b"HTTP/1.1 204 N\r\n\r\nhi", None, answer(204, b"N"), False, id="204 with a body"),
    pytest.param(
        b"GET",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        None,
        answer(304, b"Not Modified", length(b"5")),
        False,
        id="304 with a length",
    ),
    pytest.param(b"GET", b"HTTP/1.1 304 N\r\n\r\n", None, answer(304, b"N"), True, id="304"),
    pytest.param(
        b"GET",
        b"HTTP/1.1 304 N\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        None,
        answer(304, b"N", TE),
        False,
        id="304 with a chunked body",
    ),
    pytest.param(
        b"GET", b"HTTP/1.1 205 R\r\nContent-Length: 0\r\n\r\n", None, answer(205, b"R", length(b"0")), True, id="205"
    ),
    pytest.param(
        b"GET",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nhi",
        None,
        answer(fields=length(b"2"), body=b"hi"),
        True,
        id="100 and 103 are dropped",
    ),
    pytest.param(
        b"GET",
        b"HTTP/1.1 103 Early\r\nContent-Length: 5\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n",
        None,
        answer(fields=length(b"0")),
        True,
        id="103 has no body",
    ),
    pytest.param(
        b"GET",
        b"HTTP/1.1 102 P\r\n\r\n" * MAX_INTERIM + OK + b"Content-Length: 0\r\n\r\n",
        None,
        answer(fields=length(b"0")),
        True,
        id="as many 1xx as are read",
    ),
    pytest.param(
        b"GET",
        OK + b"Upgrade: h2\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
        None,
        answer(fields=((b"Upgrade", b"h2"), (b"Connection", b"Upgrade"), *length(b"0"))),
        True,
        id="an upgrade that is only offered",
    ),
    pytest.param(
        b"GET",
        OK + b"Connection: a, CLOSE\r\nContent-Length: 0\r\n\r\n",
        None,
        answer(fields=((b"Connection", b"a, CLOSE"), *length(b"0"))),
        False,
        id="close",
    ),
    pytest.param(
        b"GET",
        OK + b"Connection: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        None,
        answer(fields=((b"Connection", b"x"), (b"Connection", b"close"), *length(b"0"))),
        False,
        id="close in a second field",
    ),
    pytest.param(
        b"GET",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi",
        None,
        answer(fields=((b"Connection", b"keep-alive"), *length(b"2")), body=b"hi"),
        False,
        id="HTTP/1.0",
    ),
    pytest.param(
        b"GET",
        OK + b"Content-Length: 1\r\n\r\nabc",
        None,
        answer(fields=length(b"1"), body=b"a"),
        False,
        id="left over",
    ),
    pytest.param(
        b"GET",
        OK + b"Content-Length: 1\r\n\r\na" + OK + b"Content-Length: 1\r\n\r\nb",
        None,
        answer(fields=length(b"1"), body=b"a"),
        False,
        id="a second answer",
    ),
    pytest.param(
        b"GET",
        CHUNKED + b"1\r\na\r\n0\r\n\r\nx",
        None,
        answer(fields=TE, body=b"a"),
        False,
        id="left over after chunks",
    ),
    pytest.param(
        b"GET",
        CHUNKED + b"1\r\na\r\n0\r\n\r\n" + OK + b"X: y\r\nContent-Length: 1\r\n\r\nb",
        None,
        answer(fields=TE, body=b"a"),
        False,
        id="a second answer after chunks",
    ),
    pytest.param(b"GET", CHUNKED + b"0\r\n\r\n\r\n", None, answer(fields=TE), False, id="a line end after chunks"),
    pytest.param(b"GET", CHUNKED + b"0\r\n\r\n\n", None, answer(fields=TE), False, id="a line feed after chunks"),
    pytest.param(
        b"GET",
        CHUNKED + b"0\r\nA: 1\r\n\r\n\r\n",
        None,
        answer(fields=TE, trailers=((b"A", b"1"),)),
        False,
        id="a line end after trailers",
    ),
    pytest.param(
        b"GET",
        b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        None,
        answer(reason=b"", fields=length(b"0")),
        True,
        id="no reason",
    ),
    pytest.param(
        b"GET",
        b"HTTP/1.1 200  caf\xc3\xa9\t \r\nContent-Length: 0\r\n\r\n",
        None,
        answer(reason=b" caf\xc3\xa9\t ", fields=length(b"0")),
        True,
        id="reason phrase exactly as it came",
    ),
    pytest.param(
        b"GET",
        OK + b"x-A:  a b\xff \t \r\nE:\r\nX-a: 2\r\nContent-Length: 0\r\n\r\n",
        None,
        answer(fields=((b"x-A", b"a b\xff"), (b"E", b""), (b"X-a", b"2"), *length(b"0"))),
        True,
        id="fields as they came, outer space off",
    ),
    pytest.param(
        b"GET",
        OK + b"Content-Length: %d\r\n\r\n" % LIMIT + b"x" * LIMIT,
        None,
        answer(fields=length(b"%d" % LIMIT), body=b"x" * LIMIT),
        True,
        id="exactly the limit",
    ),
    pytest.param(
        b"GET",
        CHUNKED + b"%x\r\n" % LIMIT + b"x" * LIMIT + b"\r\n0\r\n\r\n",
        None,
        answer(fields=TE, body=b"x" * LIMIT),
        True,
        id="exactly the limit, chunked",
    ),
    pytest.param(
        b"GET",
        OK + b"".join(b"F%d: v\r\n" % n for n in range(MAX_FIELDS - 1)) + b"Content-Length: 0\r\n\r\n",
        None,
        answer(fields=(*((b"F%d" % n, b"v") for n in range(MAX_FIELDS - 1)), *length(b"0"))),
        True,
        id="as many fields as are read",
    ),
]


@pytest.mark.parametrize(("method", "data", "clean", "expected", "reusable"), READ)
def test_answers(method: bytes, data: bytes, clean: bool | None, expected: Response, reusable: bool) -> None:
    """RFC 9112, 6.3: where an answer ends; a byte after it, or a peer that closes, ends the connection too."""
    assert read(data, method=method, clean=clean) == (expected, reusable)


def _until_complete(reader: ResponseReader, pieces: list[bytes]) -> tuple[Response | None, bytes]:
    """Feed until the answer is complete; what was not fed is left over."""
    response = None
    for index, piece in enumerate(pieces):
        response = reader.feed(piece)
        if response is not None:
            return response, b"".join(pieces[index + 1 :])
    return None, b""


@pytest.mark.parametrize(
    ("method", "data", "clean", "expected", "reusable"), [p for p in READ if len(p.values[1]) < 400]
)
def test_split_anywhere(method: bytes, data: bytes, clean: bool | None, expected: Response, reusable: bool) -> None:
    """The bytes may be cut at every place, and into single bytes: the answer is the same, nothing is lost."""
    splits = [[data[:cut], data[cut:]] for cut in range(1, len(data))]
    splits.append([data[at : at + 1] for at in range(len(data))])
    for pieces in splits:
        reader = ResponseReader(method, LIMIT)
        response, unread = _until_complete(reader, pieces)
        if response is None and clean is not None:
            response = reader.eof(clean=clean)
        assert response == expected
        # The connection sees what comes after a complete answer and ends itself.
        assert (reader.reusable and not unread) is reusable


REFUSED = [
    # framing
    pytest.param(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", Reason.MALFORMED, id="two lengths"),
    pytest.param(OK + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", Reason.MALFORMED, id="one length twice"),
    pytest.param(OK + b"Content-Length: 1, 1\r\n\r\na", Reason.MALFORMED, id="a list of lengths"),
    pytest.param(OK + b"Content-Length: +1\r\n\r\na", Reason.MALFORMED, id="signed length"),
    pytest.param(OK + b"Content-Length: -1\r\n\r\na", Reason.MALFORMED, id="negative length"),
    pytest.param(OK + b"Content-Length: 01\r\n\r\na", Reason.MALFORMED, id="leading zero"),
    pytest.param(OK + b"Content-Length: 0x1\r\n\r\na", Reason.MALFORMED, id="hex length"),
    pytest.param(OK + b"Content-Length: 1 1\r\n\r\na", Reason.MALFORMED, id="space in the length"),
    pytest.param(OK + b"Content-Length:\r\n\r\na", Reason.MALFORMED, id="empty length"),
    pytest.param(OK + b"Content-Length: 99999999999999999999\r\n\r\na", Reason.MALFORMED, id="length overflows"),
    pytest.param(
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Reason.MALFORMED,
        id="length, then coding",
    ),
    pytest.param(
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        Reason.MALFORMED,
        id="coding, then length",
    ),
    pytest.param(OK + b"Transfer-Encoding: gzip\r\n\r\nxx", Reason.MALFORMED, id="gzip as transfer coding"),
    pytest.param(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Reason.MALFORMED, id="gzip, chunked"),
    pytest.param(OK + b"Transfer-Encoding: chunked, gzip\r\n\r\nxx", Reason.MALFORMED, id="chunked, gzip"),
    pytest.param(OK + b"Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n", Reason.MALFORMED, id=", chunked"),
    pytest.param(OK + b"Transfer-Encoding: identity\r\n\r\nxx", Reason.MALFORMED, id="identity"),
    pytest.param(
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Reason.MALFORMED,
        id="chunked twice",
    ),
    pytest.param(
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Reason.MALFORMED, id="chunked in HTTP/1.0"
    ),
    pytest.param(CHUNKED + b"0x2\r\nhi\r\n0\r\n\r\n", Reason.MALFORMED, id="chunk size 0x2"),
    pytest.param(CHUNKED + b"0_2\r\nhi\r\n0\r\n\r\n", Reason.MALFORMED, id="chunk size 0_2"),
    pytest.param(CHUNKED + b"+2\r\nhi\r\n0\r\n\r\n", Reason.MALFORMED, id="chunk size +2"),
    pytest.param(CHUNKED + b"2 \r\nhi\r\n0\r\n\r\n", Reason.MALFORMED, id="chunk size and space"),
    pytest.param(CHUNKED + b"fffffffffffffffff\r\nhi", Reason.MALFORMED, id="chunk size overflows"),
    pytest.param(CHUNKED + b"2\nhi\r\n0\r\n\r\n", Reason.MALFORMED, id="chunk size line ends in LF"),
    pytest.param(CHUNKED + b"2\r\nhi\n0\r\n\r\n", Reason.MALFORMED, id="chunk ends in LF"),
    pytest.param(CHUNKED + b"2\r\nhixx0\r\n\r\n", Reason.MALFORMED, id="chunk longer than its size"),
    pytest.param(CHUNKED + b"2\r\nhi\r\n0\r\nContent-Length: 2\r\n\r\n", Reason.MALFORMED, id="length as trailer"),
    pytest.param(CHUNKED + b"2\r\nhi\r\n0\r\nA: 1\r\n B\r\n\r\n", Reason.MALFORMED, id="folded trailer"),
    # head
    pytest.param(OK + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="folded field"),
    pytest.param(OK + b"X:\r\n\tb\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="folded empty field"),
    pytest.param(OK + b" X: a\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="folded first field"),
    pytest.param(OK + b"X: a\rb\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="bare CR"),
    pytest.param(OK + b"X: a\nY: b\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="bare LF"),
    pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", Reason.MALFORMED, id="only LF"),
    pytest.param(OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="NUL in a value"),
    pytest.param(OK + b"X: a\x01\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="control in a value"),
    pytest.param(OK + b"X : a\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="space before the colon"),
    pytest.param(OK + b": a\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="empty name"),
    pytest.param(OK + b"X\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="no colon"),
    pytest.param(OK + b"X\xff: a\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="name that is no token"),
    pytest.param(b"HTTP/1.1 200 a\0b\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="NUL in the reason"),
    pytest.param(b"HTTP/1.1 200 a\x1bb\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="control in the reason"),
    pytest.param(b"HTTP/1.1 200 a\rb\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="CR in the reason"),
    pytest.param(b"HTTP/1.1 20 OK\r\n\r\n", Reason.MALFORMED, id="status of two digits"),
    pytest.param(b"HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="status 000"),
    pytest.param(b"HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="status 600"),
    pytest.param(b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="status of four digits"),
    pytest.param(b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="two spaces"),
    pytest.param(b"HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="a tab"),
    pytest.param(b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="HTTP/2.0"),
    pytest.param(b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="HTTP/1.2"),
    pytest.param(b"HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="HTTP/0.9"),
    pytest.param(b"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="lower case"),
    pytest.param(b"RTSP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", Reason.MALFORMED, id="another protocol"),
    pytest.param(b"\r\n" + OK + b"Content-Length: 0\r\n\r\n", Reason.MALFORMED, id="a line end first"),
    pytest.param(b"SSH-2.0-x\r\n", Reason.MALFORMED, id="no HTTP"),
    pytest.param(b"\x00\x00\x12\x04", Reason.MALFORMED, id="HTTP/2 frame"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Reason.MALFORMED, id="a request"),
    # interim
    pytest.param(b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Reason.UPGRADE, id="101"),
    pytest.param(b"HTTP/1.1 101 S\r\n\r\n", Reason.UPGRADE, id="101 without fields"),
    pytest.param(b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 101 S\r\n\r\n", Reason.UPGRADE, id="101 after 100"),
    pytest.param(b"HTTP/1.1 100 C\r\n\r\n" * (MAX_INTERIM + 1), Reason.MALFORMED, id="too many 1xx"),
    pytest.param(b"HTTP/1.1 100 C\r\n\r\nhi\r\n\r\n", Reason.MALFORMED, id="bytes after 100"),
]

TOO_LARGE = [
    pytest.param(OK + b"Content-Length: 1001\r\n\r\n", Reason.RESPONSE_TOO_LARGE, id="announced"),
    pytest.param(OK + b"\r\n" + b"x" * 1001, Reason.RESPONSE_TOO_LARGE, id="ends with the connection"),
    pytest.param(CHUNKED + b"3e9\r\n" + b"x" * 1001, Reason.RESPONSE_TOO_LARGE, id="one chunk"),
    pytest.param(CHUNKED + (b"64\r\n" + b"x" * 100 + b"\r\n") * 11, Reason.RESPONSE_TOO_LARGE, id="many chunks"),
    pytest.param(
        CHUNKED + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n",
        Reason.RESPONSE_TOO_LARGE,
        id="complete, over by one byte",
    ),
    pytest.param(
        OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % (LIMIT + CODED_SLACK + 1),
        Reason.RESPONSE_TOO_LARGE,
        id="coded",
    ),
    pytest.param(
        OK + b"Content-Encoding: identity\r\nContent-Length: 1001\r\n\r\n",
        Reason.RESPONSE_TOO_LARGE,
        id="identity is no coding",
    ),
    pytest.param(OK + b"X: " + b"x" * MAX_HEAD_BYTES, Reason.RESPONSE_HEAD_TOO_LARGE, id="head that does not end"),
    pytest.param(OK + b"X: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n", Reason.RESPONSE_HEAD_TOO_LARGE, id="head"),
    pytest.param(
        OK + b"".join(b"F%d: v\r\n" % n for n in range(300)) + b"\r\n", Reason.RESPONSE_HEAD_TOO_LARGE, id="300 fields"
    ),
    pytest.param(
        OK + b"".join(b"F%d: v\r\n" % n for n in range(257)) + b"\r\n", Reason.RESPONSE_HEAD_TOO_LARGE, id="257 fields"
    ),
    pytest.param(
        b"HTTP/1.1 100 C\r\n" + b"".join(b"F%d: v\r\n" % n for n in range(257)) + b"\r\n",
        Reason.RESPONSE_HEAD_TOO_LARGE,
        id="257 fields of a 100",
    ),
    pytest.param(
        CHUNKED + b"0\r\n" + b"".join(b"F%d: v\r\n" % n for n in range(256)) + b"\r\n",
        Reason.RESPONSE_HEAD_TOO_LARGE,
        id="256 trailers",
    ),
    pytest.param(
        CHUNKED + b"0\r\n" + b"".join(b"F%d: v\r\n" % n for n in range(257)),
        Reason.RESPONSE_HEAD_TOO_LARGE,
        id="257 trailers that do not end",
    ),
    pytest.param(
        CHUNKED + b"0\r\nX: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n",
        Reason.RESPONSE_HEAD_TOO_LARGE,
        id="a large trailer",
    ),
    pytest.param(
        CHUNKED + b"0\r\nX: " + b"x" * MAX_HEAD_BYTES, Reason.RESPONSE_HEAD_TOO_LARGE, id="a trailer that does not end"
    ),
    pytest.param(
        CHUNKED + b"1;" + b"x" * MAX_HEAD_BYTES,
        Reason.RESPONSE_HEAD_TOO_LARGE,
        id="a chunk extension that does not end",
    ),
]


def refusal(*pieces: bytes, method: bytes = b"GET") -> UpstreamFailed:
    with pytest.raises(UpstreamFailed) as caught:
        read(*pieces, method=method)
    return caught.value


@pytest.mark.parametrize(("data", "reason"), REFUSED)
def test_malformed(data: bytes, reason: Reason) -> None:
    """What can be read in two ways, or is not HTTP/1, is no answer; nothing of its text is kept."""
    failed = refusal(data)
    assert (failed.rule, failed.reason, failed.status) == (Rule.UPSTREAM_ERROR, reason, 502)
    assert failed.__cause__ is None
    assert failed.__context__ is None
    assert failed.args == (reason.value,)


@pytest.mark.parametrize(("data", "reason"), TOO_LARGE)
def test_too_large(data: bytes, reason: Reason) -> None:
    """Over a bound is refused as soon as it shows, by announcement or by count."""
    failed = refusal(data)
    assert (failed.rule, failed.reason, failed.status) == (Rule.RESPONSE_SIZE, reason, 502)
    assert failed.__context__ is None


@pytest.mark.parametrize(("data", "reason"), [p for p in REFUSED if len(p.values[0]) < 400])
def test_refused_byte_by_byte(data: bytes, reason: Reason) -> None:
    """A refusal does not depend on where the bytes are cut, and none needs more bytes than it has."""
    assert refusal(*(data[at : at + 1] for at in range(len(data)))).reason is reason


@pytest.mark.parametrize(("data", "reason"), TOO_LARGE)
def test_too_large_in_pieces(data: bytes, reason: Reason) -> None:
    """The bounds hold over all the pieces together."""
    assert refusal(*(data[at : at + 977] for at in range(0, len(data), 977))).reason is reason


def test_chunk_framing_is_bounded() -> None:
    """Framing may not outweigh the body: a byte of body in each kilobyte is refused long before the limit."""
    reader = ResponseReader(b"GET", 1 << 20)
    reader.feed(CHUNKED)
    chunk = b"1;" + b"x" * 1000 + b"\r\ny\r\n"
    for _ in range(64):
        assert reader.feed(chunk) is None
    with pytest.raises(UpstreamFailed) as caught:
        reader.feed(chunk * 4)
    assert caught.value.reason is Reason.RESPONSE_HEAD_TOO_LARGE


def test_one_byte_chunks_are_read() -> None:
    """A body in one-byte chunks is slow, not wrong."""
    body = b"x" * 50_000
    pieces = [CHUNKED, *[b"1\r\nx\r\n" * 100] * 500, b"0\r\n\r\n"]
    response, reusable = read(*pieces, limit=len(body))
    assert response is not None
    assert response.body == body
    assert reusable


def test_coded_body_has_slack() -> None:
    """A coding may make a small body longer; the limit itself is for the decoded bytes."""
    coded = gzip.compress(bytes(range(100)))
    head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(coded)
    response, _ = read(head + coded, limit=100)
    assert len(coded) > 100
    assert response is not None
    assert response.body == coded


SHORT = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"HTTP/1.1 200", id="in the start line"),
    pytest.param(OK + b"X: y\r\n", id="in the head"),
    pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", id="after 100"),
    pytest.param(OK + b"Content-Length: 3\r\n\r\nhi", id="short of its length"),
    pytest.param(OK + b"Content-Length: 3\r\n\r\n", id="no body"),
    pytest.param(CHUNKED, id="before the first chunk"),
    pytest.param(CHUNKED + b"2\r\nhi\r\n", id="without the last chunk"),
    pytest.param(CHUNKED + b"2\r\nh", id="in a chunk"),
    pytest.param(CHUNKED + b"2\r\nhi\r\n0\r\n", id="without the empty line"),
    pytest.param(CHUNKED + b"2\r\nhi\r\n0\r\nA: 1\r\n", id="in the trailers"),
]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("data", SHORT)
def test_short(data: bytes, clean: bool) -> None:
    """An answer that the end of the connection cuts short is not an answer (RFC 9112, 8)."""
    assert read(data, clean=clean) == (None, False)


def test_unclean_end() -> None:
    """A body that ends with the connection needs TLS to say that it did (RFC 9112, 9.8)."""
    assert read(OK + b"\r\nhi", clean=False) == (None, False)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4))
@settings(deadline=None, max_examples=300)
def test_total(data: bytes, cuts: list[int]) -> None:
    """Any bytes after any head are an answer, the beginning of one, or one type of failure."""
    for head in (b"", b"HTTP/1.1 200 ", OK, CHUNKED, OK + b"Content-Length: 9\r\n\r\n"):
        reader = ResponseReader(b"GET", LIMIT)
        whole = head + data
        with contextlib.suppress(UpstreamFailed):
            for start, stop in pairwise([0, *sorted(cuts), len(whole)]):
                if reader.feed(whole[start:stop]) is not None:
                    break


def test_trailer_after_a_large_body() -> None:
    """A large body earns no large trailer: what comes without a byte of body is bounded by itself."""
    body = b"x" * 100_000
    reader = ResponseReader(b"GET", len(body))
    assert reader.feed(CHUNKED + b"%x\r\n" % len(body) + body + b"\r\n0\r\nX: ") is None
    for _ in range(MAX_HEAD_BYTES // 1024):
        assert reader.feed(b"x" * 1024) is None
    with pytest.raises(UpstreamFailed) as caught:
        reader.feed(b"x" * 1024)
    assert caught.value.reason is Reason.RESPONSE_HEAD_TOO_LARGE


@pytest.mark.parametrize(
    "data", [CHUNKED + b"4\r\nhi", CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", OK + b"Content-Length: 9\r\n\r\nhi"]
)
def test_no_reference_cycle(data: bytes) -> None:
    """A reader that is done, or given up, is freed at once with the body it holds."""
    gc.disable()
    try:
        reader = ResponseReader(b"GET", LIMIT)
        if reader.feed(data) is None:
            reader.close()
        parsers = [o for o in gc.get_referrers(reader) if type(o).__name__ == "method"]
        assert parsers == []
    finally:
        gc.enable()
