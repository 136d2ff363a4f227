"""Host, port and origin: one reading or none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.canonical import authority_bytes, parse_authority, parse_origin
from grants.message import Authority, Origin

READ = [
    pytest.param(b"api.github.com", "api.github.com", 443, id="name"),
    pytest.param(b"API.GitHub.com", "api.github.com", 443, id="other case"),
    pytest.param(b"api.github.com:443", "api.github.com", 443, id="default port written out"),
    pytest.param(b"api.github.com:8443", "api.github.com", 8443, id="port"),
    pytest.param(b"localhost:65535", "localhost", 65535, id="highest port"),
    pytest.param(b"xn--bcher-kva.example", "xn--bcher-kva.example", 443, id="A-label"),
    pytest.param(b"a" * 63 + b".example", "a" * 63 + ".example", 443, id="longest label"),
    pytest.param(b"127.0.0.1:9001", "127.0.0.1", 9001, id="IPv4"),
    pytest.param(b"[::1]", "::1", 443, id="IPv6"),
    pytest.param(b"[2001:DB8::a]:9", "2001:db8::a", 9, id="IPv6 in upper case"),
    pytest.param(b"1.2.3.4.example", "1.2.3.4.example", 443, id="numeric labels before a name"),
]

REFUSED = [
    pytest.param(b"", id="nothing"),
    pytest.param(b":443", id="port alone"),
    pytest.param(b"host:", id="empty port"),
    pytest.param(b"host:0", id="port zero"),
    pytest.param(b"host:0443", id="leading zero"),
    pytest.param(b"host:65536", id="port too high"),
    pytest.param(b"host:+443", id="signed port"),
    pytest.param(b"host:44 3", id="space in port"),
    pytest.param(b"API.GITHUB.COM.", id="trailing dot"),
    pytest.param(b".host", id="leading dot"),
    pytest.param(b"a..b", id="empty label"),
    pytest.param(b"a" * 64 + b".example", id="label too long"),
    pytest.param(b".".join([b"a" * 49] * 6), id="name too long"),
    pytest.param(b"-host", id="leading hyphen"),
    pytest.param(b"host-.example", id="trailing hyphen"),
    pytest.param(b"my_host", id="underscore"),
    pytest.param("bücher.example".encode(), id="raw UTF-8"),
    pytest.param(b"b%C3%BCcher.example", id="percent-encoded"),
    pytest.param(b"user@host", id="userinfo"),
    pytest.param(b"user:password@host", id="userinfo with password"),
    pytest.param(b"host:80@evil", id="port that is userinfo"),
    pytest.param(b"host/", id="path"),
    pytest.param(b"host?", id="query"),
    pytest.param(b"host#", id="fragment"),
    pytest.param(b"host\\evil", id="backslash"),
    pytest.param(b"host evil", id="space"),
    pytest.param(b"host\n", id="line end"),
    pytest.param(b"host,evil", id="two hosts"),
    pytest.param(b"127.1", id="short IPv4"),
    pytest.param(b"2130706433", id="IPv4 as one number"),
    pytest.param(b"0x7f000001", id="IPv4 in hex"),
    pytest.param(b"0x7f.1", id="IPv4 in hex, short"),
    pytest.param(b"127.0.0.0x1", id="hex at the end"),
    pytest.param(b"0177.0.0.1", id="IPv4 in octal"),
    pytest.param(b"127.0.0.01", id="IPv4 with a leading zero"),
    pytest.param(b"256.0.0.1", id="octet too high"),
    pytest.param(b"1.2.3.4.5", id="five numbers"),
    pytest.param(b"host.0x", id="empty hex label at the end"),
    pytest.param(b"::1", id="IPv6 without brackets"),
    pytest.param(b"[::1", id="bracket not closed"),
    pytest.param(b"[0:0:0:0:0:0:0:1]", id="IPv6 not compressed"),
    pytest.param(b"[::ffff:127.0.0.1]", id="IPv4-mapped, dotted"),
    pytest.param(b"[::ffff:c0a8:101]", id="IPv4-mapped, hex"),
    pytest.param(b"[::1.2.3.4]", id="IPv4-compatible, dotted"),
    pytest.param(b"[fe80::1%25eth0]", id="zone"),
    pytest.param(b"[:::]", id="no IPv6"),
    pytest.param(b"[127.0.0.1]", id="IPv4 in brackets"),
]


@pytest.mark.parametrize(("raw", "host", "port"), READ)
def test_authority_that_is_read(raw: bytes, host: str, port: int) -> None:
    """A name in LDH labels, or an address in its usual form; no port means the scheme's own."""
    assert parse_authority(raw) == Authority(host=host, port=port)


@pytest.mark.parametrize("raw", REFUSED)
def test_authority_that_is_refused(raw: bytes) -> None:
    """What another reader could take for another host is refused, not read."""
    assert parse_authority(raw) is None


def test_default_port_is_the_schemes() -> None:
    """No port means the scheme's own (RFC 9110, 4.2)."""
    assert parse_authority(b"host", scheme="http") == Authority(host="host", port=80)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("https://cdn.example.com", "https://cdn.example.com", id="plain"),
        pytest.param("https://CDN.example.com:443", "https://cdn.example.com", id="other case, default port"),
        pytest.param("https://[::1]:8443", "https://[::1]:8443", id="IPv6"),
        pytest.param("http://cdn.example.com", None, id="http"),
        pytest.param("HTTPS://cdn.example.com", None, id="scheme in upper case"),
        pytest.param("cdn.example.com", None, id="no scheme"),
        pytest.param("https://cdn.example.com/", None, id="path"),
        pytest.param("https://user@cdn.example.com", None, id="userinfo"),
        pytest.param("https://bücher.example", None, id="not ASCII"),
    ],
)
def test_origin(text: str, shown: str | None) -> None:
    """An origin is `https://host[:port]` and nothing more."""
    origin = parse_origin(text)
    assert (None if origin is None else str(origin)) == shown


@pytest.mark.parametrize(
    ("place", "scheme", "field"),
    [
        pytest.param(Authority(host="h", port=443), "https", b"h", id="default port"),
        pytest.param(Authority(host="h", port=443), "http", b"h:443", id="another scheme's default"),
        pytest.param(Authority(host="::1", port=9), "https", b"[::1]:9", id="IPv6"),
        pytest.param(Origin(scheme="https", host="h", port=443), "https", b"h", id="origin"),
        pytest.param(Origin(scheme="http", host="h", port=80), "https", b"h", id="an origin has its own scheme"),
        pytest.param(Origin(scheme="https", host="h", port=80), "https", b"h:80", id="origin with a port"),
    ],
)
def test_host_field(place: Authority | Origin, scheme: str, field: bytes) -> None:
    """A Host field leaves the default port out (RFC 9110, 7.2)."""
    assert authority_bytes(place, scheme=scheme) == field


@settings(deadline=None, max_examples=200)
@given(st.one_of(st.binary(max_size=40), st.from_regex(rb"[a-zA-Z0-9.\-:\[\]]{0,20}(:[0-9]{1,6})?", fullmatch=True)))
def test_canonical_form_is_a_fixed_point(raw: bytes) -> None:
    """What is read once is written in the form that reads as itself; nothing raises."""
    authority = parse_authority(raw)
    if authority is not None:
        assert parse_authority(authority_bytes(authority)) == authority
