"""The header section of an answer: its bounds, and what of it a client may see."""

import pytest

from grants.message import Fields, Response
from grants.response_head import MAX_FIELDS, MAX_HEAD_BYTES, HeadFault, announced_length, head_fault, relayed


def answer(fields: Fields = (), *, reason: bytes = b"OK", trailers: Fields = ()) -> Response:
    return Response(status=200, reason=reason, fields=fields, body=b"", trailers=trailers)


def long(size: int) -> Fields:
    """One field that makes a header section of `size` bytes, without a reason phrase."""
    return ((b"X", b"v" * (size - 5)),)


@pytest.mark.parametrize(
    ("response", "fault"),
    [
        pytest.param(answer(), None, id="no fields"),
        pytest.param(answer(reason=b""), None, id="no reason phrase"),
        pytest.param(answer(((b"X", b"1"),) * MAX_FIELDS), None, id="256 fields"),
        pytest.param(answer(((b"X", b"1"),) * 257), HeadFault.TOO_LARGE, id="257 fields"),
        pytest.param(answer(((b"X", b"1"),) * 300), HeadFault.TOO_LARGE, id="300 fields"),
        pytest.param(answer(trailers=((b"X", b"1"),) * 257), HeadFault.TOO_LARGE, id="257 trailers"),
        pytest.param(answer(long(MAX_HEAD_BYTES), reason=b""), None, id="64 KiB"),
        pytest.param(answer(long(MAX_HEAD_BYTES), reason=b"O"), HeadFault.TOO_LARGE, id="one byte more by the reason"),
        pytest.param(answer(long(MAX_HEAD_BYTES + 1), reason=b""), HeadFault.TOO_LARGE, id="one byte more"),
        pytest.param(answer(((b"N" * MAX_HEAD_BYTES, b""),)), HeadFault.TOO_LARGE, id="a long name"),
        pytest.param(answer(reason=b"r" * (MAX_HEAD_BYTES + 1)), HeadFault.TOO_LARGE, id="a long reason phrase"),
        pytest.param(answer(trailers=long(MAX_HEAD_BYTES + 1)), HeadFault.TOO_LARGE, id="long trailers"),
        pytest.param(answer(((b"X-a_b.c~1!", b" \t\xe9~"),)), None, id="odd but well formed"),
        pytest.param(answer(((b"X", b""),)), None, id="empty value"),
        pytest.param(answer(((b"", b"1"),)), HeadFault.MALFORMED, id="empty name"),
        pytest.param(answer(((b"X Y", b"1"),)), HeadFault.MALFORMED, id="space in a name"),
        pytest.param(answer(((b"X:", b"1"),)), HeadFault.MALFORMED, id="colon in a name"),
        pytest.param(answer(((b"X\xe9", b"1"),)), HeadFault.MALFORMED, id="name that is not ASCII"),
        pytest.param(answer(((b"X\r\nY", b"1"),)), HeadFault.MALFORMED, id="line break in a name"),
        pytest.param(answer(((b"X", b"1\r\nSet-Cookie: a"),)), HeadFault.MALFORMED, id="line break in a value"),
        pytest.param(answer(((b"X", b"1\n 2"),)), HeadFault.MALFORMED, id="folded value"),
        pytest.param(answer(((b"X", b"1\r2"),)), HeadFault.MALFORMED, id="CR in a value"),
        pytest.param(answer(((b"X", b"1\x00"),)), HeadFault.MALFORMED, id="NUL in a value"),
        pytest.param(answer(((b"X", b"\x1b[2J"),)), HeadFault.MALFORMED, id="escape in a value"),
        pytest.param(answer(((b"X", b"\x7f"),)), HeadFault.MALFORMED, id="DEL in a value"),
        pytest.param(answer(reason=b"OK\nX: 1"), HeadFault.MALFORMED, id="line break in the reason phrase"),
        pytest.param(answer(trailers=((b"X", b"\n"),)), HeadFault.MALFORMED, id="line break in a trailer"),
    ],
)
def test_the_header_section_is_bounded_and_well_formed(response: Response, fault: HeadFault | None) -> None:
    """At most 256 fields and 64 KiB; names are tokens, values hold no control character (RFC 9110, 5.1 and 5.5)."""
    assert head_fault(response) is fault


