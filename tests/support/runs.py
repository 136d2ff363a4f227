"""`grantproxy run` as people use it: the program, an upstream behind it, and a state directory of the test's own."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.certificates import Certificates
from support.proxyproc import ROOT
from support.upstream import Received, Upstream, answer

TOKEN = "tok-0123456789-abcdef"
SPECIFICATION = ROOT / "tests" / "conformance" / "specification.grant.yaml"
TARGET = "/repos/acme/widgets/issues?state=open"
CALL = f'curl -sS -A "" -H "Accept:" -H "Authorization: Bearer @secret:api" "$API_BASE_URL{TARGET}"'

COUNTS = f"""#!{sys.executable}
import signal, sys, time
got = []
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda number, _: got.append(number))
open("begun", "w").close()
end = time.monotonic() + 20
while not got and time.monotonic() < end:
    time.sleep(0.02)
time.sleep(0.5)
print("got", *(signal.Signals(number).name for number in got), flush=True)
sys.exit(9)
"""
"""A program that takes the signals that it is given the names of, and tells which came, and how often."""


def issues(_request: Received) -> bytes:
    """What the specification's grant lets be shown."""
    return answer(200, b'{"items":[]}')


def as_nobody() -> list[str]:
    """What runs a command as a user who is not root: for root, the user `nobody` who may read every file.

    It may so come to what its own user owns, and to nothing that the kernel keeps from other processes.
    """
    if os.geteuid() != 0:
        return []
    if (setpriv := shutil.which("setpriv")) is None:
        return ["false"]
    capability = "+dac_read_search"
    who = ("--reuid=65534", "--regid=65534", "--clear-groups")
    return [setpriv, *who, f"--inh-caps={capability}", f"--ambient-caps={capability}"]


@dataclass(slots=True)
class Runs:
    """Runs `grantproxy run` in a folder of its own, in front of `upstream`. `preamble`: Python that goes before it."""

    folder: Path
    upstream: Upstream
    certificates: Certificates
    environment: Mapping[str, str] = field(default_factory=dict)
    preamble: str = ""

    @property
    def state(self) -> Path:
        return self.folder.parent / "state"

    def endpoint(self) -> list[str]:
        """The specification's options."""
        return [
            *("--upstream", self.upstream.url, "--secret", "api=env:API_TOKEN", "--assurance", "semantic"),
            *("--grant", "./api-grant.yaml", "--env", "API_BASE_URL"),
            *("--ca", str(self.certificates.ca), "--state", str(self.state)),
        ]

    def start(
        self, *arguments: str, endpoint: Sequence[str] | None = None, before: Sequence[str] = (), **options: object
    ) -> "subprocess.Popen[str]":
        """Start `grantproxy run` with the endpoint and these arguments."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        program = ["-P", "-m", "proxy.cli"]  # as the installed one: modules do not come from the current folder
        if self.preamble:
            program = ["-P", "-c", f"{self.preamble}\nfrom proxy.cli import main\nmain()"]
        command = [sys.executable, *program, "run", *(self.endpoint() if endpoint is None else endpoint)]
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [*before, *command, *arguments],
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "HOME": str(self.folder.parent / "home"),
                "API_TOKEN": TOKEN,
                **self.environment,
            },
            text=True,
            **options,
        )

    def run(self, *arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        process = self.start(*arguments, **options)  # type: ignore[arg-type]
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def script(self, name: str, text: str) -> str:
        """An executable in the folder; its name as it is called there."""
        file = self.folder / name
        file.write_text(text)
        file.chmod(0o755)
        return f"./{name}"


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """The processes that `pid` started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def end(process: "subprocess.Popen[str]") -> None:
    """Kill what a failed test left."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
