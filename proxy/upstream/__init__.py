"""The upstream client: sends what was authorized, once, to the address that was judged, and shows all that comes back.

`answer`, `reader` and `request` do no I/O; `dial` resolves, judges and connects; `connection` is one connection; `pool`
bounds and ages them over all endpoints; `client` and `streaming` are one endpoint's view of that, for whole exchanges
and for streams; `tunnel` dials for CONNECT.
"""

from .client import UpstreamClient
from .pool import STREAM_LIMITS, Pool, PoolLimits
from .streaming import StreamingClient
from .trust import Trust, TrustInvalid
from .tunnel import Dialler

__all__ = [
    "STREAM_LIMITS",
    "Dialler",
    "Pool",
    "PoolLimits",
    "StreamingClient",
    "Trust",
    "TrustInvalid",
    "UpstreamClient",
]
