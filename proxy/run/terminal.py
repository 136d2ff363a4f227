"""The terminal between us and an isolated program, which has a process group of its own: what it sends to its group
(`kill(0, …)`) reaches nothing of ours, since groups go across PID namespaces.

It works as a shell does (termios(4), "Job Control"): the program's group is the terminal's foreground while it runs and
we are; when it stops, by a key or by itself, we take the terminal back and stop as well, and when the shell continues
us, we hand it over again.
"""

import contextlib
import os
import signal
from typing import Final, final

_WANTS_TERMINAL: Final = (signal.SIGTTIN, signal.SIGTTOU)


@final
class Terminal:
    """The terminal on standard input."""

    def enter(self) -> None:
        """In the new process, before the program: a group of its own, in the foreground if ours is."""
        ours = _in_foreground()
        os.setpgid(0, 0)
        if ours:
            _give(os.getpid())

    def follow(self, group: int) -> None:
        """Do with the terminal what a stop of the program, the leader of `group`, asks for."""
        try:
            stopped = os.waitid(os.P_PID, group, os.WSTOPPED | os.WNOHANG)
        except ChildProcessError:  # it has ended, which is asked for elsewhere
            return
        if stopped is None:
            return
        if not (stopped.si_status in _WANTS_TERMINAL and _in_foreground()):
            self.take(group)
            os.kill(0, signal.SIGSTOP)  # until the shell continues us
        if _in_foreground():
            _give(group)
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGCONT)

    def take(self, group: int) -> None:
        """Have it back, if the program, the leader of `group`, has it."""
        with contextlib.suppress(OSError):
            if os.tcgetpgrp(0) == group:
                _give(os.getpgrp())


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _give(group: int) -> None:
    """From the background that is a write to it, which would stop us (tcsetpgrp(3))."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
    try:
        os.tcsetpgrp(0, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
