"""Our own code beside an isolated program: what it could change of that would run outside, at the next start.

The installation and its packages are read-only where they are in the working directory. Everything else is refused: a
place of modules that is in the working directory or around it, or is come to by a link in there, whether it exists or
not, a second name in there of one of our files (a hard link, as some installers make them), a link to there among them,
the name by which we were started, and a variable by which the loader or Python takes code from there.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from proxy.run.hardlinks import second_name
from proxy.run.loading import hold_variables
from proxy.run.refused import IsolationRefused
from proxy.run.sites import files, places
from proxy.run.ways import passed, real, under

_NO_FILE: Final = ("", "-", "-c", "-m")
"""What stands for a program's name where Python was given none."""
_ELSEWHERE: Final = "run a `grantproxy` that is installed elsewhere, or change into another directory"


def trees() -> tuple[Path, ...]:
    """Where Python and its packages are installed; real."""
    return tuple(dict.fromkeys(real(Path(prefix)) for prefix in (sys.prefix, sys.base_prefix)))


def packages() -> tuple[Path, ...]:
    """Our own packages."""
    root = Path(__file__).resolve().parents[2]
    return tuple(root / name for name in ("grants", "addons", "proxy"))


def hold_code(work: Path, environment: Mapping[str, str], path: Sequence[str] | None = None) -> tuple[Path, ...]:
    """What of our code has to be read-only.

    Args:
        path: the places of modules; None: our own.

    Raises:
        IsolationRefused: something of it cannot be made so.
    """
    hold_variables(work, environment)
    installed = (*trees(), *packages())
    found = dict.fromkeys(places(work, environment) if path is None else (work / name for name in path))
    for place in found:
        if under(work, real(place)) or _changeable(place, work, installed):
            raise IsolationRefused(
                f"grantproxy's Python takes modules from `{place}`, where the program could put some that run outside "
                "at the next start; call `grantproxy` instead of `python -m`, set PYTHONPATH for the program alone "
                f"(`-- env PYTHONPATH=… COMMAND`), take it out of the `.pth` file that names it, or {_ELSEWHERE}"
            )
    if _changeable(Path(sys.executable), work, installed):
        raise IsolationRefused(
            f"grantproxy's Python is run by `{sys.executable}`, which the program could lead elsewhere; {_ELSEWHERE}"
        )
    if sys.argv[0] not in _NO_FILE and _changeable(work / sys.argv[0], work, installed):
        raise IsolationRefused(
            f"grantproxy was started as `{sys.argv[0]}`, which the program could replace, or lead elsewhere; "
            f"{_ELSEWHERE}"
        )
    modules = list(files(found))
    for entry in modules:
        if entry.is_symlink() and _changeable(Path(entry.path), work, installed):
            raise IsolationRefused(
                f"`{entry.path}`, of which grantproxy's Python takes modules, is a link into the working directory, "
                f"where the program could change them; {_ELSEWHERE}"
            )
    names = second_name((entry.path for entry in modules), work, installed)
    if names is not None:
        raise IsolationRefused(
            f"`{names[0]}`, which grantproxy runs, has a second name in the working directory, `{names[1]}`, by which "
            "the program could change it; install one of the two with copies (for uv: `--link-mode copy`)"
        )
    return installed


def _changeable(path: Path, work: Path, installed: Sequence[Path]) -> bool:
    """Whether it is, or comes through, a place that the program may change: in the working directory, and not in an
    installation there. The directories on the way to one cannot be renamed."""
    return any(
        under(place, work)
        and not any(under(place, tree) or (under(tree, place) and not place.is_symlink()) for tree in installed)
        for place in passed(path)
    )
