"""The API behind everything: fixed JSON for any id, over TLS with a P-256 key. nginx where installed, else Python."""

import asyncio
import ssl
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from support.certificates import make_certificates

from bench import nginx
from bench.payload import SIZES, document
from bench.processes import ROOT, Family, await_port, free_port, started

try:
    from uvloop import run
except ImportError:
    run = asyncio.run


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where it listens, who vouches for it as `localhost`, what it is, and its processes."""

    port: int
    ca: Path
    kind: str
    family: Family

    @property
    def authority(self) -> str:
        return f"localhost:{self.port}"


def start_upstream(stack: ExitStack, folder: Path) -> Upstream:
    """Serve every size of `payload.SIZES` until the stack ends."""
    certificates = make_certificates(folder)
    root = folder / "root"
    root.mkdir()
    for name, size in SIZES.items():
        (root / f"{name}.json").write_bytes(document(size))
    port = free_port()
    if nginx.BINARY:
        pid = nginx.serve_files(stack, folder, port, certificates.chain, list(SIZES))
        return Upstream(port, certificates.ca, "nginx", Family(pid))
    log = folder / "upstream.log"
    command = [sys.executable, "-m", "bench.upstream", str(port), str(certificates.chain), str(root)]
    process = stack.enter_context(started(command, log, cwd=ROOT / "tests"))
    await_port(port, process, log)
    return Upstream(port, certificates.ca, "Python", Family(process.pid))


class _Embedded(asyncio.Protocol):
    """Answers each request head with the bytes for its path."""

    def __init__(self, wires: dict[bytes, bytes]) -> None:
        self._wires = wires
        self._pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *heads, self._pending = (self._pending + data).split(b"\r\n\r\n")
        for head in heads:
            wire = self._wires.get(head.split(b"/", 2)[1])
            self._transport.write(wire or b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


async def _serve(port: int, chain: str, wires: dict[bytes, bytes]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Embedded(wires), "127.0.0.1", port, ssl=context, backlog=4096)
    await server.serve_forever()


def _wires(root: Path) -> dict[bytes, bytes]:
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
    bodies = {file.stem: file.read_bytes() for file in root.glob("*.json")}
    return {name.encode(): head.format(len(body)).encode() + body for name, body in bodies.items()}


if __name__ == "__main__":
    run(_serve(int(sys.argv[1]), sys.argv[2], _wires(Path(sys.argv[3]))))
