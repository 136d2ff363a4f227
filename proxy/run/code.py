"""Our own code beside an isolated program: what it could change of that would run outside, at the next start.

The installation and its packages are read-only where they are in the working directory. Everything else is refused: a
place of modules that is in the working directory or around it, or is come to by a link in there, a second name in there
of one of our files (a hard link, as some installers make them), and a variable by which the loader or Python takes code
from there.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from proxy.run.hardlinks import second_name
from proxy.run.refused import IsolationRefused
from proxy.run.ways import leads_into, passed, real, under

LOADING: Final = (
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "LOCPATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX"),
    *("OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""Variables by which code, or what TLS trusts, comes into our own process."""
_CODE: Final = (".py", ".pyc", ".so", ".pth")
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
    _hold_variables(work, environment)
    installed = (*trees(), *packages())
    places = tuple(Path(os.path.abspath(name)) for name in (sys.path if path is None else path))
    for place in places:
        if under(work, real(place)) or _changeable(place, work, installed):
            raise IsolationRefused(
                f"grantproxy's Python takes modules from `{place}`, where the program could put some that run outside "
                "at the next start; call `grantproxy` instead of `python -m`, set PYTHONPATH for the program alone "
                f"(`-- env PYTHONPATH=… COMMAND`), or {_ELSEWHERE}"
            )
    if _changeable(Path(sys.executable), work, installed):
        raise IsolationRefused(
            f"grantproxy's Python is run by `{sys.executable}`, which the program could lead elsewhere; {_ELSEWHERE}"
        )
    names = second_name(_files(places), work, installed)
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


def _hold_variables(work: Path, environment: Mapping[str, str]) -> None:
    for name in LOADING:
        for text in environment.get(name, "").replace(" ", os.pathsep).split(os.pathsep):
            if text and leads_into(Path(os.path.abspath(text)), work):
                raise IsolationRefused(
                    f"`{name}` leads into the working directory, so that the program could put code into grantproxy; "
                    f"set it for the program alone (`-- env {name}=… COMMAND`)"
                )


def _files(places: Sequence[Path]) -> Iterator[str]:
    """What modules are made of. A directory that is no identifier is no package."""
    for place in places:
        for folder, folders, names in os.walk(place):
            folders[:] = [name for name in folders if name.isidentifier()]
            yield from (f"{folder}/{name}" for name in names if name.endswith(_CODE))
