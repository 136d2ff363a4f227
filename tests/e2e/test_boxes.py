"""Boxes of the running program: real clients that show a token, what each box may use, and where the token never is."""

# ruff: noqa: E501 - commands and requests are one line each

import base64
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Certificates
from support.client import Client
from support.proxyproc import Proxy
from support.relays import ENVIRONMENT, SECRET, TOKENS, Front, boxes, events, free_port, records, relay, settle
from support.upstream import DarkPort, Received, Upstream, answer
from support.waits import wait_for

TOKEN = TOKENS["agent-1"]
OTHER = TOKENS["agent-2"]
SHA = "1234567890" * 4
curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def basic(token: str, user: str = "any") -> str:
    return "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()


class Echo(DarkPort):
    """Sends back what comes."""

    def _serve(self, connection: socket.socket, number: int) -> None:
        while data := connection.recv(65536):
            connection.sendall(data)


@dataclass(slots=True)
class Boxed:
    """The proxy with two boxes, and what stands behind it."""

    proxy: Proxy
    api: Upstream
    plain: Upstream
    echo: Echo
    endpoints: dict[str, dict[str, Any]]

    @property
    def address(self) -> str:
        host, port = self.proxy.proxy
        return f"{host}:{port}"

    @property
    def url(self) -> str:
        return f"https://localhost:{self.api.port}"

    @property
    def base(self) -> str:
        host, port = self.proxy.endpoint("api")
        return f"http://{host}:{port}"

    def modes(self, count: int = 2) -> list[tuple[str, str | None]]:
        """Mode and box of the records of allowed requests."""
        return [
            (record["mode"], record.get("box")) for record in records(self.proxy, count) if record["verdict"] == "allow"
        ]


def respond(request: Received) -> bytes:
    if request.target.startswith(b"/r.git/info/refs"):
        return answer(200, f"{SHA}\trefs/heads/main\n".encode(), content_type="text/plain")
    if request.target.startswith(b"/r.git"):
        return answer(404, b"")
    return answer(200, b"", ("X-To", "head")) if request.method == b"HEAD" else answer(200, b"served")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Boxed]:
    with ExitStack() as exits:
        api = exits.enter_context(Upstream(certificates, handler=respond))
        plain = exits.enter_context(Upstream(None, handler=respond))
        echo = exits.enter_context(Echo())
        endpoints = {"api": relay("api", api, certificates), "plain": relay("plain", plain, None)}
        settings = {
            "endpoints": list(endpoints.values()),
            "tunnels": {"allow": [f"127.0.0.1:{echo.port}"]},
            "boxes": boxes("api", "plain", tunnels=True),
        }
        folder = tmp_path_factory.mktemp("boxes")
        proxy = exits.enter_context(Proxy(folder, settings, ENVIRONMENT))
        yield Boxed(proxy, api, plain, echo, endpoints)
        # Whatever happened in this module: no token anywhere that is kept or printed, none upstream.
        kept = proxy.log.read_text() + proxy.output()
        sent = b"".join(bytes(raw) for server in (api, plain) for raw in server.raw.values())
        for token in TOKENS.values():
            for form in (token, basic(token).partition(" ")[2]):
                assert form not in kept
                assert form.encode() not in sent


@pytest.fixture
def boxed(running: Boxed) -> Boxed:
    """The module's proxy, with nothing recorded yet."""
    settle(running.proxy)
    for upstream in (running.api, running.plain):
        upstream.clear()
        upstream.handler = respond
    return running


# -- real clients ------------------------------------------------------------------------------------------------------


