"""Host, port and origin in their one canonical form.

An authority is read strictly or not at all: a name must already be LDH labels, an address must already be
written in its usual form (RFC 5952 for IPv6), a port in decimal without a leading zero. Everything that another
reader could take for a different host (`127.1`, `0x7f000001`, `host.`, `user@host`, an IPv4 address in IPv6
notation) is refused. What is left differs from its canonical form in letter case only.
Source: "Host" in docs/reference/matching.md; RFC 3986, 3.2; RFC 1123, 2.1.
"""

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from .message import Authority, Origin

DEFAULT_PORTS = {"https": 443, "http": 80}

_AUTHORITY = re.compile(rb"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9.-]{1,253}))(?::([1-9][0-9]{0,4}))?")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_PORT = 65535
_MAX_BYTES = 260


def parse_authority(raw: bytes, *, scheme: str = "https") -> Authority | None:
    """Read `host[:port]` (RFC 3986, 3.2), or None when it cannot be read in exactly one way.

    Without a port it is the one of `scheme`. Userinfo, a trailing dot, an empty port and every unusual form of
    an address are refused; names are lower-cased. Total: never raises.
    """
    return _parse_authority(raw, scheme) if len(raw) <= _MAX_BYTES else None


@lru_cache(maxsize=1024)
def _parse_authority(raw: bytes, scheme: str) -> Authority | None:
    """The same few authorities come with every request."""
    match = _AUTHORITY.fullmatch(raw)
    if match is None:
        return None
    six, name, digits = match.groups()
    port = int(digits) if digits else DEFAULT_PORTS[scheme]
    if port > _MAX_PORT:
        return None
    host = _address_six(six.decode("ascii")) if six is not None else _name(name.decode("ascii").lower())
    return None if host is None else Authority(host=host, port=port)


def parse_origin(text: str) -> Origin | None:
    """Read `https://host[:port]` and nothing more, or None."""
    if not text.startswith("https://") or not text.isascii():
        return None
    authority = parse_authority(text.removeprefix("https://").encode("ascii"))
    return None if authority is None else Origin(scheme="https", host=authority.host, port=authority.port)


def authority_bytes(place: Authority | Origin, *, scheme: str = "https") -> bytes:
    """`host[:port]` as a Host field has it (RFC 9110, 7.2): the scheme's own port is left out.

    `scheme` is for an `Authority`; an `Origin` has its own.
    """
    if isinstance(place, Origin):
        scheme = place.scheme
    host = f"[{place.host}]" if ":" in place.host else place.host
    return (host if place.port == DEFAULT_PORTS[scheme] else f"{host}:{place.port}").encode("ascii")


def _name(text: str) -> str | None:
    """A DNS name, or an IPv4 address in dotted decimal: whatever ends in a number is an address or nothing."""
    labels = text.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _address_four(text)
    if all(_LABEL.fullmatch(label) for label in labels):
        return text
    return None


def _address_four(text: str) -> str | None:
    try:
        return str(IPv4Address(text))
    except AddressValueError:
        return None


def _address_six(text: str) -> str | None:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return None
    if address.ipv4_mapped is not None or str(address) != text.lower():
        return None
    return str(address)
