"""An endpoint as the core sees it: a grant, the upstream that it is for, and the secrets that it may use."""

from dataclasses import dataclass, field
from typing import final

from .index import Index, build_index
from .message import Origin
from .model import Grant


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A semantic endpoint.

    Attributes:
        name: as in the settings.
        upstream: the origin that requests go to.
        base: segments of the upstream's own path, before the route of a base-URL request.
        secrets: names of the references that the endpoint holds.
        index: the grant's operations, found without walking all of them.
    """

    name: str
    upstream: Origin
    base: tuple[str, ...]
    grant: Grant
    secrets: frozenset[str]
    index: Index = field(repr=False)

    @classmethod
    def of(
        cls, *, name: str, upstream: Origin, base: tuple[str, ...] = (), grant: Grant, secrets: frozenset[str]
    ) -> "Endpoint":
        """Build the endpoint and its index."""
        return cls(name=name, upstream=upstream, base=base, grant=grant, secrets=secrets, index=build_index(grant))
