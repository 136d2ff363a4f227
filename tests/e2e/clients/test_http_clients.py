"""HTTP clients, unmodified, with what `grantproxy env` prints for their whole environment: a reference sent and a real
credential received, a credential attached where none is sent, on both fronts."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.clients import BEARER, SECRET, World, needs
from support.node import deno, node_version, packages

PROGRAMS = Path(__file__).parent / "programs"

type Build = Callable[[str, Callable[[Path], None]], Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client: what it is called, what it needs, and its command for method, URL and perhaps a credential.

    `proxied`: it uses the forward proxy by the environment alone; `boxed`: also where the proxy's URL holds a token.
    """

    name: str
    command: Callable[[Build, list[str]], list[str]]
    marks: tuple[pytest.MarkDecorator, ...] = ()
    proxied: bool = field(default=True)
    boxed: bool = field(default=True)


def curl(_build: Build, arguments: list[str]) -> list[str]:
    method, url, *authorization = arguments
    command = ["curl", "-sS", "--fail-with-body", "--max-time", "20", "-X", method, url]
    command += ["-H", f"Authorization: {authorization[0]}"] if authorization else []
    return command + (["--json", '{"title": "world"}'] if method == "POST" else [])


def wget(_build: Build, arguments: list[str]) -> list[str]:
    method, url, *authorization = arguments
    command = ["wget", "-q", "-O", "-", "--timeout", "20", "--tries", "1", url]
    command += [f"--header=Authorization: {authorization[0]}"] if authorization else []
    posts = ["--header=Content-Type: application/json", '--post-data={"title": "world"}']
    return command + (posts if method == "POST" else [])


def python(name: str) -> Client:
    script = str(PROGRAMS / f"{name}_client.py")
    return Client(name=name, command=lambda _build, arguments: [sys.executable, script, *arguments])


def fetch(_build: Build, arguments: list[str]) -> list[str]:
    return ["node", str(PROGRAMS / "fetch_client.mjs"), *arguments]


def undici(build: Build, arguments: list[str]) -> list[str]:
    def make(folder: Path) -> None:
        packages(folder)
        shutil.copy(PROGRAMS / "undici_client.mjs", folder)

    return ["node", str(build("undici", make) / "undici_client.mjs"), *arguments]


def deno_fetch(_build: Build, arguments: list[str]) -> list[str]:
    return [deno(), "run", "--quiet", "--allow-net", str(PROGRAMS / "fetch_client.mjs"), *arguments]


def go(build: Build, arguments: list[str]) -> list[str]:
    def make(folder: Path) -> None:
        command = ["go", "build", "-o", str(folder / "client"), str(PROGRAMS / "client.go")]
        subprocess.run(command, check=True, capture_output=True, timeout=110)

    return [str(build("go", make) / "client"), *arguments]


def java(build: Build, arguments: list[str]) -> list[str]:
    def make(folder: Path) -> None:
        command = ["javac", "-d", str(folder), str(PROGRAMS / "Client.java")]
        subprocess.run(command, check=True, capture_output=True, timeout=110)

    version = "HTTP_1_1" if "://127.0.0.1:" in arguments[1] else "HTTP_2"
    return [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        str(build("java", make)),
        f"-Dversion={version}",
        "Client",
        *arguments,
    ]


CLIENTS = [
    Client(name="curl", command=curl, marks=(needs("curl"),)),
    Client(name="wget", command=wget, marks=(needs("wget"),)),
    *(python(name) for name in ("requests", "httpx", "aiohttp", "urllib")),
    # Node's own fetch reads the environment from 22.21 and 24 on; before, it knows base URLs alone.
    Client(name="fetch", command=fetch, marks=(needs("node"),), proxied=node_version() >= (22, 21)),
    Client(name="undici", command=undici, marks=(needs("node", "npm"),)),
    # Deno repeats the token inside of the tunnel.
    Client(name="deno", command=deno_fetch, marks=(needs("node", "npm"),), boxed=False),
    Client(name="go", command=go, marks=(needs("go"),)),
    # Java knows no user of a proxy.
    Client(name="java", command=java, marks=(needs("java", "javac"),), boxed=False),
]
ALL = [pytest.param(client, id=client.name, marks=client.marks) for client in CLIENTS]
PROXIED = [pytest.param(client, id=client.name, marks=client.marks) for client in CLIENTS if client.proxied]
BOXED = [param for param in PROXIED if param.values[0].boxed]
CALLS = [pytest.param("GET", "/hello", id="get"), pytest.param("POST", "/items", id="post")]


def call(world: World, build: Build, client: Client, *arguments: str) -> object:
    found: object = json.loads(world.run(*client.command(build, list(arguments))))
    return found


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize("client", PROXIED)
def test_a_reference_through_the_proxy(world: World, built: Build, client: Client, method: str, path: str) -> None:
    """The client trusts the proxy's certificate, sends a reference, and the API gets the credential."""
    assert call(world, built, client, method, f"https://api.example{path}", BEARER) == {"hello": "world"}
    (request,) = world.asked("api.example")
    assert request.get("authorization") == f"Bearer {SECRET}".encode()
    assert world.fronts() == {"proxy"}


