"""The request target: read in one way or refused, written in one way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.grants import HERE

from grants.decision import Deny, Reason, Rule
from grants.message import Authority
from grants.target import RequestTarget, Target, encode_path, encode_query, parse_target

READ = [
    pytest.param(b"/", (), None, id="root"),
    pytest.param(b"/repos/acme", ("repos", "acme"), None, id="plain"),
    pytest.param(b"/repos/w%69dgets", ("repos", "widgets"), None, id="needless encoding"),
    pytest.param(b"/C%2B%2B", ("C++",), None, id="encoded plus"),
    pytest.param(b"/C++", ("C++",), None, id="plus is a plus in a path"),
    pytest.param(b"/caf%C3%A9", ("caf\u00e9",), None, id="NFC stays"),
    pytest.param(b"/cafe%cc%81", ("cafe\u0301",), None, id="NFD stays, and is another text"),
    pytest.param(b"/a%20b", ("a b",), None, id="space"),
    pytest.param(b"/a%3Fb%23", ("a?b#",), None, id="encoded delimiters"),
    pytest.param(b"/...", ("...",), None, id="three dots are a name"),
    pytest.param(b"/a?", ("a",), b"", id="lone question mark"),
    pytest.param(b"/a?b=%zz?c", ("a",), b"b=%zz?c", id="query stays raw"),
    pytest.param(b"/?x", (), b"x", id="query of the root"),
    pytest.param(b"https://api.example.com/a?b", ("a",), b"b", id="absolute form"),
    pytest.param(b"HTTPS://API.example.com:443/a", ("a",), None, id="absolute form, other case and port"),
    pytest.param(b"https://api.example.com", (), None, id="absolute form without a path"),
    pytest.param(b"https://api.example.com?b", (), b"b", id="absolute form with a query alone"),
]

SPECIAL = [
    pytest.param(b"/a/group%2Fproject", ("a", "group/project"), {1}, id="slash"),
    pytest.param(b"/a;b", ("a;b",), {0}, id="raw semicolon"),
    pytest.param(b"/a%3bb/c", ("a;b", "c"), {0}, id="encoded semicolon"),
    pytest.param(b"/100%25", ("100%",), {0}, id="percent sign"),
    pytest.param(b"/widget%2573", ("widget%73",), {0}, id="decoded once only"),
    pytest.param(b"/..;/x", ("..;", "x"), {0}, id="dots with a parameter"),
]

U, E, S = Reason.TARGET_UNREADABLE, Reason.PATH_ENCODING, Reason.PATH_SEGMENT
REFUSED = [
    pytest.param(b"", U, id="empty"),
    pytest.param(b"*", U, id="asterisk form"),
    pytest.param(b"api.example.com:443", U, id="authority form"),
    pytest.param(b"repos/acme", U, id="no slash in front"),
    pytest.param(b"?state=open", U, id="query alone"),
    pytest.param(b"/a b", U, id="space"),
    pytest.param(b"/a\tb", U, id="tab"),
    pytest.param(b"/a\x00", U, id="raw NUL"),
    pytest.param(b"/a\x7f", U, id="raw DEL"),
    pytest.param(b"/a#frag", U, id="fragment"),
    pytest.param(b"/a?b#frag", U, id="fragment after a query"),
    pytest.param(b"https://evil.example/a", U, id="absolute form, another host"),
    pytest.param(b"https://api.example.com:8443/a", U, id="absolute form, another port"),
    pytest.param(b"https://api.example.com.evil/a", U, id="absolute form, longer host"),
    pytest.param(b"https://user@api.example.com/a", U, id="absolute form, userinfo"),
    pytest.param(b"https://api.example.com./a", U, id="absolute form, trailing dot"),
    pytest.param(b"https://api.example.com\\@evil/a", U, id="absolute form, backslash"),
    pytest.param(b"http://api.example.com/a", U, id="absolute form, another scheme"),
    pytest.param(b"http://api.example.com:443/a", U, id="absolute form, another scheme with the port"),
    pytest.param(b"https:/api.example.com/a", U, id="absolute form, one slash"),
    pytest.param(b"https:///a", U, id="absolute form, no host"),
    pytest.param("/café".encode(), E, id="raw UTF-8"),
    pytest.param("/a?b=é".encode(), E, id="raw UTF-8 in the query"),
    pytest.param(b"/%c0%ae%c0%ae", E, id="overlong dots"),
    pytest.param(b"/%c0%af", E, id="overlong slash"),
    pytest.param(b"/%e0%80%af", E, id="overlong slash in three"),
    pytest.param(b"/%ed%a0%80", E, id="surrogate"),
    pytest.param(b"/%ff", E, id="not UTF-8"),
    pytest.param(b"/%c3", E, id="cut off"),
    pytest.param(b"/%zz", E, id="bad hex"),
    pytest.param(b"/%", E, id="lone percent"),
    pytest.param(b"/a%2", E, id="one digit"),
    pytest.param(b"/%u0061", E, id="percent u"),
    pytest.param(b"/%+1", E, id="signed"),
    pytest.param(b"/a/../b", S, id="dot-dot"),
    pytest.param(b"/a/./b", S, id="dot"),
    pytest.param(b"/a/..", S, id="dot-dot at the end"),
    pytest.param(b"/a/.", S, id="dot at the end"),
    pytest.param(b"/a/%2e%2e/b", S, id="encoded dot-dot"),
    pytest.param(b"/a/.%2E/b", S, id="half encoded dot-dot"),
    pytest.param(b"/a/%2e", S, id="encoded dot"),
    pytest.param(b"//a", S, id="empty segment in front"),
    pytest.param(b"/a//b", S, id="empty segment"),
    pytest.param(b"/a/", S, id="trailing slash"),
    pytest.param(b"https://api.example.com//a", S, id="absolute form, empty segment"),
    pytest.param(b"/a\\b", S, id="backslash"),
    pytest.param(b"/a/%5c..%5cx", S, id="encoded backslash"),
    pytest.param(b"/a%00", S, id="encoded NUL"),
    pytest.param(b"/a%0d%0ab", S, id="encoded line end"),
    pytest.param(b"/a%7f", S, id="encoded DEL"),
    pytest.param(b"/a%c2%85", S, id="C1 control"),
]


def read(raw: bytes) -> RequestTarget:
    target = parse_target(raw, authority=HERE)
    assert isinstance(target, RequestTarget)
    return target


@pytest.mark.parametrize(("raw", "segments", "query"), READ)
def test_target_that_is_read(raw: bytes, segments: tuple[str, ...], query: bytes | None) -> None:
    """The path is split on "/" first, then each segment is percent-decoded once as UTF-8 (RFC 3986, 2.4)."""
    assert read(raw) == RequestTarget(segments=segments, special=frozenset(), query=query)


@pytest.mark.parametrize(("raw", "segments", "special"), SPECIAL)
def test_special_segments_are_marked(raw: bytes, segments: tuple[str, ...], special: set[int]) -> None:
    """A segment that holds `/`, `;` or `%` is for exact path values only."""
    assert read(raw) == RequestTarget(segments=segments, special=frozenset(special), query=None)


@pytest.mark.parametrize(("raw", "reason"), REFUSED)
def test_target_that_is_refused(raw: bytes, reason: Reason) -> None:
    """What cannot be read in exactly one way is denied, never repaired."""
    denial = parse_target(raw, authority=HERE)
    assert isinstance(denial, Deny)
    assert (denial.rule, denial.reason, denial.status) == (Rule.REQUEST, reason, 403)


def test_absolute_form_needs_a_known_authority_and_scheme() -> None:
    """An absolute form is for the connection's own scheme and authority."""
    assert isinstance(parse_target(b"https://api.example.com/a", authority=None), Deny)
    here = Authority(host="127.0.0.1", port=9001)
    assert isinstance(parse_target(b"http://127.0.0.1:9001/a", authority=here, scheme="http"), RequestTarget)
    assert isinstance(parse_target(b"https://127.0.0.1:9001/a", authority=here, scheme="http"), Deny)


