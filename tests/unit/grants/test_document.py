"""YAML as nodes: what is kept, what is refused, and where."""

# ruff: noqa: E501 - one case is one row

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.document import MAX_BYTES, Broken, Entry, ListNode, MapNode, Scalar, parse
from grants.problems import Invalid, Problem, in_file_order, quoted, written


def problems(text: bytes | str) -> list[str]:
    return [str(problem) for problem in parse(text, file="F").problems]


@pytest.mark.parametrize("text", ["no", "on", "1.0", "2024-01-01", "0123", "~", "null", "0x1F", "1_000", "12:30:45"])
def test_a_plain_scalar_stays_the_text_that_it_is(text: str) -> None:
    """Every scalar is the text as written, never a boolean, a float or a date."""
    assert parse(text, file="F").root == Scalar(line=1, column=1, text=text, plain=True)


@pytest.mark.parametrize("text", ["'no'", '"no"', "|\n  no", ">-\n  no"], ids=["single", "double", "block", "folded"])
def test_a_quoted_scalar_is_not_plain(text: str) -> None:
    """Only a scalar without quotes may stand for a number or a boolean."""
    root = parse(text, file="F").root
    assert isinstance(root, Scalar)
    assert (root.text.strip(), root.plain) == ("no", False)


def test_nodes_know_where_they_are() -> None:
    """Lines and columns count from 1, columns in characters, and a key has a place of its own."""
    root = parse("é: [a, {b: c}]\n", file="F").root
    inner = MapNode(
        line=1, column=8, entries={"b": Entry(line=1, column=9, value=Scalar(line=1, column=12, text="c", plain=True))}
    )
    items = (Scalar(line=1, column=5, text="a", plain=True), inner)
    assert root == MapNode(
        line=1, column=1, entries={"é": Entry(line=1, column=1, value=ListNode(line=1, column=4, items=items))}
    )


