"""The first moments of `run`, and the directory that it leaves nowhere behind."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from support.proxyproc import ROOT

from proxy.run.isolated import _version
from proxy.run.sockets import sockets, sweep

BEGIN = "import sys, os, signal\nfrom proxy.run.begin import begin\nbegin()\n"


def run(script: str, before: str = "") -> "subprocess.CompletedProcess[str]":
    command = ["sh", "-c", f'exec "$0" -P -c "$1" {before}', sys.executable, BEGIN + script]
    return subprocess.run(
        command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_filled(closed: str, tmp_path: Path) -> None:
    """What is written to them goes nowhere, and no file gets their places."""
    out = tmp_path / "out"
    done = run(
        f"opened = os.open({str(out)!r}, os.O_RDWR | os.O_CREAT)\n"
        "print('x', file=sys.stderr); print('y', flush=True); sys.stderr.flush()\n"
        "assert opened > 2 and all(os.get_inheritable(number) for number in range(3))\n"
        "os.write(opened, b'done')\n",
        closed,
    )
    assert done.returncode == 0, done.stderr
    assert out.read_text() == "done"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    """Everything that was begun is cleaned up, as on any exit."""
    done = run(f"try:\n os.kill(os.getpid(), {number})\nfinally:\n print('cleaned', flush=True)")
    assert (done.returncode, done.stdout) == (128 + number, "cleaned\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals) -> None:
    """As nohup ignores one."""
    ignore = f"import os, signal; signal.signal({number}, signal.SIG_IGN); os.execv({sys.executable!r}, "
    ignore += f"['python', '-P', '-c', {BEGIN + f'os.kill(os.getpid(), {number}); print(1)'!r}])"
    command = [sys.executable, "-c", ignore]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_the_directory_goes_with_its_use(tmp_path: Path) -> None:
    """And is the user's alone."""

    def use() -> None:
        with sockets(tmp_path) as path:
            assert path.stat().st_mode & 0o777 == 0o700
            sys.exit(1)

    with pytest.raises(SystemExit):
        use()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["left", "in-use", "no-lock", "a-link", "another-name", "lock-is-a-link"])
def test_what_was_left_behind(tmp_path: Path, kind: str) -> None:
    """It is removed where nobody holds its lock; nothing else is."""
    path, elsewhere = tmp_path / "grantproxy-run-x", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    if kind == "another-name":
        path = tmp_path / "grantproxy-x"
    if kind == "a-link":
        path.symlink_to(elsewhere)
    else:
        path.mkdir()
        (path / "0.sock").touch()
        if kind == "lock-is-a-link":
            (path / "lock").symlink_to(elsewhere / "lock")
        elif kind != "no-lock":
            (path / "lock").touch()
    with (
        (elsewhere / "lock").open() as other,
        (path / "lock" if kind == "in-use" else elsewhere / "lock").open() as held,
    ):
        if kind == "in-use":
            fcntl.flock(held, fcntl.LOCK_EX)
        sweep(tmp_path)
        assert other
    assert os.path.lexists(path) is (kind != "left")
    assert (elsewhere / "lock").exists()


def test_one_that_is_just_being_made_is_nobodys_left_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program that starts looks at the directory between any two steps of its making."""
    steps = []

    def seen(step: Any) -> Any:
        def between(*arguments: Any, **named: Any) -> Any:
            with monkeypatch.context() as plain:
                for name, original in originals.items():
                    plain.setattr(*name, original)
                sweep(tmp_path)
            steps.append(step)
            return step(*arguments, **named)

        return between

    originals = {
        (o, n): getattr(o, n) for o, n in ((tempfile, "mkdtemp"), (os, "open"), (fcntl, "flock"), (Path, "rename"))
    }
    for (owner, name), original in originals.items():
        monkeypatch.setattr(owner, name, seen(original))
    with sockets(tmp_path) as path:
        made = list(steps)
        sweep(tmp_path)
        (path / "0.sock").touch()
    assert len(made) >= 3
    assert list(tmp_path.iterdir()) == []


def test_tools_are_asked_without_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of what we start can be read by others of the same user."""
    monkeypatch.setenv("API_TOKEN", "tok-0123456789")
    tool = tmp_path / "tool"
    tool.write_text("#!/usr/bin/env -S /bin/sh\n/usr/bin/env\n")
    tool.chmod(0o755)
    assert "API_TOKEN" not in _version(str(tool))
    assert "PWD" in _version(str(tool))
