"""`grantproxy run --isolate`: the program reaches the proxy and nothing else, and sees nothing that it should not."""

import json
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Certificates
from support.isolation import TOOLS, only
from support.runs import CALL, COUNTS, ROOT, SPECIFICATION, TOKEN, Runs, end, issues
from support.upstream import DarkPort, Upstream
from support.waits import wait_for

from proxy.run.inside import KEYCTL
from proxy.run.kernel import MASKED

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolation is Linux's")
PROBE = Path(__file__).with_name("probe.py")
GRANT = f"undeclaredHeaders: strip\n{SPECIFICATION.read_text()}"
KEY = "key-0123456789-ghijkl"

WITH_A_KEY = """
import ctypes, os, sys
number, name, *command = sys.argv[1:]
libc = ctypes.CDLL(None)
libc.syscall(ctypes.c_long(int(number)), ctypes.c_long(1), None)
libc.syscall(ctypes.c_long(int(number) - 2), b"user", name.encode(), b"secret", ctypes.c_size_t(6), ctypes.c_long(-3))
os.execvp(command[0], command)
"""
"""Runs a command with a session keyring that has a key in it: add_key(2) stands two before keyctl(2)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the probe found, what it printed elsewhere, and what it called."""

    found: dict[str, Any]
    runs: Runs
    dark: DarkPort
    datagrams: socket.socket
    code: int
    err: str


def make(folder: Path, certificates: Certificates, exits: ExitStack) -> Runs:
    """A project with everything in it that a program must not have, or not change."""
    project = folder / "project"
    for name in ("conf", "private/keys", "var"):
        (project / name).mkdir(parents=True)
    (folder / "home" / ".config").mkdir(parents=True)
    (folder / "home" / ".config" / "token").write_text(KEY)
    (project / "conf" / "api-grant.yaml").write_text(GRANT)
    shutil.copy(PROBE, project / "probe.py")
    (project / "private" / "keys" / "token").write_text(KEY)
    upstream = exits.enter_context(Upstream(certificates, handler=issues))
    endpoint = {"upstream": upstream.url, "assurance": "semantic", "grant": "conf/api-grant.yaml"}
    endpoint |= {"secrets": {"api": "env:API_TOKEN", "key": "file:private/keys/token"}}  # type: ignore[dict-item]
    endpoint |= {"ca": str(certificates.ca), "listen": "127.0.0.1:9001", "env": ["API_BASE_URL"]}  # type: ignore[dict-item]
    settings = {"proxy": "127.0.0.1:8080", "state": "var/state", "endpoints": [endpoint]}
    (project / "grantproxy.yaml").write_text(json.dumps(settings))
    return Runs(project, upstream, certificates)


