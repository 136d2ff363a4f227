"""A file of the command line that cannot be read is told in one form by every command, with what to do."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from support.commands import walk

from proxy.cli import main

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = "state: st\nbroker: {listen: 127.0.0.1:9100, word: lobby}\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, give: str | None = None) -> Result:
    return CliRunner().invoke(main, words, prog_name="grantproxy", input=give)


def apart(*words: str) -> tuple[int, str]:
    """The exit code, and what is said, of a process of its own: some change the one that they are in."""
    if words[0] not in ("run", "serve"):
        result = run(*words)
        return result.exit_code, result.stderr
    done = subprocess.run(
        [sys.executable, "-m", "proxy.cli", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


PARAMETERS = [(f"{name} {each.name}", each) for name, command in walk(main) for each in command.params]
"""Every parameter of every command, with its command's name."""


@pytest.mark.parametrize(("name", "parameter"), [pytest.param(*each, id=each[0]) for each in PARAMETERS])
def test_click_looks_at_no_file(name: str, parameter: click.Parameter) -> None:
    """What click says of files has no remedy; `proxy.cli.files` has the type of every path."""
    kind = parameter.type
    assert not isinstance(kind, click.File)
    if isinstance(kind, click.Path):
        assert {kind.exists, kind.readable, kind.writable} == {False}
        assert {kind.dir_okay, kind.file_okay} == {True}


ANY = "name settings with `-c FILE`, or an endpoint with `--endpoint SPEC`"
OTHER = "name settings with `-c FILE`"
BY_SETTINGS = [
    *((words, ANY) for words in ("serve", "env", "run -- true")),
    *((f"{words}", OTHER) for words in ("box list", "box add x", "box env x", "box rotate x", "box remove x")),
    *((words, OTHER) for words in ("visitor list", "visitor revoke 1")),
    ("visitor grant --box x --principal p --credential env:C", OTHER),
]


@pytest.mark.parametrize(("words", "remedy"), BY_SETTINGS)
def test_no_settings(words: str, remedy: str) -> None:
    """Whoever has no settings file is told how to name one, and what else a command takes."""
    command, _, rest = words.partition(" ")
    assert apart(command, *rest.split()) == (1, f"grantproxy.yaml: does not exist; {remedy}\n")


GIVEN = [
    *((words, remedy, 1) for words, remedy in BY_SETTINGS),
    *((words, OTHER, 1) for words in ("audit show", "audit tail", "audit verify", "audit summary", "ca")),
]


@pytest.mark.parametrize(
    ("path", "what"),
    [("none.yaml", "does not exist"), ("folder", "is a directory or a device")],
    ids=["none", "folder"],
)
@pytest.mark.parametrize(("words", "remedy", "code"), GIVEN)
def test_settings_that_cannot_be_read(words: str, remedy: str, code: int, path: str, what: str) -> None:
    """The same for the file that is named."""
    Path("folder").mkdir()
    first, _, rest = words.partition(" ")
    before = [first] if first in ("run", "serve", "env", "ca") else [first, rest.partition(" ")[0]]
    assert apart(*before, "-c", path, *words.split()[len(before) :]) == (code, f"{path}: {what}; {remedy}\n")


@pytest.mark.parametrize(
    ("path", "what"), [("none", "does not exist"), ("folder", "is a directory")], ids=["none", "folder"]
)
@pytest.mark.parametrize(
    ("words", "remedy", "code"),
    [
        pytest.param("check {}", "write the path of a grant or settings file", 1, id="check"),
        pytest.param("explain {} GET /", "write the path of a grant file", 2, id="explain"),
        pytest.param("audit verify {}", "write the path of a decision log's file", 2, id="verify"),
        pytest.param(
            "box env x --token-file {}",
            "write into it the token alone, as `box add` prints it without --env",
            1,
            id="token",
        ),
    ],
)
def test_other_files_that_cannot_be_read(words: str, remedy: str, code: int, path: str, what: str) -> None:
    """One line in the form of all: the file, what is wrong, what to do."""
    Path("folder").mkdir()
    Path("grantproxy.yaml").write_text(SETTINGS)
    result = run(*words.format(path).split())
    line = result.stderr.replace(" or a device", "")
    assert (result.exit_code, line) == (code, f"{path}: {what}; {remedy}\n")


def test_a_file_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, and the system refuses: the same form."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    Path("u.yaml").touch()
    monkeypatch.setattr(Path, "open", refuse)
    for words, remedy in (
        ("check u.yaml", "write the path of a grant or settings file"),
        ("explain u.yaml GET /", "write the path of a grant file"),
        ("env -c u.yaml", ANY),
        ("box list -c u.yaml", OTHER),
    ):
        assert run(*words.split()).stderr == f"u.yaml: cannot be read: permission denied; {remedy}\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param("export STUDIO_URL=x\nexport A_KEY=y\n", "holds more than a token", id="exports"),
        pytest.param("t" * 5000, "holds more than a token", id="long"),
        pytest.param(" \n", "holds no token", id="empty"),
    ],
)
def test_a_token_file_holds_a_token_alone(text: str, what: str) -> None:
    """The exports of `box add --env` are no token: that is said, and not that the token is another box's."""
    Path("grantproxy.yaml").write_text(SETTINGS)
    Path("a.env").write_text(text)
    rest = "write into it the token alone, as `box add` prints it without --env\n"
    result = run("box", "env", "x", "--token-file", "a.env")
    assert (result.exit_code, result.stderr) == (1, f"a.env: {what}; {rest}")
    result = run("box", "env", "x", "--token-file", "-", give=text)
    assert (result.exit_code, result.stderr) == (1, f"standard input: {what}; {rest}")
