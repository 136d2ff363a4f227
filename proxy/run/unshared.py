"""The view of an isolated program, made by mounts of our own where there is no bubblewrap.

`unshare` of util-linux makes the namespaces and runs this file in them, as their first process and with the standard
library alone. It builds the view in a new root, gives up every capability for good, and becomes what comes after.
"""

from collections.abc import Iterable
from pathlib import Path

from proxy.run.view import Mount


def arguments(program: str, mounts: Iterable[Mount], work: Path, *, session: bool) -> list[str]:
    """What comes before the command that is run inside."""
    raise NotImplementedError
