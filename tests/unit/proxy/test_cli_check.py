"""`grantproxy check`, and what all commands share."""

# ruff: noqa: E501 - one case is one row

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from proxy.cli import COMMANDS, _one_line, fail, main

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
GRANT = (EXAMPLES / "github-issues.grant.yaml").read_text()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="grantproxy")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("g.yaml").write_text(GRANT)
    return tmp_path


def test_a_good_grant_is_ok(here: Path) -> None:
    """One line on standard output with the number of operations and the digest; exit code 0."""
    result = run("check", "g.yaml")
    assert result.exit_code == 0
    assert result.stdout.startswith("g.yaml: ok, 2 operations, sha256:")
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr == ""


def test_every_problem_of_every_file_is_printed(here: Path) -> None:
    """Problems on standard error, one line each, exit code 1; a good file beside a bad one is still told."""
    Path("bad.yaml").write_text("operations:\n  - nmae: x\n")
    result = run("check", "bad.yaml", "g.yaml", "nope.yaml", ".")
    assert result.exit_code == 1
    assert result.stdout.startswith("g.yaml: ok")
    lines = result.stderr.splitlines()
    assert lines[-3] == "bad.yaml:2:5: operations[0].nmae: is an unknown key; did you mean `name`?"
    assert lines[-2:] == [
        "nope.yaml: does not exist; write the path of a grant or settings file",
        ".: is a directory or a device; write the path of a grant or settings file",
    ]
    assert all("\x1b" not in line for line in lines)


def test_a_pattern_of_a_path_parameter_is_noticed(here: Path) -> None:
    """A notice for each pattern, on standard error; the grant is ok."""
    Path("g.yaml").write_text(GRANT.replace("owner: [acme]", "owner: {pattern: '[a-z]{1,9}', maxBytes: 9}", 1))
    Path("s.yaml").write_text(
        "endpoints:\n- {upstream: 'https://a.example', assurance: semantic, grant: g.yaml, listen: '127.0.0.1:1'}\n"
    )
    notice = "notice: operation `list-open-issues`: path parameter `owner` is the pattern `[a-z]{1,9}`; every value that matches is granted"
    result = run("check", "g.yaml")
    assert (result.exit_code, result.stderr) == (0, f"g.yaml: {notice}\n")
    result = run("check", "s.yaml")
    assert (result.exit_code, result.stdout) == (0, "s.yaml: ok, 1 endpoint\n")
    assert result.stderr == f"g.yaml: {notice}\n"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param("endpoints: []\n", "endpoints", id="settings"),
        pytest.param("proxy: x\naudit: {}\n", "endpoints", id="settings-without-endpoints"),
        pytest.param("operations: []\n", "operations", id="grant"),
        pytest.param("redirects: {}\n", "operations", id="grant-without-operations"),
        pytest.param("foo: 1\n", "foo", id="neither"),
        pytest.param("[]\n", "top level", id="a-list"),
    ],
)
def test_the_keys_tell_what_a_file_is(here: Path, text: str, path: str) -> None:
    """Settings and grants are told apart by their top-level keys; what is neither is held to be a grant."""
    Path("f.yaml").write_text(text)
    result = run("check", "f.yaml")
    assert result.exit_code == 1
    assert any(f": {path}: " in line for line in result.stderr.splitlines())


def test_problems_in_a_grant_of_the_settings_are_told(here: Path) -> None:
    """Settings are checked together with their grants, each problem with its own file."""
    Path("g.yaml").write_text("operations: []\n")
    Path("s.yaml").write_text(
        "proxy: x\nendpoints:\n- {upstream: 'https://a.example', assurance: semantic, grant: g.yaml}\n"
    )
    result = run("check", "s.yaml")
    assert result.exit_code == 1
    assert [line.split(": ")[0] for line in result.stderr.splitlines()] == ["s.yaml:1:8", "g.yaml:1:13"]


def test_json_is_for_programs(here: Path) -> None:
    """One JSON document on standard output, with everything that the text says."""
    Path("bad.yaml").write_text("operations: []\n")
    result = run("check", "--json", "g.yaml", "bad.yaml")
    assert (result.exit_code, result.stderr) == (1, "")
    good, bad = json.loads(result.stdout)
    assert (good["ok"], good["file"], good["kind"], good["problems"]) == (True, "g.yaml", "grant", [])
    assert good["digest"].startswith("sha256:")
    assert bad["ok"] is False
    assert bad["problems"] == [
        {"file": "bad.yaml", "line": 1, "column": 13, "path": "operations", "message": "is empty; list at least 1"}
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["chek"], "error: `chek` is no command; did you mean `check`? (see `grantproxy --help`)", id="misspelt-command"),
        pytest.param(["zzz"], "error: `zzz` is no command; the commands are serve, run, check, explain, audit, box, visitor, ca, env, demo (see `grantproxy --help`)", id="unknown-command"),
        pytest.param(["check", "--jsn", "x"], "error: no such option `--jsn`; did you mean `--json`? (see `grantproxy check --help`)", id="misspelt-option"),
        pytest.param(["check"], "error: missing argument `FILE...` (see `grantproxy check --help`)", id="no-file"),
        pytest.param(["--foo"], "error: no such option `--foo` (see `grantproxy --help`)", id="unknown-option"),
        pytest.param(["serve", "--bogus"], "error: no such option `--bogus` (see `grantproxy serve --help`)", id="option-that-is-like-none"),
        pytest.param(["serve", "--watc"], "error: no such option `--watc`; did you mean `--watch`? (see `grantproxy serve --help`)", id="option-that-is-like-one"),
        pytest.param(["audit", "shw"], "error: `shw` is no command; did you mean `show`? (see `grantproxy audit --help`)", id="misspelt-below"),
        pytest.param(["box", "frob"], "error: `frob` is no command; the commands are add, env, list, remove, rotate (see `grantproxy box --help`)", id="unknown-below"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_with_a_remedy(arguments: list[str], message: str) -> None:
    """Exit code 2, one line on standard error, lower case, with a remedy."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message + "\n")


def test_no_command_shows_the_help() -> None:
    """Without a command, what there is."""
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


def test_help_lists_each_command_with_an_example() -> None:
    """`--help` names every command, imports none, and has an example."""
    result = run("--help")
    assert result.exit_code == 0
    assert all(f"  {name} " in result.stdout for name in COMMANDS)
    assert "grantproxy check" in result.stdout.partition("Example")[2]


def test_the_version_is_the_package_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--version`, also of a checkout that is not installed."""
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "9.9.9")
    assert run("--version").stdout == "grantproxy 9.9.9\n"

    def absent(_: str) -> str:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert run("--version").stdout == "grantproxy not installed\n"


