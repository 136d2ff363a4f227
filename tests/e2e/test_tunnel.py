"""Opaque tunnels of the running program: what is listed and nothing else, byte for byte, with a record of each."""

# ruff: noqa: E501 - one case is one row

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Certificates
from support.client import AnswerInvalid, Client
from support.proxyproc import Proxy
from support.relays import ENVIRONMENT, events, name_inside, records, relay, settle
from support.upstream import DarkPort, Upstream, answer

curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


class Speaks(DarkPort):
    """Speaks first, as SSH does, then sends back what comes; at the client's end it says how much that was."""

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.sendall(b"SSH-2.0-Test\r\n")
        count = 0
        while data := connection.recv(65536):
            count += len(data)
            connection.sendall(data)
        connection.sendall(b"got %d" % count)


class Leaves(DarkPort):
    """Says one word and ends its side, but still reads."""

    def __init__(self) -> None:
        super().__init__()
        self.read = b""
        self.done = threading.Event()

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(65536):
            self.read += data
        self.done.set()


@dataclass(slots=True)
class Tunnels:
    """The proxy, and what its tunnels lead to."""

    proxy: Proxy
    tls: Upstream
    speaks: Speaks
    leaves: Leaves
    unlisted: DarkPort
    judged: Upstream

    def open(self, port: int, host: str = "127.0.0.1") -> Client:
        client = Client(self.proxy.proxy)
        assert client.connect(f"{host}:{port}").status == 200
        return client


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Tunnels]:
    with ExitStack() as exits:
        tls = exits.enter_context(Upstream(certificates, handler=lambda _request: answer(200, b"itself")))
        speaks, leaves = exits.enter_context(Speaks()), exits.enter_context(Leaves())
        unlisted, judged = exits.enter_context(DarkPort()), exits.enter_context(Upstream(certificates))
        allow = [f"localhost:{tls.port}", *(f"127.0.0.1:{port}" for port in (tls.port, speaks.port, leaves.port))]
        # Names that lead inside, or nowhere.
        allow += ["nowhere.invalid:443", "127.0.0.1:9"]
        name, inside = name_inside()
        if inside:
            allow.append(f"{name}:{speaks.port}")
        settings = {
            "endpoints": [relay("relayed", judged, certificates)],
            "tunnels": {"allow": allow},
        }
        proxy = exits.enter_context(Proxy(tmp_path_factory.mktemp("tunnels"), settings, ENVIRONMENT))
        yield Tunnels(proxy, tls, speaks, leaves, unlisted, judged)


@pytest.fixture
def tunnels(running: Tunnels) -> Tunnels:
    """The module's proxy, with nothing recorded yet."""
    settle(running.proxy)
    running.tls.clear()
    return running


@curl
def test_curl_sees_the_server_s_own_certificate(tunnels: Tunnels, certificates: Certificates) -> None:
    """A tunnel is not looked into: TLS ends at the server, which sees the client's bytes as they are."""
    host, port = tunnels.proxy.proxy
    command = ["curl", "-sS", "--max-time", "20", "--noproxy", "", "--proxy", f"http://{host}:{port}", "-H", "X: @secret:api"]  # fmt: skip
    url = f"https://localhost:{tunnels.tls.port}/a"
    done = subprocess.run([*command, "--cacert", str(certificates.ca), url], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"itself"), done.stderr
    assert tunnels.tls.requests[0].get("X") == b"@secret:api"
    found = records(tunnels.proxy, 2)
    assert events(found) == ["allow", "end"]
    for record in found:
        assert (record["mode"], record["assurance"]) == ("connect", "tunnel")
        assert (record["host"], record["method"], record["status"]) == ("localhost", "CONNECT", 200)
        assert not record.get("secret_refs")
        assert record.get("endpoint") is None
    assert found[0]["id"] == found[1]["id"]
    assert found[0].get("bytes_in", 0) == found[0].get("bytes_out", 0) == 0
    assert found[1]["bytes_out"] > 300
    assert found[1]["bytes_in"] > 300
    # The request asks for the end, so either side may be the first to end.
    assert found[1]["labels"] in (["ended-by-client"], ["ended-by-upstream"])
    # The installation's own CA vouches for nothing here.
    done = subprocess.run([*command, "--cacert", str(tunnels.proxy.ca), url], capture_output=True, check=False)
    assert done.returncode == 60


