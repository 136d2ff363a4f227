"""What one request asks of the broker, once that is known."""

from dataclasses import dataclass, field
from typing import final

from addons.boxes import Box
from grants.broker.capabilities import Needs
from grants.broker.declaration import Declaration
from grants.message import RequestHead

from .parts import Broker


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request of a box that is known, for a route that is served.

    Attributes:
        head: as it came.
        token: the box's, as the request shows it.
        query: as it came, without the question mark; None where there is none.
        declaration: what was kept of the box's last report; None: it has never reported.
    """

    broker: Broker
    needs: Needs
    box: Box
    head: RequestHead
    token: bytes = field(repr=False)
    query: bytes | None = field(repr=False)
    declaration: Declaration | None
