"""Which program an isolated one finds under a name, and what to say where that is none, or another than outside. Pure
but for looking at files."""

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from proxy.run.commands import interpreter
from proxy.run.mounts import Mount, Show
from proxy.run.program import NOT_FOUND, NotStarted
from proxy.run.ways import passed, real, under


def covering(path: Path, mounts: Sequence[Mount]) -> Mount | None:
    """The mount in which `path`, a real one, is seen."""
    return next((mount for mount in reversed(mounts) if under(path, mount.path)), None)


def shown(path: Path, mounts: Sequence[Mount]) -> bool:
    """Whether a real path is what it is on the host: a mount may also put nothing over it."""
    mount = covering(path, mounts)
    if isinstance(mount, Show) and mount.copied:
        return _in_copy(mount.source / path.relative_to(mount.path))
    return isinstance(mount, Show) and mount.path == mount.source


def _in_copy(path: Path) -> bool:
    """Whether it was copied: what is private stands there as a file without rights."""
    try:
        return stat.S_IMODE(path.lstat().st_mode) != 0
    except OSError:
        return False


def seen(path: Path, mounts: Sequence[Mount]) -> bool:
    """Whether a path leads to the same file inside: its end is shown, and so is each link on the way."""
    there = {mount.path for mount in mounts}
    links = (place for place in passed(path) if place.is_symlink())
    return shown(real(path), mounts) and all(place in there or shown(place, mounts) for place in links)


def differs(name: str, path: str, mounts: Sequence[Mount]) -> str | None:
    """What to say where a name on PATH is another program inside; None where it is the same, or none."""
    if "/" in name:
        return None
    outside = shutil.which(name, path=path)
    inside = next((file for file in _files(name, path) if seen(file, mounts)), None)
    if outside is None or inside is None or real(Path(outside)) == real(inside):
        return None
    return (
        f"warning: `{name}` is `{outside}` outside and `{inside}` inside, where the other is not seen; "
        "show it with --show, or write the path"
    )


def not_seen(name: str, path: str, mounts: Sequence[Mount]) -> NotStarted:
    """The refusal for a program that cannot be found in there, though it is outside."""
    found = next((file for file in _files(name, path) if seen(file, mounts)), None)
    words = [] if found is None else interpreter(found)
    if words and not (os.path.exists(words[0]) and seen(Path(words[0]), mounts)):
        there = "is not seen by an isolated program" if os.path.exists(words[0]) else "does not exist"
        return NotStarted(
            f"`{name}` is run by `{words[0]}`, which {there}; correct that first line, or show it with --show",
            NOT_FOUND,
        )
    return NotStarted(
        f"`{name}` is not seen by an isolated program, which has the system's programs, but not those in `/opt`, and "
        "the working directory; show the directory that it is in, and the one that a link there leads to, with --show",
        NOT_FOUND,
    )


def _files(name: str, path: str) -> Sequence[Path]:
    places = [""] if "/" in name else path.split(os.pathsep)
    files = [Path(os.path.abspath(os.path.join(place, name))) for place in places]
    return [file for file in files if file.is_file() and os.access(file, os.X_OK)]
