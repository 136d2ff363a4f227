"""A proxy with one endpoint, `api`, in front of a TLS upstream, and a second, `dark`, in front of a bare port."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cases import SECRETS, grant_text
from support.certificates import Certificates
from support.client import Client
from support.proxyproc import Proxy
from support.upstream import DarkPort, Received, Upstream, answer

SETTINGS_SECRETS = {name: f"env:CASE_{name.upper()}" for name in SECRETS}
ENVIRONMENT = {f"CASE_{name.upper()}": value for name, value in SECRETS.items()}


@dataclass(slots=True)
class Stack:
    """The proxy and what stands behind it."""

    proxy: Proxy
    upstream: Upstream
    dark: DarkPort

    def open(self, front: str, endpoint: str = "api", **options: float) -> Client:
        """A connection to an endpoint through a front (`base` or `proxy`)."""
        if front == "base":
            return self.proxy.base(endpoint, **options)
        return self.proxy.tunnel(self.authority(endpoint), **options)

    def authority(self, endpoint: str = "api") -> str:
        return f"localhost:{self.upstream.port if endpoint == 'api' else self.dark.port}"

    def host(self, front: str, endpoint: str = "api") -> str:
        """The Host field of requests through a front."""
        if front == "proxy":
            return self.authority(endpoint)
        host, port = self.proxy.endpoint(endpoint)
        return f"{host}:{port}"

    def get(self, front: str, target: str = "/info", *fields: str, method: str = "GET", endpoint: str = "api") -> bytes:
        """A request without a body, as bytes."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.host(front, endpoint)}", *fields]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def plain_answer(request: Received) -> bytes:
    """What the main grant expects."""
    status = 201 if request.method == b"POST" else 200
    return answer(status, b"" if request.method == b"HEAD" else b'{"id":1}')


type MakeStack = Callable[..., Stack]


@pytest.fixture(scope="session")
def make_stack_in(certificates: Certificates) -> Callable[[Path, ExitStack], MakeStack]:
    """Gives what starts a stack in a folder and ends it with an exit stack."""

    def in_folder(folder: Path, exits: ExitStack) -> MakeStack:
        def make(*, grant: str | None = None, environment: dict[str, str] | None = None, **changes: Any) -> Stack:
            upstream = exits.enter_context(Upstream(certificates, handler=plain_answer))
            dark = exits.enter_context(DarkPort())
            (folder / "main.grant.yaml").write_text(grant or grant_text("main", "https://other.example"))
            proxy_options = {key: changes.pop(key) for key in ("preamble", "check_log", "arguments") if key in changes}
            endpoint = {
                "assurance": "semantic",
                "grant": "main.grant.yaml",
                "secrets": SETTINGS_SECRETS,
                "ca": str(certificates.ca),
                **changes.pop("endpoint", {}),
            }
            endpoints = [
                {"name": name, "upstream": f"https://localhost:{port}", "listen": "127.0.0.1:0", **endpoint}
                for name, port in (("api", upstream.port), ("dark", dark.port))
            ]
            endpoints[0].update(changes.pop("first", {}))
            endpoints.append({**endpoint, "name": "named", "upstream": "https://api.example.test"})
            proxy = Proxy(
                folder, {"endpoints": endpoints, **changes}, {**ENVIRONMENT, **(environment or {})}, **proxy_options
            )
            return Stack(exits.enter_context(proxy), upstream, dark)

        return make

    return in_folder


@pytest.fixture
def make_stack(tmp_path: Path, make_stack_in: Callable[[Path, ExitStack], MakeStack]) -> Iterator[MakeStack]:
    """Starts a stack of the test's own."""
    with ExitStack() as exits:
        yield make_stack_in(tmp_path, exits)


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, make_stack_in: Callable[[Path, ExitStack], MakeStack]
) -> Iterator[Stack]:
    with ExitStack() as exits:
        yield make_stack_in(tmp_path_factory.mktemp("shared"), exits)()


@pytest.fixture
def stack(shared: Stack) -> Stack:
    """The module's stack, with nothing recorded yet."""
    shared.upstream.clear()
    shared.upstream.handler = plain_answer
    shared.proxy.new_records()
    return shared
