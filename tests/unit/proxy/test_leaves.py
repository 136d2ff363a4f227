"""Leaves and contexts: accepted by strict verifiers, for one host only, replaced before they end."""

import contextlib
import ipaddress
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from proxy.tls import leaves as leaves_module
from proxy.tls.ca import CA, CA_DAYS, load_ca
from proxy.tls.leaves import CAEnded, JudgedConnection, Leaves

HOSTS = [
    pytest.param("api.example.com", id="name"),
    pytest.param("localhost", id="single-label"),
    pytest.param("xn--mnchen-3ya.example", id="idn-a-label"),
    pytest.param("a_b.example", id="underscore"),
    pytest.param("192.0.2.7", id="ipv4"),
    pytest.param("2001:db8::7", id="ipv6"),
]


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> CA:
    return load_ca(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module")
def leaves(ca: CA) -> Leaves:
    return Leaves(ca)


class Clock:
    """The time that a test sets."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


def _client(ca: CA) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca.path))
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _handshake(
    server_context: ssl.SSLContext, client_context: ssl.SSLContext, name: str | None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Run a handshake in memory until both sides are done."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return server, client


@pytest.mark.parametrize("host", HOSTS)
def test_a_strict_python_client_accepts_the_leaf(ca: CA, leaves: Leaves, host: str) -> None:
    """Python's verifier in strict mode (the default of 3.13) takes the leaf for names and addresses."""
    server, client = _handshake(leaves.context(host), _client(ca), host)
    assert client.version() == "TLSv1.3"
    names = client.getpeercert()
    assert names is not None
    [(kind, value)] = names["subjectAltName"]
    if kind == "DNS":
        assert value == host
        assert leaves.server_name(server) == host
    else:
        assert ipaddress.ip_address(value) == ipaddress.ip_address(host)
        assert leaves.server_name(server) is None
    assert isinstance(server, JudgedConnection)


@pytest.mark.parametrize("host", HOSTS)
def test_a_leaf_says_no_more_than_it_must(ca: CA, leaves: Leaves, host: str) -> None:
    """SAN only and critical, AKI, SKI, serverAuth, digitalSignature, seven days, a positive serial of 159 bits."""
    now = datetime.now(UTC)
    leaf = leaves.leaf(host, now)
    get = leaf.extensions.get_extension_for_class
    assert not list(leaf.subject)
    assert get(x509.SubjectAlternativeName).critical
    assert len(list(get(x509.SubjectAlternativeName).value)) == 1
    authority = ca.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert get(x509.AuthorityKeyIdentifier).value.key_identifier == authority
    own = x509.SubjectKeyIdentifier.from_public_key(leaf.public_key())
    assert get(x509.SubjectKeyIdentifier).value == own
    assert list(get(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert get(x509.KeyUsage).critical
    assert get(x509.KeyUsage).value.digital_signature
    assert not get(x509.KeyUsage).value.key_cert_sign
    assert not get(x509.BasicConstraints).value.ca
    assert 0 < leaf.serial_number < 1 << 159
    assert leaf.not_valid_after_utc == now.replace(microsecond=0) + timedelta(days=7)
    assert leaf.not_valid_before_utc == now.replace(microsecond=0) - timedelta(hours=1)
    leaf.verify_directly_issued_by(ca.certificate)


def test_leaves_have_a_key_of_the_process(ca: CA, leaves: Leaves) -> None:
    """The leaves' key is not the CA's, and another process has another one."""
    now = datetime.now(UTC)
    keys = [leaves.leaf("a.example", now), leaves.leaf("b.example", now), Leaves(ca).leaf("a.example", now)]
    first, second, other = [leaf.public_key() for leaf in keys]
    assert first == second
    assert first != other
    assert first != ca.certificate.public_key()
    assert len({leaf.serial_number for leaf in keys}) == 3


@pytest.mark.parametrize(
    ("host", "sent"),
    [
        pytest.param("api.example.com", "other.example.com", id="another-name"),
        pytest.param("api.example.com", "example.com", id="parent"),
        pytest.param("api.example.com", None, id="none-for-a-name"),
        pytest.param("192.0.2.7", "api.example.com", id="a-name-for-an-address"),
    ],
)
def test_a_foreign_server_name_is_refused(ca: CA, leaves: Leaves, host: str, sent: str | None) -> None:
    """A client that names another server, or none for a name, gets an `unrecognized_name` alert."""
    client_context = _client(ca)
    client_context.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = leaves.context(host).wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=sent)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLError) as refused:
        server.do_handshake()
    assert refused.value.reason == "CALLBACK_FAILED"
    assert leaves.server_name(server) == sent
    with pytest.raises(ssl.SSLError) as alert:
        client.do_handshake()
    assert "UNRECOGNIZED_NAME" in (alert.value.reason or "")


@pytest.mark.parametrize("host", ["localhost", "192.0.2.7", "2001:db8::7"])
def test_no_server_name_is_needed_where_clients_send_none(ca: CA, leaves: Leaves, host: str) -> None:
    """No name is sent for an address (RFC 6066, 3), and Java sends none for a name without a dot."""
    context = _client(ca)
    context.check_hostname = False
    server, client = _handshake(leaves.context(host), context, None)
    assert client.version() == "TLSv1.3"
    assert leaves.server_name(server) is None


def test_the_server_name_is_compared_without_case(ca: CA, leaves: Leaves) -> None:
    """Names are compared without regard to case; the name is kept in lower case."""
    server, client = _handshake(leaves.context("api.example.com"), _client(ca), "API.Example.com")
    assert client.version() == "TLSv1.3"
    assert leaves.server_name(server) == "api.example.com"


def test_a_connection_that_is_not_ours_has_no_name(leaves: Leaves) -> None:
    """Only connections of our contexts carry a name."""
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
    assert leaves.server_name(other) is None
    fresh = leaves.context("a.example").wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
    assert leaves.server_name(fresh) is None


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        pytest.param(["h2", "http/1.1"], "http/1.1", id="both"),
        pytest.param(["http/1.1"], "http/1.1", id="http1"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_http1_is_chosen(ca: CA, leaves: Leaves, offered: list[str], chosen: str | None) -> None:
    """HTTP/1.1 towards clients: clients that offer HTTP/2 too fall back to it."""
    context = _client(ca)
    if offered:
        context.set_alpn_protocols(offered)
    _, client = _handshake(leaves.context("api.example.com"), context, "api.example.com")
    assert client.selected_alpn_protocol() == chosen


def test_old_tls_is_refused(ca: CA, leaves: Leaves) -> None:
    """TLS 1.2 is taken, nothing older."""
    context = _client(ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    _, client = _handshake(leaves.context("api.example.com"), context, "api.example.com")
    assert client.version() == "TLSv1.2"
    assert leaves.context("api.example.com").minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_context_is_kept_and_replaced_before_its_leaf_ends(ca: CA) -> None:
    """One context a host; it is replaced two days before its leaf ends, and when the clock was set back."""
    clock = Clock()
    leaves = Leaves(ca, now=clock)
    first = leaves.context("a.example")
    clock.now += timedelta(days=5) - timedelta(seconds=2)
    assert leaves.context("a.example") is first
    clock.now += timedelta(seconds=4)
    second = leaves.context("a.example")
    assert second is not first
    clock.now -= timedelta(days=1)
    third = leaves.context("a.example")
    assert third is not second
    assert leaves.context("a.example") is third


def test_contexts_are_bounded(ca: CA, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hosts that were asked for last are kept."""
    monkeypatch.setattr(leaves_module, "MOST_CONTEXTS", 3)
    leaves = Leaves(ca)
    kept = leaves.context("a.example")
    for name in "bcd":
        leaves.context("a.example")
        leaves.context(f"{name}.example")
    assert leaves.context("a.example") is kept
    assert list(leaves._made) == ["c.example", "d.example", "a.example"]


def test_leaves_end_with_the_ca(ca: CA) -> None:
    """A leaf never outlives the CA, and none is made once the CA has ended."""
    clock = Clock()
    leaves = Leaves(ca, now=clock)
    clock.now += timedelta(days=CA_DAYS - 1)
    assert leaves.leaf("a.example", clock.now).not_valid_after_utc == ca.certificate.not_valid_after_utc
    assert leaves.context("a.example") is leaves.context("a.example")
    clock.now += timedelta(days=2)
    with pytest.raises(CAEnded):
        leaves.context("a.example")


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_no_key_stays_in_a_file(ca: CA, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str) -> None:
    """The leaf's key is loaded without a file that stays, and without a descriptor that does."""
    if platform == "linux" and not sys.platform.startswith("linux"):
        pytest.skip("needs memfd_create")
    monkeypatch.setattr(leaves_module.sys, "platform", platform)
    monkeypatch.setattr(leaves_module.tempfile, "tempdir", str(tmp_path))
    before = len(list(Path("/dev/fd").iterdir()))
    leaves = Leaves(ca)
    for number in range(5):
        leaves.context(f"h{number}.example")
    assert not list(tmp_path.iterdir())
    assert len(list(Path("/dev/fd").iterdir())) == before


# other verifiers


@pytest.mark.parametrize("host", HOSTS)
def test_openssl_accepts_the_leaf(ca: CA, leaves: Leaves, tmp_path: Path, host: str) -> None:
    """OpenSSL in strict mode takes the leaf for a TLS server of that name."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    (tmp_path / "leaf.pem").write_bytes(leaves.leaf(host, datetime.now(UTC)).public_bytes(serialization.Encoding.PEM))
    address = not host[-1].isalpha()
    check = ["-verify_ip" if address else "-verify_hostname", host]
    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", *check, "-CAfile", ca.path, "leaf.pem"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.stdout == "leaf.pem: OK\n", done.stderr


def test_gnutls_accepts_the_leaf(ca: CA, leaves: Leaves, tmp_path: Path) -> None:
    """GnuTLS takes the chain."""
    if shutil.which("certtool") is None:
        pytest.skip("certtool is not installed")
    leaf = leaves.leaf("api.example.com", datetime.now(UTC)).public_bytes(serialization.Encoding.PEM)
    (tmp_path / "leaf.pem").write_bytes(leaf)
    done = subprocess.run(
        ["certtool", "--verify", "--verify-profile=high", "--verify-hostname=api.example.com",
         "--load-ca-certificate", ca.path, "--infile", tmp_path / "leaf.pem"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def port(leaves: Leaves) -> Iterator[int]:
    """A server on loopback that says 200 to everybody, with the leaf for `localhost`."""
    context = leaves.context("localhost")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    raw, _ = listener.accept()
                except OSError:
                    return
                with contextlib.suppress(OSError), context.wrap_socket(raw, server_side=True) as connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def _needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def test_curl_accepts_the_leaf(ca: CA, port: int) -> None:
    """curl, and with it OpenSSL's own name check."""
    _needs("curl")
    command = ["curl", "-sS", "--noproxy", "*", "--cacert", str(ca.path), f"https://localhost:{port}/"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "ok"


def test_node_accepts_the_leaf(ca: CA, port: int) -> None:
    """Node's https client with the CA in `NODE_EXTRA_CA_CERTS`."""
    _needs("node")
    script = f"require('https').get('https://localhost:{port}/', r => r.pipe(process.stdout))"
    done = subprocess.run(
        ["node", "-e", script], env={"PATH": "/usr/bin:/bin:/usr/local/bin", "NODE_EXTRA_CA_CERTS": str(ca.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "ok", done.stderr


JAVA = """
import java.io.*; import java.net.*; import java.security.*; import java.security.cert.*; import javax.net.ssl.*;
public class Get {
  public static void main(String[] a) throws Exception {
    KeyStore store = KeyStore.getInstance("PKCS12"); store.load(null, null);
    try (InputStream in = new FileInputStream(a[0])) {
      store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
    }
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext tls = SSLContext.getInstance("TLS"); tls.init(null, trust.getTrustManagers(), null);
    HttpsURLConnection c = (HttpsURLConnection) new URL(a[1]).openConnection(Proxy.NO_PROXY);
    c.setSSLSocketFactory(tls.getSocketFactory());
    System.out.print(new String(c.getInputStream().readAllBytes()));
  }
}
"""


def test_java_accepts_the_leaf(ca: CA, port: int, tmp_path: Path) -> None:
    """Java's PKIX verifier, with an empty subject and a critical SAN."""
    _needs("java")
    (tmp_path / "Get.java").write_text(JAVA)
    done = subprocess.run(
        ["java", str(tmp_path / "Get.java"), str(ca.path), f"https://localhost:{port}/"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == "ok", done.stderr