def run(*command: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """A client as a person runs it, without the proxies of this machine's environment."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=40,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", **environment},
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


@curl
@pytest.mark.parametrize("way", [["--proxy-basic"], ["--proxy-anyauth"], ["--proxy-digest", "--proxy-anyauth"]])
def test_curl_shows_its_token(boxed: Boxed, way: list[str]) -> None:
    """`--proxy-user`, at once or when challenged."""
    common = ["curl", "-sS", "--max-time", "20", "--cacert", str(boxed.proxy.ca), "--proxy", f"http://{boxed.address}"]
    shown = run(*common, *way, "--proxy-user", f"agent-1:{TOKEN}", "-H", "X: @secret:api", f"{boxed.url}/a")
    assert shown.stdout == "served"
    assert boxed.api.requests[0].get("X") == SECRET.encode()
    assert ("proxy", "agent-1") in boxed.modes(2)


@curl
def test_curl_shows_its_token_for_plain_http(boxed: Boxed) -> None:
    """In absolute form the token is in the request itself, and goes no further."""
    shown = run(
        *("curl", "-sS", "--max-time", "20", "--proxy", f"http://agent-1:{TOKEN}@{boxed.address}", "--proxy-anyauth"),
        f"http://127.0.0.1:{boxed.plain.port}/a",
    )
    assert shown.stdout == "served"
    assert boxed.plain.requests[0].get("Proxy-Authorization") is None


@curl
@pytest.mark.parametrize("way", ["path", "field"])
def test_curl_by_the_base_url(boxed: Boxed, way: str) -> None:
    """A path prefix, for clients that can be told nothing but a URL; or a field."""
    place, more = (f"/box/{TOKEN}", []) if way == "path" else ("", ["-H", f"Proxy-Authorization: Bearer {TOKEN}"])
    assert run("curl", "-sS", "--max-time", "20", *more, f"{boxed.base}{place}/a?b").stdout == "served"
    assert boxed.api.requests[0].target == b"/a?b"
    assert boxed.modes(2)[0] == ("terminate", "agent-1")


@curl
def test_curl_without_a_token_is_challenged(boxed: Boxed) -> None:
    """407 with `Proxy-Authenticate`, at CONNECT and for a request; curl says so."""
    shown = run(
        "curl", "-sS", "--cacert", str(boxed.proxy.ca), "--proxy", f"http://{boxed.address}", boxed.url, check=False
    )
    assert shown.returncode == 56
    assert "407" in shown.stderr
    plain = run("curl", "-si", "--proxy", f"http://{boxed.address}", f"http://127.0.0.1:{boxed.plain.port}/a")
    assert plain.stdout.startswith("HTTP/1.1 407 Proxy Authentication Required")
    assert 'Proxy-Authenticate: Basic realm="grantproxy"' in plain.stdout


@git
def test_git_shows_its_token(boxed: Boxed) -> None:
    """`http.proxy` with user and token; git asks without them first, and answers the challenge."""
    shown = run(
        *("git", "-c", f"http.proxy=http://agent-1:{TOKEN}@{boxed.address}"),
        *("-c", f"http.sslCAInfo={boxed.proxy.ca}", "ls-remote", f"{boxed.url}/r.git"),
        GIT_TERMINAL_PROMPT="0",
    )
    assert f"{SHA}\trefs/heads/main" in shown.stdout
    assert ("proxy", "agent-1") in boxed.modes(3)


_URLLIB = """
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[2])
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({"https": sys.argv[1]}), urllib.request.HTTPSHandler(context=context))
print(opener.open(sys.argv[3]).read().decode(), end="")
"""
_REQUESTS = """
import sys, requests
session = requests.Session()
session.trust_env = False
print(session.get(sys.argv[3], proxies={"https": sys.argv[1]}, verify=sys.argv[2]).text, end="")
"""
_NODE = """
const http = require('http'), tls = require('tls'), fs = require('fs');
const [proxy, ca, url] = process.argv.slice(1).map(String);
const at = new URL(proxy), to = new URL(url);
const connect = http.request({host: at.hostname, port: at.port, method: 'CONNECT', path: to.host,
  headers: {Host: to.host, 'Proxy-Authorization': 'Basic ' + Buffer.from(at.username + ':' + at.password).toString('base64')}});
connect.on('connect', (answer, socket) => {
  if (answer.statusCode !== 200) { console.error(answer.statusCode); process.exit(1); }
  const inside = tls.connect({socket, servername: to.hostname, ca: fs.readFileSync(ca)}, () => {
    const request = http.request({createConnection: () => inside, host: to.hostname, port: to.port, path: to.pathname}, (shown) => {
      let text = '';
      shown.on('data', (piece) => text += piece);
      shown.on('end', () => { process.stdout.write(text); process.exit(0); });
    });
    request.end();
  });
});
connect.end();
"""


@cache
def python_with(module: str) -> str | None:
    """A Python of this machine that has the module."""
    for candidate in (sys.executable, "/usr/bin/python3", shutil.which("python3") or ""):
        if (
            candidate
            and subprocess.run([candidate, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
        ):
            return candidate
    return None


@pytest.mark.parametrize("client", [pytest.param("urllib"), pytest.param("requests"), pytest.param("node", marks=node)])
def test_a_library_shows_its_token(boxed: Boxed, client: str) -> None:
    """User and token in the proxy's URL, as libraries read it."""
    if client == "node":
        program = ["node", "-e", _NODE]
    else:
        python = python_with("requests" if client == "requests" else "urllib.request")
        if python is None:
            pytest.skip(f"{client} is not installed")
        program = [python, "-c", _REQUESTS if client == "requests" else _URLLIB]
    shown = run(*program, f"http://agent-1:{TOKEN}@{boxed.address}", str(boxed.proxy.ca), f"{boxed.url}/a")
    assert shown.stdout == "served"
    assert ("proxy", "agent-1") in boxed.modes(2)
    refused = run(*program, f"http://agent-1:wrong@{boxed.address}", str(boxed.proxy.ca), f"{boxed.url}/a", check=False)
    assert refused.returncode != 0
    assert "407" in refused.stderr
    assert len(boxed.api.requests) == 1


