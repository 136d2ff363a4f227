"""What the core's parts cost: matching, the check of an answer, a record's line, and both readers."""

from itertools import cycle

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from support.cases import grant_text

from addons.front.events import HeadRead
from addons.front.reader import RequestReader
from addons.record import Event, Mode, Record
from bench.payload import SECRETS, document, grant
from grants.authorize import Granted, authorize_body, authorize_head
from grants.endpoint import Endpoint
from grants.load import load_grant
from grants.message import Authority, Origin, Relay, RequestHead, Response
from grants.response import check_response
from grants.secret import Secret
from proxy.decisionlog.chain import Chain
from proxy.upstream.reader import ResponseReader

UPSTREAM = Origin(scheme="https", host="api.example.test", port=443)
HERE = Authority(host="api.example.test", port=443)


def endpoint(text: str) -> Endpoint:
    loaded = load_grant(text, file="bench.yaml")
    return Endpoint.of(name="bench", upstream=UPSTREAM, grant=loaded, secrets=frozenset({"api"}))


def decide(benchmark: BenchmarkFixture, served: Endpoint, head: RequestHead) -> None:
    def decided() -> object:
        granted = authorize_head(served, head, authority=HERE)
        assert isinstance(granted, Granted), granted
        return authorize_body(granted, b"")

    benchmark(decided)


def test_decide(benchmark: BenchmarkFixture) -> None:
    """Head and body of a request with a query and a reference."""
    fields = ((b"Host", b"api.example.test"), (b"Authorization", b"Bearer @secret:api"))
    head = RequestHead(method=b"GET", target=b"/repos/acme/widgets/issues?state=open", fields=fields)
    decide(benchmark, endpoint(grant_text("main", "https://other.example.test")), head)


@pytest.mark.parametrize("operations", [10, 2000])
def test_decide_among(benchmark: BenchmarkFixture, operations: int) -> None:
    """The operation that is asked for is the last of so many. 2,000 should cost what 10 do."""
    fields = (
        (b"Host", b"api.example.test"),
        (b"Authorization", b"Bearer @secret:api"),
        (b"Accept", b"application/json"),
        (b"User-Agent", b"bench/1.0"),
    )
    head = RequestHead(method=b"GET", target=b"/1k/77", fields=fields)
    decide(benchmark, endpoint(grant(["1k"], others=operations - 1)), head)


@pytest.mark.parametrize("full", [False, True], ids=["small schema, one secret", "all checks, five secrets"])
@pytest.mark.parametrize("size", ["1k", "64k"])
def test_check(benchmark: BenchmarkFixture, size: str, full: bool) -> None:
    """A JSON answer, searched for the secrets and held to its schemas."""
    operation = endpoint(grant([size], full=full)).grant.operations[0]
    body = document({"1k": 1024, "64k": 65536}[size])
    response = Response(status=200, reason=b"OK", fields=((b"Content-Type", b"application/json"),), body=body)
    needles = tuple(Secret(value.encode()) for name, value in SECRETS.items() if full or name == "api")
    outcome = benchmark(check_response, operation, method=b"GET", response=response, needles=needles)
    assert isinstance(outcome, Relay), outcome


def test_record_line(benchmark: BenchmarkFixture) -> None:
    """A record as a line of the chain, and the chain moved on; not the write."""
    chain = Chain()
    record = Record(
        id="d-0123456789abcdef", event=Event.ALLOW, mode=Mode.TERMINATE, verdict="allow", endpoint="bench",
        host="api.example.test", method="GET", assurance="semantic", operation="get-1k", effect="read",
        route="/1k/{id}", resource_digest="0" * 32, status=200, bytes_in=1024, duration_ms=1.25, secret_refs=("api",),
        grant_digest="sha256:" + "0" * 64,
    )  # fmt: skip
    benchmark(lambda: chain.written(chain.next(record)))
    assert chain.seq


FIELDS = (
    b"Host: api.example.test\r\nUser-Agent: bench/1.0\r\nAccept-Encoding: gzip, deflate\r\n"
    b"Accept: application/json\r\nConnection: keep-alive\r\nAuthorization: Bearer @secret:api\r\n"
)
BLOCKS = [
    pytest.param([FIELDS], id="the same fields again"),
    pytest.param([FIELDS + b"X-Request-Id: %d\r\n" % number for number in range(2)], id="other fields each time"),
]


@pytest.mark.parametrize("blocks", BLOCKS)
def test_request_reader(benchmark: BenchmarkFixture, blocks: list[bytes]) -> None:
    """One head after the other on a kept connection."""
    wires = cycle([b"GET /1k/77 HTTP/1.1\r\n" + block + b"\r\n" for block in blocks])
    reader = RequestReader(max_head=65536)

    def read() -> None:
        reader.feed(next(wires))
        assert isinstance(reader.next_event(), HeadRead)
        assert reader.next_event() is None

    benchmark(read)


@pytest.mark.parametrize("blocks", BLOCKS)
def test_read_and_decide(benchmark: BenchmarkFixture, blocks: list[bytes]) -> None:
    """A head off a kept connection, up to the decision on it."""
    served = endpoint(grant(["1k"]).replace('"operations"', '"undeclaredHeaders":"strip","operations"', 1))
    wires = cycle([b"GET /1k/77 HTTP/1.1\r\n" + block + b"\r\n" for block in blocks])
    reader = RequestReader(max_head=65536)

    def decided() -> None:
        reader.feed(next(wires))
        event = reader.next_event()
        assert isinstance(event, HeadRead)
        granted = authorize_head(served, event.head, authority=HERE)
        assert isinstance(granted, Granted), granted
        authorize_body(granted, b"")

    benchmark(decided)


@pytest.mark.parametrize("size", [1024, 65536])
def test_answer_reader(benchmark: BenchmarkFixture, size: int) -> None:
    """An answer in pieces of 16 KiB, which is what TLS brings."""
    wire = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    pieces = [wire[at : at + 16384] for at in range(0, len(wire), 16384)]

    def read() -> Response | None:
        reader, answer = ResponseReader(b"GET", 1 << 20), None
        for piece in pieces:
            answer = reader.feed(piece)
        return answer

    answer = benchmark(read)
    assert answer is not None
    assert len(answer.body) == size
