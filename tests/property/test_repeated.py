"""A connection that repeats its fields is read and judged as one that remembers nothing."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from support.grants import CDN, HERE, body, endpoint, operation, rule

from addons.front.events import HeadRead, ReadEvent
from addons.front.reader import RequestReader
from grants.authorize import authorize_head, authorize_target
from grants.endpoint import Endpoint
from grants.model import Redirects
from grants.target import RequestTarget, parse_target


class Forgetful(RequestReader):  # type: ignore[misc]
    """A reader that reads every head anew."""

    def _again(self, raw: bytes) -> None:
        return None


FIELDS = [
    b"Host: h\r\n",
    b"X-A: 1\r\n",
    b"Authorization: Bearer @secret:api\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 2\r\n",
    b"Content-Type: application/json\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Connection: upgrade\r\n",
    b"Upgrade: x\r\n",
    b"Expect: 100-continue\r\n",
    b"X: \0\r\n",
    b" folded\r\n",
    b"GET / HTTP/1.1\r\n",
]
LINES = st.one_of(
    st.builds(
        lambda method, target, minor: method + b" " + target + b" HTTP/1." + minor + b"\r\n",
        st.sampled_from([b"GET", b"GET", b"GET", b"POST", b"HEAD", b"CONNECT", b"FROB"]),
        st.sampled_from([b"/one", b"/two", b"/note", b"/two?x", b"*", b"http://api.example.com/one", b"one", b"h:443"]),
        st.sampled_from([b"1", b"1", b"1", b"1", b"0"]),
    ),
    st.sampled_from([b"GET /one HTTP/1.1\n", b"\r\n", b""]),
)  # fmt: skip
BODIES = st.sampled_from([b"", b"", b"", b"ab", b"2\r\nab\r\n0\r\n\r\n", b"\r\n", b"rubbish"])


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Requests of which most have one of two blocks of fields, cut anywhere."""
    blocks = [b"".join(draw(st.lists(st.sampled_from(FIELDS), max_size=3))) + b"\r\n" for _ in range(2)]
    requests = draw(st.lists(st.tuples(LINES, st.sampled_from([0, 0, 0, 1]), BODIES), min_size=2, max_size=6))
    data = b"".join([line + blocks[block] + after for line, block, after in requests])
    at = sorted({0, len(data), *draw(st.lists(st.integers(0, len(data)), max_size=3))})
    return [data[start:end] for start, end in pairwise(at)]


def feed(reader: RequestReader, pieces: list[bytes]) -> tuple[list[ReadEvent], bool, bool, bytes]:
    events: list[ReadEvent] = []
    for piece in pieces:
        reader.feed(piece)
        while (event := reader.next_event()) is not None:
            events.append(event)
            if isinstance(event, HeadRead) and event.body != 0:
                reader.read_body(10)
    return events, reader.ended, reader.started, reader.take_rest()


@settings(deadline=None, max_examples=500)
@given(streams())
def test_a_reader_that_remembers_gives_the_events_of_one_that_does_not(pieces: list[bytes]) -> None:
    """What a stream is read as does not depend on what is remembered."""
    assert feed(RequestReader(max_head=200), pieces) == feed(Forgetful(max_head=200), pieces)


AUTHORIZATION = rule("Authorization", matching="Bearer @secret:[a-z]+")
ONE = operation("one", "GET", "/one", headers=[AUTHORIZATION, rule("X-A", "1")])
TWO = operation("two", "GET", "/two", headers=[AUTHORIZATION])
NOTE = operation("note", "POST", "/note", headers=[AUTHORIZATION], takes=body())
FOLLOWED = Redirects(max_hops=1, origins=frozenset({CDN}))
GRANTS = [
    endpoint(ONE, TWO, NOTE, redirects=FOLLOWED),
    endpoint(ONE, TWO, NOTE, redirects=FOLLOWED, strip=True),
    endpoint(replace(ONE, headers={}), operation("two", "GET", "/two", headers=[rule("X-A", "1", required=True)])),
]


@settings(deadline=None, max_examples=300)
@given(streams(), st.lists(st.tuples(st.sampled_from(GRANTS), st.booleans()), min_size=6, max_size=6))
def test_a_head_with_a_memory_is_judged_like_one_without(
    pieces: list[bytes], judges: list[tuple[Endpoint, bool]]
) -> None:
    """Whatever was asked of the same fields before: by another operation, another grant, or for another origin."""
    heads = [event.head for event in feed(RequestReader(max_head=200), pieces)[0] if isinstance(event, HeadRead)]
    for head, (at, hop) in zip(heads, judges, strict=False):
        plain = replace(head, memo=None)
        assert authorize_head(at, head, authority=HERE) == authorize_head(at, plain, authority=HERE)
        target = parse_target(head.target, authority=HERE)
        if hop and isinstance(target, RequestTarget):
            assert authorize_target(at, head, target, origin=CDN) == authorize_target(at, plain, target, origin=CDN)
