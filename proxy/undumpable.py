"""The process closed to others of the same user: its memory, its environment and its descriptors (Linux).

A process that is not dumpable cannot be traced, `/proc/PID/environ`, `mem` and `fd` open for root alone, and it leaves
no core file (prctl(2), PR_SET_DUMPABLE; proc(5)). The mark lasts over a fork and is gone after exec. It is set before a
secret is read. Whoever has CAP_SYS_PTRACE, as root has, passes it by. Other systems have no such mark.
"""

import ctypes
import os
import resource
import signal
import sys
from typing import Final

from proxy.state import StartRefused

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4

# Loaded here and not between fork and exec, where little may be done.
_libc: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def close_to_others() -> None:
    """Let nobody of the same user look into this process, and write no core file.

    Raises:
        StartRefused: the kernel does not let us.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    _prctl(_PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int) -> None:
    """Let the kernel end this process when `parent`, the process that forked it, ends. Called right after the fork."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before that was said
        os.kill(os.getpid(), signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    """Where the kernel refuses, nothing goes on unprotected."""
    if _libc is not None and _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        cause = os.strerror(ctypes.get_errno()).lower()
        raise StartRefused(f"this process cannot be closed to others: {cause}; run it where prctl(2) is allowed")
