"""Every command's help ends in examples that can be pasted as they stand."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.commands import walk

from proxy.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
SETTINGS = """\
proxy: 127.0.0.1:8080
state: state
endpoints:
  - {name: llm, upstream: "https://llm.example", assurance: trusted-upstream, listen: "127.0.0.1:9001"}
broker:
  listen: 127.0.0.1:9100
  word: lobby
"""
GRANT = "examples/pypi.grant.yaml"
ORDER = (
    "box add",
    "visitor grant",
    "visitor list",
    "visitor revoke",
    "box rotate",
    "box list",
    "box env",
    "box remove",
)
"""What builds on each other."""


EVERY = dict(walk(main))


def shown(name: str, columns: int) -> str:
    environment = {"COLUMNS": str(columns)}
    result = CliRunner().invoke(main, [*name.split(), "--help"], prog_name="grantproxy", env=environment)
    assert result.exit_code == 0, result.output
    return result.stdout


def examples(name: str) -> list[str]:
    """The commands at the end of a help, as a shell takes them: a line that ends in `\\` goes on."""
    _, found, text = shown(name, 80).rpartition("  Example")
    assert found, f"`{name}` has no example"
    head, _, rest = text.partition("\n")
    assert head in (":", "s:")
    return re.sub(r"^ {4}", "", rest.rstrip("\n"), flags=re.MULTILINE).replace("\\\n", "\0").splitlines()


def each_example() -> list[object]:
    return [
        pytest.param(name, command.replace("\0", "\\\n"), id=f"{name or 'grantproxy'}: {command[:50]!r}")
        for name in EVERY
        for command in examples(name)
    ]


def test_every_command_is_walked() -> None:
    """The walk finds the commands of the table and those below them."""
    assert {*COMMANDS, "audit tail", "box env", "visitor revoke"} <= set(EVERY)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("columns", [80, 60])
def test_no_line_of_an_example_is_broken(name: str, columns: int) -> None:
    """Each line stands in the help as it was written, and fits a terminal of 80 columns."""
    epilog = EVERY[name].epilog
    assert epilog is not None
    text = shown(name, columns)
    for line in epilog.removeprefix("\b\n").splitlines():
        assert f"\n  {line}\n" in text
        assert len(f"  {line}") <= 80


@pytest.mark.parametrize("name", EVERY)
def test_an_example_is_of_its_command(name: str) -> None:
    """What is shown is the command that the help is about, and no text before it is an example of another kind."""
    assert any(re.search(rf"\bgrantproxy {name}\b", command) for command in examples(name))
    assert not re.search(r"^ +grantproxy ", EVERY[name].help or "", re.MULTILINE)


def folder(path: Path) -> Path:
    """A folder as the examples have it: settings, an empty log, what is named."""
    (path / "grantproxy.yaml").write_text(SETTINGS)
    (path / "state").mkdir(mode=0o700)
    (path / "state" / "decisions.jsonl").touch(mode=0o600)
    (path / "examples").symlink_to(ROOT / "examples")
    (path / "api.grant.yaml").write_bytes((ROOT / GRANT).read_bytes())
    (path / "Makefile").write_text("test:\n\t@true\n")
    agent = path / "agent"
    agent.write_text('#!/bin/sh\ntest -n "$API_BASE_URL"\n')
    agent.chmod(0o755)
    return path


def does(command: str, path: Path, programs: Path) -> None:
    environment = {
        **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(path), "API_TOKEN": "t-0123456789abcdef"
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", command], cwd=path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, command + "\n" + done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("name", "command"), each_example())
def test_examples_work_when_pasted(name: str, command: str, tmp_path: Path, grantproxy: Path) -> None:
    """Each does what it says where there is a settings file by the usual name."""
    if name == "demo" or command.startswith("docker"):
        assert shlex.split(command)[:2] in (["grantproxy", "demo"], ["docker", "run"])  # tests/e2e has both
        return
    if any(f"grantproxy {later}" in command for later in ORDER[1:]):
        assert name in (*ORDER, "box", "visitor")  # the next test
        return
    # What serves does not end; `env` and `check` read the same words and the same file.
    words = command.replace("serve --endpoint", "env --endpoint")
    words = re.sub(r"serve (-c|--config) ", "check ", words)
    does(words, folder(tmp_path), grantproxy)


def test_examples_of_boxes_and_visitors_work_one_after_the_other(tmp_path: Path, grantproxy: Path) -> None:
    """A box is there before it is used, and is taken out at last."""
    folder(tmp_path)
    for name in ORDER:
        for command in examples(name):
            does(command.replace("\0", "\\\n"), tmp_path, grantproxy)


def test_a_shell_reads_each(tmp_path: Path) -> None:
    """No quote is left open, and no line alone is a command of its own by mistake."""
    script = tmp_path / "script"
    for name in EVERY:
        script.write_text("\n".join(examples(name)).replace("\0", "\\\n"))
        done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), name
