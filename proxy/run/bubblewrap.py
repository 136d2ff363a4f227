"""The command line of bubblewrap for an isolated program (bwrap(1)). Pure."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from proxy.run.mounts import Empty, Link, Mount, Show
from proxy.run.view import SHARED


def arguments(
    program: str, mounts: Iterable[Mount], work: Path, *, session: bool, nested: bool, stderr: int
) -> list[str]:
    """What comes before the command that is run inside.

    Args:
        program: bubblewrap itself.
        session: the program gets a session of its own, and so no terminal to put keys into.
        nested: this bubblewrap can keep the program from making user namespaces in its own.
        stderr: a descriptor that it keeps, for what there is to tell.
    """
    found = [
        *(sys.executable, "-I", "-S", str(Path(__file__).with_name("private.py")), str(stderr), "--"),
        *(program, "--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"),
    ]
    if session:
        found.append("--new-session")
    if nested:
        found.append("--disable-userns")
    found += ["--dev", "/dev", "--proc", "/proc"]  # first, as mounts cover what is in there
    closed: list[str] = []
    for mount in mounts:
        match mount:
            case Link(path, target):
                found += ["--symlink", target, str(path)]
            case Show(path, source, writable):
                found += ["--bind" if writable else "--ro-bind", str(source), str(path)]
            case Empty(path, closed=shut):
                found += ["--perms", "1777" if path in SHARED else "0700", "--tmpfs", str(path)]
                closed += [str(path)] if shut else []
    for shut_path in (*closed, "/proc", "/"):
        found += ["--remount-ro", shut_path]
    return [*found, "--chdir", str(work), "--"]


def can_forbid_nesting(version: str) -> bool:
    """Whether `bwrap --version` names one with --disable-userns: 0.8 and later."""
    numbers: Sequence[str] = version.split()[-1].split(".") if version.split() else ()
    try:
        return (int(numbers[0]), int(numbers[1])) >= (0, 8)
    except (ValueError, IndexError):
        return False
