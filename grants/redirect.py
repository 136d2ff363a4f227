"""Redirects: each hop is a new request, decided like the first one before it is sent.

A chain is a frozen value that knows the request it has got to. `next_hop` reads an answer and says whether it is a
redirect at all, whether it may be followed, and with which request. Whoever calls it has already searched the answer
for credentials: nothing is followed out of an answer that holds one. Only chains that begin as GET or HEAD without a
body are followed, and they stay what they are (RFC 9110, 15.4, would let a client turn a POST into a GET: not here).
There is no cookie and no Referer.
Source: "Redirects" in docs/reference/matching.md.
"""

from dataclasses import dataclass
from typing import Final, final

from .authorize import Allow, Granted, authorize_target
from .decision import Deny, Reason, Rule
from .endpoint import Endpoint
from .immutable import immutable
from .location import resolve
from .message import Response

STATUSES: Final = frozenset({301, 302, 303, 307, 308})
"""The statuses that, with a `Location`, are redirects."""

_LOCATION = b"location"
_METHODS = frozenset({b"GET", b"HEAD"})


@final
@immutable
class Chain:
    """How far the requests for one client request have got.

    Attributes:
        endpoint: whose grant decides.
        first: the client's own request.
        current: the request that was sent last; its operation judges the last answer.
        hops: redirects followed so far.
    """

    endpoint: Endpoint
    first: Granted
    current: Granted
    hops: int = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NotRedirect:
    """The answer is not a redirect: it is the last one."""


_NOT_REDIRECT: Final = NotRedirect()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """A redirect that may be followed: send `allow.request` (references still in it), then go on with `chain`."""

    chain: Chain
    allow: Allow


def start(endpoint: Endpoint, granted: Granted) -> Chain:
    """The chain of a client request that was granted."""
    return Chain(endpoint=endpoint, first=granted, current=granted)


def next_hop(chain: Chain, response: Response) -> NotRedirect | Deny | Hop:
    """Read an answer to the chain's current request. Total: never raises.

    A refusal's text holds nothing of the answer: not where it leads, only what is wrong with that.
    """
    if response.status not in STATUSES:
        return _NOT_REDIRECT
    locations = [value for name, value in response.fields if name.lower() == _LOCATION]
    if not locations:
        return _NOT_REDIRECT
    redirects = chain.endpoint.grant.redirects
    if redirects is None:
        return _deny(chain, Reason.REDIRECT_NOT_ALLOWED, "the upstream redirects, and the grant follows no redirects")
    if chain.first.method not in _METHODS or chain.first.operation.body is not None:
        detail = "the upstream redirects, and only a GET or HEAD without a body is followed"
        return _deny(chain, Reason.REDIRECT_METHOD, detail)
    if chain.hops >= redirects.max_hops:
        detail = f"the upstream redirects more often than the grant follows; at most {redirects.max_hops}"
        return _deny(chain, Reason.REDIRECT_HOPS, detail)
    place = resolve(locations[0], origin=chain.current.origin, target=chain.current.target)
    if place is None or len(locations) > 1:
        detail = "the upstream redirects to something that is not one canonical https URL"
        return _deny(chain, Reason.REDIRECT_LOCATION, detail)
    if place.origin != chain.endpoint.upstream and place.origin not in redirects.origins:
        detail = "the upstream redirects to an origin that the grant does not allow"
        return _deny(chain, Reason.REDIRECT_ORIGIN, detail)
    granted = authorize_target(chain.endpoint, chain.first.head, place.target, origin=place.origin)
    if isinstance(granted, Deny):
        detail = f"the upstream redirects to a request that no operation of the grant takes ({granted.reason})"
        return _deny(chain, Reason.REDIRECT_REQUEST, detail)
    further = Chain(endpoint=chain.endpoint, first=chain.first, current=granted, hops=chain.hops + 1)
    return Hop(chain=further, allow=Allow(granted=granted, request=granted.outgoing(None)))


def _deny(chain: Chain, reason: Reason, detail: str) -> Deny:
    return Deny(rule=Rule.REDIRECT, reason=reason, detail=detail, operation=chain.current.operation.name)
