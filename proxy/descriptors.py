"""How many descriptors the process may have open, against what its settings let it need."""

import contextlib
import resource
from typing import Final

_OTHERS: Final = 64
"""Listeners, logs, certificates being read, and the like."""


def raise_limit(clients: int, upstreams: int) -> str | None:
    """Raise the soft limit to the hard one, and say in one line where even that is too low.

    `clients` may each have a connection and an upstream of their own; `upstreams` are kept beside those.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    needed = clients * 2 + upstreams + _OTHERS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    fitting = max(1, (soft - upstreams - _OTHERS) // 2)
    return (
        f"{soft} descriptors may be open and `limits.clients: {clients}` can need {needed};"
        f" raise the limit (`ulimit -n`) or set it to {fitting}"
    )
