"""The fork: of one thread alone, with signals that are the worker's own."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from proxy.state import StartRefused
from proxy.workers import process
from proxy.workers.ledger import Ledger

ROOT = Path(__file__).parents[4]


def test_it_does_not_fork_beside_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What that thread holds would be held for ever in the worker."""
    monkeypatch.setattr(process, "_ALONE_SECONDS", 0.05)
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        with pytest.raises(StartRefused, match=r"threads and cannot fork; use `workers: 1`"):
            process.fork(0, Ledger(1), lambda _end: 0)
    finally:
        release.set()
        thread.join()


PROGRAM = """
import os, signal, subprocess, sys, time
from proxy.workers.ledger import Ledger
from proxy.workers.line import Do, Message, receive, send
from proxy.workers.process import fork
signal.signal(signal.SIGTERM, lambda *_: print("the supervisor's handler ran in", os.getpid() == home))
home = os.getpid()
def work(end):
    {work}
worker = fork(3, Ledger(1), work)
{then}
_, status = os.waitpid(worker.pid, 0)
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(
    ("work", "then", "expected"),
    [
        pytest.param("return 0", "", "0", id="code"),
        pytest.param("raise SystemExit(5)", "", "5", id="system-exit"),
        pytest.param("raise ValueError('hunter2secret')", "", "1", id="error"),
        pytest.param("time.sleep(30)", "time.sleep(0.3); worker.signal(signal.SIGTERM)", "-15", id="early-sigterm"),
        pytest.param(
            "time.sleep(1); return 0",
            "time.sleep(0.3); worker.signal(signal.SIGINT); worker.signal(signal.SIGHUP)",
            "0",
            id="a-terminals-signals",
        ),
        pytest.param(
            "return subprocess.run(['/bin/sh', '-c', 'kill -INT $$; sleep 1']).returncode == -signal.SIGINT",
            "",
            "1",
            id="a-command-does-not-inherit-them",
        ),
    ],
)  # fmt: skip
def test_what_a_worker_is(work: str, then: str, expected: str) -> None:
    """It ends by its own code, with default signals until it serves, and never goes on as its supervisor."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(work=work, then=then)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.stdout.splitlines() == [expected], done.stderr
    assert "hunter2secret" not in done.stderr
