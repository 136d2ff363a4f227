"""URL-shaped query values."""

from urllib.parse import quote

import pytest

from grants.urlshape import is_url_shaped


def encoded(value: str, rounds: int) -> str:
    for _ in range(rounds):
        value = quote(value, safe="")
    return value


SHAPED = [
    pytest.param("https://169.254.169.254/latest", id="https"),
    pytest.param("https%3A%2F%2F169.254.169.254", id="encoded once more"),
    pytest.param("https%253A%252F%252F169.254.169.254", id="encoded twice more"),
    pytest.param("//h", id="two slashes"),
    pytest.param("\\\\h", id="two backslashes"),
    pytest.param("/\\h", id="slash, backslash"),
    pytest.param("\\/h", id="backslash, slash"),
    pytest.param(" https:h", id="space in front"),
    pytest.param("\x01\x1f https:h", id="controls in front"),
    pytest.param("ht\ttps:h", id="tab inside"),
    pytest.param("ht\r\ntps:h", id="line end inside"),
    pytest.param("/\t/h", id="tab between slashes"),
    pytest.param("javascript:x", id="javascript"),
    pytest.param("a+b.c-1:x", id="every character of a scheme"),
    pytest.param("repo:acme", id="a search qualifier is a scheme too"),
    pytest.param("+https:h", id="plus is a space"),
    pytest.param("%20%09https:h", id="encoded space and tab in front"),
    pytest.param("%6\t8ttps:h", id="tab inside a percent sequence"),
    pytest.param(encoded("https:h", 8), id="encoded eight times"),
    pytest.param(encoded("https:h", 9), id="encoded nine times"),
    pytest.param(encoded("%", 9), id="would be still after nine rounds"),
    pytest.param(encoded("%", 30), id="still changes after eight rounds"),
]

NOT_SHAPED = [
    pytest.param("", id="empty"),
    pytest.param("open", id="word"),
    pytest.param("/h", id="one slash"),
    pytest.param("a//b", id="slashes inside"),
    pytest.param("1:2", id="digit in front"),
    pytest.param(":h", id="colon in front"),
    pytest.param("a b:c", id="space before the colon"),
    pytest.param("é:x", id="letter that is not ASCII"),
    pytest.param("C++", id="pluses"),
    pytest.param("100%", id="lone percent sign"),
    pytest.param("a%zz", id="bad sequence"),
    pytest.param("%ff", id="not UTF-8 when decoded again"),
    pytest.param(encoded("%", 8), id="still after eight rounds"),
]


@pytest.mark.parametrize("value", SHAPED)
def test_url_shaped(value: str) -> None:
    """Any form of the value that starts like a URL, after up to eight rounds of decoding, makes it URL-shaped."""
    assert is_url_shaped(value)


@pytest.mark.parametrize("value", NOT_SHAPED)
def test_not_url_shaped(value: str) -> None:
    """Nothing else is."""
    assert not is_url_shaped(value)
