"""Guides whose commands build on each other are run from the first to the last, in one shell.

Lines of a `console` block that begin with `$ ` are commands (`$ ! ` one that must fail), the others what the command
above prints; `…` stands for anything. What a page names and a test cannot reach is replaced: an upstream's host by a
server on loopback, the page's port by a free one.
"""

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECRETS = {"HOUSE_ANTHROPIC_KEY": "sk-ant-api03-house-0123456789", "HOUSE_STRIPE_KEY": "sk_live_0123456789abcdef"}
_FILE = re.compile(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_MARK = "-- end of the command --"


@dataclass(slots=True)
class Api:
    """Every upstream. `seen`: by the path, what stood in the credential's header."""

    url: str
    seen: dict[str, str | None] = field(default_factory=dict)


@pytest.fixture
def api() -> Iterator[Api]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.seen[self.path] = self.headers["x-api-key"] or self.headers["authorization"]
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Api(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def steps(text: str) -> list[tuple[str, list[str]]]:
    """Each command, and the lines that it prints; none where the page shows none."""
    found: list[tuple[str, list[str]]] = []
    for block in _CONSOLE.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def shown(lines: list[str]) -> str:
    """The pattern of what a page shows."""
    return r"\s*".join(".*".join(re.escape(part) for part in line.split("…")) for line in lines) + r"\s*"


def session(commands: list[str], folder: Path) -> list[tuple[int, str]]:
    """Run the commands in one shell: the exit code and the output of each."""
    (folder / "bin").mkdir()
    binary = folder / "bin" / "grantproxy"
    binary.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m proxy.cli "$@"\n')
    binary.chmod(0o755)
    script = "trap 'kill $(jobs -p); wait' EXIT\n"
    for command in commands:
        behind = command.endswith("&")
        script += f"{command[:-1] + '>served 2>&1 &' if behind else command}\ncode=$?\n"
        script += f'printf "%s\\n%s\\n" "{_MARK}" $code\n'
    environment = {**os.environ, **SECRETS, "PATH": f"{binary.parent}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert "Traceback" not in done.stderr, done.stderr
    texts = done.stdout.split(f"{_MARK}\n")
    codes = [int(text.partition("\n")[0]) for text in texts[1:]]
    outputs = [texts[0], *(text.partition("\n")[2] for text in texts[1:])]
    return list(zip(codes, outputs, strict=False))


def test_the_broker_s_guide(tmp_path: Path, api: Api) -> None:
    """Each step does what the page says; the upstreams get the house's credentials and the box's token never."""
    page, port = (ROOT / "docs" / "guides" / "broker.md").read_text(), free_port()
    for written, real in (
        ("https://api.anthropic.com", api.url),
        ("https://api.stripe.com", api.url),
        ("127.0.0.1:9100", f"127.0.0.1:{port}"),
    ):
        assert written in page
        page = page.replace(written, real)
    for name, text in _FILE.findall(page):
        (tmp_path / name).write_text(text)
    commands = steps(page)
    ran = session([command for command, _ in commands], tmp_path)
    for (command, lines), (code, output) in zip(commands, ran, strict=True):
        assert code == 0, (command, output, (tmp_path / "served").read_text())
        assert not lines or re.fullmatch(shown(lines), output, re.DOTALL), (command, output)
    assert api.seen == {
        "/v1/charges": "Basic c2tfbGl2ZV8wMTIzNDU2Nzg5YWJjZGVmOg==",
        "/v1/models": SECRETS["HOUSE_ANTHROPIC_KEY"],
    }