def test_the_certificate_is_byte_for_byte_the_server_s(tunnels: Tunnels, certificates: Certificates) -> None:
    """What the client gets through the tunnel is what it gets without it."""
    context = ssl.create_default_context(cafile=str(certificates.ca))
    shown = []
    for client in (tunnels.open(tunnels.tls.port), Client(("127.0.0.1", tunnels.tls.port))):
        with client, context.wrap_socket(client.socket, server_hostname="localhost") as encrypted:
            shown.append(encrypted.getpeercert(binary_form=True))
    assert shown[0] == shown[1]


def test_a_server_may_speak_first(tunnels: Tunnels) -> None:
    """Nothing is waited for, nothing is read into: SSH, SMTP and the like work."""
    with tunnels.open(tunnels.speaks.port) as client:
        assert _read(client, 14) == b"SSH-2.0-Test\r\n"
        data = bytes(range(256)) * 64
        client.send(data)
        assert _read(client, len(data)) == data
        client.socket.shutdown(socket.SHUT_WR)
        # The client's end is passed on, and what the server says after it still comes.
        assert _rest(client) == b"got %d" % len(data)
    found = records(tunnels.proxy, 2)
    assert (found[1]["bytes_out"], found[1]["bytes_in"]) == (16384, 14 + 16384 + 9)
    assert found[1]["labels"] == ["ended-by-client"]
    assert found[1]["duration_ms"] > 0


def test_a_server_may_end_first(tunnels: Tunnels) -> None:
    """The server's end is passed on too, and the client can go on sending."""
    with tunnels.open(tunnels.leaves.port) as client:
        assert _rest(client) == b"bye"
        client.send(b"still ")
        time.sleep(0.1)
        client.send(b"here")
        client.socket.shutdown(socket.SHUT_WR)
        assert tunnels.leaves.done.wait(5)
    assert tunnels.leaves.read == b"still here"
    found = records(tunnels.proxy, 2)
    assert (found[1]["bytes_out"], found[1]["bytes_in"], found[1]["labels"]) == (10, 3, ["ended-by-upstream"])


def test_bytes_sent_along_with_connect_go_first(tunnels: Tunnels) -> None:
    """A client that does not wait for the answer loses nothing."""
    with Client(tunnels.proxy.proxy) as client:
        authority = f"127.0.0.1:{tunnels.speaks.port}"
        client.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\nearly".encode())
        assert client.read("CONNECT").status == 200
        assert _read(client, 19) == b"SSH-2.0-Test\r\nearly"


@pytest.mark.parametrize(
    ("authority", "status", "reason", "signals"),
    [
        pytest.param("127.0.0.1:$UNLISTED", 403, "host-unknown", ["denied"], id="another-port"),
        pytest.param("localhost:$SPEAKS", 403, "host-unknown", ["denied"], id="another-name"),
        pytest.param("127.0.0.2:$SPEAKS", 403, "host-unknown", ["denied"], id="another-address"),
        pytest.param("[::1]:$SPEAKS", 403, "host-unknown", ["denied"], id="the-other-family"),
        pytest.param("[::ffff:127.0.0.1]:$SPEAKS", 421, "host-unreadable", ["denied", "misdirected"], id="mapped"),
        pytest.param("2130706433:$SPEAKS", 421, "host-unreadable", ["denied", "misdirected"], id="decimal"),
        pytest.param("169.254.169.254:80", 403, "host-unknown", ["denied"], id="metadata"),
        pytest.param("$NAME:$SPEAKS", 403, "inside-address", ["denied", "inside-address"], id="listed-name-that-leads-inside"),
        pytest.param("nowhere.invalid:443", 502, "resolve", ["denied"], id="no-such-name"),
        pytest.param("127.0.0.1:9", 502, "connect", ["denied"], id="nobody-there"),
    ],
)  # fmt: skip
def test_where_no_tunnel_leads(tunnels: Tunnels, authority: str, status: int, reason: str, signals: list[str]) -> None:
    """Only to what is written down, and not to an inside address by a name; one record, and nothing is dialled."""
    before = tunnels.speaks.connections
    name, inside = name_inside()
    if "$NAME" in authority and not inside:
        pytest.skip("this machine's own name does not lead inside")
    named = authority.replace("$NAME", name).replace("$SPEAKS", str(tunnels.speaks.port))
    named = named.replace("$UNLISTED", str(tunnels.unlisted.port))
    with Client(tunnels.proxy.proxy) as client:
        shown = client.connect(named)
        assert shown.status == status
        assert reason.encode() in shown.body
    assert tunnels.unlisted.connections == 0
    assert tunnels.speaks.connections == before
    (record,) = records(tunnels.proxy, 1)
    assert (record["event"], record["mode"], record["status"]) == ("broker_request_deny", "connect", status)
    assert (record["reason"], sorted(record["signals"])) == (reason, sorted(signals))


