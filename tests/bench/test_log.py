"""What a decision record costs: made from an exchange, put in line, written to a file."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from support.running import FixedVault, MemoryLog

from addons.audit import Audit
from addons.exchange import Arrival, Exchange
from addons.policy import Judged, Policy, Service
from addons.record import Event, Mode, Record
from bench.payload import grant
from grants.authorize import Granted, authorize_head
from grants.endpoint import Endpoint
from grants.load import load_grant
from grants.message import Authority, Origin, Relay, RequestHead
from grants.resource import resource_digest
from proxy.decisionlog import FileLog
from proxy.settings.model import Sync

UPSTREAM = Origin(scheme="https", host="api.example.test", port=443)
RECORD = Record(
    id="0123456789abcdef01234567", event=Event.ALLOW, mode=Mode.TERMINATE, verdict="allow", endpoint="bench",
    host="api.example.test", method="GET", assurance="semantic", operation="get-1k", effect="read",
    route="/1k/{id}", resource_digest="0" * 64, status=200, upstream_status=200, bytes_in=1024, duration_ms=1.25,
    secret_refs=("api",), grant_digest="sha256:" + "0" * 64,
)  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FileLog]:
    made = FileLog(tmp_path / "decisions.jsonl", sync=Sync.OFF)
    yield made
    made.close()


def test_write(benchmark: BenchmarkFixture, log: FileLog) -> None:
    """A record in the file: its line, and the system calls. The system decides when it is on the disk."""
    benchmark(log.write, RECORD)
    assert log.writable


def test_writable(benchmark: BenchmarkFixture, log: FileLog) -> None:
    """What a request asks before it is sent."""
    assert benchmark(lambda: log.writable)


def _exchange() -> Exchange:
    served = Endpoint.of(
        name="bench", upstream=UPSTREAM, grant=load_grant(grant(["1k"]), file="bench.yaml"), secrets=frozenset({"api"})
    )
    judged = Judged(endpoint=served, upstream=None, body_limit=0)  # type: ignore[arg-type]
    service = Service(
        name="bench", upstream=UPSTREAM, base=(), secrets=served.secrets, vault=FixedVault(), timeout=5, way=judged
    )
    fields = ((b"Host", b"api.example.test"), (b"Authorization", b"Bearer @secret:api"))
    head = RequestHead(method=b"GET", target=b"/1k/77", fields=fields)
    granted = authorize_head(served, head, authority=Authority(host="api.example.test", port=443))
    assert isinstance(granted, Granted), granted
    arrival = Arrival(mode=Mode.TERMINATE, peer=None, service="bench")
    made = Exchange(arrival=arrival, policy=Policy.of([service]), head=head, service=service, granted=granted)
    made.relay = Relay(status=200, fields=(), body=b"", length=None)
    made.upstream_status, made.bytes_in, made.secret_refs = 200, 1024, ("api",)
    return made


def test_record(benchmark: BenchmarkFixture) -> None:
    """A record from its exchange; the object is one that was asked for before."""
    record = benchmark(Audit(MemoryLog(), b"k" * 32).record, _exchange())
    assert record.resource_digest


def test_resource_digest(benchmark: BenchmarkFixture) -> None:
    """Of an object that was not asked for before."""
    numbers = count()
    assert benchmark(lambda: resource_digest(b"k" * 32, UPSTREAM, (("id", str(next(numbers))),)))


def test_exchange(benchmark: BenchmarkFixture) -> None:
    """A request's state, with its id."""
    arrival, policy = Arrival(mode=Mode.TERMINATE, peer=None, service="bench"), Policy.of([])
    assert benchmark(lambda: Exchange(arrival=arrival, policy=policy)).id
