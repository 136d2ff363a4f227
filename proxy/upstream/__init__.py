"""The upstream client: sends what was authorized, once, to the address that was judged, and shows all that comes back.

`reader` and `request` do no I/O; `dial` resolves, judges and connects; `connection` is one TLS connection; `pool`
bounds and ages them over all endpoints; `client` is one endpoint's view of that.
"""

from .client import UpstreamClient
from .pool import Pool, PoolLimits
from .trust import Trust, TrustInvalid

__all__ = ["Pool", "PoolLimits", "Trust", "TrustInvalid", "UpstreamClient"]
