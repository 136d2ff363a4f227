"""The connections that one endpoint's requests may use, by the origin that each goes to."""

from typing import final

from grants.message import Origin

from .dial import reach_of
from .failures import fault
from .pool import Group, Pool
from .trust import Trust


@final
class Groups:
    """Finds the group of an origin.

    Plain HTTP is spoken only where the endpoint's own origin is http, and only to http origins.

    Args:
        pool: shared by all endpoints.
        own: the endpoint's upstream.
        trust: whom it trusts, for every https origin; None where there is none to send to.
        consented: hosts and ports that the operator wrote as an address or as `localhost`.
        allow_inside: let names resolve to inside addresses.
    """

    def __init__(
        self,
        pool: Pool,
        own: Origin,
        trust: Trust | None,
        *,
        consented: frozenset[tuple[str, int]],
        allow_inside: bool,
    ) -> None:
        self._pool = pool
        self._own = own
        self._trust = trust
        self._consented = consented
        self._allow_inside = allow_inside
        # The own one is held, since nearly all requests go there.
        self._group: Group | None = None

    def of(self, origin: Origin) -> Group:
        """The group of `origin`.

        Raises:
            UpstreamFailed: a fault, nothing may be sent there.
        """
        own = origin is self._own or origin == self._own
        if own and self._group is not None:
            return self._group
        trust = self._trust
        if origin.scheme == "http":
            if self._own.scheme != "http":
                raise fault()
            trust = None
        elif origin.scheme != "https" or trust is None:
            raise fault()
        group = self._pool.group(origin, trust, reach_of(origin, self._consented, allow_inside=self._allow_inside))
        if own:
            self._group = group
        return group
