"""The one search: every spelling that it promises, in a whole text and in a stream, and nothing held back for long."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from functools import reduce
from random import Random
from urllib.parse import quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.scan import Disclosed
from grants.broker.search import LAYERS, Search, holds, spellings

VALUE = b"sk/a+\"<&'\\u0041%41"
TOKEN = b"gpx_012345+/"
OTHER = b"gpx_012346+/"

type Write = Callable[[bytes], bytes]


def escapes(choose: Callable[[int], int]) -> Write:
    """Each byte as it is, as `\\u00XX` in either case, or as its short escape: `choose` says which."""

    def byte(octet: int) -> bytes:
        forms = [f"\\u{octet:04x}", f"\\u{octet:04X}"]
        forms += [f"\\{octet:c}"] if octet in b'"\\/' else []
        forms += [] if octet in b'"\\' else [f"{octet:c}"]
        return forms[choose(len(forms))].encode("latin-1")

    return lambda text: b"".join(map(byte, text))


def percent(choose: Callable[[int], int]) -> Write:
    """Each byte as it is or as `%XX` in either case."""
    return lambda text: b"".join(
        [b"%c" % octet, b"%%%02x" % octet, b"%%%02X" % octet][choose(2) + 1 if octet == 0x25 else choose(3)]
        for octet in text
    )


def streamed(text: bytes, value: bytes, size: int) -> tuple[bool, bytes]:
    """Whether the value was found in a stream of pieces of this size, and what went out before."""
    search, shown = Search([value]), b""
    for start in range(0, len(text), size):
        piece = search.feed(text[start : start + size])
        if isinstance(piece, Disclosed):
            return True, shown
        shown += piece
    rest = search.finish()
    return (True, shown) if isinstance(rest, Disclosed) else (False, shown + rest)


MIXED = Random(1).randrange
WRITERS: dict[str, list[Write]] = {
    "as it is": [],
    "percent": [percent(MIXED)],
    "percent, every byte": [percent(lambda count: count - 1)],
    "percent, three times": [percent(MIXED)] * 3,
    "as a form": [lambda text: quote_plus(text).encode()],
    "what JSON must escape": [lambda text: json.dumps(text.decode())[1:-1].encode()],
    "the slash": [lambda text: json.dumps(text.decode())[1:-1].replace("/", "\\/").encode()],
    "as in HTML": [
        lambda text: re.sub(rb"[\"&'+<>\\]", lambda found: b"\\u%04X" % found[0][0], text),
    ],
    "every sign": [lambda text: re.sub(rb"[^A-Za-z0-9]", lambda found: b"\\u%04x" % found[0][0], text)],
    "every byte": [escapes(lambda _count: 0)],
    "every byte, in capitals": [escapes(lambda _count: 1)],
    "escapes, mixed": [escapes(MIXED)],
    "escapes, twice": [escapes(MIXED)] * 2,
    "escapes, three times": [escapes(MIXED)] * 3,
    "base64": [lambda text: b64encode(b"a" + text)],
    "base64, in JSON": [lambda text: b64encode(b"ab" + text), escapes(MIXED)],
    "base64 for URLs, percent": [lambda text: urlsafe_b64encode(text + b"a"), percent(MIXED)],
    "base64, percent, JSON": [b64encode, percent(MIXED), escapes(MIXED)],
    "JSON, percent": [escapes(MIXED), percent(MIXED)],
    "percent, JSON, percent": [percent(MIXED), escapes(MIXED), percent(MIXED)],
    "JSON, percent, JSON": [escapes(MIXED), percent(MIXED), escapes(MIXED)],
}
PAYLOADS = [
    pytest.param(value, id=name) for value, name in ((VALUE, "value"), (TOKEN, "token"), (b"a b c d e", "spaces"))
]


@pytest.mark.parametrize("written", WRITERS)
@pytest.mark.parametrize("value", PAYLOADS)
@pytest.mark.parametrize("before", [b"", b'{"key":"', b"100% a="])
def test_every_spelling_is_found(value: bytes, written: str, before: bytes) -> None:
    """Whole, and in a stream at every size of its pieces: the value is found, and never goes out."""
    text = before + reduce(lambda text, write: write(text), WRITERS[written], value) + b'"}\n\n'
    assert holds(text, value)
    assert holds(text, b"another-value", value)
    assert not holds(text, b"another-value")
    for size in (1, 5, 64):
        disclosed, shown = streamed(text, value, size)
        assert disclosed
        # of base64, what stands before the characters that are of the value alone goes out
        assert before.startswith(shown) or ("base64" in written and not any(map(shown.count, spellings((value,)))))


NOT_FOUND = [
    pytest.param(TOKEN[:-1], id="all but the last byte"),
    pytest.param(OTHER, id="another"),
    pytest.param(TOKEN[:9] + b"\n" + TOKEN[9:], id="with a line break in it"),
    pytest.param(b64encode(b64encode(TOKEN)), id="base64 of base64"),
    pytest.param(b64encode(escapes(lambda _count: 0)(TOKEN)), id="base64 of escapes"),
    pytest.param(reduce(lambda text, _: percent(lambda n: n - 1)(text), range(LAYERS + 1), TOKEN), id="too often"),
    pytest.param(TOKEN.upper(), id="in another case"),
]


@pytest.mark.parametrize("text", NOT_FOUND)
def test_what_is_not_the_value_goes_on(text: bytes) -> None:
    """A text without one of the spellings is not withheld, and comes out unchanged."""
    assert not holds(text, TOKEN)
    assert streamed(text, TOKEN, 3) == (False, text)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_any_mixture_is_found_however_it_is_cut(data: st.DataObject) -> None:
    """Every byte in any of its forms, up to two levels, at any borders."""

    def choose(count: int) -> int:
        return data.draw(st.integers(0, count - 1))

    text = TOKEN
    for write in data.draw(st.lists(st.sampled_from([escapes(choose), percent(choose)]), max_size=2)):
        text = write(text)
    cut = data.draw(st.integers(0, len(text)))
    search = Search([TOKEN])
    first = search.feed(b"data: " + text[:cut])
    assert Disclosed() in (first, search.feed(text[cut:]), search.finish())
    assert isinstance(first, Disclosed) or b"data: ".startswith(first)


@settings(deadline=None, max_examples=120)
@given(st.lists(st.text('ab%\\u0/"6127').map(str.encode), max_size=8))
def test_a_stream_without_the_value_is_not_changed(pieces: list[bytes]) -> None:
    """Everything that is not withheld goes out, in order; a stream is judged as its whole text is."""
    value, whole = b"ab/a", b"".join(pieces)
    search, shown = Search([value]), b""
    for piece in [*map(search.feed, pieces), search.finish()]:
        if isinstance(piece, Disclosed):
            assert holds(whole, value)
            assert whole.startswith(shown)
            return
        shown += piece
    assert not holds(whole, value)
    assert shown == whole


@pytest.mark.parametrize(
    ("piece", "held"),
    [
        pytest.param(b'data: {"t":"a \\u0067\\n 100% \\/"}\n\n', b"", id="an event"),
        pytest.param(b'data: {"t":"%67\\u0067"}', b"", id="what begins none"),
        pytest.param(b"text\\n gpx_", b"gpx_", id="a beginning"),
        pytest.param(b"text\\\\u0061 gp", b"gp", id="a beginning far behind an escape"),
        pytest.param(b"text %2", b"%2", id="a begun octet"),
        pytest.param(b"text \\", b"\\", id="a begun escape"),
    ],
)
def test_an_event_is_not_held_back(piece: bytes, held: bytes) -> None:
    """Only an end that may begin the value waits, so an event that ends in a line break never does."""
    search = Search([TOKEN])
    assert search.feed(piece) == piece.removesuffix(held)
    assert search.finish() == held


def test_a_large_text_is_searched_in_pieces() -> None:
    """A value across the border of two pieces is found."""
    before = b"x" * (256 * 1024 - 40)
    assert holds(before + escapes(lambda _count: 0)(TOKEN), TOKEN)
    assert not holds(before + escapes(lambda _count: 0)(OTHER), TOKEN)


def test_nothing_is_shown() -> None:
    """No text of a search holds a value; no values are found nowhere."""
    assert repr(Search([VALUE])) == "<search>"
    assert not holds(b"anything")
    assert spellings(()) == ()
