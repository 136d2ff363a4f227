"""What is in force: the services that requests may go to, as one immutable value.

A reload makes a new `Policy` and swaps it in `Policies`; a request keeps the one that it began with.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from grants.endpoint import Endpoint
from grants.message import Authority, Fields, Origin

from .boxes import Boxes
from .gate import Gate
from .ports import CaptureSink, Upstream, Vault
from .streams import StreamingUpstream, TunnelDialler

if TYPE_CHECKING:
    from .broker.parts import Broker


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The way of a semantic endpoint: decided by a grant, buffered, checked.

    Attributes:
        endpoint: what the core decides by.
        body_limit: the most that is held of a request body, in bytes, whatever the grant says.
    """

    endpoint: Endpoint
    upstream: Upstream = field(repr=False)
    body_limit: int
    assurance: str = "semantic"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Relayed:
    """The way of a trusted-upstream endpoint: the credential goes in, everything else is relayed as it comes.

    Attributes:
        websocket: an upgrade may be asked for.
        idle: seconds that a stream may say nothing.
        connect_timeout: seconds to resolve, connect and verify.
    """

    upstream: StreamingUpstream = field(repr=False)
    websocket: bool = False
    idle: float = 300.0
    connect_timeout: float = 10.0
    assurance: str = "trusted-upstream"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An endpoint with the parts that it works with.

    Attributes:
        upstream: the origin that requests go to.
        base: segments of the upstream's own path, before the path of a base-URL request.
        secrets: names of the references that the endpoint holds.
        timeout: bound of a judged exchange with the upstream, redirects included, in seconds.
        hosts: further names by which clients may call the base URL.
        inject: fields that are set here, whatever the client sent there; references still in them.
        gate: bounds the requests in flight.
        capture: takes requests as they came; None for none.
    """

    name: str
    upstream: Origin
    base: tuple[str, ...]
    secrets: frozenset[str]
    vault: Vault = field(repr=False)
    timeout: float
    way: Judged | Relayed
    hosts: frozenset[Authority] = frozenset()
    inject: Fields = ()
    gate: Gate = field(default_factory=Gate, repr=False)
    capture: CaptureSink | None = field(default=None, repr=False)

    @property
    def authority(self) -> Authority:
        """Host and port of the upstream, by which the forward proxy finds it."""
        return Authority(host=self.upstream.host, port=self.upstream.port)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnels:
    """Where opaque tunnels may lead.

    Attributes:
        idle: seconds that a tunnel may carry nothing. total: seconds that it may last.
    """

    allows: Callable[[Authority], bool]
    dialler: TunnelDialler = field(repr=False)
    idle: float = 600.0
    total: float = 86400.0
    connect_timeout: float = 10.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Services by name, and by the authority that a client of the forward proxy names.

    Attributes:
        boxes: who may use what; None: every client on this machine may use everything.
        tunnels: None: there are none.
        broker: what the broker serves; None: there is no broker.
    """

    services: Mapping[str, Service]
    authorities: Mapping[Authority, Service]
    boxes: Boxes | None = None
    tunnels: Tunnels | None = None
    broker: "Broker | None" = None

    @classmethod
    def of(
        cls,
        services: Iterable[Service],
        *,
        boxes: Boxes | None = None,
        tunnels: Tunnels | None = None,
        broker: "Broker | None" = None,
    ) -> "Policy":
        """Put the services in force."""
        every = tuple(services)
        return cls(
            services={service.name: service for service in every},
            authorities={service.authority: service for service in every},
            boxes=boxes,
            tunnels=tunnels,
            broker=broker,
        )

    def relays(self, name: str | None) -> bool:
        """Whether the service of that name is a relay, whose bodies are streamed."""
        service = self.services.get(name) if name is not None else None
        return service is not None and isinstance(service.way, Relayed)


@final
class Policies:
    """Holds the policy that new requests begin with.

    Attributes:
        draining: the program is about to end: no new request is read, and what runs is the last on its connection.
    """

    def __init__(self, policy: Policy) -> None:
        self.current = policy
        self.draining = False