@pytest.fixture(scope="module", params=TOOLS)
def seen(request: Any, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Seen]:
    """One run of the probe with each tool."""
    folder = tmp_path_factory.mktemp("isolated")
    with ExitStack() as exits:
        runs = make(folder, certificates, exits)
        project, home = runs.folder, folder / "home"
        dark = exits.enter_context(DarkPort())
        datagrams = exits.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", 0))
        abstract = exits.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0grantproxy-test-{os.getpid()}-{request.param}")
        abstract.listen()
        unix = exits.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(home / "agent.sock"))
        unix.listen()
        opt = Path(f"/opt/grantproxy-test-{os.getpid()}-{request.param}.sock")
        if os.access("/opt", os.W_OK):
            service = exits.enter_context(socket.socket(socket.AF_UNIX))
            service.bind(str(opt))
            exits.callback(opt.unlink)
            service.listen()
        state = project / "var" / "state"
        host = {
            "opt": str(opt),
            "masked": MASKED,
            "keyctl": KEYCTL[os.uname().machine],
            "key": "grantproxy-test",
            "etc": [path for path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers") if os.path.exists(path)],
            "tcp": dark.port,
            "udp": datagrams.getsockname()[1],
            "abstract": f"grantproxy-test-{os.getpid()}-{request.param}",
            "unix": str(home / "agent.sock"),
            "upstream": runs.upstream.url,
            "curl": CALL,
            "read": {
                "secret": str(project / "private" / "keys" / "token"),
                "home's": str(home / ".config" / "token"),
                "ca-key": str(state / "ca-key.pem"),
                "log": str(state / "decisions.jsonl"),
                "grant": str(project / "conf" / "api-grant.yaml"),
                "bundle": str(state / "trust" / "bundle.pem"),
            },
            "list": {"state": str(state), "keys": str(project / "private" / "keys"), "home": str(home), "tmp": "/tmp"},
            "write": {
                "work": str(project / "made"),
                "home": str(home / "made"),
                "tmp": "/tmp/made",
                "grant": str(project / "conf" / "api-grant.yaml"),
                "settings": str(project / "grantproxy.yaml"),
                "state": str(state / "made"),
                "keys": str(project / "private" / "keys" / "made"),
                "trust": str(state / "trust" / "ca.pem"),
                "usr": "/usr/made",
                "etc": "/etc/made",
                "root": "/made",
                "python": str(Path(sys.prefix) / "made"),
            },
            "rename": {
                "grant": [str(project / "conf" / "api-grant.yaml"), str(project / "moved")],
                "settings": [str(project / "grantproxy.yaml"), str(project / "moved")],
                "grant's directory": [str(project / "conf"), str(project / "moved")],
                "state": [str(state), str(project / "moved")],
                "state's directory": [str(project / "var"), str(project / "moved")],
                "keys' directory": [str(project / "private"), str(project / "moved")],
            },
        }
        runs.preamble = only(request.param)
        runs.environment = {"SSH_AUTH_SOCK": str(home / "agent.sock"), "XDG_RUNTIME_DIR": "/run/user/1", "MINE": "kept"}
        process = runs.start(
            *("--isolate", "--", sys.executable, "probe.py", json.dumps(host)),
            endpoint=[],
            before=[sys.executable, "-c", WITH_A_KEY, str(KEYCTL[os.uname().machine]), "grantproxy-test"],
            stdin=subprocess.PIPE,
        )
        try:
            out, err = process.communicate("from outside", timeout=100)
        finally:
            end(process)
        assert out, err
        yield Seen(json.loads(out), runs, dark, datagrams, process.returncode, err)


@pytest.mark.parametrize("name", ["tcp", "route", "udp", "dns", "abstract", "unix", "opt", "nested", "keys"])
def test_there_is_no_way_out(seen: Seen, name: str) -> None:
    """No connection, datagram, name, socket or key of the host: by address, by abstract name or by path."""
    assert seen.found[name] in (
        *("ConnectionRefusedError", "OSError", "gaierror", "FileNotFoundError", "PermissionError"),
        "CalledProcessError",
    )
    assert seen.dark.connections == 0
    seen.datagrams.setblocking(False)
    with pytest.raises(BlockingIOError):
        seen.datagrams.recv(10)


@pytest.mark.parametrize("name", ["base-url", "forward-proxy", "curl"])
def test_the_proxy_is_reached(seen: Seen, name: str) -> None:
    """Unmodified clients use it by the base URL and as the forward proxy, and trust its CA."""
    assert seen.found[name] == '{"items":[]}'
    assert [request.get("authorization") for request in seen.runs.upstream.requests] == [f"Bearer {TOKEN}".encode()] * 3
    assert "allowed 3, refused 0" in seen.err


@pytest.mark.parametrize("name", ["secret", "home's", "ca-key", "log"])
def test_nothing_secret_is_read(seen: Seen, name: str) -> None:
    """Secret files, the home and the state are not there."""
    assert seen.found[f"read {name}"] in ("FileNotFoundError", "PermissionError")


def test_what_is_shown(seen: Seen) -> None:
    """Closed directories are empty, but for the public files of the CA; the home and `/tmp` hold only the way to what
    is shown."""
    assert seen.found["list state"] == ["trust"]
    assert seen.found["list keys"] == "done"
    assert ".config" not in seen.found["list home"]
    assert "BEGIN CERTIFICATE" in seen.found["read bundle"]
    assert seen.found["read grant"] == GRANT


@pytest.mark.parametrize(
    ("name", "may"),
    [
        *((name, True) for name in ("work", "home", "tmp")),
        *((name, False) for name in ("grant", "settings", "state", "keys", "trust", "usr", "etc", "root", "python")),
    ],
)
def test_what_is_written(seen: Seen, name: str, may: bool) -> None:
    """The working directory keeps what is written; a home and `/tmp` are the program's own; all else is read-only."""
    assert (seen.found[f"write {name}"] == "done") is may
    assert (seen.runs.folder / "made").read_text() == "changed"
    assert not (seen.runs.folder.parent / "home" / "made").exists()
    assert not Path("/tmp/made").exists()
    assert (seen.runs.folder / "conf" / "api-grant.yaml").read_text() == GRANT


@pytest.mark.parametrize(
    "name", ["grant", "settings", "grant's directory", "state", "state's directory", "keys' directory"]
)
def test_what_decides_is_not_moved_away(seen: Seen, name: str) -> None:
    """What is protected cannot be replaced by renaming it, or a directory on the way to it."""
    assert seen.found[f"rename {name}"] == "OSError"
    assert not (seen.runs.folder / "moved").exists()


def test_other_processes_are_not_there(seen: Seen) -> None:
    """The program sees itself and the one that forwards, which holds nothing secret."""
    assert len(seen.found["pids"]) == 2
    assert seen.found["pids"][0] == 1
    assert TOKEN not in seen.found["first"]
    assert KEY not in seen.found["first"]
    for name, inside in seen.found["namespaces"].items():
        assert inside != os.readlink(f"/proc/self/ns/{name}"), name


def test_no_privileges(seen: Seen) -> None:
    """No capability, and no program that gives one."""
    assert set(seen.found["capabilities"]) == {"0" * 16}
    assert seen.found["no-new-privs"] == "1"
    assert not [name for name in seen.found["devices"] if name.startswith(("sd", "nvme", "vd", "kvm", "fuse", "mem"))]


def test_nothing_of_the_kernel_is_written(seen: Seen) -> None:
    """Not one file of `/proc`, whoever runs it: root's files there are the machine's. There is no `/sys`."""
    assert seen.found["kernel"] == []


def test_what_tells_of_the_machine_is_masked(seen: Seen) -> None:
    """What container runtimes mask: it cannot be read, or there is nothing in it."""
    assert {name: text for name, text in seen.found["masked"].items() if text not in ([], "", "PermissionError")} == {}


def test_etc_holds_what_everybody_may_read(seen: Seen) -> None:
    """Not what root alone may, of a program that root runs."""
    assert set(seen.found["etc"].values()) <= {"", "PermissionError", "FileNotFoundError"}


def test_environment_input_and_exit_code(seen: Seen) -> None:
    """Input, exit code, directory and variables pass, less the credentials and the names of the host's sockets."""
    assert seen.code == 23
    assert seen.found["input"] == "from outside"
    assert seen.found["work"] == str(seen.runs.folder)
    environment = seen.found["environment"]
    assert environment["MINE"] == "kept"
    assert not {"API_TOKEN", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"} & set(environment)


@pytest.fixture
def runs(tmp_path: Path, certificates: Certificates) -> Iterator[Runs]:
    with ExitStack() as exits:
        yield make(tmp_path, certificates, exits)


def processes(mark: str) -> list[int]:
    """Processes that have `mark` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("name", TOOLS)
def test_killing_us_leaves_nothing(runs: Runs, name: str) -> None:
    """SIGKILL ends the proxy, the program, what it left in the background, and what isolates it."""
    runs.preamble = only(name)
    mark = f"61.{os.getpid()}{runs.upstream.port}"
    script = f"setsid sleep {mark} & touch begun; exec sleep {mark}"
    process = runs.start("--isolate", "--", "sh", "-c", script, endpoint=[], stdout=subprocess.DEVNULL)
    try:
        wait_for((runs.folder / "begun").exists)
        assert len(processes(mark)) >= 4
        process.kill()
        process.wait()
        wait_for(lambda: not processes(mark))
    finally:
        end(process)


@pytest.mark.parametrize("name", TOOLS)
def test_signals_reach_the_program(runs: Runs, name: str) -> None:
    """A signal that is sent to us reaches the program in there, and what that started ends with it."""
    runs.preamble = only(name)
    mark = f"62.{os.getpid()}{runs.upstream.port}"
    script = f"trap 'echo got; exit 9' TERM; setsid sleep {mark} & touch begun; while :; do sleep 0.05; done"
    process = runs.start("--isolate", "--", "sh", "-c", script, endpoint=[])
    try:
        wait_for((runs.folder / "begun").exists)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (9, "got\n")
        assert not processes(f"sleep\0{mark}")
    finally:
        end(process)


@pytest.mark.parametrize("name", TOOLS)
def test_ctrl_c_reaches_the_program_once(runs: Runs, name: str) -> None:
    """Whether or not it may have the terminal, and it ends neither us nor what isolates it."""
    runs.preamble = only(name)
    script = runs.script("counts", COUNTS)
    master, slave = pty.openpty()
    process = runs.start(
        *("--isolate", "--", sys.executable, script, "SIGINT"),
        endpoint=[],
        before=["setsid", "--ctty", "--wait"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        wait_for((runs.folder / "begun").exists)
        os.write(master, b"\x03")
        assert process.wait(60) == 9
        assert "got SIGINT\r\n" in os.read(master, 65536).decode()
    finally:
        os.close(master)
        end(process)


SHARED = "\nisolated._may_share_terminal = lambda: True"
"""As on kernels that let nobody put keys into a terminal."""
STOPS = """
import os, signal, sys
signal.signal(signal.SIGINT, lambda *_: (print("got SIGINT", flush=True), sys.exit(9)))
print("begun", flush=True)
signal.pause()  # Ctrl-Z, and what continues it
while True:
    signal.pause()
"""


class OnTerminal:
    """A shell with job control on a terminal, and what is printed there."""

    def __init__(self, runs: Runs, name: str, *command: str) -> None:
        runs.preamble = only(name) + SHARED
        self.master, slave = pty.openpty()
        self.process = runs.start(
            *("--isolate", "--", *command),
            endpoint=[],
            before=[
                "setsid",
                "--ctty",
                "--wait",
                "bash",
                "--norc",
                "-mc",
                '"$@"; echo "code $?"; fg; echo "end $?"',
                "-",
            ],
            **dict.fromkeys(("stdin", "stdout", "stderr"), slave),
        )
        os.close(slave)
        self.text = ""

    def expect(self, text: str) -> None:
        while text not in self.text:
            ready, _, _ = select.select([self.master], [], [], 60)
            assert ready, self.text
            try:
                self.text += os.read(self.master, 65536).decode()
            except OSError:  # everybody has ended
                pytest.fail(f"{text!r} did not come: {self.text!r}")
        self.text = self.text.partition(text)[2]

    def close(self) -> None:
        end(self.process)
        os.close(self.master)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("name", TOOLS)
def test_job_control_on_a_shared_terminal(runs: Runs, name: str) -> None:
    """Ctrl-Z stops the program and us, `fg` continues both, and Ctrl-C then reaches the program, once."""
    terminal = OnTerminal(runs, name, sys.executable, "-c", STOPS)
    try:
        terminal.expect("begun")
        os.write(terminal.master, b"\x1a")
        terminal.expect("code 14")
        time.sleep(1)
        os.write(terminal.master, b"\x03")
        terminal.expect("got SIGINT")
        terminal.expect("end 9")
        assert "SIGINT" not in terminal.text
    finally:
        terminal.close()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("name", TOOLS)
def test_the_program_s_group_is_its_own(runs: Runs, name: str) -> None:
    """What it sends to its group does not reach us, nor who started us: its end is told as any other."""
    terminal = OnTerminal(runs, name, sys.executable, "-c", "import os, signal; os.kill(0, signal.SIGKILL)")
    try:
        terminal.expect("grantproxy: decisions: allowed 0")
        terminal.expect("code 137")
    finally:
        terminal.close()


@pytest.mark.parametrize("name", TOOLS)
def test_programs_that_are_not_shown(runs: Runs, name: str) -> None:
    """A program in the home is not there, and the refusal says how to show it."""
    runs.preamble = only(name)
    tools = runs.folder.parent / "home" / "tools"
    tools.mkdir()
    (tools / "mine").write_text("#!/bin/sh\necho here\n")
    (tools / "mine").chmod(0o755)
    done = runs.run("--isolate", "--", str(tools / "mine"), endpoint=[])
    assert done.returncode == 127
    assert "--show" in done.stderr
    done = runs.run("--isolate", "--show", str(tools), "--", str(tools / "mine"), endpoint=[])
    assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr


@pytest.mark.parametrize("name", TOOLS)
def test_names_by_links(runs: Runs, name: str) -> None:
    """The home and what is shown are there under the names that lead to them."""
    runs.preamble = only(name)
    around = runs.folder.parent
    (around / "me").symlink_to("home")
    (around / "shown").symlink_to("real")
    (around / "real").mkdir()
    (around / "real" / "file").write_text("here")
    runs.environment = {"HOME": str(around / "me")}
    script = f'touch "$HOME/made" && cat {around}/shown/file'
    done = runs.run("--isolate", "--show", str(around / "shown"), "--", "sh", "-c", script, endpoint=[])
    assert (done.returncode, done.stdout) == (0, "here"), done.stderr
    assert not (around / "home" / "made").exists()


@pytest.mark.parametrize("shown", ["/", "/proc", "/dev/shm"])
def test_what_is_not_to_be_shown(runs: Runs, shown: str) -> None:
    """What the program has of its own, or everything."""
    done = runs.run("--isolate", "--show", shown, "--", "touch", "ran", endpoint=[])
    assert done.returncode == 1
    assert f"`{shown}` cannot be shown" in done.stderr
    assert not (runs.folder / "ran").exists()


@pytest.mark.parametrize("says", ["Creating new namespace failed: Operation not permitted"])
def test_a_machine_that_does_not_isolate(runs: Runs, says: str) -> None:
    """What the tool says is passed on, with what helps; nothing is run."""
    tools = runs.folder.parent / "tools"
    tools.mkdir()
    (tools / "bwrap").write_text(f"#!/bin/sh\necho 'bwrap: {says}' >&2\nexit 1\n")
    (tools / "bwrap").chmod(0o755)
    runs.environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
    done = runs.run("--isolate", "--", "touch", "ran", endpoint=[])
    assert done.returncode == 1
    assert f"error: this machine does not isolate: bwrap: {says}; allow user namespaces" in done.stderr
    assert not (runs.folder / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_during_the_start(runs: Runs, number: signal.Signals) -> None:
    """It ends what was started, in order: nothing is left behind, and nothing is told as a fault."""
    place, settings = runs.folder.parent / "sockets", runs.folder.parent / "settings"
    for folder in (place, settings):
        folder.mkdir()
    document = json.loads((runs.folder / "grantproxy.yaml").read_text())
    document["endpoints"][0]["grant"] = str(runs.folder / "conf" / "api-grant.yaml")
    document["endpoints"][0]["secrets"] = {"api": f"exec:sh -c 'touch {settings}/begun; exec sleep 9'"}
    (settings / "grantproxy.yaml").write_text(json.dumps(document))
    runs.preamble = (
        f"from proxy.run import sockets\nsockets.sockets.__wrapped__.__defaults__ = (sockets.Path({str(place)!r}),)"
    )
    config = ("-c", str(settings / "grantproxy.yaml"))
    process = runs.start(*config, "--isolate", "--", "touch", "ran", endpoint=[], start_new_session=True)
    try:
        wait_for((settings / "begun").exists)
        assert len(list(place.iterdir())) == 1
        os.killpg(process.pid, number)
        _, err = process.communicate(timeout=60)
    finally:
        end(process)
    assert process.returncode == (130 if number == signal.SIGINT else 128 + number)
    assert "Traceback" not in err
    assert list(place.iterdir()) == []
    assert not (runs.folder / "ran").exists()


def test_no_tool(runs: Runs) -> None:
    """Without bubblewrap and unshare it says what to install, and starts nothing. One that the program could have put
    into the working directory is none."""
    (runs.folder / "bwrap").write_text("#!/bin/sh\ntouch ran\n")
    (runs.folder / "bwrap").chmod(0o755)
    runs.environment = {"PATH": f"/nonexistent:{runs.folder}"}
    done = runs.run("--isolate", "--", "/bin/touch", "ran", endpoint=[])
    assert done.returncode == 1
    assert "install bubblewrap" in done.stderr
    assert not (runs.folder / "ran").exists()
    assert not (runs.folder / "var" / "state").exists()


@pytest.mark.parametrize(
    ("change", "environment", "says"),
    [
        pytest.param({"audit": {"path": "{project}/log"}}, {}, "`audit.path` is", id="log"),
        pytest.param({}, {"PYTHONPATH": "{root}:{project}/src"}, "takes modules from", id="modules"),
        pytest.param({}, {"LD_LIBRARY_PATH": "{project}/lib"}, "`LD_LIBRARY_PATH` leads into", id="loader"),
    ],
)
def test_what_the_program_could_change_or_erase(
    runs: Runs, change: dict[str, Any], environment: dict[str, str], says: str
) -> None:
    """Records in the working directory, and ways for its code into grantproxy: refused before anything is run."""
    names = {"project": str(runs.folder), "root": str(ROOT)}
    settings = json.loads((runs.folder / "grantproxy.yaml").read_text())
    settings |= json.loads(json.dumps(change).replace("{project}", names["project"]))
    (runs.folder / "grantproxy.yaml").write_text(json.dumps(settings))
    runs.environment = {name: text.format(**names) for name, text in environment.items()}
    done = runs.run("--isolate", "--", "touch", "ran", endpoint=[])
    assert done.returncode == 1
    assert says in done.stderr
    assert not (runs.folder / "ran").exists()


def test_commands_that_the_program_could_change(runs: Runs) -> None:
    """A secret's command that runs in the working directory would run outside what the program put there."""
    settings = json.loads((runs.folder / "grantproxy.yaml").read_text())
    settings["endpoints"][0]["secrets"]["made"] = "exec:echo made-0123456789"
    (runs.folder / "grantproxy.yaml").write_text(json.dumps(settings))
    done = runs.run("--isolate", "--", "touch", "ran", endpoint=[])
    assert done.returncode == 1
    assert "put the settings outside of the working directory" in done.stderr
    assert not (runs.folder / "ran").exists()
