"""Which addresses are inside: ours, our neighbours', or nobody's.

IPv4 is judged by the networks that are not public; IPv6 the other way round: only global unicast (2000::/3) is
public, less the parts of it that are not. A form that carries an IPv4 address is judged by that address. What cannot
be read is inside, so an unknown form is refused.

Sources: IANA special-purpose address registries (RFC 6890), RFC 6052 (NAT64), RFC 3056 (6to4), RFC 4291.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_INSIDE_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network, unspecified (RFC 791)
        "10.0.0.0/8",  # private (RFC 1918)
        "100.64.0.0/10",  # carrier-grade NAT (RFC 6598); some clouds keep metadata here
        "127.0.0.0/8",  # loopback (RFC 1122)
        "168.63.129.16/32",  # a cloud's virtual platform address, reachable from its machines only
        "169.254.0.0/16",  # link-local and metadata (RFC 3927)
        "172.16.0.0/12",  # private (RFC 1918)
        "192.0.0.0/24",  # protocol assignments (RFC 6890)
        "192.0.2.0/24",  # documentation (RFC 5737)
        "192.88.99.0/24",  # deprecated 6to4 relays (RFC 7526)
        "192.168.0.0/16",  # private (RFC 1918)
        "198.18.0.0/15",  # benchmarking (RFC 2544)
        "198.51.100.0/24",  # documentation (RFC 5737)
        "203.0.113.0/24",  # documentation (RFC 5737)
        "224.0.0.0/4",  # multicast (RFC 5771)
        "240.0.0.0/4",  # reserved, and the broadcast address (RFC 1112)
    )
)

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_INSIDE_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments (RFC 2928): Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation (RFC 3849)
        "3fff::/20",  # documentation (RFC 9637)
    )
)

_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")


def is_address(host: str) -> bool:
    """Whether `host` is an address in its usual form, and not a name. IPv6 has no brackets."""
    return _parse(host) is not None


def is_loopback(address: str) -> bool:
    """Whether `address` is 127.0.0.0/8 or `::1`, also as an IPv4-mapped address."""
    parsed = _parse(address)
    if isinstance(parsed, IPv6Address) and parsed in _MAPPED:
        parsed = _low_bits(parsed, 0)
    return parsed is not None and parsed.is_loopback


def is_inside(address: str) -> bool:
    """Whether `address` may not be dialled without the operator's consent ("Inside addresses" in the docs).

    Inside are loopback, link-local and metadata, private, ULA, carrier-grade NAT, unspecified, multicast, broadcast,
    reserved, benchmarking and documentation addresses, the IPv4-mapped, NAT64 and 6to4 forms of those, every
    IPv4-compatible, local NAT64 (64:ff9b:1::/48), Teredo and scoped address (`fe80::1%eth0`), and whatever is not an
    address in its usual form (`127.1`, `0x7f.1`, a name).
    """
    parsed = _parse(address)
    if parsed is None:
        return True
    if isinstance(parsed, IPv6Address):
        if parsed.scope_id is not None:
            return True
        embedded = _embedded(parsed)
        if embedded is None:
            return parsed not in _GLOBAL_UNICAST or any(parsed in network for network in _INSIDE_V6)
        parsed = embedded
    return any(parsed in network for network in _INSIDE_V4)


def _parse(address: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(address)
    except ValueError:
        return None


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets to `address` end up at, if it is such a form."""
    if address in _MAPPED or address in _NAT64:
        return _low_bits(address, 0)
    if address in _SIX_TO_FOUR:
        return _low_bits(address, 80)
    return None


def _low_bits(address: IPv6Address, shift: int) -> IPv4Address:
    return IPv4Address(int(address) >> shift & 0xFFFFFFFF)
