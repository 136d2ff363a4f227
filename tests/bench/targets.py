"""What is measured, by name. Each target is a process of its own."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from support.proxyproc import Proxy, StartFailed

from bench import nginx
from bench.load import Job
from bench.payload import FIELDS, SECRETS, SIZES, grant
from bench.processes import Failed, Family, await_port, free_port, started
from bench.upstream import Upstream

TOKEN = "token-of-bench-0123456789abcdef"

PATIENCE = 90
"""Seconds that our program may take to start, on a busy machine with a large grant."""


class Skipped(Exception):
    """The target cannot run here. The message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that runs.

    Attributes:
        job: the load for 1 KB on one connection; the path of another size differs in its word alone.
        family: its processes; None where there is nothing between load and upstream.
    """

    name: str
    job: Job
    family: Family | None

    def shaped(self, size: str, connections: int, seconds: float, *, fresh: bool) -> Job:
        """The load of a round."""
        path = self.job.path.replace("/1k/", f"/{size}/")
        return replace(self.job, path=path, length=SIZES[size], connections=connections, seconds=seconds, fresh=fresh)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a target is started with: its own folder, and what ends it."""

    stack: ExitStack
    folder: Path
    upstream: Upstream


type Start = Callable[[Stage, str], Target]


def _job(host: str, port: int, authority: str, **more: Any) -> Job:
    given = {"path": "/1k/", "length": SIZES["1k"], "connections": 1, "seconds": 1.0} | more
    return Job(host=host, port=port, authority=authority, **given)


def _direct(stage: Stage, name: str) -> Target:
    up = stage.upstream
    return Target(name, _job("127.0.0.1", up.port, up.authority, tls="localhost", ca=str(up.ca)), None)


def _run(stage: Stage, settings: Mapping[str, Any], *, optional: str = "") -> Proxy:
    """Our program. `optional`: a key that an older version refuses, which skips the target."""
    environment = {"SSL_CERT_FILE": str(stage.upstream.ca), "BOX": TOKEN}
    environment |= {f"SECRET_{name}": value for name, value in SECRETS.items()}
    proxy = Proxy(stage.folder, {"audit": {}, **settings}, environment, check_log=False, patience=PATIENCE)
    try:
        return stage.stack.enter_context(proxy)
    except StartFailed as failed:
        if optional and optional in str(failed):
            line = next(line for line in str(failed).splitlines() if optional in line)
            raise Skipped(line[line.index(optional) :]) from None
        raise Failed(str(failed) or f"it was not ready within {PATIENCE} s") from None


def _ours(
    stage: Stage,
    name: str,
    *,
    front: str = "base",
    operations: int | None = None,
    full: bool = False,
    relay: bool = False,
    workers: int = 0,
    changing: bool = False,
) -> Target:
    """An endpoint through one of its fronts.

    `operations`: so many, for 1 KB alone; `full`: every check; `changing`: see `Job`.
    """
    up = stage.upstream
    secrets = {key: f"env:SECRET_{key}" for key in SECRETS if full or key == "api"}
    endpoint: dict[str, Any] = {"name": "bench", "upstream": f"https://{up.authority}", "secrets": secrets}
    endpoint |= {"ca": str(up.ca), "assurance": "trusted-upstream" if relay else "semantic"}
    if not relay:
        text = grant(list(SIZES), full=full) if operations is None else grant(["1k"], others=operations - 1)
        (stage.folder / "bench.grant.yaml").write_text(text)
        endpoint["grant"] = "bench.grant.yaml"
    if front == "base":
        endpoint["listen"] = "127.0.0.1:0"
    settings = {"endpoints": [endpoint]} | ({"workers": workers} if workers else {})
    proxy = _run(stage, settings, optional="workers" if workers else "")
    if front == "base":
        host, port = proxy.endpoint("bench")
        job = _job(host, port, f"{host}:{port}", changing=changing)
    else:
        job = _job(*proxy.proxy, up.authority, tunnel=up.authority, tls="localhost", ca=str(proxy.ca))
    return Target(name, job, _family(proxy))


