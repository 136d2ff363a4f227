"""What an isolated program gets of us besides files: its standard streams, system calls, and mounts of later on."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e.test_run_isolate import TOOLS, make, only
from support.certificates import Certificates
from support.runs import Runs, end
from support.waits import wait_for

READS = 'read line; echo "got $line"'
OPENS = """
for number in 0 1 2; do
  for way in '<' '>>' '>'; do (eval "exec 9$way/proc/self/fd/$number" && echo x >&9) 2>/dev/null; done
done
cat /proc/self/fd/1 >stolen 2>/dev/null & sleep 0.3
"""


@pytest.fixture
def runs(tmp_path: Path, certificates: Certificates) -> Iterator[Runs]:
    with ExitStack() as exits:
        yield make(tmp_path, certificates, exits)


@pytest.mark.parametrize("name", TOOLS)
def test_files_are_not_opened_anew(runs: Runs, name: str) -> None:
    """An input stays as it is, and a log keeps what stood there and is not read."""
    runs.preamble = only(name)
    given, log = runs.folder.parent / "given", runs.folder.parent / "log"
    given.write_text("as it was\n")
    log.write_text("before\n")
    with given.open("r") as stdin, log.open("a") as stdout:
        done = runs.run("--isolate", "--", "sh", "-c", OPENS, endpoint=[], stdin=stdin, stdout=stdout)
    assert done.returncode == 0, done.stderr
    assert given.read_text() == "as it was\n"
    assert log.read_text().startswith("before\n")
    assert "before" not in (runs.folder / "stolen").read_text()


@pytest.mark.parametrize("name", TOOLS)
def test_files_carry_what_passes(runs: Runs, name: str) -> None:
    """More than a pipe holds, both ways; output and error in one file keep their order, and all of it is there."""
    runs.preamble = only(name)
    given, log = runs.folder.parent / "given", runs.folder.parent / "log"
    text = "".join(f"line {number}\n" for number in range(60_000))
    given.write_text(text)
    with given.open() as stdin, log.open("w") as out:
        script = "cat; echo one >&2; echo two; echo three >&2; exit 7"
        done = runs.run(
            *("--isolate", "--quiet", "--", "sh", "-c", script), endpoint=[], stdin=stdin, stdout=out, stderr=out
        )
    assert done.returncode == 7
    assert log.read_text() == f"{text}one\ntwo\nthree\n"


@pytest.mark.parametrize("read", ["", READS], ids=["nothing", "a-line"])
def test_what_is_not_read_is_there_for_the_next(runs: Runs, read: str) -> None:
    """As in a loop of a shell whose input is a file: only what the program took is gone."""
    given = runs.folder.parent / "given"
    given.write_text("".join(f"line {number}\n" for number in range(60_000)))
    with given.open("rb", buffering=0) as stdin:
        done = runs.run("--isolate", "--", "sh", "-c", f"{read}\n:", endpoint=[], stdin=stdin)
        assert stdin.readline() == (b"line 1\n" if read else b"line 0\n")
    assert done.stdout == ("got line 0\n" if read else "")


def test_nobody_reads_the_output(runs: Runs) -> None:
    """The program is told by its pipe, as without us."""
    done = runs.run(
        "--isolate",
        "--",
        "sh",
        "-c",
        "yes; echo $? >code",
        endpoint=[],
        before=["bash", "-c", 'exec "$@" > >(head -1)', "-"],
    )
    assert (done.stdout, (runs.folder / "code").read_text()) == ("y\n", "141\n"), done.stderr


def test_a_signal_ends_the_wait_for_a_reader(runs: Runs) -> None:
    """What nobody takes does not hold us for ever, once the program has ended."""
    script = "head -c 100000 /dev/zero; touch said"
    process = runs.start("--isolate", "--", "sh", "-c", script, endpoint=[])
    try:
        wait_for((runs.folder / "said").exists)
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        end(process)


def test_a_machine_whose_calls_are_not_known(runs: Runs) -> None:
    """It is said what is then open, and the program is run."""
    runs.preamble = "from proxy.run import seccomp\nseccomp.MACHINES.clear()"
    done = runs.run("--isolate", "--", "grep", "Seccomp:", "/proc/self/status", endpoint=[])
    assert (done.returncode, done.stdout.split()) == (0, ["Seccomp:", "0"]), done.stderr
    assert "so the program's are not filtered" in done.stderr


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_directory_is_no_stream(runs: Runs, stream: str) -> None:
    """Through it the program would come to all around it. As an input, Python refuses it."""
    number = os.open(runs.folder.parent, os.O_RDONLY)
    try:
        done = runs.run("--isolate", "--", "touch", "ran", endpoint=[], **{stream: number})
    finally:
        os.close(number)
    assert (done.returncode != 0, (runs.folder / "ran").exists()) == (True, False)


CALLS = """
import json, os, socket
def attempt(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"
open("made", "w").close()
print(json.dumps({
    "vsock": attempt(lambda: socket.socket(40, socket.SOCK_STREAM)),
    "netlink": attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    "chmod": attempt(lambda: os.chmod("made", 0o4755)),
    "open": attempt(lambda: os.open("other", os.O_CREAT | os.O_WRONLY, 0o4755)),
    "harmless": attempt(lambda: os.chmod("made", 0o755)),
    "first": open("/proc/1/status").read().partition("Seccomp:")[2].split()[0],
}))
"""


@pytest.mark.parametrize("name", TOOLS)
def test_calls_are_filtered(runs: Runs, name: str) -> None:
    """Sockets past the network namespace and set-user-ID files are refused, to the first process in there as well."""
    runs.preamble = only(name)
    script = runs.folder / "calls.py"
    script.write_text(CALLS)
    done = runs.run("--isolate", "--", "/usr/bin/env", "python3", "calls.py", endpoint=[])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "vsock": "OSError",
        "netlink": "done",
        "chmod": "PermissionError",
        "open": "PermissionError",
        "harmless": "done",
        "first": "2",
    }


LATER = """
mount --make-rshared /
"$@" &
while ! test -e begun; do sleep 0.05; done
mkdir later && mount -t tmpfs none later && touch later/seen && touch mounted
wait $!
"""
ROOT = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*ROOT, "true"], check=False).returncode != 0,
    reason="mount namespaces cannot be made here",
)
@pytest.mark.parametrize("name", TOOLS)
def test_what_is_mounted_later_is_not_seen(runs: Runs, name: str) -> None:
    """Where the host's mounts are shared, a file system below the working directory stays the host's."""
    runs.preamble = only(name)
    script = "touch begun; while ! test -e mounted; do sleep 0.05; done; ls later"
    process = runs.start("--isolate", "--", "sh", "-c", script, endpoint=[], before=[*ROOT, "sh", "-c", LATER, "-"])
    try:
        wait_for((runs.folder / "mounted").exists)
        out, err = process.communicate(timeout=60)
    finally:
        end(process)
    assert (process.returncode, out) == (0, ""), err
    assert "warning" not in err
