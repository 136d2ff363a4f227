"""Requests a second through each front, beside plain mitmdump, on one machine in one run: `make bench`.

A TLS upstream, the proxy under test and the load are a process each. The load keeps connections alive and sends the
next request when the answer to the one before is complete. Rounds take turns, so that a busy machine is busy for all.
"""

import argparse
import asyncio
import json
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import psutil  # noqa: E402
from support.certificates import make_certificates  # noqa: E402
from support.proxyproc import Proxy  # noqa: E402

try:
    from uvloop import run
except ImportError:
    run = asyncio.run

GRANT = """\
operations:
  - name: get
    effect: read
    method: GET
    route: /items/{id}
    pathParameters: {id: [one]}
    headers:
      - {name: Authorization, required: true, pattern: 'Bearer @secret:[a-z]+', maxBytes: 64}
    response:
      statuses: [200]
      contentTypes: [application/json]
      maxBytes: 2097152
      credentialDisclosure: deny-exact
      json:
        type: object
        properties: {id: integer, name: string, items: array}
        required: [id]
        additionalProperties: false
"""


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to measure. `tunnel`: host and port to CONNECT to, with TLS trusted by `ca`."""

    name: str
    host: str
    port: int
    pid: int
    tunnel: str = ""
    ca: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """One round: requests a second, milliseconds, CPU microseconds of the proxy a request."""

    rate: float
    p50: float
    p99: float
    cpu: float


class Source(asyncio.Protocol):
    """The upstream: answers every request head with the same bytes."""

    def __init__(self, wire: bytes) -> None:
        self.wire = wire
        self.pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.pending += data
        *heads, self.pending = self.pending.split(b"\r\n\r\n")
        self.transport.write(self.wire * len(heads))  # type: ignore[attr-defined]


async def serve(chain: str, size: int, port_file: str) -> None:
    """Run the upstream until killed."""
    items = ["x" * 50] * max(1, (size - 60) // 54)
    body = json.dumps({"id": 1, "name": "widget", "items": items}).encode()
    wire = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server = await asyncio.get_running_loop().create_server(lambda: Source(wire), "127.0.0.1", 0, ssl=context)
    tell(port_file, server.sockets[0].getsockname()[1])
    await server.serve_forever()


def tell(file: str, port: int) -> None:
    """Say where the upstream listens."""
    Path(file).write_text(str(port))


async def load(target: Target, connections: int, seconds: float) -> list[float]:
    """Keep `connections` busy; the time of each request in seconds."""
    times: list[float] = []
    host = target.tunnel or f"{target.host}:{target.port}"
    wire = f"GET /items/one HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer @secret:api\r\n\r\n".encode()
    end = time.perf_counter() + seconds

    async def worker() -> None:
        reader, writer = await asyncio.open_connection(target.host, target.port)
        if target.tunnel:
            writer.write(f"CONNECT {target.tunnel} HTTP/1.1\r\nHost: {target.tunnel}\r\n\r\n".encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in answer:
                raise SystemExit(f"{target.name}: {answer!r}")
            await writer.start_tls(ssl.create_default_context(cafile=target.ca), server_hostname="localhost")
        while (begun := time.perf_counter()) < end:
            writer.write(wire)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not head.startswith(b"http/1.1 200"):
                raise SystemExit(f"{target.name}: {head!r}")
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            times.append(time.perf_counter() - begun)
        writer.close()

    await asyncio.gather(*(worker() for _ in range(connections)))
    return times


def measure(target: Target, connections: int, seconds: float) -> Measured:
    """One round in a process of its own."""
    process = psutil.Process(target.pid)
    before = sum(process.cpu_times()[:2])
    command = [sys.executable, __file__, "load", json.dumps(asdict(target)), str(connections), str(seconds)]
    times = sorted(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    cpu = sum(process.cpu_times()[:2]) - before
    count = len(times)
    return Measured(count / seconds, times[count // 2] * 1e3, times[count * 99 // 100] * 1e3, cpu / count * 1e6)


@contextmanager
def process(command: list[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    with subprocess.Popen(command, **options) as started:  # type: ignore[call-overload]
        try:
            yield started
        finally:
            started.terminate()


def waited(path: Path) -> str:
    """The text of a file that is about to be written."""
    for _ in range(400):
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.05)
    raise SystemExit(f"{path.name} did not come")


def free_port() -> int:
    """A port that was free a moment ago."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def mitmdump(stack: ExitStack, folder: Path, upstream: int, trusted: Path, *, tunnel: bool) -> Target:
    """Plain mitmdump with its defaults, checking the upstream's certificate as we do."""
    binary = shutil.which("mitmdump", path=str(Path(sys.executable).parent)) or "mitmdump"
    confdir = folder / f"mitmdump-{tunnel}"
    port = free_port()
    mode = "regular" if tunnel else f"reverse:https://localhost:{upstream}"
    command = [binary, "--quiet", "--mode", mode, "--listen-host", "127.0.0.1", "--listen-port", str(port)]
    command += ["--set", f"confdir={confdir}", "--set", f"ssl_verify_upstream_trusted_ca={trusted}"]
    started = stack.enter_context(process(command, stdout=subprocess.DEVNULL))
    ca = confdir / "mitmproxy-ca-cert.pem"
    waited(ca)
    time.sleep(1.5)
    name = "mitmdump, " + ("forward proxy" if tunnel else "base URL")
    tunnelled = f"localhost:{upstream}" if tunnel else ""
    return Target(name, "127.0.0.1", port, started.pid, tunnelled, str(ca) if tunnel else "")


