"""`make run`: the demo comes out as it says, and its curl lines work."""

import shutil
import signal
import subprocess
import sys

import pytest
from support.proxyproc import ROOT

COMMAND = [sys.executable, "-m", "proxy.cli", "demo"]


def test_the_tour() -> None:
    """Every call comes out as expected, the records are shown and their chain is whole; exit 0."""
    done = subprocess.run(COMMAND, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all 18 calls came out as expected" in done.stdout
    assert "semantic-response-credential" in done.stdout
    assert "\x1b" not in done.stdout, "no colour where there is no terminal"
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_kept_up() -> None:
    """`--keep` prints curl lines that work, and Ctrl-C ends it."""
    process = subprocess.Popen([*COMMAND, "--keep"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        lines: list[str] = []
        assert process.stdout is not None
        while len([line for line in lines if "curl" in line]) < 2:
            line = process.stdout.readline()
            assert line, "".join(lines)
            lines.append(line)
        for line in lines:
            if "curl" in line:
                done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=20)
                assert '"id": ' in done.stdout, (line, done)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(15) == 0
        process.stdout.close()
