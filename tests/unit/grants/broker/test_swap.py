"""Token out, value in, and back; and values in a stream."""

from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.needles import Needles
from grants.broker.scan import Disclosed, Scanner
from grants.broker.swap import Place, leftover, restore, swap

TOKEN = b"gpx_0123456789abcdef"
VALUE = b"sk/live+secret==1"
QUOTED = b"sk%2Flive%2Bsecret%3D%3D1"


def basic(plain: bytes) -> bytes:
    return b"Basic " + b64encode(plain)


@pytest.mark.parametrize(
    ("sent", "out"),
    [
        pytest.param(b"Bearer " + TOKEN, b"Bearer " + VALUE, id="bearer"),
        pytest.param(TOKEN + b"," + TOKEN, VALUE + b"," + VALUE, id="twice"),
        pytest.param(basic(b"user:" + TOKEN), basic(b"user:" + VALUE), id="Basic"),
        pytest.param(basic(TOKEN + b":"), basic(VALUE + b":"), id="Basic, user"),
        pytest.param(basic(b"user:other"), basic(b"user:other"), id="Basic, nothing to swap"),
        pytest.param(b"Basic " + TOKEN, b"Basic " + VALUE, id="Basic, not encoded"),
        pytest.param(b"nothing", b"nothing", id="nothing"),
    ],
)
def test_header(sent: bytes, out: bytes) -> None:
    """Every occurrence of the token in a header value becomes the value, and comes back as the token."""
    swapped = swap(((b"X", sent),), None, token=TOKEN, value=VALUE)
    assert swapped.fields == ((b"X", out),)
    assert swapped.query is None
    assert restore(swapped.fields, swapped.pairs) == ((b"X", sent),)


@pytest.mark.parametrize(
    ("token", "query", "out"),
    [
        pytest.param(TOKEN, b"key=" + TOKEN + b"&q=1", b"key=" + QUOTED + b"&q=1", id="as it is"),
        pytest.param(b"tok/en 12", b"key=tok%2Fen%2012", b"key=" + QUOTED, id="percent-encoded"),
        pytest.param(TOKEN, b"", b"", id="empty"),
    ],
)
def test_query(token: bytes, query: bytes, out: bytes) -> None:
    """A value put into the query is percent-encoded."""
    assert swap((), query, token=token, value=VALUE).query == out


@pytest.mark.parametrize(
    ("path", "query", "fields", "place"),
    [
        pytest.param(b"/a", b"q=1", ((b"A", b"b"),), None, id="nowhere"),
        pytest.param(b"/a", None, (), None, id="no query"),
        pytest.param(b"/" + TOKEN, None, (), Place.PATH, id="path"),
        pytest.param(b"/%67px_0123456789abcdef", None, (), Place.PATH, id="path, encoded"),
        pytest.param(b"/%2567px_0123456789abcdef", None, (), Place.PATH, id="path, encoded twice"),
        pytest.param(b"/%2525252567px_0123456789abcdef", None, (), None, id="path, encoded more often than is undone"),
        pytest.param(b"/", b"q=%67px_0123456789abcdef", (), Place.QUERY, id="query, encoded"),
        pytest.param(b"/", b"q=" + b64encode(b"x" + TOKEN), (), Place.QUERY, id="query, base64"),
        pytest.param(b"/", b"q=" + urlsafe_b64encode(b"\xff\xfe\xfb" + TOKEN), (), Place.QUERY, id="query, URL-safe"),
        pytest.param(b"/", None, ((b"A", b"x " + TOKEN),), Place.HEADER, id="header"),
        pytest.param(b"/", None, ((b"A", b"Basic " + b64encode(b"\xff" + TOKEN)),), Place.HEADER, id="header, base64"),
        pytest.param(b"/", None, ((b"X-" + TOKEN.upper(), b""),), Place.HEADER, id="header name"),
    ],
)
def test_leftover(
    path: bytes, query: bytes | None, fields: tuple[tuple[bytes, bytes], ...], place: Place | None
) -> None:
    """What still holds the token in some spelling is found."""
    assert leftover(TOKEN, path=path, query=query, fields=fields) == place


