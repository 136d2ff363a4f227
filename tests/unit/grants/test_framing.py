"""Fields about the connection: read, never forwarded, never matched."""

import pytest
from support.grants import head

from grants.decision import Deny, Reason, Rule
from grants.framing import HOP_BY_HOP, Framing, read_framing

type Lines = list[tuple[str | bytes, str | bytes]]

READ = [
    pytest.param([], (None, False, False), id="nothing"),
    pytest.param([("Host", "h")], (None, False, False), id="host"),
    pytest.param([("Content-Length", "0")], (0, False, False), id="length zero"),
    pytest.param([("content-length", "12")], (12, False, False), id="length"),
    pytest.param([("Transfer-Encoding", "Chunked")], (None, True, False), id="chunked"),
    pytest.param([("Expect", "100-Continue")], (None, False, True), id="expect"),
    pytest.param([("Connection", "close")], (None, False, False), id="close"),
    pytest.param([("Connection", "Keep-Alive, close")], (None, False, False), id="both options"),
    pytest.param([("Connection", "")], (None, False, False), id="no option"),
    pytest.param([("Connection", "close"), ("connection", "keep-alive")], (None, False, False), id="two Connection"),
    pytest.param([("Keep-Alive", "timeout=5"), ("Proxy-Connection", "x")], (None, False, False), id="hop-by-hop"),
    pytest.param([("TE", "trailers"), ("Trailer", "X"), ("Proxy-Authenticate", "x")], (None, False, False), id="more"),
]

REFUSED = [
    pytest.param([("Connection", "Authorization")], Reason.HEADER_FORBIDDEN, 403, id="Connection names a field"),
    pytest.param([("Connection", "close, TE")], Reason.HEADER_FORBIDDEN, 403, id="Connection names one more"),
    pytest.param([("Connection", "close;x")], Reason.HEADER_FORBIDDEN, 403, id="Connection with a parameter"),
    pytest.param([("Connection", "Upgrade"), ("Upgrade", "h2c")], Reason.HEADER_FORBIDDEN, 403, id="upgrade"),
    pytest.param([("Upgrade", "h2c")], Reason.HEADER_FORBIDDEN, 403, id="upgrade alone"),
    pytest.param([("Upgrade", "")], Reason.HEADER_FORBIDDEN, 403, id="empty upgrade"),
    pytest.param([("Proxy-Authorization", "Basic eDp5")], Reason.HEADER_FORBIDDEN, 403, id="proxy credentials"),
    pytest.param([("Expect", "")], Reason.EXPECTATION, 417, id="empty expect"),
    pytest.param([("Expect", "200-ok")], Reason.EXPECTATION, 417, id="another expect"),
    pytest.param([("Expect", "100-continue, x")], Reason.EXPECTATION, 417, id="two expectations"),
    pytest.param([("Expect", "100-continue")] * 2, Reason.HEADER_REPEATED, 403, id="expect twice"),
    pytest.param([("Host", "h"), ("host", "h")], Reason.HEADER_REPEATED, 403, id="two Host fields"),
    pytest.param([("Content-Length", "1")] * 2, Reason.FRAMING, 400, id="two lengths"),
    pytest.param([("Content-Length", "+2")], Reason.FRAMING, 400, id="signed length"),
    pytest.param([("Content-Length", "02")], Reason.FRAMING, 400, id="leading zero"),
    pytest.param([("Content-Length", "0x2")], Reason.FRAMING, 400, id="hex length"),
    pytest.param([("Content-Length", "1,1")], Reason.FRAMING, 400, id="list of lengths"),
    pytest.param([("Content-Length", "")], Reason.FRAMING, 400, id="empty length"),
    pytest.param([("Content-Length", "9" * 5000)], Reason.FRAMING, 400, id="5,000 digits"),
    pytest.param([("Content-Length", "1"), ("Transfer-Encoding", "chunked")], Reason.FRAMING, 400, id="CL and TE"),
    pytest.param([("Transfer-Encoding", "chunked")] * 2, Reason.FRAMING, 400, id="two codings"),
    pytest.param([("Transfer-Encoding", "gzip, chunked")], Reason.FRAMING, 400, id="another coding"),
    pytest.param([("Transfer-Encoding", "chunked,")], Reason.FRAMING, 400, id="trailing comma"),
    pytest.param([("Transfer-Encoding", "identity")], Reason.FRAMING, 400, id="identity"),
    pytest.param([("", "x")], Reason.HEADER_MALFORMED, 403, id="empty name"),
    pytest.param([("X ", "x")], Reason.HEADER_MALFORMED, 403, id="space before the colon"),
    pytest.param([("X\xe9", "x")], Reason.HEADER_MALFORMED, 403, id="name that is not ASCII"),
    pytest.param([("X(y)", "x")], Reason.HEADER_MALFORMED, 403, id="name with a delimiter"),
    pytest.param([("X\n", "x")], Reason.HEADER_MALFORMED, 403, id="line end in a name"),
    pytest.param([("X", "a\r\n b")], Reason.HEADER_MALFORMED, 403, id="obs-fold"),
    pytest.param([("X", "a\rb")], Reason.HEADER_MALFORMED, 403, id="bare CR"),
    pytest.param([("X", "a\nb")], Reason.HEADER_MALFORMED, 403, id="bare LF"),
    pytest.param([("X", "a\n")], Reason.HEADER_MALFORMED, 403, id="LF at the end"),
    pytest.param([("X", "a\x00b")], Reason.HEADER_MALFORMED, 403, id="NUL"),
    pytest.param([("X", "a\x7f")], Reason.HEADER_MALFORMED, 403, id="DEL"),
    pytest.param([("X", "caf\xe9")], Reason.HEADER_MALFORMED, 403, id="value that is not ASCII"),
    pytest.param([("Host", "h\x00")], Reason.HEADER_MALFORMED, 403, id="Host too"),
]


