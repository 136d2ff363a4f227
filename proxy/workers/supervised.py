"""What a supervisor runs, and whom it tells."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from proxy.settings.model import Settings
from proxy.workers.worker import WorkerSeat

if TYPE_CHECKING:
    from proxy.workers.supervisor import Supervisor


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Supervised:
    """What is run, and how.

    Attributes:
        load: reads the settings again; blocks.
        work: runs a worker in its seat, with the settings in force, and gives its exit code.
        ready: called once all workers serve; may raise `StartRefused`. changed: after each reload that was applied.
        watch: a worker is to watch the files.
        upstreams: connections that each worker may keep.
    """

    load: Callable[[], Settings]
    work: Callable[[WorkerSeat, Settings], int]
    ready: Callable[["Supervisor"], None]
    changed: Callable[["Supervisor"], None]
    say: Callable[[str], None]
    watch: bool
    grace: float
    upstreams: int