NAMES = [
    pytest.param(b"Content-Type", True, id="Content-Type"),
    pytest.param(b"Location", True, id="Location"),
    pytest.param(b"Link", True, id="Link"),
    pytest.param(b"ETag", True, id="ETag"),
    pytest.param(b"WWW-Authenticate", True, id="WWW-Authenticate"),
    pytest.param(b"Retry-After", True, id="Retry-After"),
    pytest.param(b"Connection", False, id="Connection"),
    pytest.param(b"Keep-Alive", False, id="Keep-Alive"),
    pytest.param(b"Proxy-Authenticate", False, id="Proxy-Authenticate"),
    pytest.param(b"Proxy-Anything", False, id="Proxy-Anything"),
    pytest.param(b"TE", False, id="TE"),
    pytest.param(b"Trailer", False, id="Trailer"),
    pytest.param(b"Transfer-Encoding", False, id="Transfer-Encoding"),
    pytest.param(b"Upgrade", False, id="Upgrade"),
    pytest.param(b"Content-Encoding", False, id="Content-Encoding"),
    pytest.param(b"Content-Length", False, id="Content-Length"),
    pytest.param(b"Set-Cookie", False, id="Set-Cookie"),
    pytest.param(b"Set-Cookie2", False, id="Set-Cookie2"),
    pytest.param(b"Alt-Svc", False, id="Alt-Svc"),
    pytest.param(b"Refresh", False, id="Refresh"),
]


@pytest.mark.parametrize(("name", "passes"), NAMES)
@pytest.mark.parametrize("case", [bytes, bytes.lower, bytes.upper], ids=["as is", "lower", "upper"])
def test_only_end_to_end_fields_are_relayed(name: bytes, passes: bool, case: type[bytes]) -> None:
    """Fields of the connection, of the coding, cookies and pointers elsewhere stay here, in whatever case."""
    fields = ((b"X-Before", b"1"), (case(name), b"2"), (b"X-After", b"3"))
    assert (fields[1] in relayed(fields, None)) is passes
    assert relayed(fields, None) == tuple(field for field in fields if passes or field is not fields[1])


def test_what_connection_names_is_not_relayed() -> None:
    """`Connection` names fields that are for this connection only (RFC 9110, 7.6.1), wherever they stand."""
    fields = (
        (b"X-One", b"1"),
        (b"Connection", b"close , x-ONE,,"),
        (b"X-Two", b"2"),
        (b"connection", b"X-Three"),
        (b"X-Three", b"3"),
        (b"X-Four", b"4"),
    )
    assert relayed(fields, None) == ((b"X-Two", b"2"), (b"X-Four", b"4"))


def test_fields_keep_their_order_and_their_spelling() -> None:
    """Fields are relayed as they came, repeated ones too."""
    fields = ((b"link", b"<a>"), (b"X-A", b"\xe9"), (b"LINK", b"<b>"), (b"X-A", b""))
    assert relayed(fields, None) == fields


def test_chosen_fields() -> None:
    """With `headers` only those fields are relayed; cookies may be among them, the connection's own may not."""
    fields = (
        (b"X-Kept", b"1"),
        (b"x-kept", b"2"),
        (b"X-Dropped", b"3"),
        (b"Set-Cookie", b"s=1"),
        (b"Connection", b"x-named"),
        (b"X-Named", b"4"),
        (b"Content-Encoding", b"gzip"),
        (b"Refresh", b"0"),
    )
    chosen = frozenset({"x-kept", "set-cookie", "connection", "x-named", "content-encoding", "refresh"})
    assert relayed(fields, chosen) == ((b"X-Kept", b"1"), (b"x-kept", b"2"), (b"Set-Cookie", b"s=1"))
    assert relayed(fields, frozenset({"x-kept"})) == fields[:2]
    assert relayed(fields, frozenset()) == ()


@pytest.mark.parametrize(
    ("values", "length"),
    [
        pytest.param([], None, id="absent"),
        pytest.param([b"0"], 0, id="zero"),
        pytest.param([b"812"], 812, id="number"),
        pytest.param([b"812", b"812"], 812, id="the same twice"),
        pytest.param([b"812", b"813"], None, id="two"),
        pytest.param([b"+812"], None, id="plus"),
        pytest.param([b"-1"], None, id="minus"),
        pytest.param([b"8 12"], None, id="space"),
        pytest.param([b"8_12"], None, id="underscore"),
        pytest.param([b"0x8"], None, id="hexadecimal"),
        pytest.param([b""], None, id="empty"),
        pytest.param(["\uff18".encode()], None, id="a digit that is not ASCII"),
        pytest.param([b"9" * 18], 10**18 - 1, id="18 digits"),
        pytest.param([b"9" * 19], None, id="19 digits"),
        pytest.param([b"9" * 60_000], None, id="60,000 digits"),
    ],
)
def test_the_announced_length(values: list[bytes], length: int | None) -> None:
    """`Content-Length` of an answer without a body is kept when it is one plain number (RFC 9110, 8.6)."""
    assert announced_length(tuple((b"content-LENGTH", value) for value in values)) == length
