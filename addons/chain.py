"""The order of the chain, with its reasons.

1. `Front` picks the layer of a connection. It is asked before any byte is read.
2. `Who`, before anything is looked up: an unknown client learns nothing about endpoints.
3. `Where` finds the endpoint; a host that is none, or names that disagree, end here. On the broker's address
   `BrokerRoute` does both: who asks is found by the route, and what it may by the box's last report.
4. `Authorize` decides by the endpoint's grant. Nothing behind it decides anew, but for a redirect's hops.
5. `Tunnel` dials, and carries, an opaque tunnel that `Where` let through; `Relay` streams what goes to a
   trusted-upstream endpoint. Each opens its stream only when its record is in the log.
6. `Send` puts the credential in, sends, follows, and holds the answer to the grant. It acts only on an `Allow`.
7. `Capture` writes the request as it came, where an endpoint asks for that.
8. `Audit` writes the record and only then sets the reply. It is the last: what it did not record is not shown.
"""

from .audit import Audit
from .authorize import Authorize
from .broker.route import BrokerRoute
from .capture import Capture
from .front.pick import Front
from .relay import Relay
from .send import Send
from .tunnel import Tunnel
from .where import Where
from .who import Who

type Chain = tuple[Front, Who, Where, BrokerRoute, Authorize, Tunnel, Relay, Send, Capture, Audit]


def chain(front: Front, audit: Audit) -> Chain:
    """The addons in their order. Those that need something of the world are handed in."""
    return (
        front,
        Who(),
        Where(),
        BrokerRoute(audit),
        Authorize(),
        Tunnel(audit),
        Relay(audit),
        Send(audit),
        Capture(),
        audit,
    )
