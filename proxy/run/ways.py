"""Where a path leads, with every place on the way: who can change one of them decides what is found at its end.

Only looking at the path and at what it finally is would miss the links between: `a` leads to `b` and `b` to `c`, and
each of the three may be in a directory that the program writes to.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MOST_LINKS: Final = 40
"""As the kernel follows (path_resolution(7))."""


def real(path: Path) -> Path:
    """What it finally is."""
    return Path(os.path.realpath(path))


def under(path: Path, place: Path) -> bool:
    """Whether it is `place` or below it; both are real."""
    return path == place or place in path.parents


def passed(path: Path) -> Iterator[Path]:
    """Every place that resolving an absolute path comes through, links among them, each where it really is."""
    left = list(reversed(path.parts[1:]))
    here, links = Path("/"), 0
    while left:
        part = left.pop()
        if part == "..":
            here = here.parent
            continue
        place = here / part
        yield place
        try:
            target = os.readlink(place)
        except OSError:
            here = place
            continue
        links += 1
        if links > _MOST_LINKS:
            return
        if target.startswith("/"):
            here = Path("/")
        left += [name for name in reversed(target.split("/")) if name not in ("", ".")]


def links_in(path: Path, work: Path) -> Path | None:
    """The first link on the way that is in `work`."""
    return next((place for place in passed(path) if place.is_symlink() and under(place, work)), None)


def leads_into(path: Path, work: Path) -> bool:
    """Whether resolving it comes through a place in `work`."""
    return any(under(place, work) for place in passed(path))
