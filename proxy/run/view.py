"""What an isolated program sees of the file system: what is listed here, and nothing else.

The system's programs and the configuration that they read, unchangeable; the working directory, writable; a home,
`/tmp` and `/run` of its own, empty at first. So no socket of the host, no credential in the home and no state of the
proxy is there unless somebody shows it.

The working directory is what the program may change, so nothing in it may decide about the program: settings, grants
and our own code are read-only there, directories with secrets are closed, and the directories on the way to them cannot
be renamed, because each is a mount of its own.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from proxy.run import kernel
from proxy.run.closed import closed
from proxy.run.configuration import ETC
from proxy.run.kernel import NOTHING
from proxy.run.mounts import Empty, Link, Mount, Show
from proxy.run.placeholder import NAME, is_placeholder
from proxy.run.refused import IsolationRefused
from proxy.run.visible import covering, shown
from proxy.run.ways import links_in, passed, real, under

SYSTEM: Final = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "nix/store", "gnu/store")
"""Where programs and their configuration are, and no socket of a service: `/opt` and `/nix/var` have those."""
_OWN: Final = ("/tmp", "/var", "/run")  # noqa: S108 - private ones
SHARED: Final = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108
"""Private directories that are open to whoever else runs inside."""
_NO_PLACE_TO_WORK: Final = ("/", "/home", "/tmp", "/var", "/var/tmp", "/run", "/mnt", "/media", "/srv")  # noqa: S108
_SOURCES: Final = ("/usr/src", "/usr/local/src")
"""Where there are projects in the system's trees, as in containers."""
_KERNEL: Final = ("/proc", "/sys", "/dev")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the view is made of; paths are absolute, and `work`, `home`, `show`, `interpreter` real.

    Attributes:
        work: the working directory.
        home: the user's home.
        show: further paths, read-only.
        etc: what shows the configuration, see `proxy.run.configuration`.
        interpreter: where our own Python is, which runs inside.
        ours: the directories of our own code.
        rules: files that decide, see `Hidden.rules`.
        secrets: files that hold secrets.
        state: the state directory. trust: what of it is public.
        named: paths as they were written, whose links are made again: of the home, the working directory, `show`.
        extra: by path inside, what else is put there: sockets, and our own program.
    """

    work: Path
    home: Path
    show: tuple[Path, ...]
    interpreter: tuple[Path, ...]
    ours: tuple[Path, ...]
    rules: tuple[Path, ...]
    secrets: tuple[Path, ...]
    state: Path
    trust: Path
    extra: tuple[tuple[Path, Path], ...]
    etc: tuple[Mount, ...]
    named: tuple[Path, ...] = ()


def view(wish: Wish) -> tuple[Mount, ...]:
    """The mounts, in their order: a later one covers what an earlier one shows.

    Raises:
        IsolationRefused: the working directory, or where a secret is, leaves no way to hide what must be.
    """
    hold_work(wish.work, wish.home)
    _hold_state(wish)
    _hold_links(wish)
    mounts: list[Mount] = [*kernel.masks(), *_system(), *wish.etc]
    mounts += [*(Empty(Path(path)) for path in _OWN), Empty(Path("/var/tmp"))]  # noqa: S108
    if wish.home != Path("/"):
        mounts.append(Empty(wish.home))
    for path in (*wish.interpreter, *wish.show):
        if not path.exists():
            raise IsolationRefused(f"`{path}` is to be shown and does not exist; make it, or leave it out")
        if path == wish.work:
            raise IsolationRefused(f"`{path}` is the working directory, which is writable; leave it out of --show")
        if not shown(path, mounts) and not under(path, wish.work):
            mounts.append(Show(path, path))
    mounts.append(Show(wish.work, wish.work, writable=True))
    mounts += _links(wish, tuple(mounts))
    for path in dict.fromkeys(map(real, (*wish.rules, wish.work / NAME, *wish.ours, *wish.show))):
        if path.exists() and under(path, wish.work):
            source = NOTHING if is_placeholder(path) else path
            mounts += [*_pinned(path, wish.work, mounts), Show(path, source)]
    needed = (wish.work, *wish.interpreter, *(Path("/") / name for name in SYSTEM))
    for path in dict.fromkeys((real(wish.state), *closed(wish.secrets, wish.work, needed, mounts))):
        if isinstance(covering(path, mounts), Show):
            if under(path, wish.work):
                mounts += _pinned(path, wish.work, mounts)
            mounts.append(Empty(path, closed=True))
    mounts.append(Show(wish.trust, wish.trust))
    mounts += [Show(inside, source) for inside, source in wish.extra]
    return tuple(mounts)


def hold_work(work: Path, home: Path, trees: Iterable[Path] = ()) -> None:
    """See whether a directory is a project's, which a program may change.

    Args:
        trees: where Python is installed.

    Raises:
        IsolationRefused: it is the system's, the user's home, or around it.
    """
    if str(work) in _NO_PLACE_TO_WORK or any(under(work, Path(path)) for path in _KERNEL):
        raise IsolationRefused(f"the working directory is `{work}`, which others use; change into one of your own")
    if under(home, work):
        raise IsolationRefused(
            f"the working directory `{work}` holds your home, which is not shown; change into a project's directory"
        )
    own = any(under(work, Path(path)) and str(work) != path for path in _SOURCES)
    protected = [Path("/") / name for name in SYSTEM]
    for place in (*protected, *map(real, protected), *trees):
        if under(work, place) and not own:
            raise IsolationRefused(
                f"the working directory `{work}` is in `{place}`, where programs are installed and which is not to be "
                "changed; change into a project's directory"
            )


def _hold_state(wish: Wish) -> None:
    if under(wish.work, real(wish.state)):
        raise IsolationRefused(f"the working directory `{wish.work}` is in the state directory; change into another")


def _hold_links(wish: Wish) -> None:
    """A link in the working directory can be made to lead elsewhere, and no mount protects it."""
    for path in (*wish.rules, wish.work / NAME, *wish.secrets, wish.state):
        if (place := links_in(path.absolute(), wish.work)) is not None:
            raise IsolationRefused(
                f"`{place}` is a link in the working directory, which the program could lead elsewhere; "
                "name what it leads to in the settings, or make it no link"
            )


def _system() -> Iterator[Mount]:
    for name in SYSTEM:
        path = Path("/") / name
        if path == ETC:
            continue
        if path.is_symlink():
            yield Link(path, os.readlink(path))
        elif path.is_dir():
            yield Show(path, path)


def _links(wish: Wish, mounts: Sequence[Mount]) -> Iterator[Mount]:
    """The links that lead to what is there, where nothing that is shown has them already."""
    there = {mount.path for mount in mounts}
    places = dict.fromkeys(place for path in wish.named for place in passed(path) if place.is_symlink())
    for place in places:
        way = any(under(path, place) for path in there)
        if not way and not isinstance(covering(place, mounts), Show | Link):
            yield Link(place, os.readlink(place))


def _pinned(path: Path, work: Path, mounts: Sequence[Mount]) -> Iterator[Mount]:
    """The directories between the two, each as it is, as mounts of their own: those cannot be renamed. In what is
    read-only nothing can be."""
    for parent in reversed(path.parents):
        if parent != work and under(parent, work):
            around = covering(parent, mounts)
            if not isinstance(around, Show) or around.writable:
                yield Show(parent, parent, writable=True)