@pytest.mark.parametrize(("lines", "expected"), READ)
def test_framing_that_is_read(lines: Lines, expected: tuple[int | None, bool, bool]) -> None:
    """Framing and hop-by-hop fields are taken apart; none of them is left for the rules or the upstream."""
    framing = read_framing(head("GET", "/", *lines).fields)
    assert isinstance(framing, Framing)
    assert (framing.length, framing.chunked, framing.expect_continue) == expected
    assert framing.rest == ()
    assert framing.has_body == (framing.chunked or framing.length not in {None, 0})


@pytest.mark.parametrize(("lines", "reason", "status"), REFUSED)
def test_framing_that_is_refused(lines: Lines, reason: Reason, status: int) -> None:
    """Refused before any rule: what a lenient reader could frame, fold or forward differently."""
    denial = read_framing(head("GET", "/", *lines).fields)
    assert isinstance(denial, Deny)
    rule = Rule.BAD_REQUEST if status == 400 else Rule.REQUEST
    assert (denial.rule, denial.reason, denial.status) == (rule, reason, status)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c")], id="as Java sends it"),
        pytest.param([("Upgrade", "websocket"), ("Connection", "keep-alive, UPGRADE")], id="the other way round"),
    ],
)
def test_a_client_that_asks_for_another_protocol_is_told_what_helps(lines: Lines) -> None:
    """Such clients have a setting for the version; which field they sent, their users do not know."""
    denial = read_framing(head("GET", "/", *lines).fields)
    assert isinstance(denial, Deny)
    assert "set the client to that version" in denial.detail


def test_other_fields_stay_as_they_came() -> None:
    """End-to-end fields keep their order, their name as sent and their value."""
    framing = read_framing(head("GET", "/", ("X-A", "1\t2"), ("Host", "h"), ("x-a", "")).fields)
    assert isinstance(framing, Framing)
    assert framing.rest == ((b"X-A", b"x-a", b"1\t2"), (b"x-a", b"x-a", b""))


def test_names_are_lower_case() -> None:
    """Field names are compared without regard to case."""
    assert all(name == name.lower() for name in HOP_BY_HOP)
