"""Many values in one search: found exactly where looking for each in turn would find it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.needles import Either, Needles

LONG = [b"token-of-box-%04d-%030d" % (number, number * 7919) for number in range(60)]
SHORT = [b"pass-%04d" % number for number in range(40)]
TINY = [b"ab%02d" % number for number in range(20)]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(LONG, id="long"),
        pytest.param(SHORT, id="short"),
        pytest.param(TINY, id="tiny"),
        pytest.param([*LONG, *SHORT, *TINY], id="of every length"),
        pytest.param([b"x" * count for count in range(8, 40)], id="of one byte"),
        pytest.param(LONG[:1], id="one"),
    ],
)
def test_each_of_many_is_found_at_any_place(values: list[bytes]) -> None:
    """Whole, wherever it stands; not when its last byte is missing, and not what was never one of them."""
    needles = Needles(values, spelled=False)
    for value in values[:: max(1, len(values) // 12)]:
        for before in range(17):
            assert needles.found(b"." * before + value)
            assert needles.found(b"." * before + value + b".....")
            assert needles.begun(b"." * before + value[:-1]) == len(value) - 1
    assert not needles.found(b"token-of-box-0001-nothing pass-x ab ")
    assert not needles.found(b"")
    assert needles.begun(b"") == 0


@pytest.mark.parametrize("count", [1, 60])
def test_one_may_be_left_out(count: int) -> None:
    """Besides one value the others are found, also where that one stands too, or is a part of another."""
    needles = Needles([*LONG[:count], b"other-token-0123", LONG[0] + b"-more"])
    but = needles.besides(LONG[0])
    assert needles.found(LONG[0])
    assert not but.found(LONG[0])
    assert but.found(LONG[0] + b" other-token-0123")
    assert but.found(LONG[0] + b"-more")
    assert needles.found(LONG[0])


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.text("ab", min_size=1, max_size=20).map(str.encode), min_size=13, max_size=30, unique=True),
    st.lists(st.text("ab", max_size=40).map(str.encode), max_size=5),
)
def test_many_are_found_as_few_are(values: list[bytes], texts: list[bytes]) -> None:
    """The answers are those of looking for each value alone."""
    many, alone = Needles(values, spelled=False), [Needles([value], spelled=False) for value in values]
    either = Either(*alone)
    for text in texts:
        assert many.found(text) == any(value in text for value in values) == either.found(text)
        assert many.begun(text) == max(one.begun(text) for one in alone) == either.begun(text)


def test_nothing_of_them_is_shown() -> None:
    """Only how many there are."""
    assert repr(Needles([b"12345678"], spelled=False)) == "<needles for 1 spellings>"
    assert (Needles([]).shortest, Needles([b"", b"abcdefgh", b"x" * 9], spelled=False).shortest) == (0, 8)
    assert Either(Needles([b'a"'])).quotes
    assert not Either(Needles([b"a"]), Needles([b"b"])).quotes
