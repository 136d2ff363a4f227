"""What an isolated program finds of the kernel: `/proc`, where nothing can be written, less what tells of the machine.

Everything there is read-only, not a list of names: a program that root runs owns root's files in there, capabilities or
not, and one that it could write to (`sys/kernel/core_pattern`, `sysrq-trigger`) would be the machine. What container
runtimes mask is masked as well (the `maskedPaths` of the OCI runtime specification's defaults).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from proxy.run.mounts import Empty, Mount, Show

PROC: Final = Path("/proc")
NOTHING: Final = Path("/dev/null")
MASKED: Final = (
    *("acpi", "asound", "bus", "driver", "fs", "irq", "scsi"),
    *("kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats"),
    *("sched_debug", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo"),
)
"""Names in `/proc` behind which there is nothing."""


def masks(proc: Path = PROC) -> Iterator[Mount]:
    """What covers them, where this kernel has them."""
    for name in MASKED:
        path = proc / name
        if path.is_dir():
            yield Empty(path, closed=True)
        elif path.exists():
            yield Show(path, NOTHING)
