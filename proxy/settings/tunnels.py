"""`tunnels`: the hosts and ports to which CONNECT is opaque.

Source: docs/reference/settings.md, "Tunnels"; RFC 9110, 9.3.6 (CONNECT names host and port, both).
"""

import re

from grants.addresses import is_address
from grants.canonical import parse_authority
from grants.place import Place
from grants.problems import quoted
from proxy.settings.model import TunnelRule, Tunnels
from proxy.settings.values import MAX_PORT, ValueInvalid, parse_duration, port_is_too_large, read

_PORT = re.compile(r":[0-9]+")


def parse_rule(text: str) -> TunnelRule:
    """Read `host:port` or `.suffix:port`.

    Raises:
        ValueInvalid: it is anything else.
    """
    suffix = text.startswith(".")
    raw = text.removeprefix(".")
    if not text.isascii():
        raise ValueInvalid(f"is {quoted(text)}, which is not ASCII; write the name as DNS has it, such as `xn--…:443`")
    authority = parse_authority(raw.encode("ascii"))
    if authority is None and port_is_too_large(raw):
        raise ValueInvalid(f"is {quoted(text)}, whose port is above {MAX_PORT}; write one from 1 to {MAX_PORT}")
    if authority is None:
        raise ValueInvalid(f"is {quoted(text)}; write `host:port` or `.suffix:port`")
    if not _PORT.fullmatch(raw[raw.rfind(":") :]):
        raise ValueInvalid(f"is {quoted(text)}, which names no port; write it too, such as `host:443`")
    if suffix and is_address(authority.host):
        raise ValueInvalid(f"is {quoted(text)}, and no name is below an address; leave the dot before it out")
    return TunnelRule(host=authority.host, suffix=suffix, port=authority.port)


def load_tunnels(root: Place) -> tuple[Tunnels, list[tuple[Place, TunnelRule]]]:
    """The tunnels, and each rule with its place. No rule stands twice."""
    place = root.get("tunnels")
    if place is None:
        return Tunnels(), []
    if not root.has("proxy"):
        root.key_problem("tunnels", "need `proxy`, as only that front has CONNECT; add it, or leave them out")
    rules: dict[TunnelRule, Place] = {}
    for item in place.items("allow"):
        rule = read(item, parse_rule)
        if rule in rules:
            item.problem(f"is {quoted(str(rule))}, which is listed already; keep one of them")
        elif rule:
            rules[rule] = item
    usual = Tunnels()
    tunnels = Tunnels(
        allow=tuple(rules),
        idle=read(place.get("idle"), parse_duration) or usual.idle,
        total=read(place.get("total"), parse_duration) or usual.total,
    )
    return tunnels, [(item, rule) for rule, item in rules.items()]
