"""The user's homes: the one that the environment names, and the one that the user database has. An environment can be
set by hand or left over from another user, and what is in either home is not for an isolated program."""

import contextlib
import os
import pwd
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from proxy.run.refused import IsolationRefused
from proxy.run.ways import real, under

_DATA: Final = Path(".local/share")
"""Where programs keep keys and profiles in a home."""
_SYSTEM: Final = ("/usr", "/nix/store", "/gnu/store")
"""What is shown in any case, and in which the home is covered."""


def homes() -> tuple[Path, ...]:
    """Both, real, that of the environment first.

    Raises:
        IsolationRefused: neither is known.
    """
    found = [Path.home()] if "HOME" in os.environ else []
    with contextlib.suppress(KeyError):  # as in containers, where users are only numbers
        found.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    if not found:
        raise IsolationRefused("your home, which is not to be shown, is not known; set HOME")
    return tuple(dict.fromkeys(map(real, found)))


def hold_trees(trees: Iterable[Path], places: Iterable[Path]) -> None:
    """See whether Python's trees, which are shown whole, are its own.

    Args:
        trees: where Python is installed; real.
        places: the homes; real.

    Raises:
        IsolationRefused: one is or holds a home, or what programs keep in it.
    """
    personal = [path for home in places for path in (home, home / _DATA)]
    for tree in trees:
        if str(tree) in _SYSTEM:
            continue
        if any(under(path, tree) for path in personal):
            raise IsolationRefused(
                f"grantproxy's Python is installed in `{tree}`, which holds files of your home and would be shown; "
                "run a `grantproxy` that is installed in a directory of its own (as uv, pipx and `python -m venv` do)"
            )
