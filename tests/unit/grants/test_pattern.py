"""Patterns: RE2, on bytes, the whole value."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.pattern import PatternInvalid, compile_pattern

BEARER = r"Bearer @secret:[A-Za-z0-9._/-]+"

MATCHES = [
    pytest.param(BEARER, b"Bearer @secret:api", True, id="whole"),
    pytest.param(BEARER, b"xBearer @secret:api", False, id="something-before"),
    pytest.param(BEARER, b"Bearer @secret:api x", False, id="something-after"),
    pytest.param(BEARER, b"Bearer @secret:api\n", False, id="line-end-after"),
    pytest.param("a|ab", b"ab", True, id="the-longer-alternative"),
    pytest.param("a|b$", b"a\nb", False, id="anchors-of-one-alternative"),
    pytest.param(".*", b"a\nb", False, id="dot-is-no-line-end"),
    pytest.param(".*", "é".encode(), True, id="a-character-is-utf-8"),
    pytest.param(".{1}", "é".encode(), True, id="one-character-of-two-bytes"),
    pytest.param(".*", b"\xff", False, id="not-utf-8"),
    pytest.param("é", "é".encode(), True, id="a-pattern-that-is-not-ascii"),
    pytest.param("", b"", True, id="empty"),
    pytest.param("[0-9]{1,9}", b"1234567890", False, id="too-many"),
    pytest.param(r"(?i)get", b"GeT", True, id="flag"),
]


@pytest.mark.parametrize(("source", "value", "expected"), MATCHES)
def test_a_pattern_is_matched_against_the_whole_value(source: str, value: bytes, expected: bool) -> None:
    """`pattern` is RE2, matched against the whole value."""
    assert compile_pattern(source).matches(value) is expected


@pytest.mark.parametrize(
    ("source", "because"),
    [
        pytest.param("(", "missing )", id="open-group"),
        pytest.param("(?=a)", "(?=", id="lookahead"),
        pytest.param(r"(a)\1", r"\1", id="backreference"),
        pytest.param("a{1001}", "invalid repetition size", id="repetition"),
        pytest.param("((((a{1,100}){1,100}){1,100}){1,100})", "repetition size", id="nested-repetition"),
        pytest.param("\ud800", "not Unicode text", id="lone-surrogate"),
        pytest.param(r"\pN{1}" + r"[\pL\pN]{1,999}", "too large", id="memory"),
    ],
)
def test_what_re2_refuses_is_refused(source: str, because: str) -> None:
    """No lookaround, no backreference, nothing that needs unbounded memory."""
    with pytest.raises(PatternInvalid) as caught:
        compile_pattern(source)
    assert because in str(caught.value)


def test_patterns_are_equal_by_source() -> None:
    """Two loads of one grant are equal, and a pattern shows what was written."""
    assert compile_pattern("a+") == compile_pattern("a+")
    assert compile_pattern("a+") != compile_pattern("a*")
    assert compile_pattern("a+").source == "a+"
    assert repr(compile_pattern("a+")) == "Re2Pattern(source='a+')"


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=40), st.binary(max_size=40))
def test_any_text_compiles_or_is_refused(source: str, value: bytes) -> None:
    """A pattern is accepted or raises the one error type, and matching is total."""
    try:
        pattern = compile_pattern(source)
    except PatternInvalid:
        return
    assert pattern.matches(value) in (True, False)