# -- what a box may use ------------------------------------------------------------------------------------------------


def test_each_request_on_a_connection_names_its_box(boxed: Boxed) -> None:
    """A base URL's connection belongs to nobody: what one request showed does not hold for the next."""
    with Front(boxed.proxy, "base", boxed.endpoints["api"]) as wire:
        answers = [
            wire.client.exchange(wire.request(f"{prefix}/a", *fields)).status
            for prefix, fields in (
                (f"/box/{TOKEN}", ()),
                (f"/box/{OTHER}", ()),
                ("", ()),
                ("", (f"Proxy-Authorization: {basic(TOKEN)}",)),
                (f"/box/{TOKEN}", (f"Proxy-Authorization: {basic(TOKEN)}",)),
                ("/box", ()),
                (f"/box/{TOKEN}x", ()),
            )
        ]
    assert answers == [200, 403, 407, 200, 407, 407, 407]
    assert len(boxed.api.requests) == 2
    shown = [
        (record["status"], record.get("box"))
        for record in records(boxed.proxy, 9)
        if record["event"] != "broker_request_end"
    ]
    assert shown == [
        (200, "agent-1"),
        (403, "agent-2"),
        (407, None),
        (200, "agent-1"),
        (407, None),
        (407, None),
        (407, None),
    ]


@pytest.mark.parametrize(
    ("token", "status", "reason"), [(TOKEN, 200, None), (OTHER, 403, "box-tunnel"), (None, 407, "box-unknown")]
)
def test_which_boxes_may_tunnel(boxed: Boxed, token: str | None, status: int, reason: str | None) -> None:
    """`boxes[].tunnels`; the token is not passed on."""
    before = boxed.echo.connections
    field = f"Proxy-Authorization: Bearer {token}\r\n".encode() if token else b""
    with Client(boxed.proxy.proxy) as client:
        assert client.connect(f"127.0.0.1:{boxed.echo.port}", headers=field).status == status
        if status == 200:
            client.send(b"x")
            assert client.socket.recv(100) == b"x"
    assert boxed.echo.connections - before == (status == 200)
    found = records(boxed.proxy, 2 if status == 200 else 1)
    assert events(found) == (["allow", "end"] if status == 200 else ["deny"])
    assert found[0].get("reason") == reason
    assert found[0].get("box") == {TOKEN: "agent-1", OTHER: "agent-2"}.get(token or "")


def test_a_token_inside_a_tunnel_means_nothing(boxed: Boxed) -> None:
    """The box is the one that opened it; what stands in `Proxy-Authorization` inside goes nowhere."""
    with Front(
        boxed.proxy, "proxy", boxed.endpoints["api"], connect=f"Proxy-Authorization: Bearer {TOKEN}\r\n".encode()
    ) as wire:
        shown = wire.client.exchange(wire.request("/a", f"Proxy-Authorization: Bearer {OTHER}"))
        assert shown.status == 200
    assert boxed.api.requests[0].get("Proxy-Authorization") is None
    assert boxed.modes(2)[0] == ("proxy", "agent-1")


@pytest.mark.parametrize(
    ("target", "field"),
    [
        pytest.param("/a", f"X-Other: {TOKEN}", id="field"),
        pytest.param("/a", f"Authorization: Bearer {TOKEN}", id="Authorization"),
        pytest.param("/a", f"Authorization: {basic(TOKEN)}", id="Basic"),
        pytest.param("/a", f"Cookie: a=b; t={TOKEN}", id="cookie"),
        pytest.param(f"/a?t={TOKEN}", "X: 1", id="query"),
        pytest.param(f"/a/{TOKEN}", "X: 1", id="path"),
        pytest.param("/a?t=" + TOKEN.replace("t", "%74"), "X: 1", id="percent-encoded"),
        pytest.param(f"/box/{TOKEN}/a", "X: 1", id="prefix-twice"),
    ],
)
def test_a_token_in_another_place_is_refused(boxed: Boxed, target: str, field: str) -> None:
    """From there it would go upstream, so nothing does."""
    with Front(boxed.proxy, "base", boxed.endpoints["api"]) as wire:
        shown = wire.client.exchange(wire.request(f"/box/{TOKEN}{target}", field))
    assert (shown.status, json.loads(shown.body)["reason"]) == (403, "box-token-leak")
    assert TOKEN.encode() not in shown.raw
    assert boxed.api.requests == []


def test_a_location_leads_back_to_the_box_s_own_url(boxed: Boxed) -> None:
    """The prefix is put back, so that a client that follows is still known."""
    boxed.api.handler = lambda _request: answer(302, b"", ("Location", f"{boxed.url}/b?c"))
    with Front(boxed.proxy, "base", boxed.endpoints["api"]) as wire:
        shown = wire.client.exchange(wire.request(f"/box/{TOKEN}/a"))
    assert shown.get("Location") == f"{boxed.base}/box/{TOKEN}/b?c".encode()


