"""How an upstream is called: whom to trust there, how long it may take, how many requests at one time.

Endpoints and the broker's upstreams have these keys in common: `ca`, `concurrent` and `timeout`.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, final

from grants.document import MAX_BYTES
from grants.place import Place
from grants.problems import quoted_file
from proxy.settings.files import Unreadable, read_bounded
from proxy.settings.upstream import Upstream
from proxy.settings.values import parse_duration, parse_path, read

CONCURRENT: Final = 256
CONNECT_SECONDS: Final = 10.0
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How one of the broker's upstreams is called.

    Attributes:
        ca: the only bundle that is trusted for it; None for the system's.
        concurrent: the most requests in flight.
        connect: seconds until it is connected.
        total: seconds until the answer is complete; None for what is usual for the kind of request.
        idle: seconds between two pieces of a relayed stream.
    """

    ca: Path | None = None
    concurrent: int = CONCURRENT
    connect: float = CONNECT_SECONDS
    total: float | None = None
    idle: float = 600.0


def load_terms(place: Place, upstream: Upstream | None, directory: Path, *, judged: bool = False) -> Terms:
    """The terms of an upstream of the broker. `judged`: it is held to a grant, so nothing of it is a stream."""
    usual = Terms()
    connect, total, idle = load_timeouts(place)
    if judged and (timeout := place.get("timeout")) and timeout.has("idle"):
        timeout.key_problem("idle", "is for relayed streams; leave it out, `total` is the bound under a grant")
    return Terms(
        ca=load_ca(place, upstream, directory),
        concurrent=load_concurrent(place),
        connect=connect or usual.connect,
        total=total,
        idle=idle or usual.idle,
    )


def load_concurrent(place: Place) -> int:
    """`concurrent`."""
    concurrent = place.get("concurrent")
    return concurrent.number if concurrent else CONCURRENT


def load_timeouts(place: Place) -> tuple[float | None, float | None, float | None]:
    """`timeout`: connect, total and idle in seconds; None for what is left out."""
    timeout = place.get("timeout")
    connect, total, idle = (
        read(timeout.get(key), parse_duration) if timeout else None for key in ("connect", "total", "idle")
    )
    return connect, total, idle


def load_ca(place: Place, upstream: Upstream | None, directory: Path) -> Path | None:
    """`ca`: a bundle that can be trusted at the start. It is for TLS, so for an https upstream."""
    bundle = place.get("ca")
    if bundle is None:
        return None
    if upstream and upstream.origin.scheme == "http":
        place.key_problem("ca", "is for an https upstream; leave it out")
    path = read(bundle, partial(parse_path, directory=directory))
    if path is None:
        return None
    try:
        wrong = _wrong_with(read_bounded(path))
    except Unreadable as unreadable:
        wrong = str(unreadable)
    if wrong:
        bundle.problem(f"{quoted_file(str(path))} {wrong}; write the path of a PEM bundle")
    return path


def _wrong_with(bundle: bytes) -> str | None:
    """What keeps a PEM bundle from being trusted at the start, or None."""
    import ssl  # here: a quick `check` of settings without a bundle needs none

    if len(bundle) > MAX_BYTES:
        return "is over 1 MiB"
    if _CERTIFICATE not in bundle:
        return "holds no certificate"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=bundle.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        return "holds a certificate that cannot be read"
    return None
