"""What holds between the parts of settings: nothing is meant twice, and nobody gets in who should not.

Source: docs/reference/settings.md.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from grants.place import Place
from grants.problems import quoted
from proxy.settings.endpoint import Candidate
from proxy.settings.model import Assurance, Listen, TcpListen, TunnelRule
from proxy.settings.values import ValueInvalid, parse_listen, where

FRONTS = ("proxy", "admin")
BROKER = "broker.listen"
GUARDED = ("admin", BROKER)
"""Where no `boxes` are needed: the first is for this machine alone, at the other every request shows a box's token."""


def hold_endpoints(endpoints: Sequence[Candidate], *, front: bool) -> None:
    """Names are unique, each endpoint can be reached, and on the proxy front each host and port is one endpoint."""
    names: dict[str, str] = {}
    places: dict[tuple[str, int], str] = {}
    for endpoint in endpoints:
        place, name, upstream = endpoint.place, endpoint.name, endpoint.upstream
        if not front and not place.has("listen"):
            place.key_problem("listen", "is missing, and `proxy` is too, so nobody can reach this; add one of them")
        if name is not None:
            if name in names:
                called = place.get("name") or place
                called.problem(f"is called {quoted(name)}, as the endpoint {names[name]}; name it differently")
            names.setdefault(name, where(place))
        if not front or upstream is None:
            continue
        key = (upstream.host, upstream.port)
        if key in places:
            place.at(("upstream",)).problem(
                f"has the host and port of {quoted(places[key])}, and the proxy front could not tell them apart; "
                "put both into one endpoint, or leave `proxy` out"
            )
        places.setdefault(key, name or str(upstream))


def hold_variables(endpoints: Sequence[Candidate]) -> None:
    """A variable holds one URL, so that no two endpoints name it."""
    named: dict[str, str] = {}
    for endpoint in endpoints:
        called = endpoint.name or ""
        for item in endpoint.place.items("env"):
            if named.setdefault(item.text, called) != called:
                item.problem(f"is {quoted(item.text)}, as of endpoint {quoted(named[item.text])}; write another name")


def hold_tunnels(rules: Iterable[tuple[Place, TunnelRule]], endpoints: Sequence[Candidate]) -> None:
    """No tunnel leads where a grant holds."""
    for place, rule in rules:
        for endpoint in endpoints:
            upstream = endpoint.upstream
            if upstream is None or endpoint.assurance is not Assurance.SEMANTIC:
                continue
            if rule.covers(upstream.host, upstream.port):
                place.problem(
                    f"is {quoted(str(rule))}, which covers the host of endpoint {quoted(endpoint.name or '')}; "
                    "leave it out, as no tunnel goes around a grant"
                )
                break


def hold_listeners(root: Place, endpoints: Sequence[Candidate], directory: Path) -> None:
    """No two listeners have one address and port, or one socket; without boxes all of them are for this machine."""
    taken: list[tuple[Listen, str]] = []
    for label, place in _listeners(root, endpoints):
        try:
            listen = parse_listen(place.text, directory=directory)
        except ValueInvalid:
            continue
        if not listen.local and not root.has("boxes") and label not in GUARDED:
            place.problem(
                "is not a loopback address, and everyone there could use the credentials; write `127.0.0.1`, "
                "or list `boxes`, so that every request names one"
            )
        if isinstance(listen, TcpListen) and listen.port == 0:
            continue
        for other, name in taken:
            if _clash(listen, other):
                place.problem(f"is the address of {quoted(name)} already; choose another port")
                break
        taken.append((listen, label))


def _clash(one: Listen, other: Listen) -> bool:
    """Whether both are one place; every address of a family (`0.0.0.0`, `[::]`) takes the port on each of them."""
    if one == other or not isinstance(one, TcpListen) or not isinstance(other, TcpListen):
        return one == other
    mine, others = ipaddress.ip_address(one.host), ipaddress.ip_address(other.host)
    same = one.port == other.port and mine.version == others.version
    return same and (mine.is_unspecified or others.is_unspecified)


def _listeners(root: Place, endpoints: Sequence[Candidate]) -> Iterator[tuple[str, Place]]:
    for key in FRONTS:
        if place := root.get(key):
            yield key, place
    if (broker := root.get("broker")) and (place := broker.get("listen")):
        yield BROKER, place
    for index, endpoint in enumerate(endpoints):
        if place := endpoint.place.get("listen"):
            yield f"endpoints[{index}].listen", place
