"""One proxy with the APIs behind it for all clients of a session; each test has a home of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import client_apis as apis
from support.certificates import make_certificates
from support.clients import SECRET, World, dialled_on, relayed, told_by
from support.proxyproc import Proxy
from support.upstream import Upstream

HERE = Path(__file__).parent
ATTACHED = {"inject": {"Authorization": "Bearer @secret:key"}}


def held(name: str, grant: str) -> dict[str, object]:
    """A `semantic` endpoint with a grant of this folder."""
    return relayed(name, assurance="semantic", grant=str(HERE / f"{grant}.grant.yaml"))


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Upstream, Path]]:
    folder = tmp_path_factory.mktemp("clients")
    repositories = folder / "repositories"
    repositories.mkdir()
    hosts: dict[str, apis.Api] = {
        "api.example": apis.hello,
        "attached.example": apis.hello,
        "llm.example": apis.models,
        "github.example": apis.github,
        "git.example": apis.GitServer(repositories),
        "pypi.example": apis.python_index,
        "npm.example": apis.npm_registry,
        "crates.example": apis.crates_index,
        "s3.example": apis.bucket,
    }
    certificates = make_certificates(folder, *hosts)
    endpoints = [
        held("api", "hello") | {"listen": "127.0.0.1:0", "env": ["API_URL"]},
        relayed("attached", **ATTACHED, listen="127.0.0.1:0", env=["ATTACHED_URL"]),
        relayed("llm", listen="127.0.0.1:0", env=["ANTHROPIC_BASE_URL", "LLM_URL"]),
        held("github", "github") | {"listen": "127.0.0.1:0", "env": ["GITHUB_BASE_URL"]},
        relayed("git", listen="127.0.0.1:0", env=["GIT_URL"]),
        relayed("pypi", listen="127.0.0.1:0", env=["PYPI_URL"]),
        relayed("npm", **ATTACHED),
        relayed("crates", secrets={}),
        relayed("s3", secrets={}, listen="127.0.0.1:0", env=["AWS_ENDPOINT_URL"]),
    ]
    for endpoint in endpoints:
        endpoint["ca"] = str(certificates.ca)
    with (
        Upstream(certificates, handler=apis.answering(hosts)) as upstream,
        Proxy(folder, {"endpoints": endpoints}, {"REAL_KEY": SECRET}, preamble=dialled_on(upstream.port)) as proxy,
    ):
        yield proxy, upstream, repositories


@pytest.fixture(scope="session")
def told(running: tuple[Proxy, Upstream, Path]) -> dict[str, str]:
    """What `grantproxy env` prints."""
    return told_by(running[0])


@pytest.fixture(scope="session")
def boxed_proxy(
    tmp_path_factory: pytest.TempPathFactory, running: tuple[Proxy, Upstream, Path]
) -> Iterator[tuple[Proxy, dict[str, str]]]:
    """A second proxy before the same APIs, where every request names a box; and what its box is told."""
    endpoints = running[0].settings["endpoints"]
    names = [endpoint["name"] for endpoint in endpoints]
    boxes = [{"name": "agent-1", "token": "env:BOX_TOKEN", "endpoints": names}]
    settings = {"endpoints": endpoints, "boxes": boxes}
    environment = {"REAL_KEY": SECRET, "BOX_TOKEN": "token-of-agent-1-0001"}
    folder = tmp_path_factory.mktemp("boxed")
    with Proxy(folder, settings, environment, preamble=dialled_on(running[1].port)) as proxy:
        yield proxy, told_by(proxy, "--box", "agent-1")


@pytest.fixture
def boxed(boxed_proxy: tuple[Proxy, dict[str, str]], world: World) -> World:
    """As `world`, with boxes."""
    proxy, told = boxed_proxy
    proxy.new_records()
    return World(proxy=proxy, upstream=world.upstream, home=world.home, told=told)


@pytest.fixture(params=["open", "boxed"])
def place(request: pytest.FixtureRequest) -> World:
    """`world`, and again where there are boxes, so that the proxy's URL holds a token."""
    found: World = request.getfixturevalue("world" if request.param == "open" else "boxed")
    return found


@pytest.fixture
def world(running: tuple[Proxy, Upstream, Path], told: dict[str, str], tmp_path: Path) -> World:
    proxy, upstream, _ = running
    upstream.clear()
    proxy.new_records()
    home = tmp_path / "home"
    home.mkdir()
    return World(proxy=proxy, upstream=upstream, home=home, told=told)


@pytest.fixture
def repositories(running: tuple[Proxy, Upstream, Path]) -> Path:
    """The git server's folder."""
    return running[2]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Gives a folder in which something was built, once a session."""
    found: dict[str, Path] = {}

    def build(name: str, make: Callable[[Path], None]) -> Path:
        if name not in found:
            folder = tmp_path_factory.mktemp(name)
            make(folder)
            found[name] = folder
        return found[name]

    return build
