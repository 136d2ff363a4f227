"""What the README and the pages tell people to type works, and what they name exists.

Blocks marked `console` are run line by line (`$ ` begins a command, `$ ! ` one that must fail) in a folder with the
files that the page shows (`<!-- file: NAME -->`). `make` lines are looked up, not run: they would run these tests.
"""

import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from grants.load import load_grant

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SESSIONS = {ROOT / "docs" / "guides" / "broker.md"}
"""Pages whose commands build on each other; `test_sessions.py` runs those."""
_BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)```", re.DOTALL)


def blocks(page: Path, kind: str) -> list[str]:
    return [match["text"] for match in _BLOCK.finditer(page.read_text()) if match["kind"] == kind]


def commands() -> list[object]:
    return [
        pytest.param(page, line[2:], id=f"{page.relative_to(ROOT)}: {line[2:60]}")
        for page in PAGES
        if page not in SESSIONS
        for block in blocks(page, "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]


@pytest.mark.parametrize(("page", "command"), commands())
def test_commands_work(page: Path, command: str, tmp_path: Path, grantproxy: Path) -> None:
    """A command of a page ends as the page says."""
    if command.startswith("make"):
        target = command.split()[1]
        assert re.search(rf"^{target}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE), target
        return
    for match in _BLOCK.finditer(page.read_text()):
        if match["file"]:
            (tmp_path / match["file"]).write_text(match["text"])
    environment = {**os.environ, "PATH": f"{grantproxy}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links name files and headings that are there."""
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        name, _, heading = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        if heading:
            slugs = {re.sub(r"[^a-z0-9 -]", "", line.lower()).strip().replace(" ", "-") for line in headings(file)}
            assert heading in slugs, target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_whole_grants_load(page: Path) -> None:
    """A grant that a page shows in full is one that loads."""
    for text in blocks(page, "yaml"):
        if text.startswith("operations:"):
            load_grant(text, file=page.name)


def pointers() -> list[object]:
    found = []
    for package in ("grants", "addons", "proxy"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = re.sub(r"\s+", " ", path.read_text())
            for heading, page in re.findall(r'"([^"\n]{2,60})" in (docs/[a-z/-]+\.md)', text):
                found.append(pytest.param(heading, page, id=f"{path.relative_to(ROOT)}: {heading}"))
            found += [
                pytest.param(None, page, id=f"{path.relative_to(ROOT)}: {page}")
                for page in sorted(set(re.findall(r"docs/[a-z/-]+\.md", text)))
            ]
    return found


@pytest.mark.parametrize(("heading", "page"), pointers())
def test_code_points_at_pages_that_exist(heading: str | None, page: str) -> None:
    """Where code names a section of a page as its source, the section is there."""
    assert (ROOT / page).exists()
    if heading is not None:
        assert heading in {line.strip() for line in headings(ROOT / page)}


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_started_behind_is_waited_for(page: Path) -> None:
    """A program that a page starts with `&` is waited for in the next line, so that whatever follows finds it."""
    lines = [
        line.removeprefix("$ ")
        for kind in ("console", "sh")
        for text in blocks(page, kind)
        for line in text.splitlines()
    ]
    for line, after in pairwise([*lines, ""]):
        if line.endswith("&"):
            assert re.match(r"(while|until) .*; do sleep [0-9.]+; done$", after), line
