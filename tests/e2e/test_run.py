"""`grantproxy run`: the program has everything but the credential, and neither it nor the proxy outlives the other."""

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.certificates import Certificates
from support.runs import (
    CALL,
    COUNTS,
    ROOT,
    SPECIFICATION,
    TOKEN,
    Runs,
    alive,
    as_nobody,
    children,
    end,
    issues,
)
from support.upstream import Upstream
from support.waits import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")
curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@pytest.fixture
def runs(tmp_path: Path, certificates: Certificates) -> Iterator[Runs]:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    shutil.copy(SPECIFICATION, folder / "api-grant.yaml")
    with Upstream(certificates, handler=issues) as upstream:
        yield Runs(folder, upstream, certificates)


@curl
def test_the_command_of_the_specification(runs: Runs) -> None:
    """Its flags, its grant and its program, as they are written: the program has the base URL and no token, the
    upstream has the token, and standard output is the program's alone."""
    agent = runs.script("agent", f"#!/bin/sh\nenv >environment\n{CALL}\nexit 7\n")
    done = runs.run("--", agent)
    assert (done.returncode, done.stdout) == (7, '{"items":[]}'), done.stderr
    (request,) = runs.upstream.requests
    assert request.get("authorization") == f"Bearer {TOKEN}".encode()
    environment = (runs.folder / "environment").read_text()
    assert TOKEN not in environment
    assert "API_TOKEN" not in environment
    assert "\nAPI_BASE_URL=http://127.0.0.1:" in f"\n{environment}"
    assert done.stderr == f"grantproxy: decisions: allowed 1, refused 0; log {runs.state}/decisions.jsonl\n"
    (record,) = [json.loads(line) for line in (runs.state / "decisions.jsonl").read_text().splitlines()]
    assert record["event"] == "broker_request_allow"


@curl
def test_the_forward_proxy_is_in_the_environment(runs: Runs) -> None:
    """A client that knows nothing of us goes through the proxy and trusts its CA; refusals are counted by reason."""
    url = f"{runs.upstream.url}/repos/acme/widgets/issues?state=open"
    call = f"curl -sS --noproxy '' -A '' -H Accept: -H 'Authorization: Bearer @secret:api' '{url}'"
    done = runs.run("--", "sh", "-c", f"{call}; {call.replace('open', 'shut')} >/dev/null")
    assert done.returncode == 0, done.stderr
    assert done.stdout == '{"items":[]}'
    assert "allowed 1, refused 1 (query-value 1)" in done.stderr


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        pytest.param(["true"], 0, None, id="success"),
        pytest.param(["sh", "-c", "exit 3"], 3, None, id="failure"),
        pytest.param(["sh", "-c", "kill -TERM $$"], 143, None, id="signal"),
        pytest.param(["no-such-program"], 127, "`no-such-program` is not found", id="not-found"),
        pytest.param(["./api-grant.yaml"], 126, "`./api-grant.yaml` may not be executed", id="not-executable"),
        pytest.param(["./bad"], 126, "`./bad` cannot be executed: exec format error", id="bad-format"),
    ],
)
def test_exit_codes(runs: Runs, command: list[str], code: int, says: str | None) -> None:
    """The program's exit code is ours; what cannot be executed is said in one line. `--quiet` says nothing else."""
    runs.script("bad", "\x7fELF nothing")
    done = runs.run("--quiet", "--", *command)
    assert done.returncode == code
    assert done.stdout == ""
    if says is None:
        assert done.stderr == ""
    else:
        assert done.stderr.startswith(f"error: {says}")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        pytest.param(["--upstream", "https://a.example"], "--assurance: is missing", id="assurance"),
        pytest.param(
            ["--upstream", "http://a.example", "--assurance", "semantic", "--grant", "api-grant.yaml"],
            "--upstream: ",
            id="upstream",
        ),
        pytest.param(
            ["--upstream", "https://a.example", "--assurance", "trusted-upstream", "--secret", "x=env:NOT_SET"],
            "`NOT_SET` is not set",
            id="secret",
        ),
        pytest.param(
            ["--upstream", "https://a.example", "--assurance", "trusted-upstream", "--env", "HTTPS_PROXY"],
            "--env: ",
            id="variable",
        ),
        pytest.param(
            ["--upstream", "https://a.example", "--assurance", "trusted-upstream", "--idle", "5"],
            "--idle: ",
            id="timeout",
        ),
        pytest.param(["-c", "absent.yaml"], "absent.yaml: does not exist", id="file"),
        pytest.param(
            ["--upstream", "https://a.example", "--assurance", "trusted-upstream", "--box", "a"],
            "`a` is no box",
            id="box",
        ),
    ],
)
def test_the_program_does_not_start_without_the_proxy(runs: Runs, endpoint: list[str], says: str) -> None:
    """What is wrong with the settings is said by the option or file that it is in, and nothing is run."""
    done = runs.run("--", "touch", "ran", endpoint=endpoint)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (runs.folder / "ran").exists()


