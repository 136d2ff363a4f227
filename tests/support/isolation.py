"""What can isolate a program on this machine: a parameter for each tool, skipped where it is not to be had."""

import shutil
import subprocess
from typing import Any

import pytest

BWRAP = ["bwrap", "--ro-bind", "/", "/", "--unshare-user", "--unshare-net", "--unshare-pid", "--proc", "/proc", "true"]
UNSHARE = ["unshare", "--user", "--map-current-user", "--keep-caps", "--net", "--pid", "--mount", "--fork", "true"]


def works(command: list[str]) -> bool:
    """Whether this machine lets the tool do its work at all."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def tool(name: str, command: list[str]) -> Any:
    reason = f"{name} is not installed, or user namespaces are not allowed here"
    return pytest.param(name, id=name, marks=pytest.mark.skipif(not works(command), reason=reason))


TOOLS = [tool("bwrap", BWRAP), tool("unshare", UNSHARE)]


def only(name: str) -> str:
    return f"from proxy.run import isolated\nisolated.TOOLS = ({name!r},)"
