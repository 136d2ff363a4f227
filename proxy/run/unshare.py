"""The command line of util-linux's `unshare` for an isolated program (unshare(1)). Pure.

What bubblewrap does by itself, `proxy.run.unshared` does in the namespaces.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from proxy.run.mounts import Empty, Link, Mount, Show
from proxy.run.view import SHARED


def arguments(program: str, mounts: Iterable[Mount], work: Path, *, session: bool) -> list[str]:
    """What comes before the command that is run inside, as `bubblewrap.arguments`."""
    listed = json.dumps([_listed(mount) for mount in mounts])
    script = Path(__file__).with_name("unshared.py")
    return [
        *(program, "--user", "--map-current-user", "--keep-caps", "--net", "--pid", "--ipc", "--uts", "--mount"),
        *("--cgroup", "--fork", "--kill-child", "--"),
        *(sys.executable, "-I", "-S", str(script), listed, str(work), "own" if session else "shared", "--"),
    ]


def _listed(mount: Mount) -> dict[str, object]:
    match mount:
        case Link(path, target):
            return {"kind": "link", "path": str(path), "target": target}
        case Show(path, source, writable):
            return {"kind": "show", "path": str(path), "source": str(source), "writable": writable}
        case Empty(path, closed):
            mode = "1777" if path in SHARED else "0700"
            return {"kind": "empty", "path": str(path), "closed": closed, "mode": mode}
