"""The directories of secrets that an isolated program would see. They are closed; what closing them does not hide is
refused: another version that a link will lead to, another name of the same file, and a secret that is shown itself."""

from collections.abc import Iterable, Iterator, Sequence
from os.path import normpath
from pathlib import Path

from proxy.run.hardlinks import second_name
from proxy.run.mounts import Mount, Show
from proxy.run.refused import IsolationRefused
from proxy.run.visible import covering
from proxy.run.ways import passed, real, under


def closed(secrets: Sequence[Path], work: Path, needed: Sequence[Path], mounts: Sequence[Mount]) -> tuple[Path, ...]:
    """The directory of each secret that would be seen. Not the file alone: one that is put in its place by a rename, as
    tools that replace secrets do, would come out from under a mount of the file.

    Args:
        needed: what cannot be closed.

    Raises:
        IsolationRefused: one cannot be hidden.
    """
    found: list[Path] = []
    for file in secrets:
        own = tuple(_directories(file, needed, mounts))
        _hold_versions(file, work, own, mounts)
        found += own
    _hold_names(secrets, work, found, mounts)
    return tuple(dict.fromkeys(found))


def _directories(file: Path, needed: Sequence[Path], mounts: Sequence[Mount]) -> Iterator[Path]:
    for path in dict.fromkeys((Path(normpath(file)), real(file))):
        shown = covering(real(path), mounts)
        if isinstance(shown, Show) and shown.path == real(path):
            raise IsolationRefused(f"the secret `{path}` is shown itself; leave it out of --show")
        if not isinstance(covering(real(path.parent), mounts), Show):
            continue
        if any(under(place, path.parent) for place in needed):
            raise IsolationRefused(
                f"the secret `{path}` is in a directory that the program needs; move it into one of its own"
            )
        yield real(path.parent)


def _hold_versions(file: Path, work: Path, own: Sequence[Path], mounts: Sequence[Mount]) -> None:
    """A link on the way may lead to another directory tomorrow: that one would be seen. In the working directory links
    are refused anyway."""
    links = [place for place in passed(file) if place.is_symlink() and not any(under(place, path) for path in own)]
    for place in (*links, real(file)) if links else ():
        if _as_on_the_host(place, mounts) and not under(place, work):
            raise IsolationRefused(
                f"the secret `{file}` is come to by the link `{links[0]}`, and what that leads to next would be seen, "
                "as `--show` shows what is around it; show less, or name the secret's own directory in the settings"
            )


def _as_on_the_host(path: Path, mounts: Sequence[Mount]) -> bool:
    mount = covering(path, mounts)
    return isinstance(mount, Show) and not mount.copied


def _hold_names(secrets: Iterable[Path], work: Path, found: Sequence[Path], mounts: Sequence[Mount]) -> None:
    """The working directory's names are refused before (`proxy.run.hold`)."""
    shows = [mount for mount in mounts if isinstance(mount, Show) and mount.path != work]
    trees = dict.fromkeys(real(mount.path if mount.copied else mount.source) for mount in shows)
    files = tuple(secrets)
    for tree in trees:
        names = second_name(files, tree, (*found, work))
        if names is not None:
            raise IsolationRefused(
                f"the secret `{names[0]}` has a second name, `{names[1]}` (a hard link), where the program sees it; "
                "remove that name, make it a copy elsewhere, or show less"
            )
