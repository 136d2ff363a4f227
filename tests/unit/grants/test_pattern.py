"""Patterns: RE2, on bytes, the whole value."""

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from grants import pattern as module
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


SOURCES = [
    *["", "a", "a*", "(a|b)*", "a|ab", "a|", "|a", "|", "(|a)+", "()*", "(a*)*", "a+?", "(?U)a+", "a{0}", "a{0,3}"],
    *["^", "$", "^$", "^a", "a$", "a^b", "a$b", "a|b$", "(^|b)a($|c)", "a(^)?", "a($)*", r"\Aa\z", r"a\z", r"(a|^)b"],
    *["(?m)a$", "(?m)^a$", "(?m)a$.*", r"(?m)^a$\nb", "(?ms)a$.*", "(?ms)^.*^b$", "(?m:$)a*", r"a(?m:$)\n?"],
    *[r"\b", r"\B", r"\ba\b", r"a\b", r"\Ba\B", r"a\bb", r"\b.*\b", r"(?:\b|a)b"],
    *["(?i)get", "(?i)k", "(?i)\u017f", "(?i:A)b"],
    *[".", "..", ".*", ".{1}", "(?s).*", "(?s)a.b", "(?s:.)", r"\C", r"\C*", r"\C\C", r"[\x80-\x{10ffff}]", r"\xff"],
    *[
        "[^a]",
        "[^a]*",
        r"[^\n]*",
        r"a\n",
        r"\n",
        r"\x00",
        r"[^\x00]*",
        r"\Qa.b\E",
        "é",
        r"\pL+",
        r"\PL",
        "[[:alpha:]]+",
    ],
    *["[0-9]{1,9}", r"\d+", r"\s*", "[a-z]{1,1000}", "(a{1,10}){1,10}", "((a{1,10}){1,10}){1,10}", "(a|aa)*b"],
    *["(x+x+)+y", "(?:a?){30}a{30}", "(?:a?){400}a{400}", "[ab]*a[ab]{12}", "(?s).{0,200}x.{0,200}", "[^a]{0,1000}"],
    *[r"\pL{1,13}", r"\pL{1,14}", r"\pL{1,400}", BEARER],
]
VALUES = [
    *[b"", b"a", b"b", b"ab", b"aa", b"ba", b"aab", b"bac", b"x", b"k", b"s", b"y", b"GET", b"GeT", b"a.b", b"axb"],
    *[b"\n", b"a\n", b"\na", b"a\nb", b"a\n\n", b"a\nb\n", b"\nb", b"a\r\n", b"\r", b"\x00", b"a\x00", b"\x00a"],
    *[b"\xff", b"\xc3", b"a\xff", b"\xffa", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe2\x80\xa8"],
    *["é".encode(), "éé".encode(), "\u017f".encode(), "\u212a".encode(), b" ", b"_", b"77", b"1234567890", b"-a-"],
    *[b"Bearer @secret:api", b"Bearer @secret:api ", b"x" * 40 + b"y", b"a" * 30, b"a" * 1000, b"a" * 1001],
    *[b"b" * 1000, b"ab" * 500, b"aab" * 300, b"b" * 100 + b"x" + b"a" * 200],
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_the_set_says_what_the_pattern_says(source: str) -> None:
    """Whatever the set finds is a match, and what is a match is one with a set or without."""
    pattern, found, exact = compile_pattern(source), module._set_of(source), re2.compile(source.encode())
    for value in VALUES:
        expected = exact.fullmatch(value) is not None
        assert expected or not found(value), value
        assert pattern.matches(value) is expected, value


EMPTY = ["^", "$", r"\b", r"\B", r"\A", r"\z", "(?m:$)", "(?m:^)"]
PIECES = st.sampled_from([*EMPTY, "a", "b", ".", r"\n", r"\C", "(?s:.)", "[^a]", "(?i:A)", "é"])
COMPOSED = st.recursive(
    PIECES,
    lambda part: st.one_of(
        st.builds("{}{}".format, part, part),
        st.builds("(?:{}|{})".format, part, part),
        st.builds("(?:{}){}".format, part, st.sampled_from(["*", "+", "?", "*?", "{0,2}", "{2}"])),
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=500)
@given(COMPOSED, st.lists(st.sampled_from([b"a", b"b", b"A", b"\n", "é".encode(), b"\xff", b"_", b""]), max_size=6))
def test_a_set_finds_nothing_that_its_pattern_does_not(source: str, parts: list[bytes]) -> None:
    """A yes of the set alone is enough to let a value pass, so it may never say one too many."""
    value, exact = b"".join(parts), re2.compile(source.encode())
    expected = exact.fullmatch(value) is not None
    assert expected or not module._set_of(source)(value)
    assert compile_pattern(source).matches(value) is expected


@pytest.mark.parametrize(
    "found",
    [pytest.param(lambda _value: None, id="nothing found"), pytest.param(module._nothing, id="no set")],
)
def test_a_no_of_the_set_is_asked_again(found: object) -> None:
    """The automaton may have been out of memory."""
    pattern = compile_pattern("a+")
    object.__setattr__(pattern, "_found", found)
    assert pattern.matches(b"aa")
    assert not pattern.matches(b"b")


def test_a_large_pattern_has_no_set() -> None:
    """What needs more memory than a set may take is matched without one."""
    assert module._set_of(r"\pL{1,50}") is module._nothing
    assert compile_pattern(r"\pL{1,50}").matches("é".encode() * 50)


def test_the_set_is_made_once_and_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grant of many operations does not pay for patterns that nobody asks."""
    made = []
    monkeypatch.setattr(module, "_set_of", lambda source: made.append(source) or module._nothing)
    pattern = compile_pattern("a+")
    assert made == []
    assert [pattern.matches(value) for value in (b"a", b"b", b"aa")] == [True, False, True]
    assert made == ["a+"]
    assert pattern == compile_pattern("a+")


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=40), st.binary(max_size=40))
def test_any_text_compiles_or_is_refused(source: str, value: bytes) -> None:
    """A pattern is accepted or raises the one error type, and matching is total."""
    try:
        pattern = compile_pattern(source)
    except PatternInvalid:
        return
    assert pattern.matches(value) in (True, False)
