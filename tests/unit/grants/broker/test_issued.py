"""What has the form of an issued token is cut out of any text, in every spelling, and nothing else is."""

from base64 import b64encode, urlsafe_b64encode
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.grants.broker.test_search import WRITERS

from grants.broker.issued import MOST, MOST_LOOKS, Bound, Issued, is_issued, may_name
from grants.broker.search import Search, found

TOKEN = b"gpx_" + b"Ab-_" * 10 + b"012"
FORM = st.text("ABCxyzgp_-019", min_size=43, max_size=43).map(lambda text: b"gpx_" + text.encode())


def cut(text: bytes) -> set[bytes]:
    """What is cut out of a whole text."""
    issued = Issued()
    assert not found(text, issued)
    return issued.texts


@pytest.mark.parametrize("written", WRITERS)
@pytest.mark.parametrize("before", [b"", b"x", b'{"key":"', b"100% a=", b"gpx_", b"\\n"])
def test_every_spelling_is_cut_out(written: str, before: bytes) -> None:
    """Those in which a known value is found."""
    text = before + reduce(lambda text, write: write(text), WRITERS[written], TOKEN) + b'"}\n'
    assert TOKEN in cut(text)


NONE = [
    pytest.param(TOKEN[:-1], id="too short"),
    pytest.param(TOKEN[1:], id="without its beginning"),
    pytest.param(TOKEN.upper(), id="in capitals"),
    pytest.param(TOKEN[:20] + b"+" + TOKEN[20:], id="another character"),
    pytest.param(b64encode(TOKEN[:-3]), id="base64 of what is too short"),
    pytest.param(b64encode(b"gpx_" + b"+" * 43), id="base64 of what is none"),
    pytest.param(b"", id="nothing"),
]


@pytest.mark.parametrize("text", NONE)
def test_what_has_not_the_form_is_not_asked_for(text: bytes) -> None:
    """Only what a token may be is."""
    assert cut(text) == set()
    assert not is_issued(text)


@settings(deadline=None, max_examples=100)
@given(FORM, st.binary(max_size=7), st.sampled_from([b"", b":", b"ab", b"===="]), st.sampled_from(range(4)), st.data())
def test_it_is_cut_out_of_a_stream_wherever_that_is_cut(
    token: bytes, before: bytes, after: bytes, way: int, data: st.DataObject
) -> None:
    """As it is and in base64 of either alphabet, padded or not: what may begin one waits for what follows."""
    write = (bytes, b64encode, urlsafe_b64encode, lambda text: b64encode(text).rstrip(b"="))[way]
    text = b"a " + write(before + token + after)
    end = data.draw(st.integers(0, len(text)))
    issued = Issued()
    search = Search(issued)
    given_out = [search.feed(text[:end]), search.feed(text[end:]), search.finish()]
    assert b"".join(part for part in given_out if isinstance(part, bytes)) == text
    assert token in issued.texts


def test_so_many_are_cut_out_and_no_more() -> None:
    """More than are asked for are found: nobody asks for all of a text that is made of them."""
    texts = [b"gpx_%043d" % number for number in range(MOST + 5)]
    issued = Issued()
    assert not issued.found(b" ".join(texts[:MOST]))
    assert len(issued.texts) == MOST
    assert issued.over is None
    assert issued.found(b" ".join(texts))
    assert issued.over is Bound.TEXTS
    assert len(issued.texts) > MOST
    assert not Issued(besides=texts[0]).found(b" ".join(texts[: MOST + 1]))


def test_one_is_left_out() -> None:
    """The box's own, in any spelling; one inside of another is not."""
    issued = Issued(besides=TOKEN)
    assert not issued.found(TOKEN + b" " + b64encode(b"user:" + TOKEN))
    assert issued.texts == set()
    assert cut(b"gpx_" + TOKEN) == {TOKEN, (b"gpx_" + TOKEN)[:47]}
    assert repr(issued) == "<issued: 0 texts>"


@pytest.mark.parametrize("name", [TOKEN, TOKEN.lower(), TOKEN.upper(), b"X-" + TOKEN.title() + b"-Y"])
def test_no_name_holds_one_in_any_case(name: bytes) -> None:
    """A folded name has lost the digest, so its form is enough."""
    assert may_name(name)
    assert not may_name(name.replace(b"-", b".").replace(b"_", b"."))


@pytest.mark.parametrize("begun", [b"Z3B4Xw", b"Z3B4X2dweF9n", b"gpx_"])
def test_a_text_full_of_beginnings_is_too_much(begun: bytes) -> None:
    """Each place that may begin a token costs a look, whether or not it is one: so many are refused, not looked at."""
    issued = Issued()
    assert issued.found(begun * 200_000)
    assert issued.over is Bound.LOOKS
    assert issued._looks <= MOST_LOOKS + 1
    assert not Issued().found(begun * 100)
