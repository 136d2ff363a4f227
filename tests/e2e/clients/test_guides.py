"""The guides to clients: each block of each page is run as it stands, and prints what the page says.

`sh`, `python`, `js`, `ts`, `go` and `java` blocks are run, with what `grantproxy env` prints for the environment; a
`text` block behind one is its whole output. `console` blocks are for tests/docs. A page whose program is missing is
skipped by that program's name.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.clients import World
from support.node import deno, packages
from support.proxyproc import ROOT

PAGES = sorted((ROOT / "docs" / "guides" / "clients").glob("*.md"))
_BLOCK = re.compile(r"```(\w*)\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
_FILES = {
    "sh": "block.sh",
    "python": "block.py",
    "js": "block.mjs",
    "ts": "block.ts",
    "go": "main.go",
    "java": "Main.java",
}
_COMMANDS = {
    "sh": ["sh", "-eu"],
    "python": [sys.executable],
    "js": ["node"],
    "ts": ["npm"],  # has Deno, which runs them
    "go": ["go", "run"],
    "java": ["java", "-XX:TieredStopAtLevel=1"],
}
_PROGRAMS = ("curl", "wget", "git", "gh", "npm", "cargo")

type Build = Callable[[str, Callable[[Path], None]], Path]


def blocks() -> Iterator[object]:
    for page in PAGES:
        for number, (kind, text, output) in enumerate(_BLOCK.findall(page.read_text())):
            if kind in _FILES:
                used = [program for program in _PROGRAMS if kind == "sh" and re.search(rf"\b{program} ", text)]
                missing = [name for name in (*used, _COMMANDS[kind][0]) if shutil.which(name) is None]
                marks = [pytest.mark.skip(reason=f"{missing[0]} is not installed")] if missing else []
                yield pytest.param(kind, text, output, id=f"{page.name}-{number}-{kind}", marks=marks)


@pytest.fixture
def repository(repositories: Path) -> None:
    """`widgets.git`, as the guide to git has it."""
    served = repositories / "widgets.git"
    if shutil.which("git") and not served.exists():
        work = repositories / "widgets.work"
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        for command in (
            ["init", "-q", "--bare", "-b", "main", str(served)],
            ["init", "-q", "-b", "main", str(work)],
            ["-C", str(work), *identity, "commit", "-q", "--allow-empty", "-m", "one"],
            ["-C", str(work), "push", "-q", str(served), "main"],
        ):
            subprocess.run(["git", *command], capture_output=True, check=True, timeout=60)


@pytest.fixture
def programs(world: World, tmp_path: Path) -> str:
    """A path with `grantproxy`, which knows the running proxy, and with Python's programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    settings, ready = world.proxy.folder / "grantproxy.yaml", world.proxy.folder / "ready.json"
    program = folder / "grantproxy"
    program.write_text(
        f'#!/bin/sh\ncommand="$1"; shift\n'
        f"PYTHONPATH={ROOT} exec {sys.executable} -m proxy.cli "
        f'"$command" -c {settings} --ready-file {ready} "$@"\n'
    )
    program.chmod(0o755)
    return f"{folder}:{Path(sys.executable).parent}:{world.environment()['PATH']}"


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(("kind", "text", "output"), list(blocks()))
def test_a_block_does_what_the_page_says(
    world: World, built: Build, programs: str, tmp_path: Path, kind: str, text: str, output: str
) -> None:
    """It ends well, prints what stands behind it, and what it asks reaches the API through the proxy."""
    folder = tmp_path / "page"
    folder.mkdir()
    if kind == "js":
        (folder / "node_modules").symlink_to(built("guides", packages) / "node_modules")
    file = folder / _FILES[kind]
    file.write_text(text)
    said = world.run(
        *([deno(), "run", "--allow-net", "--allow-env"] if kind == "ts" else _COMMANDS[kind]),
        str(file),
        cwd=folder,
        PATH=programs,
        GIT_CONFIG_GLOBAL=str(folder / "gitconfig"),
        GIT_TERMINAL_PROMPT="0",
        VIRTUAL_ENV=sys.prefix,
        GOCACHE=str(built("go-cache", lambda _folder: None)),
    )
    assert not output or said.strip() == output.strip()
    assert world.fronts() or "grantproxy env" in text
