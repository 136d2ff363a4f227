"""What a view is made of: one value for each mount."""

from dataclasses import dataclass
from pathlib import Path
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Show:
    """`source`, as on the host, at `path`. `copied`: it is a copy of what is at `path` on the host."""

    path: Path
    source: Path
    writable: bool = False
    copied: bool = False


@final
@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    path: Path
    target: str


@final
@dataclass(frozen=True, slots=True)
class Empty:
    """A directory of the program's own, that is gone with it. `closed`: nothing can be put into it."""

    path: Path
    closed: bool = False


type Mount = Show | Link | Empty
