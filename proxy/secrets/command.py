"""Run a command for its output, with a bound on time and size, and leave no process behind.

The command gets a process group of its own: when it is late or says too much, the whole group is ended, so that a child
that keeps the pipe open cannot hold us.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path


class CommandFailed(Exception):
    """The command gave no output. The message continues a sentence that begins with its name."""


def run_bounded(arguments: Sequence[str], directory: Path, seconds: float, max_bytes: int) -> bytes:
    """What the command writes to standard output; standard error is discarded, standard input is empty.

    Raises:
        CommandFailed: it cannot be started, takes more than `seconds`, writes more than `max_bytes`, or fails.
    """
    deadline = time.monotonic() + seconds
    try:
        process = subprocess.Popen(  # noqa: S603 -- the operator's own command, without a shell
            list(arguments),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or "its arguments cannot be used"
        raise CommandFailed(f"cannot be started: {cause.lower()}; install it or name another source") from None
    if process.stdout is None:
        raise CommandFailed("has no output; name another source")
    stdout = process.stdout.fileno()
    with process:
        try:
            output = _read(stdout, deadline, seconds, max_bytes)
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise _late(seconds) from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    if status != 0:
        raise CommandFailed(f"ended with status {status}; run it by hand to see why")
    return output


def _read(descriptor: int, deadline: float, seconds: float, max_bytes: int) -> bytes:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    output = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            raise _late(seconds)
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return output
        output += chunk
        if len(output) > max_bytes:
            raise CommandFailed(f"prints more than {max_bytes // 1024} KiB; print the credential alone")


def _late(seconds: float) -> CommandFailed:
    return CommandFailed(f"did not end within {seconds:g} seconds; run it by hand to see why")
