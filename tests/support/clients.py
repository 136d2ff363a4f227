"""What tests of real clients share: APIs on loopback under names of the internet, a proxy in front, and one client's
environment, which is what `grantproxy env` prints and nothing else.

A client asks for `https://api.example`, without a port and outside of what `NO_PROXY` names, as it would ask for a real
API. Only the proxy's last step differs: names below `.example` are dialled on loopback.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.proxyproc import ROOT, Proxy
from support.upstream import Received, Upstream

SECRET = "sk-real/0123456789-abcdef"
REFERENCE = "@secret:key"
BEARER = f"Bearer {REFERENCE}"


def dialled_on(port: int) -> str:
    """Python run in the proxy before it starts: `*.example` on port 443 is this machine on `port`."""
    return f"""
import proxy.upstream.dial as dial
_judge, _connect = dial.judged_addresses, dial._connect
async def judged(origin, reach, resolver):
    return ("127.0.0.1",) if origin.host.endswith(".example") else await _judge(origin, reach, resolver)
async def connect(addresses, port, deadline):
    return await _connect(addresses, {port} if port == 443 else port, deadline)
dial.judged_addresses, dial._connect = judged, connect
"""


@dataclass(slots=True, kw_only=True)
class World:
    """A proxy, the APIs behind it, and a client's place."""

    proxy: Proxy
    upstream: Upstream
    home: Path
    told: dict[str, str]

    def environment(self, **more: str) -> dict[str, str]:
        """The whole environment of a client. Nothing of it is a credential."""
        usual = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        # A toolchain manager looks for its toolchains in the home that it was installed into.
        if (toolchains := Path(os.environ.get("RUSTUP_HOME", Path.home() / ".rustup"))).is_dir():
            usual["RUSTUP_HOME"] = str(toolchains)
        found = {**usual, **self.told, **more}
        assert SECRET not in str(found)
        return found

    def run(self, *command: str, cwd: Path | None = None, check: bool = True, **more: str) -> str:
        """Run a client and give what it printed; it must end well unless not to `check`."""
        done = subprocess.run(
            [*command],
            cwd=cwd or self.home,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        said = done.stdout + done.stderr
        assert SECRET not in said
        assert not check or done.returncode == 0, f"{command[:3]} ended with {done.returncode}:\n{said[-4000:]}"
        return done.stdout if check else said

    def asked(self, host: str) -> list[Received]:
        """The requests that reached `host`."""
        return [request for request in self.upstream.requests if request.get("host") == host.encode()]

    def fronts(self) -> set[str]:
        """The ways by which requests came since the last call."""
        return {record["mode"] for record in self.proxy.decisions() if record["verdict"] == "allow"}


def told_by(proxy: Proxy, *arguments: str) -> dict[str, str]:
    """What `grantproxy env` prints about a running proxy."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "proxy.cli", "env", "-c", str(proxy.folder / "grantproxy.yaml")),
            *("--ready-file", str(proxy.folder / "ready.json"), "--format", "json", *arguments),
        ],
        cwd=ROOT,
        env={**os.environ, **proxy.environment},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def relayed(name: str, **changes: Any) -> dict[str, Any]:
    """A `trusted-upstream` endpoint for `NAME.example` that holds the one secret."""
    return {
        "name": name,
        "upstream": f"https://{name}.example",
        "assurance": "trusted-upstream",
        "secrets": {"key": "env:REAL_KEY"},
        **changes,
    }


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips, by name, where a program is not installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")
