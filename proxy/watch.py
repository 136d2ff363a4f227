"""Watches the files that settings come from, by looking at each twice a second.

A look is a few system calls. It works where notifications do not: on network file systems, over bind mounts, through
symbolic links that are swapped (as a mounted ConfigMap's are), and for editors that write a new file in place of the
old. A change counts once two looks in a row see the same, so that a file is not read while it is written.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, final

from proxy.settings.files import Unreadable, read_bounded
from proxy.settings.load import settings_structure
from proxy.settings.model import Settings
from proxy.settings.values import ValueInvalid, parse_path

type _Stamp = tuple[int, ...] | None

LOOK_SECONDS: Final = 0.5
_MODIFIED: Final = 3


def stamp(path: Path) -> _Stamp:
    """What changes when the file does; None where there is none. Links are followed."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def named_by(path: Path) -> frozenset[Path]:
    """The grants and bundles that a settings file names, also where one of them is missing, or is what is wrong."""
    try:
        place, _ = settings_structure().read(read_bounded(path), file=str(path))
    except Unreadable:
        return frozenset()
    found = set()
    for endpoint in place.items("endpoints") if place is not None else ():
        for name in (endpoint.get("grant"), endpoint.get("ca")):
            with contextlib.suppress(ValueInvalid):
                found |= {parse_path(name.text, directory=path.parent)} if name is not None else set()
    broker = place.get("broker") if place is not None else None
    for secret in broker.items("secrets") if broker is not None else ():
        with contextlib.suppress(ValueInvalid):
            if (grant := secret.get("grant")) is not None:
                found.add(parse_path(grant.text, directory=path.parent))
    return frozenset(found)


def files_of(settings: Settings) -> frozenset[Path]:
    """The grants and bundles that settings in force come from."""
    named = {path for endpoint in settings.endpoints for path in (endpoint.grant_path, endpoint.ca)}
    if settings.broker is not None:
        from proxy.broker.wiring import bundles  # here: the broker's libraries take time to load

        named |= {*(secret.grant_path for secret in settings.broker.secrets), *bundles(settings.broker)}
    return frozenset(path for path in named if path is not None)


@final
class Watch:
    """Calls `changed` when a file has changed.

    Args:
        files: those to watch now.
        read_ns: when reading them last began, in nanoseconds of the wall clock: a file that is new to the watch and
            was changed later counts as changed.
    """

    def __init__(
        self, files: Callable[[], Iterable[Path]], read_ns: Callable[[], int], changed: Callable[[], None]
    ) -> None:
        self._files = files
        self._read_ns = read_ns
        self._changed = changed
        self._known: dict[Path, _Stamp] = {}
        self._seen: dict[Path, _Stamp] = {}

    async def run(self) -> None:
        """Watch until cancelled. Looks in a thread: a file system that hangs must not hold the loop."""
        while True:
            paths = tuple(self._files())
            self.look({path: await asyncio.to_thread(stamp, path) for path in paths})
            await asyncio.sleep(LOOK_SECONDS)

    def look(self, now: Mapping[Path, _Stamp]) -> None:
        """Compare with what is known; tell of a change that has settled."""
        for path in now.keys() - self._known.keys():
            found = now[path]
            late = found is not None and found[_MODIFIED] > self._read_ns()
            self._known[path] = None if late else found
        self._known = {path: self._known[path] for path in now}
        settled = self._seen == now
        self._seen = dict(now)
        if settled and self._known != now:
            self._known = dict(now)
            self._changed()
