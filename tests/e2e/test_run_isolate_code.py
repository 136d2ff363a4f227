"""`grantproxy run --isolate`: what the program could change of that runs outside at the next start, or at the next read
of a secret, keeps it from being started."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.certificates import Certificates
from support.runs import ROOT, TOKEN, Runs, issues
from support.upstream import Upstream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolation is Linux's")
OPTIONS = ("--upstream", "https://127.0.0.1:1", "--secret", "api=env:API_TOKEN", "--assurance", "trusted-upstream")
OPTIONS += ("--env", "API_BASE_URL", "--isolate", "--", "touch", "ran")


@pytest.fixture
def runs(tmp_path: Path, certificates: Certificates) -> Iterator[Runs]:
    """A project beside a home and settings that are outside of it."""
    for name in ("home/bin", "project", "settings", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    with Upstream(certificates, handler=issues) as upstream:
        yield Runs(tmp_path / "project", upstream, certificates)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        pytest.param({"LD_LIBRARY_PATH": "/usr/lib/x:"}, "`LD_LIBRARY_PATH` leads into", id="empty-entry"),
        pytest.param({"LD_LIBRARY_PATH": "/usr/lib;{project}/lib"}, "`LD_LIBRARY_PATH` leads into", id="semicolon"),
        pytest.param({"LD_LIBRARY_PATH": "/usr/lib/$LIB"}, "`LD_LIBRARY_PATH` holds a `$`", id="loader-s-own"),
        pytest.param({"PYTHONUSERBASE": "{project}/base"}, "`PYTHONUSERBASE` leads into", id="user-base"),
        pytest.param({"PYTHONPATH": "{root}:../lib"}, "`PYTHONPATH` leads into", id="relative"),
    ],
)
def test_variables_that_load_code(runs: Runs, environment: dict[str, str], says: str) -> None:
    """Refused before anything is run."""
    runs.environment = {name: text.format(project=runs.folder, root=ROOT) for name, text in environment.items()}
    refused(runs, runs.run(*OPTIONS, endpoint=[]), says)


def test_a_pth_file_that_names_what_is_not_there(runs: Runs) -> None:
    """A Python whose packages have one: the program would make the directory, with a `sitecustomize` in it."""
    venv = runs.folder.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=60)
    packages = next(venv.glob("lib/python*/site-packages"))
    (packages / "ours.pth").write_text(f"{ROOT}\n{sysconfig.get_paths()['purelib']}\n")
    command = [str(venv / "bin" / "python"), "-P", "-m", "proxy.cli", "run", *OPTIONS]
    allowed(runs, outside(runs, command))
    (packages / "gone.pth").write_text(f"{runs.folder}/gone\n")
    refused(runs, outside(runs, command), f"takes modules from `{runs.folder}/gone`")


@pytest.mark.parametrize("name", [".venv/bin/grantproxy", "{project}/.venv/bin/grantproxy"], ids=["relative", "whole"])
def test_started_by_a_link_in_the_working_directory(runs: Runs, name: str) -> None:
    """The program would lead `.venv` to a script of its own."""
    script = runs.folder.parent / "elsewhere" / "bin" / "grantproxy"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom proxy.cli import main\nmain()\n")
    script.chmod(0o755)
    allowed(runs, outside(runs, [str(script), "run", *OPTIONS]))
    (runs.folder / ".venv").symlink_to(script.parent.parent)
    named = name.format(project=runs.folder)
    refused(runs, outside(runs, [named, "run", *OPTIONS]), f"was started as `{named}`")


TOOLS = [name for name in ("bwrap", "unshare") if shutil.which(name)]
COMMANDS = [
    pytest.param("sh -c '$HOME/bin/tok.sh'", None, id="elsewhere"),
    pytest.param("sh -c '. ~/bin/tok*'", None, id="pattern-elsewhere"),
    pytest.param("sh -c '$HOME/../project/tok.sh'", "argument 2", id="variable"),
    pytest.param("sh -c '{around}/pro?ect/tok.sh'", "argument 2", id="pattern"),
    pytest.param("sh -c 'cd ~/.. && project/tok.sh'", "argument 2", id="after-cd"),
    pytest.param("sh -c '\"$(echo ~/bin)\"/tok.sh'", "only a shell fills in", id="computed"),
]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(("command", "says"), COMMANDS)
def test_commands_as_a_shell_reads_them(runs: Runs, tool: str, command: str, says: str | None) -> None:
    """What leads elsewhere runs; what leads to the program's own is refused."""
    around = runs.folder.parent
    for folder in (around / "home" / "bin", runs.folder):
        (folder / "tok.sh").write_text(f"#!/bin/sh\necho {TOKEN}\n")
        (folder / "tok.sh").chmod(0o755)
    endpoint = {"upstream": "https://127.0.0.1:1", "assurance": "trusted-upstream", "listen": "127.0.0.1:9001"}
    secrets = {"secrets": {"api": f"exec:{command.format(around=around)}"}}
    settings = {"proxy": "127.0.0.1:8080", "state": "../state", "endpoints": [{"name": "a", **endpoint, **secrets}]}
    config = around / "settings" / "grantproxy.yaml"
    config.write_text(json.dumps(settings))
    runs.preamble = f"from proxy.run import isolated\nisolated.TOOLS = ({tool!r},)"
    done = runs.run("-c", str(config), *OPTIONS[-4:], endpoint=[])
    if says is None:
        allowed(runs, done)
    else:
        refused(runs, done, says)


def outside(runs: Runs, command: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run grantproxy in the project, by a name of its own."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "API_TOKEN": TOKEN}
    environment["HOME"] = str(runs.folder.parent / "home")
    return subprocess.run(
        command, cwd=runs.folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def allowed(runs: Runs, done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 0, done.stderr
    (runs.folder / "ran").unlink()


def refused(runs: Runs, done: "subprocess.CompletedProcess[str]", says: str) -> None:
    assert done.returncode == 1
    assert says in done.stderr
    assert not (runs.folder / "ran").exists()