def test_other_variables_with_the_secret_are_left_out(runs: Runs) -> None:
    """A variable that holds the same value is told and left out; one that comes near is not."""
    runs.environment = {"CLONE_URL": f"https://x:{TOKEN}@host/", "NEAR": TOKEN[:-1]}
    done = runs.run("--", "env")
    assert "CLONE_URL" not in done.stdout
    assert f"NEAR={TOKEN[:-1]}\n" in done.stdout
    assert "warning: `CLONE_URL` is left out too: it holds the value of `API_TOKEN`" in done.stderr
    assert TOKEN not in done.stderr


def test_a_settings_file_beside_a_running_serve(runs: Runs) -> None:
    """The addresses of a file are for `serve`: `run` has free ones, so that both can run at once."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = {
            "proxy": f"127.0.0.1:{port}",
            "admin": f"127.0.0.1:{port + 1}",
            "state": str(runs.state),
            "audit": {"path": "stdout"},
            "endpoints": [
                {
                    "name": "api",
                    "upstream": runs.upstream.url,
                    "assurance": "semantic",
                    "grant": "api-grant.yaml",
                    "secrets": {"api": "env:API_TOKEN"},
                    "ca": str(runs.certificates.ca),
                    "listen": f"127.0.0.1:{port + 2}",
                    "env": ["API_BASE_URL"],
                }
            ],
            "boxes": [
                {"name": "agent-1", "token": "env:TOKEN_1", "endpoints": ["api"]},
                {"name": "agent-2", "token": "env:TOKEN_2"},
            ],
        }
        (runs.folder / "grantproxy.yaml").write_text(json.dumps(settings))
        runs.environment = {"TOKEN_1": "token-of-agent-1", "TOKEN_2": "token-of-agent-2"}
        done = runs.run("--box", "agent-1", "--", "sh", "-c", f"{CALL}; env", endpoint=[])
        assert done.stdout.startswith('{"items":[]}'), done.stderr
        assert "TOKEN_1=" not in done.stdout
        assert "token-of-agent-2" not in done.stdout
        assert TOKEN not in done.stdout
        (record,) = [json.loads(line) for line in (runs.state / "decisions.jsonl").read_text().splitlines()]
        assert record["box"] == "agent-1"
        refused = runs.run("--", "true", endpoint=[])
        assert refused.returncode == 1
        assert "`agent-1`, `agent-2`" in refused.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH"])
def test_signals_are_passed_on_once(runs: Runs, name: str) -> None:
    """What is sent to us alone reaches the program, once, and its own exit code is ours."""
    process = runs.start("--", runs.script("counts", COUNTS), name)
    try:
        wait_for((runs.folder / "begun").exists)
        process.send_signal(getattr(signal, name))
        out, _ = process.communicate(timeout=30)
        assert (process.returncode, out) == (9, f"got {name}\n")
    finally:
        end(process)


@pytest.mark.parametrize(("key", "name"), [(b"\x03", "SIGINT"), (b"\x1c", "SIGQUIT")], ids=["ctrl-c", "ctrl-backslash"])
def test_keys_of_the_terminal_reach_the_program_once(runs: Runs, key: bytes, name: str) -> None:
    """Ctrl-C goes to the whole foreground group: it is not passed on once more, and ends neither us nor the proxy."""
    master, slave = pty.openpty()
    process = runs.start(
        *("--", runs.script("counts", COUNTS), name),
        before=["setsid", "--ctty", "--wait"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        wait_for((runs.folder / "begun").exists)
        os.write(master, key)
        assert process.wait(30) == 9
        shown = os.read(master, 65536).decode()
        assert f"got {name}\r\n" in shown
        assert "decisions: allowed 0, refused 0" in shown
    finally:
        os.close(master)
        end(process)


def test_the_program_does_not_go_on_without_the_proxy(runs: Runs) -> None:
    """When the proxy dies, the program is ended, one line says so, and the exit code is 1."""
    process = runs.start("--", "sh", "-c", "touch begun; exec sleep 60")
    try:
        wait_for((runs.folder / "begun").exists)
        started = children(process.pid)
        (proxy,) = (pid for pid in started if os.getsid(pid) == pid)
        (program,) = (pid for pid in started if pid != proxy)
        os.kill(proxy, signal.SIGKILL)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 1
        assert "error: the proxy ended (exit code 137), so the program is ended too" in err
        assert not alive(program)
    finally:
        end(process)


def test_killing_us_leaves_nothing(runs: Runs) -> None:
    """SIGKILL, which nobody can pass on, ends proxy and program as well."""
    process = runs.start("--", "sh", "-c", "touch begun; exec sleep 60", stdout=subprocess.DEVNULL)
    try:
        wait_for((runs.folder / "begun").exists)
        started = children(process.pid)
        assert len(started) == 2
        process.kill()
        process.wait()
        wait_for(lambda: not any(map(alive, started)))
    finally:
        end(process)


LOOKS = f"""#!{sys.executable}
import os, pathlib, sys
run = os.getppid()
others = [run]
for entry in pathlib.Path("/proc").iterdir():
    if entry.name.isdigit() and int(entry.name) != os.getpid():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == run:
            others.append(int(entry.name))
