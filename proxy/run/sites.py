"""Where our Python takes modules from, and where it would once something is there.

Python leaves out of `sys.path` what a `.pth` file or the user's site names and what does not exist yet, and looks again
at each start. Whoever can make it then has modules in there (`sitecustomize`) imported before any code of ours.
"""

import os
import site
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

_CODE: Final = (".py", ".pyc", ".so", ".pth")
_BOM: Final = "\ufeff"


def places(work: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Each place, there or not; absolute, and as Python has it. `work` is the current directory."""
    folders = [os.path.abspath(name) for name in (*sys.path, *_sites())]
    yield from map(Path, folders)
    yield from map(Path, _named(dict.fromkeys(folders)))
    # As it is written too: until `site` has run, nothing has taken `LINK/..` out of it.
    written = environment.get("PYTHONPATH", "")
    yield from (work / name for name in (written.split(os.pathsep) if written else ()))


def files(folders: Iterable[str | Path]) -> Iterator["os.DirEntry[str]"]:
    """What modules are made of, links among them. A directory that is no identifier is no package."""
    for folder in folders:
        try:
            with os.scandir(folder) as opened:
                found = list(opened)
        except OSError:  # not there, or an archive
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if entry.name.isidentifier():
                    yield from files((entry.path,))
            elif entry.name.endswith(_CODE) or (entry.is_symlink() and entry.name.isidentifier()):
                yield entry


def _sites() -> list[str]:
    """The directories whose `.pth` files Python reads, where they exist."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [*site.getsitepackages(), *user]


def _named(folders: Iterable[str]) -> Iterator[str]:
    """What `.pth` files name, as `site.addpackage` reads them; lines that are code have done what they do."""
    for folder in folders:
        for file in sorted(Path(folder).glob("*.pth")):
            try:
                text = os.fsdecode(file.read_bytes())
            except OSError:
                continue
            for line in text.removeprefix(_BOM).splitlines():
                if line.strip() and "\0" not in line and not line.startswith(("#", "import ", "import\t")):
                    yield os.path.abspath(os.path.join(folder, line.rstrip()))
