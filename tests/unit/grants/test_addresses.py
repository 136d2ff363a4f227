"""Inside addresses: what may be dialled without consent is listed, the rest is refused."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.addresses import is_address, is_inside, is_loopback

INSIDE = [
    # IPv4
    pytest.param("127.0.0.1", id="loopback"),
    pytest.param("127.255.255.254", id="loopback, last"),
    pytest.param("0.0.0.0", id="unspecified"),
    pytest.param("0.1.2.3", id="this network"),
    pytest.param("10.0.0.1", id="private 10"),
    pytest.param("172.16.0.0", id="private 172.16, first"),
    pytest.param("172.31.255.255", id="private 172.31, last"),
    pytest.param("192.168.1.1", id="private 192.168"),
    pytest.param("169.254.0.1", id="link-local"),
    pytest.param("169.254.169.254", id="metadata"),
    pytest.param("169.254.170.2", id="container credentials"),
    pytest.param("168.63.129.16", id="platform address"),
    pytest.param("100.64.0.0", id="carrier-grade NAT, first"),
    pytest.param("100.100.100.200", id="metadata in carrier-grade NAT"),
    pytest.param("100.127.255.255", id="carrier-grade NAT, last"),
    pytest.param("192.0.0.192", id="protocol assignments"),
    pytest.param("192.0.2.1", id="documentation 1"),
    pytest.param("198.51.100.1", id="documentation 2"),
    pytest.param("203.0.113.1", id="documentation 3"),
    pytest.param("192.88.99.1", id="6to4 relay"),
    pytest.param("198.18.0.1", id="benchmarking"),
    pytest.param("198.19.255.255", id="benchmarking, last"),
    pytest.param("224.0.0.1", id="multicast"),
    pytest.param("239.255.255.250", id="multicast, last block"),
    pytest.param("240.0.0.1", id="reserved"),
    pytest.param("255.255.255.255", id="broadcast"),
    # IPv6
    pytest.param("::", id="v6 unspecified"),
    pytest.param("::1", id="v6 loopback"),
    pytest.param("0:0:0:0:0:0:0:1", id="v6 loopback, long"),
    pytest.param("fe80::1", id="v6 link-local"),
    pytest.param("fe80::1%eth0", id="v6 link-local, scoped"),
    pytest.param("2606:4700::1111%eth0", id="public, but scoped"),
    pytest.param("fec0::1", id="v6 site-local"),
    pytest.param("fc00::1", id="ULA fc"),
    pytest.param("fd00:ec2::254", id="v6 metadata"),
    pytest.param("fd20:ce::254", id="v6 metadata, another"),
    pytest.param("ff02::1", id="v6 multicast"),
    pytest.param("2001:db8::1", id="v6 documentation"),
    pytest.param("3fff::1", id="v6 documentation, new"),
    pytest.param("2001:2::1", id="v6 benchmarking"),
    pytest.param("2001:10::1", id="ORCHID"),
    pytest.param("100::1", id="discard"),
    pytest.param("4000::1", id="unassigned"),
    pytest.param("5f00::1", id="segment routing"),
    # IPv4 inside IPv6
    pytest.param("::ffff:127.0.0.1", id="mapped loopback"),
    pytest.param("::ffff:7f00:1", id="mapped loopback, hex"),
    pytest.param("::ffff:c0a8:101", id="mapped private"),
    pytest.param("::ffff:169.254.169.254", id="mapped metadata"),
    pytest.param("::127.0.0.1", id="compatible loopback"),
    pytest.param("::8.8.8.8", id="compatible public: nobody routes it"),
    pytest.param("::ffff:0:127.0.0.1", id="translated (RFC 2765)"),
    pytest.param("64:ff9b::7f00:1", id="NAT64 loopback"),
    pytest.param("64:ff9b::a9fe:a9fe", id="NAT64 metadata"),
    pytest.param("64:ff9b:1::1", id="local NAT64"),
    pytest.param("64:ff9b:1::8.8.8.8", id="local NAT64 of a public address"),
    pytest.param("64:ff9b:0:1::8.8.8.8", id="beside NAT64"),
    pytest.param("2002:7f00:1::", id="6to4 loopback"),
    pytest.param("2002:0a00:0001::1", id="6to4 private"),
    pytest.param("2002:a9fe:a9fe::1", id="6to4 metadata"),
    pytest.param("2001:0:4136:e378:8000:63bf:3fff:fdd2", id="Teredo"),
    # not an address in its usual form
    pytest.param("", id="empty"),
    pytest.param("localhost", id="name"),
    pytest.param("127.1", id="short"),
    pytest.param("2130706433", id="number"),
    pytest.param("0x7f.0.0.1", id="hex"),
    pytest.param("0177.0.0.1", id="octal"),
    pytest.param("8.8.8.08", id="leading zero"),
    pytest.param("8.8.8.8 ", id="trailing space"),
    pytest.param("8.8.8.8\n", id="line end"),
    pytest.param("8.8.8.8/32", id="network"),
    pytest.param("8.8.8.8:443", id="with a port"),
    pytest.param("[2606:4700::1111]", id="brackets"),
    pytest.param("2606:4700::1111%", id="empty scope"),
    pytest.param("\u0668.8.8.8", id="digits of another script"),
    pytest.param("8.8.8.8\x00", id="NUL"),
]

OUTSIDE = [
    pytest.param("8.8.8.8", id="public"),
    pytest.param("1.1.1.1", id="public, low"),
    pytest.param("9.255.255.255", id="before private 10"),
    pytest.param("11.0.0.0", id="after private 10"),
    pytest.param("100.63.255.255", id="before carrier-grade NAT"),
    pytest.param("100.128.0.0", id="after carrier-grade NAT"),
    pytest.param("126.255.255.255", id="before loopback"),
    pytest.param("128.0.0.1", id="after loopback"),
    pytest.param("169.253.255.255", id="before link-local"),
    pytest.param("169.255.0.0", id="after link-local"),
    pytest.param("172.15.255.255", id="before private 172.16"),
    pytest.param("172.32.0.0", id="after private 172.31"),
    pytest.param("192.167.255.255", id="before private 192.168"),
    pytest.param("192.169.0.0", id="after private 192.168"),
    pytest.param("198.17.255.255", id="before benchmarking"),
    pytest.param("198.20.0.0", id="after benchmarking"),
    pytest.param("223.255.255.255", id="before multicast"),
    pytest.param("168.63.129.17", id="beside the platform address"),
    pytest.param("2606:4700:4700::1111", id="v6 public"),
    pytest.param("2001:4860:4860::8888", id="v6 public in 2001"),
    pytest.param("2001:200::1", id="after protocol assignments"),
    pytest.param("2a00:1450:4001::1", id="v6 public in 2a00"),
    pytest.param("::ffff:8.8.8.8", id="mapped public"),
    pytest.param("64:ff9b::8.8.8.8", id="NAT64 of a public address"),
    pytest.param("2002:808:808::1", id="6to4 of a public address"),
]


@pytest.mark.parametrize("address", INSIDE)
def test_inside(address: str) -> None:
    """An inside address, a form that carries one, and what is not an address at all: refused."""
    assert is_inside(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_outside(address: str) -> None:
    """Public addresses are outside, up to the edges of the networks beside them."""
    assert not is_inside(address)


@given(st.ip_addresses(v=4))
@settings(deadline=None, max_examples=300)
def test_a_form_is_judged_by_the_address_it_carries(address: IPv4Address) -> None:
    """IPv4-mapped, NAT64 and 6to4 forms are inside exactly when their IPv4 address is."""
    inside = is_inside(str(address))
    number = int(address)
    assert is_inside(f"::ffff:{address}") is inside
    assert is_inside(f"64:ff9b::{address}") is inside
    assert is_inside(str(IPv6Address(0x2002 << 112 | number << 80 | 1))) is inside


@given(st.ip_addresses())
@settings(deadline=None, max_examples=300)
def test_whatever_is_not_global_is_inside(address: IPv4Address | IPv6Address) -> None:
    """No address that the standard library calls private, local, multicast or reserved is outside."""
    if not is_inside(str(address)) and not (isinstance(address, IPv6Address) and address.sixtofour):
        named = (address.is_loopback, address.is_link_local, address.is_multicast, address.is_unspecified)
        assert not any(named)
        assert address.is_global or str(address).startswith(("64:ff9b::", "::ffff:"))


@given(st.text(max_size=40))
@settings(deadline=None, max_examples=200)
def test_total(text: str) -> None:
    """Any text gets an answer, and what is no address is inside."""
    assert is_inside(text) or is_address(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("127.0.0.1", True, id="v4"),
        pytest.param("::1", True, id="v6"),
        pytest.param("[::1]", False, id="brackets"),
        pytest.param("127.1", False, id="short"),
        pytest.param("localhost", False, id="name"),
    ],
)
def test_is_address(host: str, expected: bool) -> None:
    """An address in its usual form is one; everything else is a name."""
    assert is_address(host) is expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param("127.0.0.1", True, id="v4"),
        pytest.param("127.9.9.9", True, id="v4, another"),
        pytest.param("::1", True, id="v6"),
        pytest.param("::ffff:127.0.0.1", True, id="mapped"),
        pytest.param("::ffff:10.0.0.1", False, id="mapped private"),
        pytest.param("10.0.0.1", False, id="private"),
        pytest.param("fe80::1", False, id="link-local"),
        pytest.param("localhost", False, id="name"),
    ],
)
def test_is_loopback(address: str, expected: bool) -> None:
    """Loopback is the machine itself, and nothing else that is inside."""
    assert is_loopback(address) is expected
