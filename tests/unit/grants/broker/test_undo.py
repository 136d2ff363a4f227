"""Escapes undone in a stream: however it is cut, what comes out is what the whole text would give."""

import json
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.undo import JSON, JSON_QUOTES, PERCENT, Escape, Undo, unquoted

VISIBLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))
LIKELY = st.text('%\\/u0="41a5c\r\n').map(str.encode)


@settings(deadline=None, max_examples=150)
@given(LIKELY | st.binary())
def test_percent_encoding_is_undone_as_by_every_reader(text: bytes) -> None:
    """Each `%` and two hexadecimal digits are a byte, everything else stays (RFC 3986, 2.1)."""
    assert unquoted(text) == unquote_to_bytes(text)


@settings(deadline=None, max_examples=200)
@given(VISIBLE, st.booleans(), st.booleans())
def test_a_json_string_is_undone(text: str, slash: bool, every: bool) -> None:
    """What a JSON string says in visible ASCII comes out, whatever of it is escaped (RFC 8259, 7)."""
    written = json.dumps(text)[1:-1].replace("/", "\\/" if slash else "/")
    if every:
        written = "".join(f"\\u{ord(char):04x}" for char in text)
    undo = Undo(JSON_QUOTES)
    assert undo.feed(written.encode()) + undo.finish() == text.encode()
    undo = Undo(JSON)
    made = undo.feed(written.encode()) + undo.finish()
    assert made.replace(b'\\"', b'"') == text.encode().replace(b'\\"', b'"')


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([PERCENT, JSON, JSON_QUOTES]), st.lists(LIKELY, max_size=8), st.integers(0, 20))
def test_the_borders_of_pieces_do_not_matter(escape: Escape, pieces: list[bytes], count: int) -> None:
    """A cut stream gives what the whole gives; its last bytes come from no more than `before` says."""
    undo, whole = Undo(escape), b"".join(pieces)
    made = b""
    for number, piece in enumerate(pieces):
        made += undo.feed(piece)
        taken = b"".join(pieces[: number + 1])
        count = min(count, len(made))
        earlier = Undo(escape)
        start = max(0, len(taken) - undo.before(count))
        assert len(earlier.feed(taken[:start])) <= len(made) - count
    other = Undo(escape)
    expected = other.feed(whole) + other.finish()
    # where it matters not, an escaped quotation mark is undone or not
    assert (made + undo.finish()).replace(b'\\"', b'"') == expected.replace(b'\\"', b'"')


@pytest.mark.parametrize(
    ("escape", "piece", "waits"),
    [
        pytest.param(PERCENT, b"a%", b"%", id="percent"),
        pytest.param(PERCENT, b"a%4", b"%4", id="percent and a digit"),
        pytest.param(PERCENT, b"a%x", b"", id="no percent-encoding"),
        pytest.param(JSON, b"a\\", b"\\", id="backslash"),
        pytest.param(JSON, b"a\\\\", b"", id="two backslashes"),
        pytest.param(JSON, b"a\\\\\\", b"\\", id="three backslashes"),
        pytest.param(JSON, b"a\\u00", b"\\u00", id="begun"),
        pytest.param(JSON, b"a\\u004", b"\\u004", id="all but one digit"),
        pytest.param(JSON, b"a\\\\u00", b"", id="behind a pair"),
        pytest.param(JSON, b"a\\u20", b"", id="not of a value"),
        pytest.param(JSON, b"data: \\n\n\n", b"", id="an event"),
    ],
)
def test_only_what_may_be_an_escape_waits(escape: Escape, piece: bytes, waits: bytes) -> None:
    """An end that begins an escape waits for the next piece, and goes out when there is none."""
    undo = Undo(escape)
    undo.feed(piece)
    assert undo.finish() == waits


def test_bytes_that_passed_count_as_they_are() -> None:
    """What a step was not given, since it had nothing to undo, came of as many bytes."""
    undo = Undo(PERCENT)
    undo.feed(b"%41")
    assert undo.before(1) == 3
    undo.passed(4)
    assert undo.before(4) == 4
    assert undo.before(5) == 7


@pytest.mark.parametrize("escape", [PERCENT, JSON, JSON_QUOTES])
@given(text=LIKELY)
def test_a_text_that_is_not_touched_stays(escape: Escape, text: bytes) -> None:
    """Where there is nothing to undo and nothing waits, a step gives what it was fed."""
    undo = Undo(escape)
    if not escape.touches(text):
        assert undo.feed(text) is text
        assert undo.finish() == b""