@pytest.mark.parametrize("client", ALL)
def test_a_reference_by_base_url(world: World, built: Build, client: Client) -> None:
    """The base URL is asked past the proxy that the environment names."""
    assert call(world, built, client, "POST", f"{world.told['API_URL']}/items", BEARER) == {"hello": "world"}
    (request,) = world.asked("api.example")
    assert request.get("authorization") == f"Bearer {SECRET}".encode()
    assert world.fronts() == {"terminate"}


@pytest.mark.parametrize("client", PROXIED)
def test_nothing_sent_and_the_credential_attached(world: World, built: Build, client: Client) -> None:
    """`inject` serves clients that know of no reference."""
    assert call(world, built, client, "GET", "https://attached.example/hello") == {"hello": "world"}
    assert world.fronts() == {"proxy"}


@pytest.mark.parametrize("client", BOXED)
def test_a_box_by_the_proxy_s_url(boxed: World, built: Build, client: Client) -> None:
    """The token stands in the URL of the proxy; each of them shows it there, at once or when it is asked for it."""
    assert call(boxed, built, client, "GET", "https://attached.example/hello") == {"hello": "world"}
    record = boxed.proxy.decisions()[-1]
    assert (record["box"], record["verdict"], record["mode"]) == ("agent-1", "allow", "proxy")


@pytest.mark.parametrize("client", ALL)
def test_a_box_by_its_base_url(boxed: World, built: Build, client: Client) -> None:
    """The token stands in the URL's path: any client has that, Java too, which knows no user of a proxy."""
    url = f"{boxed.told['ATTACHED_URL']}/hello"
    assert "/box/" in url
    assert call(boxed, built, client, "GET", url) == {"hello": "world"}
    record = boxed.proxy.decisions()[-1]
    assert (record["box"], record["verdict"], record["mode"]) == ("agent-1", "allow", "terminate")


@needs("node", "npm")
@pytest.mark.parametrize("host", ["attached.example", "api.example"], ids=["relay", "grant"])
def test_a_client_that_repeats_the_token_in_the_tunnel_is_told_of_base_urls(
    boxed: World, built: Build, host: str
) -> None:
    """Deno sends what it shows the proxy to the API too: that is refused, in words by which it is mended."""
    said = boxed.run(*deno_fetch(built, ["GET", f"https://{host}/hello"]), check=False)
    assert "give it the endpoint's base URL, with `/box/TOKEN` in its path" in said
    record = boxed.proxy.decisions()[-1]
    assert (record["box"], record["verdict"], record["reason"]) == ("agent-1", "deny", "box-token-leak")
    assert not boxed.asked(host)


@needs("node", "npm")
def test_a_client_that_repeats_a_proxy_s_user_without_boxes(world: World, built: Build) -> None:
    """A relay leaves the field out; a grant refuses it, in words by which it is mended."""
    named = world.told["HTTPS_PROXY"]
    shown = {name: named.replace("://", "://user:pass@") for name, value in world.told.items() if value == named}
    attached, api = (deno_fetch(built, ["GET", f"https://{host}.example/hello"]) for host in ("attached", "api"))
    assert json.loads(world.run(*attached, **shown)) == {"hello": "world"}
    (request,) = world.asked("attached.example")
    assert request.get("proxy-authorization") is None
    said = world.run(*api, **shown, check=False)
    assert "give a client that repeats it there the endpoint's base URL" in said


@needs("java", "javac")
def test_java_that_offers_http2_by_base_url(world: World, built: Build) -> None:
    """A relay leaves the offer out of account; a grant refuses it, in words by which it is mended."""
    command = [
        word.replace("HTTP_1_1", "HTTP_2") for word in java(built, ["GET", f"{world.told['ATTACHED_URL']}/hello"])
    ]
    assert json.loads(world.run(*command)) == {"hello": "world"}
    command = [
        word.replace("HTTP_1_1", "HTTP_2") for word in java(built, ["GET", f"{world.told['API_URL']}/hello", BEARER])
    ]
    assert "the connection stays HTTP/1.1: set the client to that version" in world.run(*command, check=False)


@pytest.mark.parametrize("client", PROXIED)
def test_a_host_that_is_nowhere_is_refused(world: World, built: Build, client: Client) -> None:
    """No client falls back to asking the host itself: the proxy is told, and refuses."""
    said = world.run(*client.command(built, ["GET", "https://elsewhere.example/hello"]), check=False)
    assert "hello" not in said.replace("/hello", "")
    (record,) = world.proxy.decisions()
    assert (record["verdict"], record["mode"]) == ("deny", "connect")
