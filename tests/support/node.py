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
_CACHE = ROOT / ".cache" / "npm-clients"


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
    _CACHE.mkdir(parents=True, exist_ok=True)
    wanted = json.dumps({"private": True, "dependencies": PACKAGES}, indent=1)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = _CACHE / "installed.json"
        if not done.exists() or done.read_text() != wanted:
            (_CACHE / "package.json").write_text(wanted)
            command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            try:
                installed = subprocess.run(command, cwd=_CACHE, capture_output=True, check=False, timeout=100)
            except subprocess.TimeoutExpired:
                pytest.skip("the npm registry does not answer")
            if installed.returncode:
                pytest.skip("npm packages cannot be installed: the registry cannot be reached")
            done.write_text(wanted)
    (folder / "node_modules").symlink_to(_CACHE / "node_modules")
