"""Redirect rules and lists of origins. Source: "Redirects" in the specification."""

from grants.canonical import parse_origin
from grants.message import Origin
from grants.model import Redirects
from grants.place import Place
from grants.problems import quoted


def load_redirects(place: Place) -> Redirects | None:
    """The redirects that may be followed; None for none, or when `place` has problems."""
    origins = load_origins(place, "allowedOrigins")
    if not place.flag("allow"):
        if not place.has("allow") or place.get("allow"):
            for key in ("maxHops", "allowedOrigins"):
                if place.has(key):
                    place.key_problem(key, "needs `allow: true`; add that, or leave it out")
        return None
    hops = place.get("maxHops")
    if not place.has("maxHops"):
        place.key_problem("maxHops", "is missing, which `allow: true` needs; add a positive number such as `3`")
    return Redirects(max_hops=hops.number, origins=frozenset(origins)) if hops else None


def load_origins(place: Place, key: str) -> list[Origin]:
    """The origins at `key`, canonical (RFC 6454, 6.2)."""
    origins = []
    for item in place.items(key):
        if origin := parse_origin(item.text):
            origins.append(origin)
        else:
            item.problem(f"is {quoted(item.text)}; write `https://host` or `https://host:port` and nothing more")
    return origins
