"""A broker in this process, over real sockets: the program's own parts from settings, and an upstream that is scripted.

The decision log keeps its records in memory. The upstream is plain HTTP on loopback, as the settings write it.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

from support.running import MemoryLog
from support.waits import HANG_SECONDS

from addons.audit import Audit
from addons.chain import chain
from addons.front.layer import Limits
from addons.front.pick import Front
from addons.policy import Policies
from grants.decision import Reason
from proxy.broker.state import State
from proxy.connection import table
from proxy.listeners import Listeners
from proxy.master import Master
from proxy.services import Services
from proxy.settings import load_settings
from proxy.settings.model import Settings, TcpListen
from proxy.sockets import bind
from proxy.store import Store
from proxy.tls.ca import load_ca
from proxy.tls.leaves import Leaves
from proxy.upstream import Pool

TOKEN = "token-of-box-one-0123456789abcdef"
OTHER = "token-of-box-two-0123456789abcdef"
HOUSE = "sk-ant-api03-house-0123456789"
OWNER = "sk-ant-oat01-owner-0123456789"
VISITOR = "sk-ant-api03-visitor-01234567"
FOUNTAIN = "fountain-key-0123456789"
VALUE = "value/of+the=secret-0123456789"
SEARCH = "search-key-0123456789"
ENVIRONMENT = {
    "TOKEN": TOKEN,
    "OTHER": OTHER,
    "HOUSE": HOUSE,
    "OWNER": OWNER,
    "VISITOR": VISITOR,
    "FOUNTAIN": FOUNTAIN,
    "VALUE": VALUE,
    "SEARCH": SEARCH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """A request as the upstream got it; field names are in lower case."""

    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer as the box got it; `cut`: it did not come to its end."""

    status: int
    fields: tuple[tuple[str, str], ...]
    body: bytes
    cut: bool = False

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key.lower() == name]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        document = self.json
        assert document["type"] == "error"
        assert document["error"]["type"]
        text: str = document["error"]["message"]
        return text


type Step = bytes | asyncio.Event | float
type Script = Callable[[Got], list[Step]]


def reply(body: bytes = b"{}", status: int = 200, *fields: str) -> list[Step]:
    """One whole answer."""
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(body)}", *fields]
    return ["\r\n".join([*lines, "", ""]).encode() + body]


@dataclass(slots=True)
class Api:
    """The upstream of everything."""

    script: Script = field(default=lambda _got: reply())
    got: list[Got] = field(default_factory=list)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ")
                fields = tuple((line.split(":", 1)[0].lower(), line.split(":", 1)[1].strip()) for line in head[1:-2])
                got = Got(method=method, target=target, fields=fields, body=b"")
                body = await _body(reader, got)
                self.got.append(Got(method=method, target=target, fields=fields, body=body))
                for step in self.script(self.got[-1]):
                    if isinstance(step, asyncio.Event):
                        await step.wait()
                    elif isinstance(step, float):
                        await asyncio.sleep(step)
                    else:
                        writer.write(step)
                        await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


async def _body(reader: asyncio.StreamReader, got: Got) -> bytes:
    if got.all("transfer-encoding"):
        parts = b""
        while size := int(await reader.readline(), 16):
            parts += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return parts
    return await reader.readexactly(int((got.all("content-length") or ["0"])[0]))


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


