"""Processes that a run starts: each ends with its section, by its own id, and tells its CPU and memory."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
CORES = psutil.cpu_count() or 1


class Failed(Exception):
    """Something did not start, or the load saw what it should not."""


@contextlib.contextmanager
def started(command: list[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block; what it prints goes into `log`."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port on loopback that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until something listens.

    Raises:
        Failed: the process ended, or nothing listens within 60 seconds.
    """
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise Failed(f"`{process.args[0]}` does not listen: {log.read_text(errors='replace')[-2000:]}")  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class Family:
    """A process and its children.

    CPU is in seconds; memory in bytes: the resident set of one process, the proportional set of several (Linux), which
    counts what they share once.
    """

    pid: int

    def members(self) -> list[psutil.Process]:
        first = psutil.Process(self.pid)
        return [first, *first.children(recursive=True)]

    def cpu(self) -> float:
        return sum(sum(one.cpu_times()[:2]) for one in self.members())

    def memory(self) -> int:
        members = self.members()
        if len(members) == 1:
            return int(members[0].memory_info().rss)
        return sum(getattr(one.memory_full_info(), "pss", one.memory_info().rss) for one in members)


def busy() -> float:
    """Seconds that the machine's cores have worked, for whomever."""
    times = psutil.cpu_times()
    names = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(getattr(times, name, 0.0) for name in names))


def ask(module: str, job: dict[str, Any], go: Callable[[], None], patience: float) -> dict[str, float]:
    """Run a load program on `job`; `go` is called when it is ready.

    Raises:
        Failed: it ended with words, which are the message, or did not end in `patience` seconds.
    """
    command = [sys.executable, "-m", module]
    with subprocess.Popen(
        command, cwd=ROOT / "tests", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(patience, process.kill)
        watchdog.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()
                if process.stdout.readline():
                    go()
                    process.stdin.write("\n")
                    process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                raise Failed(process.stderr.read().strip()[-2000:] or f"the load did not end in {patience:.0f} s")
            return dict(json.loads(answer))
        finally:
            watchdog.cancel()
            process.kill()
