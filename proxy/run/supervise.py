"""From start to end: the proxy is ready before the program begins, and neither outlives the other.

The program's end decides the exit code. A proxy that ends first takes the program with it: what went on without it
would be calls that nobody holds to a grant and nobody records.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from proxy.run.beside import GRACE_SECONDS, Beside, Wanted
from proxy.run.environment import HOST_SOCKETS, environment
from proxy.run.isolated import Isolation, start_isolated
from proxy.run.messages import Ready
from proxy.run.program import NOT_EXECUTABLE, NOT_FOUND, PASSED_ON, NotStarted, Signals, Started, exit_code, start
from proxy.run.refused import IsolationRefused

_END_SECONDS: Final = GRACE_SECONDS + 7.0
"""Grace, then what it takes to cut what still runs."""
_LAST_WORDS_SECONDS: Final = 2.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is run. `isolation`: how it is isolated, if it is. `quiet`: no line at the end."""

    arguments: tuple[str, ...]
    isolation: Isolation | None = None
    quiet: bool = False


def run(command: Command, wanted: Wanted, base: Mapping[str, str]) -> int:
    """Run the program with a proxy beside it, and return the exit code. `base` is our environment.

    Raises:
        NotStarted: it cannot be executed.
        IsolationRefused: it cannot be isolated as asked.
    """
    look_up(command.arguments[0], base)
    beside = Beside(wanted)
    try:
        ready = beside.ready()
        if ready is None:
            return exit_code(beside.wait()) or 1
        found = environment(base, ready, without=() if command.isolation is None else HOST_SOCKETS)
        for name, source in found.also.items():
            say(f"warning: `{name}` is left out too: it holds the value of `{source}`, which is a secret's")
        signals = Signals()
        try:
            program = _start(command, found.variables, ready, signals, wanted.sockets)
            code = _attend(program, beside, signals)
            _end(beside, signals)
        finally:
            signals.release()
        if not command.quiet:
            _report(beside, ready)
        return code
    finally:
        if not beside.poll():
            beside.signal(signal.SIGKILL)
            beside.wait()


def look_up(name: str, base: Mapping[str, str]) -> None:
    """Refuse early what cannot be executed, before anything is started for it.

    Raises:
        NotStarted: as exec(3) would say later.
    """
    path = base.get("PATH", os.defpath)
    if shutil.which(name, path=path) is None:
        if shutil.which(name, os.F_OK, path=path) is None and not os.path.exists(name):
            raise NotStarted(f"`{name}` is not found; write the path of a program, or a name on PATH", NOT_FOUND)
        raise NotStarted(f"`{name}` may not be executed; name a program, or make it one (`chmod +x`)", NOT_EXECUTABLE)


def say(line: str) -> None:
    """One line on standard error; standard output is the program's. Where nobody reads it, we go on."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        pass


def _start(
    command: Command, variables: Mapping[str, str], ready: Ready, signals: Signals, place: Path | None
) -> Started:
    if command.isolation is None:
        return Started(start(command.arguments, variables, signals))
    if place is None:
        raise IsolationRefused("an isolated program needs a directory of its own")
    return start_isolated(command.isolation, command.arguments, variables, ready, signals, place=place)


def _attend(program: Started, beside: Beside, signals: Signals) -> int:
    """Pass signals on until one of the two has ended. The exit code."""
    while True:
        if (code := program.poll()) is not None:
            return code
        if beside.poll():
            say(
                f"error: the proxy ended (exit code {exit_code(beside.wait())}), so the program is ended too; "
                "what it said above tells why"
            )
            program.end(_LAST_WORDS_SECONDS)
            return 1
        found = signals.next()
        if found is not None and found[0] in PASSED_ON:
            program.signal(found[0], terminal=found[1])


def _end(beside: Beside, signals: Signals) -> None:
    """Let the proxy finish what still runs. A signal that would end us ends that wait."""
    if beside.poll():
        return
    beside.signal(signal.SIGTERM)
    end = time.monotonic() + _END_SECONDS
    while not beside.poll() and (left := end - time.monotonic()) > 0:
        found = signals.next(left)
        if found is not None and found[0] in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            break
    if not beside.poll():
        beside.signal(signal.SIGKILL)
        beside.wait()


def _report(beside: Beside, ready: Ready) -> None:
    tally = beside.tally()
    for hint in () if tally is None else tally.hints():
        say(f"grantproxy: {hint}")
    said = "unknown, as the proxy did not end by itself" if tally is None else str(tally)
    say(f"grantproxy: decisions: {said}; log {ready.log}")


__all__ = ["Command", "look_up", "run", "say"]