@dataclass(slots=True)
class Running:
    """What runs."""

    address: tuple[str, int]
    api: Api
    log: MemoryLog
    state: State
    policies: Policies

    async def raw(self, data: bytes) -> bytes:
        """Everything that comes back for these bytes."""
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            writer.write(data)
            async with asyncio.timeout(HANG_SECONDS):
                return await reader.read()
        finally:
            writer.close()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        token: str | None = TOKEN,
        key: str = "Authorization",
        fields: Mapping[str, str] | None = None,
        chunked: bool = False,
    ) -> Answer:
        """One request on a connection of its own; `body` is bytes or a JSON document, which is sent as such."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.address[1]}", "Connection: close"]
        if token is not None:
            lines.append(f"{key}: Bearer {token}" if key == "Authorization" else f"{key}: {token}")
        lines += [f"{name}: {value}" for name, value in (fields or {}).items()]
        data = b""
        if body is not None:
            if not isinstance(body, bytes) and "Content-Type" not in (fields or {}):
                lines.append("Content-Type: application/json")
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(data)}")
            if chunked:
                data = b"".join(b"1\r\n%c\r\n" % byte for byte in data) + b"0\r\n\r\n"
        return parse(method, await self.raw("\r\n".join([*lines, "", ""]).encode() + data))

    async def report(self, *, token: str = TOKEN, **scopes: list[str]) -> Answer:
        """A report, which has to be taken."""
        entries = [{"name": name, "broker": "lobby", "scope": scope} for name, scope in scopes.items()]
        answer = await self.ask("POST", "/api/box/declaration", body={"capabilities": entries}, token=token)
        assert answer.status == 200, answer
        return answer

    def reasons(self) -> list[Reason | None]:
        """What the records say, in their order."""
        return [record.reason for record in self.log.records]  # type: ignore[misc]


def parse(method: str, data: bytes) -> Answer:
    """The answer in these bytes."""
    response = HTTPResponse(_Bytes(data), method=method)  # type: ignore[arg-type]
    response.begin()
    cut = False
    try:
        body = response.read()
    except Exception as error:
        body, cut = getattr(error, "partial", b""), True
    return Answer(status=response.status, fields=tuple(response.getheaders()), body=body, cut=cut)


def document(port: int, **changes: Any) -> dict[str, Any]:
    """Settings whose upstreams are all at `port`."""
    url = f"http://127.0.0.1:{port}"
    credential = {"header": "X-Search", "value": "env:SEARCH"}
    return {
        "state": "state",
        "boxes": [
            {
                "name": "one",
                "token": "env:TOKEN",
                "fountain": {"agent": "a-1", "conversations": ["c-1"], "sandboxes": ["s-1"], "vaults": ["v-1"]},
            },
            {
                "name": "two",
                "token": "env:OTHER",
                "anthropic": {"credential": "env:OWNER", "payer": {"kind": "owner", "principal": "github:owner"}},
                "fountain": {"vaults": ["v-2"]},
            },
        ],
        "broker": {
            "listen": "127.0.0.1:0",
            "word": "lobby",
            "anthropic": {"url": url, "credential": "env:HOUSE"},
            "fountain": {"url": f"{url}/base", "credential": "env:FOUNTAIN"},
            "secrets": [
                {"name": "API", "host": url, "value": "env:VALUE"},
                {"name": "MINE", "box": "two", "host": url, "value": "env:VALUE"},
            ],
            "capabilities": [
                {
                    "name": "search",
                    "routes": ["/search"],
                    "upstream": {"url": url, "credential": credential},
                    "scopes": [
                        {"method": "GET", "path": "/search/query", "words": ["read"]},
                        {"method": "GET", "path": "/search/open", "words": []},
                    ],
                }
            ],
            **changes,
        },
    }


def _load(folder: Path, settings: dict[str, Any]) -> Settings:
    folder.mkdir(exist_ok=True)
    (folder / "state").mkdir(mode=0o700, exist_ok=True)
    (folder / "grantproxy.yaml").write_text(json.dumps(settings))
    return load_settings(folder / "grantproxy.yaml")


@asynccontextmanager
async def brokers(
    folder: Path, change: Callable[[dict[str, Any]], object] = lambda _settings: None, **changes: Any
) -> AsyncIterator[Running]:
    """Run a broker. `changes` are to its settings, `change` may alter the whole document."""
    api = Api()
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
    api.port = server.sockets[0].getsockname()[1]
    settings = document(api.port, **changes)
    change(settings)
    loaded = _load(folder, settings)
    assert loaded.broker is not None
    pools, state, log = (Pool(), Pool()), State(loaded.directory), MemoryLog()
    services = Services(*pools, state)
    policies = Policies(services.adopt(services.prepare(loaded)))
    state.store = await Store.open(loaded.broker.database)
    listeners = Listeners(
        policies=policies, limits=Limits(), certificates=Leaves(load_ca(folder / "state")), clients=500
    )
    addons = list(chain(Front(listeners.pick), Audit(log, b"k" * 32)))
    master = Master(addons)
    listener = bind(TcpListen(host="127.0.0.1", port=0), setting="broker.listen", broker=True)
    listeners.start([listener], master, table(addons))
    try:
        yield Running(listener.sock.getsockname()[:2], api, log, state, policies)
    finally:
        await listeners.close(grace=2)
        for pool in pools:
            await pool.close()
        await master.done()
        await state.close()
        listener.remove()
        server.close()
