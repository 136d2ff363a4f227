"""The upstream of an endpoint: an origin, and a path that is normal."""

import re
from dataclasses import dataclass
from typing import final

from grants.canonical import DEFAULT_PORTS, parse_authority
from grants.message import Origin
from proxy.settings.values import MAX_PORT, ValueInvalid, port_is_too_large

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_SEGMENT = re.compile(r"[A-Za-z0-9._~!$&'()*+,=:@-]+")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Where an endpoint's requests go. `base`: the segments of the upstream's own path."""

    origin: Origin
    base: tuple[str, ...]


def parse_upstream(text: str, *, https_only: bool) -> Upstream:
    """Read `https://host[:port][/path]`, or also `http://…`. One slash at the end of the path makes no difference.

    Raises:
        ValueInvalid: it is anything else. The message holds nothing of `text`, which may hold a password.
    """
    match = _URL.fullmatch(text)
    if match is None:
        raise ValueInvalid("is not a URL; write `https://host`")
    scheme, authority, path, query, fragment = match.groups()
    if https_only and scheme != "https":
        raise ValueInvalid("is not https, which a semantic endpoint needs; write `https://host`")
    if scheme not in DEFAULT_PORTS:
        raise ValueInvalid("is neither https nor http; write `https://host`")
    if "@" in authority:
        raise ValueInvalid("holds a user or a password; put the credential into `secrets`")
    if query is not None or fragment is not None:
        raise ValueInvalid("has a query or a fragment; write the origin and, if there is one, the path")
    place = parse_authority(authority.encode("utf-8", "replace"), scheme=scheme)
    if place is None and port_is_too_large(authority):
        raise ValueInvalid(f"has a port above {MAX_PORT}; write one from 1 to {MAX_PORT}")
    if place is None:
        raise ValueInvalid(f"has a host or a port that can be read in more than one way; write `{scheme}://host:port`")
    origin = Origin(scheme=scheme, host=place.host, port=place.port)
    segments = tuple(path.removesuffix("/").split("/")[1:])
    if not all(_SEGMENT.fullmatch(segment) and segment not in (".", "..") for segment in segments):
        raise ValueInvalid("has a path that is not normal; leave out `//`, dot segments and everything encoded")
    return Upstream(origin=origin, base=segments)
