"""What a decision costs: matching, answer check, and that a large grant costs no more than a small one."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from support.cases import grant_text

from grants.authorize import Granted, authorize_body, authorize_head
from grants.endpoint import Endpoint
from grants.load import load_grant
from grants.message import Authority, Origin, Relay, RequestHead, Response
from grants.response import check_response
from grants.secret import Secret

UPSTREAM = Origin(scheme="https", host="api.example.test", port=443)
HERE = Authority(host="api.example.test", port=443)
HEAD = RequestHead(
    method=b"GET",
    target=b"/repos/acme/widgets/issues?state=open",
    fields=((b"Host", b"api.example.test"), (b"Authorization", b"Bearer @secret:api")),
)


def endpoint(operations: int) -> Endpoint:
    """The main grant with so many further operations on routes of its own."""
    text = grant_text("main", "https://other.example.test")
    first, _, rest = text.partition("  - name: info\n")
    block, _, _ = rest.partition("\n  - name: ")
    more = "".join(
        f"  - name: more-{number}\n{block.replace('/info', f'/repos/{{owner}}/{{repo}}/more{number}')}\n"
        "    pathParameters: {owner: [acme], repo: [widgets]}\n\n"
        for number in range(operations)
    )
    grant = load_grant(f"{first}  - name: info\n{rest.rstrip()}\n\n{more}", file="bench.yaml")
    return Endpoint.of(name="bench", upstream=UPSTREAM, grant=grant, secrets=frozenset({"api"}))


@pytest.mark.parametrize("operations", [0, 100, 1000])
def test_decide(benchmark: BenchmarkFixture, operations: int) -> None:
    """Head and body of a request with a query and a reference."""
    served = endpoint(operations)

    def decide() -> object:
        granted = authorize_head(served, HEAD, authority=HERE)
        assert isinstance(granted, Granted)
        return authorize_body(granted, b"")

    benchmark(decide)


@pytest.mark.parametrize("size", [100, 4_000])
def test_check(benchmark: BenchmarkFixture, size: int) -> None:
    """A JSON answer, searched for four secrets and held to its schema."""
    operation = endpoint(0).grant.operations[3]
    raised = operation.response.max_bytes
    body = b'{"id":1,"list":[' + b",".join([b'"abcdefgh"'] * (min(size, raised - 60) // 11)) + b"]}"
    response = Response(status=200, reason=b"OK", fields=((b"Content-Type", b"application/json"),), body=body)
    needles = tuple(Secret(b"secret-value-%d" % number) for number in range(4))
    outcome = benchmark(check_response, operation, method=b"GET", response=response, needles=needles)
    assert isinstance(outcome, Relay)
