"""The program: started in the terminal's foreground group beside us, told the signals that only we got, waited for.

A key of the terminal reaches the whole group, so the program has that signal already; one that was sent to us alone is
passed on. The kernel says which it was (sigaction(2), `si_code`); where it does not, a terminal is believed.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from proxy.undumpable import die_with_parent

PASSED_ON: Final = frozenset(
    {
        *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
        signal.SIGWINCH,
    }
)
_HANDLED: Final = PASSED_ON | {signal.SIGCHLD}
_BY_KERNEL: Final = 0x80

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126


class NotStarted(Exception):
    """The program cannot be executed. `code` is what a shell would give."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def not_started(name: str, error: OSError) -> NotStarted:
    """The refusal for what exec(3) said."""
    cause = (error.strerror or type(error).__name__).lower()
    if isinstance(error, FileNotFoundError):
        return NotStarted(f"`{name}` is not found; write the path of a program, or a name on PATH", NOT_FOUND)
    return NotStarted(f"`{name}` cannot be executed: {cause}; name a program that this user may run", NOT_EXECUTABLE)


def exit_code(status: int) -> int:
    """What a shell gives: the exit code, or 128 and the number of the signal that ended it."""
    return status if status >= 0 else 128 - status


class Started:
    """The program, in the terminal's group that we are in."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def poll(self) -> int | None:
        """The exit code that a shell would give; None while it runs."""
        status = self._process.poll()
        return None if status is None else exit_code(status)

    def signal(self, number: int, *, terminal: bool) -> None:
        """Pass a signal on. `terminal`: the whole group has it, the program too."""
        if not terminal:
            self._process.send_signal(number)

    def end(self, seconds: float) -> None:
        """End it: asked first, and after `seconds` no longer."""
        self.signal(signal.SIGTERM, terminal=False)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@final
class Signals:
    """Holds the signals back from when the program is started, so that none is lost and each is passed on in turn."""

    def __init__(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it was ignored, nobody could be waited for
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)

    def next(self, seconds: float | None = None) -> tuple[signal.Signals, bool] | None:
        """The next signal, and whether the terminal sent it to the whole group. None: none within `seconds`."""
        if hasattr(signal, "sigwaitinfo"):
            found = signal.sigwaitinfo(_HANDLED) if seconds is None else signal.sigtimedwait(_HANDLED, seconds)
            return None if found is None else (signal.Signals(found.si_signo), found.si_code == _BY_KERNEL)
        number = signal.Signals(signal.sigwait(_HANDLED))
        return number, number in (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH) and _on_terminal()

    def release(self) -> None:
        """Give them their usual effect again."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)


def _on_terminal() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def start(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    signals: Signals,
    *,
    prepare: Callable[[], None] = lambda: None,
    descriptors: Sequence[int] = (),
    streams: tuple[int | None, int | None, int | None] = (None, None, None),
) -> subprocess.Popen[bytes]:
    """Start the program. It ends with us.

    Args:
        prepare: done in the new process before the program.
        descriptors: of ours, which it keeps.
        streams: its standard input, output and error; None is ours.

    Raises:
        NotStarted: it cannot be executed.
    """
    parent = os.getpid()

    def before() -> None:
        die_with_parent(parent)
        prepare()
        signals.release()

    try:
        return subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
            list(arguments),
            env=dict(environment),
            preexec_fn=before,
            pass_fds=tuple(descriptors),
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
        )
    except OSError as error:
        raise not_started(arguments[0], error) from None
    except ValueError:
        raise NotStarted("the command holds a NUL; write it without", NOT_EXECUTABLE) from None
