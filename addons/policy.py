"""What is in force: the services that requests may go to, as one immutable value.

A reload makes a new `Policy` and swaps it in `Policies`; a request keeps the one that it began with.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

from grants.endpoint import Endpoint
from grants.message import Authority

from .ports import Upstream, Vault


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A semantic endpoint with the parts that it works with.

    Attributes:
        endpoint: what the core decides by.
        hosts: further names by which clients may call the base URL.
        timeout: bound of a whole exchange with the upstream, redirects included, in seconds.
        body_limit: the most that is held of a request body, in bytes, whatever the grant says.
    """

    endpoint: Endpoint
    upstream: Upstream = field(repr=False)
    vault: Vault = field(repr=False)
    timeout: float
    body_limit: int
    hosts: frozenset[Authority] = frozenset()
    assurance: str = "semantic"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Services by name, and by the authority that a client of the forward proxy names."""

    services: Mapping[str, Service]
    authorities: Mapping[Authority, Service]

    @classmethod
    def of(cls, services: Iterable[Service]) -> "Policy":
        """Put the services in force. On the forward proxy an endpoint is found by its upstream's host and port."""
        every = tuple(services)
        return cls(
            services={service.endpoint.name: service for service in every},
            authorities={
                Authority(host=service.endpoint.upstream.host, port=service.endpoint.upstream.port): service
                for service in every
            },
        )


@final
class Policies:
    """Holds the policy that new requests begin with."""

    def __init__(self, policy: Policy) -> None:
        self.current = policy
