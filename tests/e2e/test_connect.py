"""CONNECT: to an endpoint and only by its exact name, TLS inside and nothing else; nothing is ever dialled for it."""

import shutil
import ssl
import subprocess
import sys
from typing import Any

import pytest
from support.client import Client
from support.proxyproc import ROOT


@pytest.mark.parametrize(
    ("authority", "status", "reason"),
    [
        pytest.param("evil.example:443", 403, "host-unknown", id="no-endpoint"),
        pytest.param("localhost:22", 403, "host-unknown", id="port-22"),
        pytest.param("localhost:53", 403, "host-unknown", id="port-53"),
        pytest.param("localhost:80", 403, "host-unknown", id="port-80"),
        pytest.param("127.0.0.1:$PORT", 403, "host-unknown", id="address-of-the-same-machine"),
        pytest.param("169.254.169.254:80", 403, "host-unknown", id="metadata"),
        pytest.param("localhost", 421, "host-unreadable", id="no-port"),
        pytest.param("localhost.:$PORT", 421, "host-unreadable", id="trailing-dot"),
        pytest.param("2130706433:$PORT", 421, "host-unreadable", id="decimal-address"),
        pytest.param("0x7f.1:$PORT", 421, "host-unreadable", id="hex-address"),
        pytest.param("0177.0.0.1:$PORT", 421, "host-unreadable", id="octal-address"),
        pytest.param("127.1:$PORT", 421, "host-unreadable", id="short-address"),
        pytest.param("user@localhost:$PORT", 421, "host-unreadable", id="userinfo"),
        pytest.param("localhost:0$PORT", 421, "host-unreadable", id="leading-zero-port"),
        pytest.param("localhost:99999", 421, "host-unreadable", id="port-too-large"),
        pytest.param("https://localhost:$PORT", 421, "host-unreadable", id="url"),
    ],
)
def test_refused(stack: Any, authority: str, status: int, reason: str) -> None:
    """A CONNECT that is not to an endpoint, in its usual form, is refused with a record."""
    authority = authority.replace("$PORT", str(stack.dark.port))
    with _client(stack) as client:
        shown = client.connect(authority)
    _refused(stack, shown.status, status, reason)


@pytest.mark.parametrize(
    "authority",
    [pytest.param("[::ffff:127.0.0.1]:$PORT", id="mapped"), pytest.param("[::ffff:c0a8:101]:443", id="mapped-hex")],
)
def test_mapped_addresses(stack: Any, authority: str) -> None:
    """An IPv4 address in IPv6 clothes is no endpoint."""
    with _client(stack) as client:
        shown = client.connect(authority.replace("$PORT", str(stack.dark.port)))
    assert shown.status in {403, 421}
    assert stack.dark.connections == 0


def test_another_case_is_the_same_host(stack: Any) -> None:
    """Host names have no case (RFC 3986, 3.2.2)."""
    with _client(stack) as client:
        assert client.connect(f"LOCALHOST:{stack.upstream.port}").status == 200
        client.start_tls(name="localhost", ca=stack.proxy.ca)
        assert client.exchange(stack.get("proxy")).status == 200


def test_another_host_field(stack: Any) -> None:
    """The Host of a CONNECT is its target."""
    with _client(stack) as client:
        client.send(f"CONNECT {stack.authority('dark')} HTTP/1.1\r\nHost: evil.example\r\n\r\n".encode())
        shown = client.read("CONNECT")
    _refused(stack, shown.status, 421, "host-mismatch")


def test_plain_http_to_the_forward_proxy(stack: Any) -> None:
    """Absolute-form http is refused: the credential never goes over plain http."""
    with _client(stack) as client:
        shown = client.exchange(
            f"GET http://{stack.authority('dark')}/info HTTP/1.1\r\nHost: {stack.authority('dark')}\r\n\r\n".encode()
        )
    _refused(stack, shown.status, 403, "plain-http")


def test_plain_http_inside(stack: Any) -> None:
    """Inside a tunnel there is TLS or nothing."""
    with _client(stack) as client:
        assert client.connect(stack.authority("dark")).status == 200
        shown = client.exchange(stack.get("proxy", endpoint="dark"))
    _refused(stack, shown.status, 400, "plain-http")


def test_ssh_inside(stack: Any) -> None:
    """Bytes that are no TLS are not passed on."""
    with _client(stack) as client:
        assert client.connect(stack.authority("dark")).status == 200
        shown = client.exchange(b"SSH-2.0-OpenSSH_9.9\r\n")
    _refused(stack, shown.status, 400, "not-http")


def test_another_server_name(stack: Any) -> None:
    """A handshake for another name than the CONNECT target's ends with an alert."""
    with _client(stack) as client:
        assert client.connect(stack.authority("dark")).status == 200
        with pytest.raises(ssl.SSLError):
            client.start_tls(name="evil.example", ca=stack.proxy.ca)
    (record,) = stack.proxy.decisions()
    assert record["rule"] == "misdirected"
    assert stack.dark.connections == 0


def test_no_server_name(stack: Any) -> None:
    """A handshake without a name, for a host that is a name, is not answered with the endpoint."""
    with _client(stack) as client:
        assert client.connect("api.example.test:443").status == 200
        with pytest.raises(ssl.SSLError):
            client.start_tls(name=None, ca=stack.proxy.ca)
    (record,) = stack.proxy.decisions()
    assert (record["rule"], record["reason"]) == ("misdirected", "host-mismatch")


def test_a_client_without_the_ca(stack: Any) -> None:
    """A client that does not trust the CA leaves a record that says so."""
    with _client(stack) as client:
        assert client.connect(stack.authority("dark")).status == 200
        context = ssl.create_default_context()
        with pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(client.socket, server_hostname="localhost")
    (record,) = stack.proxy.decisions()
    assert record["reason"] == "tls-client-error"
    assert stack.dark.connections == 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_summary_says_what_helps_a_client_without_the_ca(stack: Any) -> None:
    """Its operator sees the host, what the client said, and the command that mends it."""
    host, port = stack.proxy.proxy
    url = f"https://{stack.authority('dark')}/"
    done = subprocess.run(
        ["curl", "-sS", "--noproxy", "", "--proxy", f"http://{host}:{port}", url], capture_output=True, check=False
    )
    assert done.returncode == 60
    (record,) = stack.proxy.decisions()
    assert record["labels"] == ["tls-alert:unknown-ca"]
    summary = [sys.executable, "-m", "proxy.cli", "audit", "summary", "--log", str(stack.proxy.log)]
    said = subprocess.run(summary, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in said.splitlines() if "tls-client-error" in line)
    assert "localhost unknown-ca" in line
    assert line.endswith('the client does not trust the proxy\'s CA; run `eval "$(grantproxy env)"` where it starts')


def test_connect_on_a_base_url(stack: Any) -> None:
    """A base URL is no proxy."""
    with stack.proxy.base("dark") as client:
        shown = client.connect(stack.authority("dark"))
    assert shown.status >= 400
    assert stack.dark.connections == 0
    assert len(stack.proxy.decisions()) == 1


def _client(stack: Any) -> Client:
    return Client(stack.proxy.proxy)


def _refused(stack: Any, shown: int, status: int, reason: str) -> None:
    (record,) = stack.proxy.decisions()
    assert (shown, record["reason"]) == (status, reason)
    assert record["verdict"] == "deny"
    assert record["status"] == status
    assert stack.dark.connections == 0
    assert stack.dark.bytes_received == 0
