"""The chain and both fronts in this process, over real sockets, with parts that a test can make fail.

The upstream client, the TLS leaves and the listeners are the program's own. The decision log keeps its records in
memory, so that a test can read them, and can be made to fail.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.certificates import Certificates
from support.upstream import Upstream

from addons.audit import Audit
from addons.chain import chain
from addons.front.layer import Limits
from addons.front.pick import Front
from addons.policy import Judged, Policies, Policy, Service
from addons.ports import Held, LogUnavailable
from addons.record import Event, Record
from grants.endpoint import Endpoint
from grants.load import load_grant
from grants.message import Origin
from grants.secret import Secret
from proxy.connection import table
from proxy.listeners import Listeners
from proxy.master import Master
from proxy.settings.model import TcpListen
from proxy.sockets import Listener, bind
from proxy.tls.ca import load_ca
from proxy.tls.leaves import Leaves
from proxy.upstream.client import UpstreamClient
from proxy.upstream.pool import Pool
from proxy.upstream.trust import Trust

SECRET = "sk-live-0123456789abcdef"

_RESPONSE = {
    "statuses": [200],
    "contentTypes": ["application/json"],
    "maxBytes": 65536,
    "credentialDisclosure": "deny-exact",
    "json": {"type": "object", "additionalProperties": True},
}
_AUTHORIZATION = {"name": "Authorization", "pattern": "Bearer @secret:[a-z]+", "maxBytes": 64}
_JSON = {"name": "Content-Type", "values": ["application/json"], "required": True}


def operation(name: str, **changes: object) -> dict[str, object]:
    """A read of `/things/{id}`, changed."""
    return {
        "name": name,
        "effect": "read",
        "method": "GET",
        "route": "/things/{id}",
        "pathParameters": {"id": ["1", "2"]},
        "headers": [_AUTHORIZATION],
        "response": _RESPONSE,
        **changes,
    }


WRITE = operation(
    "write-thing",
    effect="write",
    method="POST",
    headers=[_AUTHORIZATION, _JSON],
    body={
        "maxBytes": 64,
        "contentTypes": ["application/json"],
        "json": {"type": "object", "additionalProperties": True},
    },
)
DEFAULT: dict[str, object] = {"operations": [operation("read-thing"), WRITE]}


class MemoryLog:
    """A decision log in memory. `failing` makes it refuse."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.failing: Callable[[Record], bool] = lambda _record: False
        self.error: type[Exception] = LogUnavailable
        self._failed = False

    def write(self, record: Record) -> None:
        """Keep the record, or fail."""
        if self.failing(record):
            self._failed = True
            raise self.error("it cannot be written")
        self._failed = False
        self.records.append(record)

    @property
    def writable(self) -> bool:
        """The last write went through."""
        return not self._failed

    @property
    def trouble(self) -> str:
        """As the log of a file has it."""
        return "decision log `/x` cannot be written: no space left on device; make room" if self._failed else ""

    def decisions(self) -> list[Record]:
        """The records of decisions, without intents."""
        return [record for record in self.records if record.event is not Event.INTENT]


class FixedVault:
    """Secrets that do not change."""

    def __init__(self, **values: str) -> None:
        secrets = {name: Secret(value.encode()) for name, value in values.items()}
        self._held = Held(values=secrets, needles=tuple(secrets.values()))

    async def open(self) -> Held:
        """The same values."""
        return self._held


@dataclass(slots=True)
class Running:
    """What runs."""

    base: tuple[str, int]
    proxy: tuple[str, int]
    ca: Path
    log: MemoryLog
    policies: Policies
    listeners: Listeners
    pool: Pool
    addons: list[object] = field(default_factory=list)

    @property
    def service(self) -> Service:
        """The one service in force."""
        return self.policies.current.services["api"]

    def change(self, **changes: object) -> None:
        """Put a changed service in force."""
        service = self.service
        way = {key: changes.pop(key) for key in ("upstream", "body_limit") if key in changes}
        if way:
            changes["way"] = replace(service.way, **way)  # type: ignore[arg-type]
        self.policies.current = Policy.of([replace(service, **changes)])  # type: ignore[arg-type]


@asynccontextmanager
async def running(
    folder: Path,
    upstream: Upstream,
    certificates: Certificates,
    *,
    grant: object = None,
    limits: Limits | None = None,
    clients: int = 100,
    arrange: Callable[[list[object]], Iterable[object]] = lambda addons: addons,
    host: str = "localhost",
    policy: Callable[[Policy, Pool, Trust], Policy] = lambda policy, _pool, _trust: policy,
) -> AsyncIterator[Running]:
    """Run a proxy whose endpoint `api` leads to `upstream`. `arrange` may change the chain's addons, `policy` what
    is in force."""
    origin = Origin(scheme="https", host=host, port=upstream.port)
    trust = Trust.only(certificates.ca.read_bytes())
    pool, log = Pool(), MemoryLog()
    endpoint = Endpoint.of(
        name="api",
        upstream=origin,
        grant=load_grant(json.dumps(grant or DEFAULT), file="grant.yaml"),
        secrets=frozenset({"api", "other"}),
    )
    consented = frozenset({("localhost", upstream.port), (host, upstream.port)})
    service = Service(
        name="api",
        upstream=origin,
        base=(),
        secrets=endpoint.secrets,
        vault=FixedVault(api=SECRET, other="another-secret-0123456789"),
        timeout=5,
        way=Judged(
            endpoint=endpoint,
            upstream=UpstreamClient(pool, origin, trust, consented=consented),
            body_limit=1024 * 1024,
        ),
    )
    policies = Policies(policy(Policy.of([service]), pool, trust))
    ca = load_ca(folder)
    listeners = Listeners(policies=policies, limits=limits or Limits(), certificates=Leaves(ca), clients=clients)
    audit = Audit(log, b"k" * 32)
    addons = list(arrange(list(chain(Front(listeners.pick), audit))))
    master = Master(addons)
    bound: tuple[Listener, Listener] = (
        bind(TcpListen(host="127.0.0.1", port=0), setting="proxy"),
        bind(TcpListen(host="127.0.0.1", port=0), setting="endpoints[0].listen", endpoint="api"),
    )
    listeners.start(bound, master, table(addons))
    addresses = [listener.sock.getsockname()[:2] for listener in bound]
    try:
        yield Running(addresses[1], addresses[0], ca.path, log, policies, listeners, pool, addons)
    finally:
        await listeners.close(grace=5)
        await pool.close()
        await master.done()
        for listener in bound:
            listener.remove()
