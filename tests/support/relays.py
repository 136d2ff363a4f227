"""What tests of relays, tunnels and boxes over the subprocess share: endpoints of settings, records, raw answers."""

import json
import re
import socket
import ssl
import time
from pathlib import Path
from typing import Any

from support.certificates import Certificates
from support.client import Client
from support.proxyproc import Proxy, address
from support.upstream import DarkPort, Upstream
from support.waits import HANG_SECONDS, wait_for

from grants.addresses import is_address, is_inside
from grants.canonical import parse_authority

SECRET = "sk-live/0123456789-abcdef"
TOKENS = {"agent-1": "token-of-agent-1-0001", "agent-2": "token-of-agent-2-0002"}
ENVIRONMENT = {"RELAY_SECRET": SECRET} | {f"TOKEN_{name[-1]}": token for name, token in TOKENS.items()}
FRONTS = ("base", "proxy")


def authority(upstream: Upstream | int, *, tls: bool = True) -> str:
    """Host and port by which the forward proxy finds an upstream: a name for TLS, an address for plain http."""
    port = upstream if isinstance(upstream, int) else upstream.port
    return f"{'localhost' if tls else '127.0.0.1'}:{port}"


def relay(name: str, upstream: Upstream | int, certificates: Certificates | None, **changes: Any) -> dict[str, Any]:
    """A `trusted-upstream` endpoint: https with certificates, else plain http."""
    tls = certificates is not None
    endpoint: dict[str, Any] = {
        "name": name,
        "upstream": f"{'https' if tls else 'http'}://{authority(upstream, tls=tls)}",
        "assurance": "trusted-upstream",
        "secrets": {"api": "env:RELAY_SECRET"},
        "listen": "127.0.0.1:0",
    }
    if certificates is not None:
        endpoint["ca"] = str(certificates.ca)
    return endpoint | changes


def boxes(*names: str, tunnels: bool = False) -> list[dict[str, Any]]:
    """Box `agent-1` may use the endpoints of these names, and tunnels; box `agent-2` nothing."""
    first: dict[str, Any] = {"name": "agent-1", "token": "env:TOKEN_1", "endpoints": list(names), "tunnels": tunnels}
    return [first, {"name": "agent-2", "token": "env:TOKEN_2"}]


class Front:
    """One connection to an endpoint through a front; `url` is what stands before a path in a request line, `host` the
    Host field. A plain http endpoint is asked through the forward proxy in absolute form."""

    def __init__(
        self, proxy: Proxy, front: str, endpoint: dict[str, Any], *, connect: bytes = b"", timeout: float = 15.0
    ) -> None:
        scheme, _, named = endpoint["upstream"].partition("://")
        self.url = b""
        if front == "base":
            self.client = proxy.base(endpoint["name"], timeout=timeout)
            self.host = b"%s:%d" % (proxy.endpoint(endpoint["name"])[0].encode(), proxy.endpoint(endpoint["name"])[1])
            return
        self.host = named.encode()
        self.client = Client(proxy.proxy, timeout=timeout)
        if scheme == "http":
            self.url = b"http://" + self.host
            return
        self.opened = self.client.connect(named, headers=connect)
        if self.opened.status == 200:
            self.client.start_tls(name=address(named)[0], ca=proxy.ca)

    def __enter__(self) -> "Front":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.client.close()

    def request(self, target: str, *fields: str, method: str = "GET") -> bytes:
        """A head as bytes; bodies go behind it."""
        lines = [b"%s %s%s HTTP/1.1" % (method.encode(), self.url, target.encode()), b"Host: " + self.host]
        return b"\r\n".join([*lines, *(field.encode("latin-1") for field in fields), b"\r\n"])

    # answers, for what has no Content-Length

    def head(self) -> bytes:
        """The next head as it came."""
        return self.until(b"\r\n\r\n")

    def until(self, mark: bytes) -> bytes:
        """Everything up to and with `mark`."""
        while mark not in self.client.pending:
            self.more()
        found, _, self.client.pending = self.client.pending.partition(mark)
        return found + mark

    def exactly(self, count: int) -> bytes:
        """So many bytes."""
        while len(self.client.pending) < count:
            self.more()
        found, self.client.pending = self.client.pending[:count], self.client.pending[count:]
        return found

    def chunked(self) -> bytes:
        """A chunked body to its end."""
        body = b""
        while size := int(self.until(b"\r\n"), 16):
            body += self.exactly(size)
            assert self.exactly(2) == b"\r\n"
        assert self.exactly(2) == b"\r\n"
        return body

    def more(self) -> None:
        """Read once more."""
        data = self.client.socket.recv(1 << 20)
        assert data, f"the proxy closed, after {self.client.pending[:200]!r}"
        self.client.pending += data

    def rest(self) -> bytes:
        """Everything until the proxy ends the connection."""
        found, self.client.pending = self.client.pending, b""
        try:
            while data := self.client.socket.recv(1 << 20):
                found += data
        except ConnectionResetError:
            pass
        return found


class TlsPort(DarkPort):
    """A server whose connections a test's `_talk` speaks on: TLS with certificates, else plain."""

    def __init__(self, certificates: Certificates | None) -> None:
        super().__init__()
        self._context: ssl.SSLContext | None = None
        if certificates is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificates.chain)

    def _serve(self, connection: socket.socket, number: int) -> None:
        if self._context is None:
            self._talk(connection)
            return
        with self._context.wrap_socket(connection, server_side=True) as encrypted:
            self._talk(encrypted)

    def _talk(self, connection: socket.socket) -> None:
        raise NotImplementedError


def records(proxy: Proxy, count: int) -> list[dict[str, Any]]:
    """The next `count` records of any kind, and no more than those within a moment."""
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + HANG_SECONDS
    while len(found) < count and time.monotonic() < deadline:
        found += proxy.new_records()
        time.sleep(0.01)
    found += proxy.new_records()
    return found


def settle(proxy: Proxy) -> None:
    """Wait until every stream that was opened has its end record, and forget what was recorded."""

    def left() -> set[str]:
        every = [json.loads(line) for line in proxy.log.read_bytes().splitlines()]
        opened = {r["id"] for r in every if r["event"] == "broker_request_allow" and r["assurance"] != "semantic"}
        return opened - {r["id"] for r in every if r["event"] == "broker_request_end"}

    wait_for(lambda: not left())
    proxy.new_records()


def events(found: list[dict[str, Any]]) -> list[str]:
    """Their events, short."""
    return [record["event"].removeprefix("broker_request_") for record in found]


def peak(proxy: Proxy) -> int:
    """The most resident memory that the process ever had, in bytes (Linux)."""
    assert proxy.process is not None
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{proxy.process.pid}/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def name_inside() -> tuple[str, list[str]]:
    """A name that leads inside the network, this machine's own, and its addresses; none where it does not."""
    name = socket.gethostname().lower()
    try:
        addresses = sorted({str(found[4][0]) for found in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)})
    except OSError:
        return name, []
    sound = parse_authority(f"{name}:80".encode()) is not None and not is_address(name)
    return name, addresses if sound and all(is_inside(address) for address in addresses) else []


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