@pytest.mark.parametrize(
    ("raised", "code", "stderr"),
    [
        pytest.param(click.Abort(), 130, "", id="interrupted"),
        pytest.param(click.ClickException("Broken."), 1, "error: broken\n", id="click"),
        pytest.param(click.UsageError("It's 'x'."), 2, "error: it's `x` (see `grantproxy check --help`)\n", id="usage"),
    ],
)
def test_what_ends_a_command(monkeypatch: pytest.MonkeyPatch, raised: Exception, code: int, stderr: str) -> None:
    """An interruption is 130, a failure 1, wrong usage 2."""

    def refuse(*_: object) -> None:
        raise raised

    monkeypatch.setattr("proxy.cli.check.check", refuse)
    result = run("check", "x")
    assert (result.exit_code, result.stderr) == (code, stderr)


def test_a_command_fails_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """`fail` is how a command ends that was refused."""
    with pytest.raises(SystemExit) as caught:
        fail("no such thing; try another")
    assert caught.value.code == 1
    assert capsys.readouterr().err == "error: no such thing; try another\n"


def test_it_can_be_called_without_ending_the_program(here: Path) -> None:
    """click's own way to embed a command stays."""
    with pytest.raises(click.UsageError):
        main.main(["chek"], prog_name="grantproxy", standalone_mode=False)


PROGRAM = "import sys; from proxy.cli import main; main(sys.argv[1:], 'grantproxy')"


def test_a_reader_that_goes_away_is_no_fault(here: Path) -> None:
    """`grantproxy check … | head` prints no traceback."""
    command = [sys.executable, "-c", PROGRAM, "check", *["g.yaml"] * 200]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PYTHONPATH": str(ROOT)}
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_check_starts_without_the_proxy_s_libraries(here: Path) -> None:
    """`check` imports none of what makes a start slow."""
    program = "import sys\nfrom proxy.cli import main\ntry: main(['check', 'g.yaml'])\nexcept SystemExit as end: code = end.code\nprint(code, sorted({'mitmproxy', 'aiohttp', 'jsonschema', 'cryptography', 'rich', 'asyncio', 'ssl'} & set(sys.modules)))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT)})
    assert done.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        pytest.param("broker: {listen: '127.0.0.1:0', word: lobby}\n", "broker `lobby` with 0 secrets", id="broker"),
        pytest.param(
            "broker:\n  listen: 127.0.0.1:0\n  word: lobby\n  secrets: [{name: S, host: 'https://s.example', value: env:S}]\n",
            "broker `lobby` with 1 secret", id="broker-with-a-secret",
        ),
        pytest.param(
            "proxy: 127.0.0.1:0\nendpoints: [{upstream: 'https://a.example', assurance: trusted-upstream}]\n"
            "tunnels: {allow: ['b.example:443']}\nboxes: [{name: x, token: env:X}, {name: y, token: env:Y}]\n",
            "1 endpoint, 1 tunnel rule, 2 boxes", id="everything-else",
        ),
    ],
)  # fmt: skip
def test_settings_are_summed_up_by_what_they_have(here: Path, text: str, summary: str) -> None:
    """A file without endpoints is told by what it has instead."""
    Path("s.yaml").write_text(text)
    result = run("check", "s.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"s.yaml: ok, {summary}\n", "")


def test_what_nobody_could_use_is_noticed_with_its_place(here: Path) -> None:
    """A notice has file, line and column; the file is ok."""
    Path("s.yaml").write_text(
        "proxy: 127.0.0.1:0\nendpoints:\n- {upstream: 'https://localhost:1', assurance: trusted-upstream}\n"
    )
    result = run("check", "s.yaml")
    assert (result.exit_code, result.stdout) == (0, "s.yaml: ok, 1 endpoint\n")
    assert result.stderr.startswith("s.yaml:3:14: notice: endpoints[0].upstream: is on `localhost`, which clients")
    [found] = json.loads(run("check", "s.yaml", "--json").stdout)
    assert (found["ok"], [notice["line"] for notice in found["notices"]]) == (True, [3])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("Missing argument 'URL'.", "error: missing argument `URL`", id="click's own"),
        pytest.param(
            "no colon; write `-H 'Name: value'`", "error: no colon; write `-H 'Name: value'`", id="within backticks"
        ),
        pytest.param("`a` and 'b' and `c 'd'`", "error: `a` and `b` and `c 'd'`", id="both"),
        pytest.param("the box's token", "error: the box's token", id="an apostrophe"),
    ],
)
def test_quotes_become_backticks_once(text: str, shown: str) -> None:
    """What click quotes is in backticks, and nothing within backticks is quoted again."""
    assert _one_line(click.ClickException(text)) == shown