assert len(others) == 2, others
for pid in [os.getpid(), *others]:
    for name in ("environ", "mem", "fd/0", "maps"):
        path = pathlib.Path(f"/proc/{{pid}}/{{name}}")
        try:
            if name == "fd/0":
                path.readlink()
            else:
                with path.open("rb") as file:
                    file.read(0 if name == "mem" else 1)
            print("open" if pid == os.getpid() else f"LEAK {{name}}")
        except PermissionError:
            print("closed" if pid != os.getpid() else "odd")
"""


def test_a_program_of_the_same_user_cannot_look_into_the_proxy(runs: Runs) -> None:
    """Environment, memory and descriptors of the processes that hold secrets are closed to their own user."""
    prefix = as_nobody()
    if prefix == ["false"]:
        pytest.skip("as root it takes setpriv to become somebody else")
    if prefix:
        for path in (runs.folder, runs.folder.parent, runs.folder.parent / "home"):
            os.chown(path, 65534, 65534)
    done = runs.run("--", runs.script("looks", LOOKS), before=prefix)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["open"] * 4 + ["closed"] * 8


def test_help_has_an_example() -> None:
    """`--help` shows the whole command, and every key of an endpoint has its option."""
    from proxy.settings.spec import KEYS, option_of

    done = subprocess.run(
        [sys.executable, "-m", "proxy.cli", "run", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "grantproxy run --upstream https://api.example.com" in done.stdout
    for key in KEYS:
        assert f"--{option_of(key)} " in done.stdout