def test_restored() -> None:
    """An answer that repeats the value, also percent-encoded or in Basic credentials, gets the token again."""
    swapped = swap(((b"Authorization", basic(b"u:" + TOKEN)),), None, token=TOKEN, value=VALUE)
    fields = (
        (b"Echo", b"was " + basic(b"u:" + VALUE)),
        (b"Location", b"https://h/?key=" + QUOTED),
        (b"X-" + VALUE.upper(), b"name"),
        (b"Plain", VALUE + b" " + VALUE),
    )
    assert restore(fields, swapped.pairs) == (
        (b"Echo", b"was " + basic(b"u:" + TOKEN)),
        (b"Location", b"https://h/?key=" + TOKEN),
        (b"Plain", TOKEN + b" " + TOKEN),
    )
    assert set(swapped.needles) == {VALUE, QUOTED, b64encode(b"u:" + VALUE)}


def test_never_shown() -> None:
    """No text of these holds a value."""
    swapped = swap(((b"A", TOKEN),), TOKEN, token=TOKEN, value=VALUE)
    assert "sk" not in repr(swapped)
    assert repr(Scanner(Needles([VALUE]))) == "<scanner>"


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=30), st.binary(max_size=30))
def test_nothing_is_left(head: bytes, query: bytes) -> None:
    """After the swap a header or query that held the token plainly holds it no more, and comes back as it was."""
    swapped = swap(((b"A", head + TOKEN + head),), query + TOKEN, token=TOKEN, value=VALUE)
    assert swapped.query is not None
    assert TOKEN not in swapped.fields[0][1] + swapped.query
    assert leftover(TOKEN, path=b"/", query=b"", fields=()) is None


@pytest.mark.parametrize(
    ("needles", "pieces", "given_out"),
    [
        pytest.param([b"secret"], [b"abc", b"def"], [b"abc", b"def", b""], id="nothing"),
        pytest.param([b"secret"], [b"data: 1\n\n"], [b"data: 1\n\n", b""], id="an event is not held back"),
        pytest.param([b"secret"], [b"abse", b"x"], [b"ab", b"sex", b""], id="a beginning waits"),
        pytest.param([b"secret"], [b"abse"], [b"ab", b"se"], id="a beginning at the end"),
        pytest.param([b"secret"], [b"a", b"secret"], [b"a", Disclosed(), Disclosed()], id="in one piece"),
        pytest.param([b"secret"], [b"sec", b"", b"ret"], [b"", b"", Disclosed(), Disclosed()], id="across pieces"),
        pytest.param(
            [b"secret"], [b"s", b"secret", b"more"], [b"", Disclosed(), Disclosed(), Disclosed()], id="stays found"
        ),
        pytest.param([b"aab", b"abc"], [b"xaa", b"a"], [b"x", b"a", b"aa"], id="longest beginning of any"),
        pytest.param([b"aaab"], [b"aaaaa"], [b"aa", b"aaa"], id="overlapping beginnings"),
        pytest.param([b"", b""], [b"abc"], [b"abc", b""], id="empty values"),
        pytest.param([], [b"abc"], [b"abc", b""], id="no values"),
    ],
)
def test_scanner(needles: list[bytes], pieces: list[bytes], given_out: list[bytes | Disclosed]) -> None:
    """Only an end that could be the beginning of a value waits."""
    scanner = Scanner(Needles(needles, spelled=False))
    assert [*map(scanner.feed, pieces), scanner.finish()] == given_out


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.text("ab", max_size=6).map(str.encode), max_size=8),
    st.lists(st.text("ab", min_size=1, max_size=4).map(str.encode), min_size=1, max_size=2),
)
def test_scanner_finds_exactly_what_is_there(pieces: list[bytes], needles: list[bytes]) -> None:
    """However a stream is cut: a value in it is found and never goes out whole, all else goes out unchanged."""
    scanner = Scanner(Needles(needles, spelled=False))
    results = [*map(scanner.feed, pieces), scanner.finish()]
    out = b"".join(result for result in results if isinstance(result, bytes))
    whole = b"".join(pieces)
    held = any(needle in whole for needle in needles)
    assert (Disclosed() in results) is held
    assert not any(needle in out for needle in needles)
    assert whole.startswith(out)
    assert held or out == whole


@pytest.mark.parametrize("before", [b"", b"/", b"/x/", b"/a-", b"/ab/", b"?q=x", b"s=v_", b"=="])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
@pytest.mark.parametrize("around", [b"", b"u", b"us", b"user"])
def test_a_token_in_base64_is_found_wherever_it_stands(before: bytes, encode: object, around: bytes) -> None:
    """Whatever stands before the encoded text, and before the token within it."""
    text = before + encode(around + TOKEN + b"!").rstrip(b"=")  # type: ignore[operator]
    assert leftover(TOKEN, path=text, query=None, fields=()) is Place.PATH
    assert leftover(b"gpx_another-token-1", path=text, query=None, fields=()) is None
