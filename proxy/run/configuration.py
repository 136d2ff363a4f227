"""What an isolated program sees of `/etc`: the configuration that everybody may read.

What its owner or a group alone may read there (`shadow`, keys of servers and mounts, credentials of services) is
covered, so that neither a program that root runs, nor one of a user with such a file, has it.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from proxy.run.kernel import NOTHING
from proxy.run.mounts import Empty, Mount, Show

ETC: Final = Path("/etc")


def private(place: Path = ETC) -> Iterator[Mount]:
    """What covers each file and directory in `place` that is not open to everybody, and each socket and pipe."""
    try:
        with os.scandir(place) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:  # nor does the program come in
        return
    for entry in entries:
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            if mode & stat.S_IROTH and mode & stat.S_IXOTH:
                yield from private(Path(entry.path))
            else:
                yield Empty(Path(entry.path), closed=True)
        elif not stat.S_ISLNK(mode) and not (stat.S_ISREG(mode) and mode & stat.S_IROTH):
            yield Show(Path(entry.path), NOTHING)