REFUSED = [
    pytest.param(b"", ["F:1:1: top level: is empty; write the file's keys"], id="empty"),
    pytest.param(b"# only a comment\n", ["F:1:1: top level: is empty; write the file's keys"], id="comment-only"),
    pytest.param(b"---\n...\n", ["F:1:1: top level: is empty; write the file's keys"], id="empty-document"),
    pytest.param(b"a: &x 1", ["F:1:4: a: has the anchor `&x`; leave anchors out"], id="anchor"),
    pytest.param(b"a: &x [1]", ["F:1:4: a: has the anchor `&x`; leave anchors out"], id="anchor-on-a-list"),
    pytest.param(b"&k a: 1", ["F:1:1: top level: has the anchor `&k`; leave anchors out"], id="anchor-on-a-key"),
    pytest.param(b"a: *x", ["F:1:4: a: is the alias `*x`; write the value out"], id="alias"),
    pytest.param(b"{*x : 1, b: 2}", ["F:1:2: top level: is the alias `*x`; write the value out"], id="alias-as-a-key"),
    pytest.param(b"<<: {a: 1}", ["F:1:1: [`<<`]: is a merge key; write the keys out"], id="merge-key"),
    pytest.param(b"a: !!str 1", ["F:1:4: a: has the tag `tag:yaml.org,2002:str`; leave tags out"], id="tag"),
    pytest.param(b"a: ! 1", ["F:1:4: a: has the tag `!`; leave tags out"], id="non-specific-tag"),
    pytest.param(b"a: !!python/object:os.system {}", ["F:1:4: a: has the tag `tag:yaml.org,2002:python/object:os.system`; leave tags out"], id="python-tag"),
    pytest.param(b"%TAG ! tag:x,1:\n---\na: 1", ["F:1:1: top level: declares a tag; leave tags out"], id="tag-directive"),
    pytest.param(b"a: 1\n---\nb: 2", ["F:2:1: top level: is a second document; keep one document in a file"], id="two-documents"),
    pytest.param(b"a: 1\na: 2\na: 3", ["F:2:1: a: is here twice, first in line 1; keep one of them", "F:3:1: a: is here twice, first in line 1; keep one of them"], id="key-twice"),
    pytest.param(b"- {x: {y: 1, 'y': 2}}", ["F:1:14: [0].x.y: is here twice, first in line 1; keep one of them"], id="key-twice-quoted-and-nested"),
    pytest.param(b"? [a]\n: 1\n", ["F:1:3: top level: has a list or a map as a key; write a text"], id="list-as-a-key"),
    pytest.param(b"? {a: {b: 1}}\n: 1\n", ["F:1:3: top level: has a list or a map as a key; write a text"], id="map-as-a-key"),
    pytest.param(b"{? : 1}", ["F:1:4: top level: has an empty key; write a name before the colon"], id="empty-key"),
    pytest.param(b"a: b: c", ["F:1:5: top level: is not YAML: mapping values are not allowed in this context; put a text that holds `: ` into quotes, or check the indentation"], id="colon-in-a-plain-text"),
    pytest.param(b"a:\n\tb: 1", ["F:2:1: top level: is not YAML: found character that cannot start any token; indent with spaces, and put a text that begins with this character into quotes"], id="tab"),
    pytest.param(b"a: @x", ["F:1:4: top level: is not YAML: found character that cannot start any token; indent with spaces, and put a text that begins with this character into quotes"], id="at-sign"),
    pytest.param(b"a: [1\n", ["F:2:1: a: is not YAML: did not find expected ',' or ']'; close the bracket, or put a comma between the items"], id="open-bracket"),
    pytest.param(b'a: "\\ud800"', ["F:1:7: top level: is not YAML: found invalid Unicode character escape code; write a character that Unicode has"], id="escaped-surrogate"),
    pytest.param(b"%YAML 3.0\n---\na", ["F:1:1: top level: is not YAML: found incompatible YAML document; leave the `%YAML` line out"], id="other-yaml"),
    pytest.param(b"ab\xff", ["F:1:3: top level: is not UTF-8 from here on; save the file as UTF-8"], id="not-utf-8"),
    pytest.param("a: 1".encode("utf-16"), ["F:1:1: top level: is not UTF-8 from here on; save the file as UTF-8"], id="utf-16"),
    pytest.param("a: 1".encode("utf-16-le"), ["F:1:2: top level: holds the character U+0000; write it as an escape in double quotes"], id="utf-16-without-a-mark"),
    pytest.param(b"a: 1\r\nb: \x00", ["F:2:4: top level: holds the character U+0000; write it as an escape in double quotes"], id="nul"),
    pytest.param("a: \u2028", ["F:1:4: top level: holds the character U+2028; write it as an escape in double quotes"], id="line-separator"),
    pytest.param("a: \x85b", ["F:1:4: top level: holds the character U+0085; write it as an escape in double quotes"], id="next-line"),
    pytest.param("a: \ud800", ["F:1:4: top level: holds the character U+D800; write it as an escape in double quotes"], id="lone-surrogate"),
    pytest.param("a: \ufeffb", ["F:1:4: top level: holds the character U+FEFF; write it as an escape in double quotes"], id="mark-inside"),
    pytest.param(b"a" * (MAX_BYTES + 1), [f"F:1:1: top level: is larger than {MAX_BYTES} bytes; split it into smaller files"], id="too-large"),
    pytest.param("é" * (MAX_BYTES // 2 + 1), [f"F:1:1: top level: is larger than {MAX_BYTES} bytes; split it into smaller files"], id="too-large-text"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_what_has_a_second_meaning_is_refused_where_it_stands(text: bytes | str, expected: list[str]) -> None:
    """Refused: duplicate keys, anchors, aliases, merge keys, tags, more than one document, an empty file."""
    assert problems(text) == expected


def test_all_problems_come_in_one_go() -> None:
    """What can be stepped over does not hide what comes after it."""
    document = parse("a: &x 1\nb: *x\nc: !!int 3\na: 2\nd: ok\n", file="F")
    assert [problem.line for problem in document.problems] == [1, 2, 3, 4]
    assert isinstance(document.root, MapNode)
    assert document.root.entries["b"].value == Broken(line=2, column=4)
    assert list(document.root.entries) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("opening", ["[", "{a: "], ids=["lists", "maps"])
def test_nesting_is_bounded_before_it_can_hurt(opening: str) -> None:
    """64 levels are read, one more is refused, a hundred thousand are refused as quickly."""
    closing = "]" if opening == "[" else "}"
    assert problems(opening * 64 + closing * 64) in ([], ["F:1:1: top level: is empty; write the file's keys"])
    for depth in (65, 900):
        (found,) = problems(opening * depth)
        assert found.endswith("is nested deeper than 64 levels; flatten it")
        assert f":1:{64 * len(opening) + 1}:" in found
    (found,) = problems(opening * 100_000)
    assert found.endswith("; flatten it")


def test_a_byte_order_mark_of_utf8_is_passed_over() -> None:
    """Editors write it; it changes neither what is read nor where."""
    assert parse(b"\xef\xbb\xbfa: 1", file="F").root == parse("a: 1", file="F").root


def test_a_text_of_just_the_size_is_read() -> None:
    """One MiB is still allowed."""
    assert problems(b"a" * MAX_BYTES) == []


def test_an_error_without_a_place_is_told_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever libyaml raises becomes a problem."""

    def refuse(*_: object, **__: object) -> None:
        raise yaml.YAMLError

    monkeypatch.setattr(yaml, "parse", refuse)
    assert problems("a: 1") == ["F:1:1: top level: is not YAML: cannot be read; check indentation and quotes"]


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.binary(max_size=200), st.text(max_size=200), st.text(alphabet="a:-[]{}&*!?|>'\"%@#, \n\t<~", max_size=60)
    )
)
def test_any_input_gives_nodes_or_problems(text: bytes | str) -> None:
    """Reading never raises, and what cannot be read has a problem."""
    document = parse(text, file="F")
    assert document.root is not None or document.problems
    assert all(problem.line >= 1 and problem.column >= 1 and "\n" not in str(problem) for problem in document.problems)


def test_a_path_is_written_as_users_read_it() -> None:
    """Keys by dots, indices in brackets, an odd key in brackets and quotes, nothing for the top."""
    assert written(("operations", 1, "query", 0, "pattern")) == "operations[1].query[0].pattern"
    assert written(("a b", "c")) == "[`a b`].c"
    assert written(()) == "top level"


def test_quoted_text_is_short_and_on_one_line() -> None:
    """What a file says cannot break the line of a message."""
    assert quoted("a\nb\x1b[31m") == "`a\\nb\\x1b[31m`"
    assert quoted("x" * 100) == "`" + "x" * 60 + "…`"


def test_problems_say_where_they_are() -> None:
    """`FILE:LINE:COLUMN: path: message`; a problem of a whole file leaves the place out."""
    first, second = Problem("f", 2, 3, "a.b", "is wrong; be right"), Problem("f", 1, 9, "c", "m")
    assert str(first) == "f:2:3: a.b: is wrong; be right"
    assert str(Problem("f", 0, 0, "", "m")) == "f: m"
    assert in_file_order([first, second, first]) == (second, first)
    assert Invalid([first, second]).problems == (first, second)
    assert str(Invalid([first])) == str(first)