def test_an_endpoint_s_host_is_not_tunnelled(tunnels: Tunnels, certificates: Certificates) -> None:
    """CONNECT to an endpoint's own host is the endpoint, looked into, whatever the tunnels allow."""
    with Client(tunnels.proxy.proxy) as client:
        assert client.connect(f"localhost:{tunnels.judged.port}").status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            client.start_tls(name="localhost", ca=certificates.ca)
    (record,) = records(tunnels.proxy, 1)
    assert (record["mode"], record["endpoint"], record["reason"]) == ("connect", "relayed", "tls-client-error")


def test_a_base_url_opens_no_tunnel(tunnels: Tunnels) -> None:
    """Only the forward proxy has CONNECT."""
    with tunnels.proxy.base("relayed") as client:
        assert client.connect(f"127.0.0.1:{tunnels.speaks.port}").status >= 400
    (record,) = records(tunnels.proxy, 1)
    assert record["verdict"] == "deny"


@pytest.mark.parametrize("limit", ["idle", "total"])
def test_the_limits_of_a_tunnel(limit: str, tmp_path: Path, certificates: Certificates) -> None:
    """`tunnels.idle` and `tunnels.total`: the proxy ends it, on both sides, and the record says so."""
    with Speaks() as speaks, DarkPort() as dark:
        settings: dict[str, Any] = {
            "endpoints": [relay("other", dark.port, certificates)],
            "tunnels": {"allow": [f"127.0.0.1:{speaks.port}"], limit: "2s"},
        }
        with Proxy(tmp_path, settings, ENVIRONMENT) as proxy, Client(proxy.proxy) as client:
            started = time.monotonic()
            assert client.connect(f"127.0.0.1:{speaks.port}").status == 200
            ended = False
            while not ended:
                # As long as something moves a tunnel is not idle; its total runs all the same.
                if limit == "total" or time.monotonic() - started < 3:
                    client.send(b"x")
                client.socket.settimeout(0.1)
                try:
                    ended = client.socket.recv(65536) == b""
                except TimeoutError:
                    continue
                except ConnectionError:
                    ended = True
                time.sleep(0.05)
            # On a busy machine later, never earlier.
            assert time.monotonic() - started > (1.9 if limit == "total" else 4.9)
            found = records(proxy, 2)
            assert events(found) == ["allow", "end"]
            assert found[1]["labels"] == ["ended-by-proxy"]


def test_a_client_that_only_speaks_http_to_it_is_told(tunnels: Tunnels) -> None:
    """The bytes are the server's: what it says to a client that expects HTTP is what the client gets."""
    with tunnels.open(tunnels.speaks.port) as client, pytest.raises(AnswerInvalid, match="SSH"):
        client.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")


def _read(client: Client, count: int) -> bytes:
    while len(client.pending) < count:
        data = client.socket.recv(65536)
        assert data, client.pending
        client.pending += data
    found, client.pending = client.pending[:count], client.pending[count:]
    return found


def _rest(client: Client) -> bytes:
    found, client.pending = client.pending, b""
    while data := client.socket.recv(65536):
        found += data
    return found
