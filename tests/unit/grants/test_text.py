"""How a refusal shows names and lists."""

import pytest

from grants.text import listed, quoted


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("page", '"page"', id="plain"),
        pytest.param('a"b', '"a\\"b"', id="quote"),
        pytest.param("a\x1b[2J\n", '"a\\x1b[2J\\n"', id="controls"),
        pytest.param("\u202eé", '"\\u202e\\xe9"', id="not ASCII"),
        pytest.param("x" * 65, '"' + "x" * 64 + '..."', id="long"),
    ],
)
def test_quoted(name: str, shown: str) -> None:
    """In quotes, printable, bounded: a client's name does nothing to a terminal or a log."""
    assert quoted(name) == shown


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        pytest.param([], "none", id="none"),
        pytest.param(["a", "b"], "a, b", id="two"),
        pytest.param(list("abcdefg"), "a, b, c, d, e and 2 more", id="seven"),
        pytest.param(["x" * 200], "x" * 128 + "...", id="long"),
    ],
)
def test_listed(values: list[str], shown: str) -> None:
    """The first five, and how many more."""
    assert listed(values) == shown