# -- listeners and tokens ----------------------------------------------------------------------------------------------


def own_address() -> str | None:
    """An address of this machine that is not loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found: str = probe.getsockname()[0]
    return None if found.startswith("127.") else found


def test_a_listener_for_others_serves_boxes(tmp_path: Path, certificates: Certificates) -> None:
    """`0.0.0.0` is for those who show a token, on both fronts, also from another address than a loopback one."""
    with Upstream(certificates, handler=respond) as api:
        hosts = list(filter(None, ("127.0.0.1", own_address())))
        # Which of its addresses the machine is called by, the proxy cannot know.
        port = free_port()
        endpoint = relay("api", api, certificates, listen=f"0.0.0.0:{port}", hosts=hosts)
        settings = {"proxy": "0.0.0.0:0", "endpoints": [endpoint], "boxes": boxes("api")}
        with Proxy(tmp_path, settings, ENVIRONMENT) as proxy:
            for host in hosts:
                with Client((host, proxy.proxy[1])) as client:
                    assert client.connect(f"localhost:{api.port}").status == 407
                with Client((host, proxy.proxy[1])) as client:
                    connected = client.connect(
                        f"localhost:{api.port}", headers=f"Proxy-Authorization: {basic(TOKEN)}\r\n".encode()
                    )
                    assert connected.status == 200
                    client.start_tls(name="localhost", ca=proxy.ca)
                    assert (
                        client.exchange(f"GET /a HTTP/1.1\r\nHost: localhost:{api.port}\r\n\r\n".encode()).status == 200
                    )
                with Client((host, port)) as client:
                    named = f"Host: {host}:{port}\r\n\r\n".encode()
                    assert client.exchange(b"GET /a HTTP/1.1\r\n" + named).status == 407
                    shown = client.exchange(f"GET /box/{TOKEN}/a HTTP/1.1\r\n".encode() + named)
                    assert shown.status == 200, shown.body


def test_a_rotated_token_holds_without_a_restart(tmp_path: Path, certificates: Certificates) -> None:
    """A token is read at use, as secrets are; the old one is nobody's then, also in a tunnel that it opened."""
    file = tmp_path / "token"
    file.write_text("the-first-token-1\n")
    with Upstream(certificates, handler=respond) as api:
        endpoint = relay("api", api, certificates)
        settings = {
            "endpoints": [endpoint],
            "boxes": [{"name": "agent-1", "token": f"file:{file}", "endpoints": ["api"]}],
        }
        with (
            Proxy(tmp_path, settings, ENVIRONMENT) as proxy,
            Front(proxy, "base", endpoint) as wire,
            ExitStack() as stack,
        ):

            def status(token: str) -> int:
                return wire.client.exchange(wire.request("/a", f"Proxy-Authorization: Bearer {token}")).status

            assert (status("the-first-token-1"), status("the-second-token-2")) == (200, 407)
            tunnel = stack.enter_context(Client(proxy.proxy))
            shown = b"Proxy-Authorization: Bearer the-first-token-1\r\n"
            assert tunnel.connect(f"localhost:{api.port}", headers=shown).status == 200
            tunnel.start_tls(name="localhost", ca=proxy.ca)
            inside = f"GET /a HTTP/1.1\r\nHost: localhost:{api.port}\r\n\r\n".encode()
            assert tunnel.exchange(inside).status == 200
            file.write_text("the-second-token-2\n")
            wait_for(lambda: status("the-second-token-2") == 200)
            assert status("the-first-token-1") == 407
            assert tunnel.exchange(inside).status == 407


def test_two_boxes_with_one_token_do_not_start(tmp_path: Path, certificates: Certificates) -> None:
    """Who asks must be one box; the values are compared at the start, and not shown."""
    (tmp_path / "one").write_text("the-same-token-0")
    (tmp_path / "two").write_text("the-same-token-0")
    settings = {
        "proxy": "127.0.0.1:0",
        "state": str(tmp_path / "state"),
        "endpoints": [relay("api", 9, certificates)],
        "boxes": [{"name": name, "token": f"file:{tmp_path / name}", "endpoints": ["api"]} for name in ("one", "two")],
    }
    file = tmp_path / "settings.yaml"
    file.write_text(json.dumps(settings))
    done = run(
        sys.executable,
        "-m",
        "proxy.cli",
        "serve",
        "-c",
        str(file),
        check=False,
        PYTHONPATH=str(Path(__file__).parents[2]),
        RELAY_SECRET=SECRET,
    )
    assert done.returncode == 1
    assert "one" in done.stderr
    assert "two" in done.stderr
    assert "the-same-token-0" not in done.stderr + done.stdout