def targets(stack: ExitStack, folder: Path, size: int) -> list[Target]:
    """Start everything."""
    certificates = make_certificates(folder)
    port_file = folder / "port"
    serving = [sys.executable, __file__, "serve", str(certificates.chain), str(size), str(port_file)]
    stack.enter_context(process(serving))
    upstream = int(waited(port_file))
    (folder / "bench.grant.yaml").write_text(GRANT)
    endpoint = {"name": "bench", "upstream": f"https://localhost:{upstream}", "assurance": "semantic"}
    endpoint |= {"grant": "bench.grant.yaml", "listen": "127.0.0.1:0", "ca": str(certificates.ca)}
    settings = {"endpoints": [{**endpoint, "secrets": {"api": "env:BENCH"}}], "audit": {"sync": "interval"}}
    ours = stack.enter_context(Proxy(folder, settings, {"BENCH": "bench-token-0123456789"}, check_log=False))
    assert ours.process is not None
    pid, tunnel = ours.process.pid, f"localhost:{upstream}"
    return [
        Target("grantproxy, base URL", *ours.endpoint("bench"), pid),
        mitmdump(stack, folder, upstream, certificates.ca, tunnel=False),
        Target("grantproxy, forward proxy", *ours.proxy, pid, tunnel, str(ours.ca)),
        mitmdump(stack, folder, upstream, certificates.ca, tunnel=True),
    ]


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="bytes of the answer")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        measured = targets(stack, Path(name), chosen.size)
        rounds: dict[str, list[Measured]] = {target.name: [] for target in measured}
        for number in range(chosen.rounds + 1):
            for target in measured:
                found = measure(target, chosen.connections, chosen.seconds if number else 1)
                if number:  # the first round warms up
                    rounds[target.name].append(found)
    middle = {
        name: Measured(*(statistics.median(getattr(one, key) for one in found) for key in Measured.__slots__))
        for name, found in rounds.items()
    }
    if chosen.json:
        print(json.dumps({name: asdict(one) for name, one in middle.items()}))
        return
    print(f"{chosen.size} bytes, {chosen.connections} connections kept alive, median of {chosen.rounds} rounds")
    print(f"{'':28}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU µs':>9}{'ratio':>8}")
    for name, one in middle.items():
        base = middle["mitmdump, " + name.partition(", ")[2]].rate
        print(f"{name:28}{one.rate:12.0f}{one.p50:9.2f}{one.p99:9.2f}{one.cpu:9.0f}{one.rate / base:8.1f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", chain, size, port_file]:
            run(serve(chain, int(size), port_file))
        case ["load", text, connections, seconds]:
            print(json.dumps(run(load(Target(**json.loads(text)), int(connections), float(seconds)))))
        case _:
            main()
