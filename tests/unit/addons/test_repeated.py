"""A connection that repeats its fields: read and judged as if each request were the first."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.certificates import Certificates, make_certificates
from support.events import events_of
from support.running import DEFAULT, operation, running
from support.talk import FrontFactory, both
from support.upstream import Upstream

from addons.front.events import HeadRead, ReadEvent, Unreadable
from addons.front.reader import RequestReader
from grants.decision import Reason
from grants.endpoint import Endpoint
from grants.load import load_grant
from grants.message import RequestHead

BLOCK = b"Host: h\r\nAuthorization: Bearer @secret:api\r\nAccept: */*\r\n\r\n"
GET = b"GET /a HTTP/1.1\r\n" + BLOCK
POST = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"
CHUNKED = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
EMPTY = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
CONNECT = b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n"
MANY = b"GET /a HTTP/1.1\r\n" + b"X: y\r\n" * 256 + b"\r\n"
LIMIT = 2000


def get(*fields: bytes, line: bytes = b"GET /a HTTP/1.1") -> bytes:
    return b"\r\n".join([line, *fields, b"", b""])


UPGRADE = get(b"Connection: upgrade", b"Upgrade: h2c")


class Forgetful(RequestReader):  # type: ignore[misc]
    """A reader that reads every head anew."""

    def _again(self, raw: bytes) -> None:
        return None


def feed(reader: RequestReader, pieces: Iterable[bytes]) -> list[ReadEvent]:
    return events_of(reader, pieces, limit=10)


def cuts(data: bytes) -> Iterator[list[bytes]]:
    """The stream in one piece, in two at every place, and in small pieces."""
    yield [data]
    yield from ([data[:at], data[at:]] for at in range(1, len(data)))
    for size in (1, 2, 3, 7, 50):
        yield [data[at : at + size] for at in range(0, len(data), size)]


STREAMS = [
    pytest.param([GET, GET, GET], id="the same request"),
    pytest.param([GET, GET.replace(b"/a", b"/b?c=d"), GET.replace(b"/a", b"http://h/c")], id="other targets"),
    pytest.param([get(), get(), get(line=b"GET /b HTTP/1.1")], id="no fields"),
    pytest.param([GET, GET.replace(b"GET", b"HEAD"), GET], id="other methods"),
    pytest.param([GET, GET.replace(b"api", b"apj"), GET], id="one byte differs"),
    pytest.param([GET, GET.replace(b"Host", b"host"), GET.replace(b": h", b":h")], id="case and white space differ"),
    pytest.param([get(b"Host: h"), get(b"X: y", b"Host: h"), get(b"Host: h")], id="a field before the same fields"),
    pytest.param([get(), get(b"Host: h"), get()], id="fields behind none"),
    pytest.param([get(b"Host: h"), get(), get(b"Host: h")], id="no fields behind some"),
    pytest.param([get(b"X: \t a \t", b"Y:"), get(b"X: \t a \t", b"Y:")], id="white space and empty values"),
    pytest.param([get(b"Host: h", b"Host: i"), get(b"Host: h", b"Host: i")], id="a field twice"),
    pytest.param([EMPTY, EMPTY, EMPTY], id="Content-Length 0"),
    pytest.param([EMPTY, EMPTY, POST, EMPTY], id="Content-Length 0, then a body"),
    pytest.param([EMPTY, b"POST /a HTTP/1.1\r\nHost: h\r\n\r\n", POST], id="Content-Length 0, then none"),
    pytest.param([POST, POST, POST], id="bodies"),
    pytest.param([GET, POST, GET, GET], id="a body between"),
    pytest.param([GET, CHUNKED, GET, GET], id="a chunked body between"),
    pytest.param([CHUNKED, CHUNKED], id="chunked bodies"),
    pytest.param([get(b"Expect: 100-continue")] * 3, id="expect"),
    pytest.param([get(b"Expect: 200-ok")] * 2, id="expects something else"),
    pytest.param([get(b"Connection: keep-alive")] * 3, id="keep-alive"),
    pytest.param([get(b"Connection: close")] * 2, id="close"),
    pytest.param([get(b"Connection: x, CLOSE")] * 2, id="close among others"),
    pytest.param([get(b"Connection: close", b"Connection: keep-alive")] * 2, id="close and keep-alive"),
    pytest.param([GET, get(b"Connection: close"), GET, GET], id="close between"),
    pytest.param([get(b"Connection: closed")] * 3, id="nearly close"),
    pytest.param([get(b"Connection: \t close , ")] * 2, id="close and white space"),
    pytest.param([UPGRADE, UPGRADE, UPGRADE], id="upgrade"),
    pytest.param([get(b"Connection: upgrade")] * 3, id="upgrade to nothing"),
    pytest.param([get(b"Upgrade: h2c")] * 3, id="upgrade without Connection"),
    pytest.param([GET, UPGRADE, GET, GET], id="upgrade between"),
    pytest.param([CONNECT, CONNECT], id="CONNECT"),
    pytest.param([CONNECT, CONNECT.replace(b"1.1", b"1.0")], id="CONNECT of both versions"),
    pytest.param([CONNECT.replace(b"1.1", b"1.0"), get(b"Host: h"), get(b"Host: h")], id="CONNECT of HTTP/1.0"),
    pytest.param([get(b"Host: h"), CONNECT, get(b"Host: h"), get(b"Host: h")], id="CONNECT between"),
    pytest.param([GET, GET, GET.replace(b"1.1", b"1.0")], id="HTTP/1.0"),
    pytest.param([GET, GET.replace(b"1.1", b"1.2")], id="HTTP/1.2"),
    pytest.param([GET, GET.replace(b"/a", b" /a")], id="two spaces"),
    pytest.param([GET, GET.replace(b"/a", b"/a b")], id="space in the target"),
    pytest.param([GET, GET.replace(b"/a", b"/\xc3\xa9")], id="target that is not ASCII"),
    pytest.param([GET, GET.replace(b"/a", b"/\0")], id="NUL in the target"),
    pytest.param([GET, GET.replace(b"/a", b"a")], id="target that only llhttp refuses"),
    pytest.param([GET, GET.replace(b"GET", b"get")], id="method in lower case"),
    pytest.param([GET.replace(b"GET", b"FROB"), GET], id="unknown method first"),
    pytest.param([GET, GET.replace(b"GET", b"FROB")], id="unknown method"),
    pytest.param([GET, GET.replace(b"1.1\r\n", b"1.1\n")], id="bare LF behind the request line"),
    pytest.param([GET, GET.replace(b"1.1\r\n", b"1.1\r\r\n")], id="CR CR LF behind the request line"),
    pytest.param([GET, GET.replace(b"1.1\r\n", b"1.1\r\n ")], id="fold behind the request line"),
    pytest.param([GET, b"GET /b HTTP/1.1\r\n" + GET], id="request line as a field"),
    pytest.param([GET, b"\r\n" + GET], id="empty line between"),
    pytest.param([GET, b"rubbish", GET], id="rubbish between"),
    pytest.param([GET, BLOCK], id="fields alone"),
    pytest.param([GET, GET, GET[:-2]], id="unfinished"),
    pytest.param([GET, GET[:-2] + b"X: \0\r\n\r\n"], id="a field more that cannot be read"),
    pytest.param([get(b"Trailer: X"), get(b"Trailer: X")], id="refused framing"),
    pytest.param([MANY, MANY.replace(b"/a", b"/b"), MANY.replace(b"X: y\r\n", b"X: y\r\n" * 2, 1)], id="256 fields"),
    pytest.param([GET, GET.replace(b"/a", b"/" + b"a" * LIMIT), GET], id="target over the head's limit"),
    pytest.param([GET, GET.replace(b"/a", b"/" + b"a" * (LIMIT - len(GET) + 1)), GET], id="target up to the limit"),
]  # fmt: skip


# llhttp ends a connection for this, which our own reading does not tell.
PROXY_CLOSE = pytest.param([get(b"Proxy-Connection: close")] * 3, id="Proxy-Connection close")


@pytest.mark.parametrize("requests", [*STREAMS, PROXY_CLOSE])
def test_what_is_remembered_changes_no_event(requests: list[bytes]) -> None:
    """However a stream is cut, a reader gives the events of one that reads each head anew, and stands where it does."""
    data = b"".join(requests)
    cut = cuts(data) if len(data) < 1000 else [[data], requests, [data[at : at + 50] for at in range(0, len(data), 50)]]
    for pieces in cut:
        reader, forgetful = RequestReader(max_head=LIMIT), Forgetful(max_head=LIMIT)
        assert feed(reader, pieces) == feed(forgetful, pieces), pieces
        assert (reader.ended, reader.started, reader.take_rest()) == (
            forgetful.ended,
            forgetful.started,
            forgetful.take_rest(),
        )


@pytest.mark.parametrize("requests", STREAMS)
def test_each_request_is_read_as_by_a_reader_of_its_own(requests: list[bytes]) -> None:
    """What a request is does not depend on those before it, as long as they keep the connection."""
    expected: list[ReadEvent] = []
    for request in requests:
        events = feed(RequestReader(max_head=LIMIT), [request])
        expected += events
        if any(
            isinstance(event, Unreadable) or (isinstance(event, HeadRead) and not event.keep_alive) for event in events
        ):
            break
    assert feed(RequestReader(max_head=LIMIT), requests)[: len(expected)] == expected


TAKEN = [
    pytest.param(GET, GET, True, id="the same"),
    pytest.param(GET, GET.replace(b"/a", b"/b"), True, id="another target"),
    pytest.param(get(), get(), True, id="no fields"),
    pytest.param(EMPTY, EMPTY, True, id="Content-Length 0"),
    pytest.param(get(b"Expect: 100-continue"), get(b"Expect: 100-continue"), True, id="expect"),
    pytest.param(get(b"X: " + b"y" * 8185), get(b"X: " + b"y" * 8185), True, id="8 KiB"),
    pytest.param(get(b"X: " + b"y" * 8186), get(b"X: " + b"y" * 8186), False, id="over 8 KiB"),
    pytest.param(GET, GET.replace(b"GET", b"HEAD"), False, id="another method"),
    pytest.param(GET, GET.replace(b"api", b"apj"), False, id="another byte"),
    pytest.param(get(b"Host: h"), get(b"X: y", b"Host: h"), False, id="a field before"),
    pytest.param(POST, POST, False, id="a body"),
    pytest.param(CHUNKED, CHUNKED, False, id="a chunked body"),
    pytest.param(CONNECT, CONNECT, False, id="CONNECT"),
    pytest.param(UPGRADE, UPGRADE, False, id="upgrade"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "taken"), TAKEN)
def test_a_block_is_remembered_where_it_leaves_the_parser_as_it_was(first: bytes, second: bytes, taken: bool) -> None:
    """The same bytes, method and version, no body and no upgrade: the fields are one object, with one memory."""
    one, two = heads(RequestReader(max_head=65536), first, second)
    assert (one.memo is two.memo) is taken
    assert (one.fields is two.fields) is taken
    assert all(each.memo is not None and each.memo.fields is each.fields for each in (one, two))


def test_a_body_between_makes_the_block_new() -> None:
    """Only the head right before counts."""
    one, _, two = heads(RequestReader(max_head=65536), GET, POST, GET)
    assert one.memo is not two.memo


def test_nothing_is_shared_between_connections() -> None:
    """What one reader remembers no other knows."""
    (one,), (two,) = (heads(RequestReader(max_head=65536), GET) for _ in range(2))
    assert one == two
    assert one.memo is not two.memo


def heads(reader: RequestReader, *requests: bytes) -> list[RequestHead]:
    return [event.head for event in feed(reader, requests) if isinstance(event, HeadRead)]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("upstream"))


def changed(at: Endpoint, *headers: object, strip: bool = False) -> Endpoint:
    """The endpoint with a reloaded grant, in which the operation takes other headers."""
    document = {"operations": [operation("read-thing", headers=list(headers))]}
    if strip:
        document["undeclaredHeaders"] = "strip"
    return Endpoint.of(
        name=at.name,
        upstream=at.upstream,
        grant=load_grant(json.dumps(document), file="grant.yaml"),
        secrets=at.secrets,
    )


@both
def test_a_new_grant_judges_the_fields_that_an_old_one_took(
    tmp_path: Path, certificates: Certificates, front: FrontFactory
) -> None:
    """A kept connection's next request is decided by the grant in force then, though it repeats its fields."""
    authorization = DEFAULT["operations"][0]["headers"][0]  # type: ignore[index]
    user_agent = {"name": "User-Agent", "values": ["test"]}

    async def work(upstream: Upstream) -> None:
        async with running(tmp_path, upstream, certificates) as proxy, front(proxy) as talk:
            request = get(
                b"Host: " + talk.host, b"Authorization: Bearer @secret:api", b"User-Agent: test",
                line=b"GET /things/1 HTTP/1.1",
            )  # fmt: skip
            served = proxy.service.way.endpoint  # type: ignore[union-attr]
            seen = []
            for headers, strip in [
                ([authorization, user_agent], False),
                ([authorization], False),
                ([authorization], True),
                ([user_agent], True),
                ([{**user_agent, "values": ["other"]}, authorization], False),
                ([authorization, user_agent], False),
            ]:
                way = replace(proxy.service.way, endpoint=changed(served, *headers, strip=strip))  # type: ignore[arg-type]
                proxy.change(way=way)
                # Twice, so that the second is answered from memory.
                seen.append([(await talk.ask(request))[0] for _ in range(2)])
            assert seen == [[200, 200], [403, 403], [200, 200], [200, 200], [403, 403], [200, 200]]
        reasons = [record.reason for record in proxy.log.records]
        assert reasons[2:4] == [Reason.HEADER_UNDECLARED] * 2
        assert reasons[8:10] == [Reason.HEADER_VALUE] * 2
        sent = [(r.get("Authorization") is not None, r.get("User-Agent") is not None) for r in upstream.requests]
        assert sent == [(True, True)] * 2 + [(True, False)] * 2 + [(False, True)] * 2 + [(True, True)] * 2

    with Upstream(certificates) as upstream:
        asyncio.run(asyncio.wait_for(work(upstream), 60))