def _egress(stage: Stage, name: str) -> Target:
    """The broker's way to a secret's host, for a box that has reported the secret."""
    broker = {
        "listen": "127.0.0.1:0",
        "word": "lobby",
        "secrets": [{"name": "API", "host": f"https://{stage.upstream.authority}", "value": "env:SECRET_api"}],
    }
    proxy = _run(stage, {"boxes": [{"name": "one", "token": "env:BOX"}], "broker": broker})
    authority = proxy.ready["broker"].removeprefix("http://")
    host, _, port = authority.partition(":")
    connection = HTTPConnection(host, int(port), timeout=20)
    report = {"capabilities": [{"name": "egress", "broker": "lobby", "scope": ["API"]}]}
    connection.request("POST", "/api/box/declaration", json.dumps(report), {"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise Failed(f"the report was answered with {answer.status}: {answer.read()!r}")
    connection.close()
    fields = tuple((key, f"Bearer {TOKEN}" if key == "Authorization" else value) for key, value in FIELDS)
    return Target(name, _job(host, int(port), authority, path="/egress/API/1k/", fields=fields), _family(proxy))


def _family(proxy: Proxy) -> Family:
    assert proxy.process is not None
    return Family(proxy.process.pid)


def _mitmdump(stage: Stage, name: str, *, tunnel: bool) -> Target:
    """mitmdump with its defaults, quiet, verifying the upstream as we do."""
    binary = shutil.which("mitmdump", path=str(Path(sys.executable).parent)) or shutil.which("mitmdump")
    if binary is None:
        raise Skipped("mitmdump is not installed")
    up, port, folder = stage.upstream, free_port(), stage.folder
    mode = "regular" if tunnel else f"reverse:https://{up.authority}"
    command = [binary, "--quiet", "--mode", mode, "--listen-host", "127.0.0.1", "--listen-port", str(port)]
    command += ["--set", f"confdir={folder}", "--set", f"ssl_verify_upstream_trusted_ca={up.ca}"]
    log = folder / "mitmdump.log"
    process = stage.stack.enter_context(started(command, log))
    await_port(port, process, log)
    time.sleep(0.5)
    if tunnel:
        ca = str(folder / "mitmproxy-ca-cert.pem")
        job = _job("127.0.0.1", port, up.authority, tunnel=up.authority, tls="localhost", ca=ca)
    else:
        job = _job("127.0.0.1", port, f"127.0.0.1:{port}")
    return Target(name, job, Family(process.pid))


def _nginx(stage: Stage, name: str) -> Target:
    if nginx.BINARY is None:
        raise Skipped("nginx is not installed")
    port = free_port()
    pid = nginx.serve_proxy(stage.stack, stage.folder, port, stage.upstream.port, stage.upstream.ca)
    return Target(name, _job("127.0.0.1", port, f"127.0.0.1:{port}"), Family(pid))


CHANGING = "base URL, a field changes"
BASE, FORWARD, EGRESS, RELAY = "base URL", "forward proxy", "broker egress", "base URL, relay"
FORWARD_RELAY, CHECKS, FORWARD_CHECKS = "forward proxy, relay", "base URL, all checks", "forward proxy, all checks"
MITM_BASE, MITM_FORWARD, NGINX, DIRECT = "mitmdump base URL", "mitmdump forward proxy", "nginx base URL", "direct"

TARGETS: dict[str, Start] = {
    DIRECT: _direct,
    BASE: _ours,
    CHANGING: partial(_ours, changing=True),
    FORWARD: partial(_ours, front="forward"),
    EGRESS: _egress,
    RELAY: partial(_ours, relay=True),
    FORWARD_RELAY: partial(_ours, front="forward", relay=True),
    CHECKS: partial(_ours, full=True),
    FORWARD_CHECKS: partial(_ours, front="forward", full=True),
    MITM_BASE: partial(_mitmdump, tunnel=False),
    MITM_FORWARD: partial(_mitmdump, tunnel=True),
    NGINX: _nginx,
    **{f"{count:,} operations": partial(_ours, operations=count) for count in (1, 10, 100, 2000)},
    **{f"{count} worker{'s' * (count > 1)}": partial(_ours, workers=count) for count in (1, 2)},
}
"""How each is started."""
