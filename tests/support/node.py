"""Node's packages for tests: installed once into a cache of the checkout, by name and exact version."""

import fcntl
import functools
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.proxyproc import ROOT

PACKAGES = {"undici": "7.30.2", "@anthropic-ai/sdk": "1.14.0", "openai": "7.59.0", "@octokit/rest": "22.0.1"}
DENO = {"deno": "2.9.6"}
_CACHE = ROOT / ".cache"


@functools.cache
def node_version() -> tuple[int, int]:
    """Major and minor; zeros where there is no Node."""
    if shutil.which("node") is None:
        return (0, 0)
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"v(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def packages(folder: Path) -> None:
    """Make the packages importable from programs in `folder`; skips the test where the registry cannot be reached."""
    (folder / "node_modules").symlink_to(_installed("npm-clients", PACKAGES))


def deno() -> str:
    """The program, which npm has as a package; skips the test where it cannot be had for this machine."""
    # Apart from the others: it is large, and there is none for some systems.
    return str(_installed("npm-deno", DENO, "deno") / ".bin" / "deno")


def _installed(name: str, wanted: dict[str, str], program: str = "") -> Path:
    """The `node_modules` with these packages. A `program` of theirs is run once: some finish their own installation."""
    cache = _CACHE / name
    cache.mkdir(parents=True, exist_ok=True)
    document = json.dumps({"private": True, "dependencies": wanted}, indent=1)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = cache / "installed.json"
        if not done.exists() or done.read_text() != document:
            (cache / "package.json").write_text(document)
            command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            try:
                installed = subprocess.run(command, cwd=cache, capture_output=True, check=False, timeout=100)
            except subprocess.TimeoutExpired:
                pytest.skip("the npm registry does not answer")
            if installed.returncode:
                pytest.skip("npm packages cannot be installed: the registry cannot be reached")
            if program:
                ran = [str(cache / "node_modules" / ".bin" / program), "--version"]
                if subprocess.run(ran, capture_output=True, check=False, timeout=60).returncode:
                    pytest.skip(f"npm has no {program} that runs on this machine")
            done.write_text(document)
    return cache / "node_modules"