def test_prefix_goes_in_front() -> None:
    """The route is matched against the whole path that goes upstream, the upstream's own path included."""
    target = read(b"/a%3Bb?x").below(("api", "v1"))
    assert target == RequestTarget(segments=("api", "v1", "a;b"), special=frozenset({2}), query=b"x")
    assert read(b"/").below(("api",)).segments == ("api",)
    assert target.below(()) is target


@pytest.mark.parametrize(
    ("segments", "path"),
    [
        pytest.param((), b"/", id="root"),
        pytest.param(("a", "b"), b"/a/b", id="plain"),
        pytest.param(("-._~:@",), b"/-._~:@", id="what stays"),
        pytest.param(("!$&'()*+,;=",), b"/%21%24%26%27%28%29%2A%2B%2C%3B%3D", id="sub-delimiters"),
        pytest.param(("group/project",), b"/group%2Fproject", id="slash"),
        pytest.param(("a/b", "c"), b"/a%2Fb/c", id="slash and a further segment"),
        pytest.param(("100%", "caf\u00e9"), b"/100%25/caf%C3%A9", id="percent sign, UTF-8"),
    ],
)
def test_path_is_written_in_one_way(segments: tuple[str, ...], path: bytes) -> None:
    """Sent segments keep unreserved characters, `:` and `@`; the rest is `%XX` in upper case."""
    assert encode_path(segments) == path


def test_query_is_written_in_one_way() -> None:
    """Each name and value is sent with everything but unreserved characters as `%XX`."""
    assert encode_query((("url", "https://x.example/a"), ("a b", "+~é"))) == (
        b"url=https%3A%2F%2Fx.example%2Fa&a%20b=%2B~%C3%A9"
    )
    assert Target(segments=("a",)).wire == b"/a"
    assert Target(segments=("a",), query=(("b", ""),)).wire == b"/a?b="


SEGMENT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\"), min_size=1).filter(
    lambda text: text not in {".", ".."}
)


@settings(deadline=None, max_examples=200)
@given(st.lists(SEGMENT, max_size=5))
def test_what_is_written_reads_as_itself(segments: list[str]) -> None:
    """The canonical form is a fixed point: the upstream reads what was authorized."""
    path = encode_path(tuple(segments))
    target = read(path)
    assert target.segments == tuple(segments)
    assert encode_path(target.segments) == path


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.binary(), st.binary().map(lambda tail: b"/" + tail), st.from_regex(rb"/[/.%;a-f0-9?#\\]*")))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """Nothing raises, and what is read once is written in a form that reads as itself."""
    target = parse_target(raw, authority=HERE)
    if isinstance(target, RequestTarget):
        assert read(encode_path(target.segments)).segments == target.segments
