"""Files with a second name where an isolated program sees it. A mount protects a name, and not the file behind it.

Such a name can only have been there before: no link is made from one mount to another (link(2), EXDEV).
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from proxy.run.ways import real, under


def second_name(files: Iterable[str | Path], place: Path, protected: Sequence[Path]) -> tuple[Path, Path] | None:
    """The first of `files` that has another name in `place`, outside of `protected`, and that name."""
    wanted = {key: Path(file) for file in files if (key := _key(file)) is not None}
    if not wanted:
        return None
    own = {real(file) for file in wanted.values()}
    for path in _walk(place, protected):
        key = _key(path)
        if key in wanted and path not in own:
            return wanted[key], path
    return None


def _key(file: str | Path) -> tuple[int, int] | None:
    """What tells the file apart; None where it has one name."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_nlink > 1 and stat.S_ISREG(found.st_mode) else None


def _walk(place: Path, protected: Sequence[Path]) -> Iterator[Path]:
    if not place.is_dir() and place not in protected:
        yield place
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if not any(under(Path(folder, name), tree) for tree in protected)]
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink() and path not in protected:
                yield path
