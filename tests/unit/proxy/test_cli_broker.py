"""`grantproxy box` and `grantproxy visitor`: what they print, what they refuse, and what the store has afterwards."""

# ruff: noqa: E501 - one case is one row

import asyncio
import json
import re
import shlex
import subprocess
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grants.broker.declaration import Declaration, Report
from grants.broker.fountain import Kind
from proxy.cli import box, main, visitor
from proxy.settings.broker_model import SqliteDatabase
from proxy.store import Store

TOKEN = "t-0123456789abcdef"
SETTINGS = """\
state: st
endpoints:
  - {name: llm, upstream: "https://llm.example", assurance: trusted-upstream, listen: "127.0.0.1:0"}
boxes:
  - {name: fixed, token: env:FIXED_TOKEN}
broker:
  listen: 127.0.0.1:9100
  word: lobby
  anthropic: {url: "https://api.anthropic.com", credential: env:HOUSE}
  secrets:
    - {name: STRIPE, host: "https://api.stripe.com", value: env:STRIPE, box: fixed}
    - {name: GITHUB, host: "https://api.github.com", value: env:GITHUB}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIXED_TOKEN", TOKEN)
    (tmp_path / "grantproxy.yaml").write_text(SETTINGS)
    return tmp_path


def run(*words: str, give: str | None = None) -> Result:
    command = {"box": box.command, "visitor": visitor.command}[words[0]]
    return CliRunner().invoke(command, list(words[1:]), input=give)


def done(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def ask[Result](question: Callable[[Store], Awaitable[Result]]) -> Result:
    async def work() -> Result:
        store = await Store.open(SqliteDatabase(path=Path("st/broker.db")))
        try:
            return await question(store)
        finally:
            await store.close()

    return asyncio.run(work())


def add(*words: str) -> str:
    return done("box", "add", *words).strip()


# --- boxes ---


def test_a_box_is_added_and_its_token_shown_once() -> None:
    """The token is all of standard output; it is the box's, with what the options say."""
    result = run("box", "add", "a", "--endpoint", "llm", "--own", "vault:v:1", "--own", "agent:x")
    assert result.exit_code == 0, result.output
    token = result.stdout.strip()
    assert re.fullmatch(r"gpx_[A-Za-z0-9_-]{43}", token)
    assert result.stderr == "this is the token of box a; keep it now, it is shown once\n"
    found = ask(lambda store: store.box_by_token(token.encode(), now=time.time()))
    assert found is not None
    assert (found.name, found.endpoints, found.tunnels) == ("a", {"llm"}, False)
    assert ask(lambda store: store.owned("a#1", Kind.VAULT)) == {"v:1"}
    assert ask(lambda store: store.owned("a#1", Kind.AGENT)) == {"x"}
    assert token not in done("box", "list", "--json")


def test_json_is_for_programs() -> None:
    """`--json` has the name and the token."""
    document = json.loads(done("box", "add", "a", "--json"))
    assert document["name"] == "a"
    assert ask(lambda store: store.box_by_token(document["token"].encode(), now=time.time())) is not None


def test_boxes_are_listed_with_where_they_come_from() -> None:
    """Those of the settings first; a removed one only on demand; when each reported last."""
    add("a", "--endpoint", "llm")
    add("b")
    ask(
        lambda store: store.save_report(
            "a#1", Report(declaration=Declaration(broker="lobby")), at="2026-01-02T03:04:05Z"
        )
    )
    done("box", "remove", "b")
    rows = [line.split() for line in done("box", "list").splitlines()]
    assert rows == [
        ["NAME", "FROM", "ENDPOINTS", "TUNNELS", "REPORTED", "REMOVED"],
        ["fixed", "settings", "-", "no", "never", "-"],
        ["a", "database", "llm", "no", "2026-01-02T03:04:05Z", "-"],
    ]
    listed = json.loads(done("box", "list", "--all", "--json"))
    assert [(row["name"], row["from"]) for row in listed] == [
        ("fixed", "settings"),
        ("a", "database"),
        ("b", "database"),
    ]
    assert listed[2]["removed"].endswith("Z")


def test_no_boxes_is_said(here: Path) -> None:
    """An empty list is no empty answer."""
    (here / "grantproxy.yaml").write_text("state: st\nbroker: {listen: '127.0.0.1:1', word: lobby}\n")
    result = run("box", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "there are no boxes" in result.stderr


def test_a_rotated_token_replaces_the_old_one() -> None:
    """With the grace the old one is good too; with 0 it is not."""
    first = add("a")
    second = done("box", "rotate", "a").strip()
    third = done("box", "rotate", "a", "--grace", "0").strip()
    now = time.time()
    known = [
        ask(lambda store, token=token: store.box_by_token(token.encode(), now=now)) for token in (first, second, third)
    ]
    assert [found is not None for found in known] == [False, False, True]
    assert ask(lambda store: store.list_boxes())[0].previous_until is None
    done("box", "rotate", "a", "--grace", "2h")
    until = ask(lambda store: store.list_boxes())[0].previous_until
    assert until == pytest.approx(now + 7200, abs=60)


ENV = {
    "STUDIO_URL": "http://127.0.0.1:9100",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9100/llm/anthropic",
    "ANTHROPIC_API_KEY": TOKEN,
    "STRIPE_KEY": TOKEN,
    "STRIPE_BASE_URL": "http://127.0.0.1:9100/egress/STRIPE",
    "GITHUB_KEY": TOKEN,
    "GITHUB_BASE_URL": "http://127.0.0.1:9100/egress/GITHUB",
}


def exported(text: str, **environment: str) -> dict[str, str]:
    """What a shell that runs `text` has then."""
    shell = subprocess.run(["sh", "-c", f"{text}\nenv"], env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True, check=True)  # fmt: skip
    pairs = (line.partition("=")[::2] for line in shell.stdout.splitlines())
    return {name: value for name, value in pairs if name in ENV}


def test_a_box_of_the_settings_gets_its_variables() -> None:
    """Its token is read where the settings say."""
    assert exported(done("box", "env", "fixed")) == ENV
    assert json.loads(done("box", "env", "fixed", "--json")) == ENV


def test_an_added_box_gets_its_variables_from_whoever_kept_the_token(here: Path) -> None:
    """From a file or standard input, checked; else from BOX_TOKEN where the exports are run, which stops without it."""
    token = add("a")
    mine = {name: value.replace(TOKEN, token) for name, value in ENV.items() if not name.startswith("STRIPE")}
    (here / "token").write_text(token + "\n")
    assert exported(done("box", "env", "a", "--token-file", "token")) == mine
    assert exported(run("box", "env", "a", "--token-file", "-", give=token).stdout) == mine
    text = done("box", "env", "a")
    assert token not in text
    assert exported(text, BOX_TOKEN=token) == mine
    with pytest.raises(subprocess.CalledProcessError):
        exported(text)
    assert json.loads(done("box", "env", "a", "--json"))["GITHUB_KEY"] is None
    add("b")
    refused = run("box", "env", "b", "--token-file", "token")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "error: that is no token of box `b`; `box rotate` gives a new one\n"


def test_a_new_token_can_be_shown_as_variables() -> None:
    """`add --env` and `rotate --env` print what `box env` prints, with the token in it; `--url` is how the box sees it."""
    first = exported(done("box", "add", "a", "--env"))
    again = exported(done("box", "rotate", "a", "--env", "--url", "https://broker.example/base/"))
    assert first["STUDIO_URL"] == "http://127.0.0.1:9100"
    assert again["GITHUB_BASE_URL"] == "https://broker.example/base/egress/GITHUB"
    token = again["ANTHROPIC_API_KEY"].encode()
    assert first["GITHUB_KEY"].encode() != token
    assert ask(lambda store: store.box_by_token(token, now=time.time())) is not None


@pytest.mark.parametrize("listen", ["0.0.0.0:9100", "127.0.0.1:0", "unix:sock"])
def test_an_address_that_cannot_be_called_is_asked_for(here: Path, listen: str) -> None:
    """Nothing is printed that a box could not use, and no box is added for it."""
    (here / "grantproxy.yaml").write_text(SETTINGS.replace("127.0.0.1:9100", f"'{listen}'"))
    for words in (["env", "fixed"], ["add", "a", "--env"]):
        result = run("box", *words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "say with --url how the box reaches it" in result.stderr
    assert not Path("st").exists()
    assert exported(done("box", "env", "fixed", "--url", "http://b:1"))["STUDIO_URL"] == "http://b:1"


# --- visitors ---


def grant(*words: str) -> str:
    given = ["--box", "a", "--principal", "github:ada", "--credential", "env:ADA_KEY", *words]
    return done("visitor", "grant", *given).strip()


def test_a_grant_is_issued_listed_and_revoked() -> None:
    """Its value is all of standard output, shown once; a revoked one is no more at the next question."""
    add("a")
    value = grant("--ttl", "30m")
    assert re.fullmatch(r"gpv_[A-Za-z0-9_-]{43}", value)
    now = time.time()
    found = ask(lambda store: store.grant_of(value.encode(), "a#1", now=now))
    assert found is not None
    assert (found.principal, found.credential) == ("github:ada", "env:ADA_KEY")
    assert found.expires == pytest.approx(now + 1800, abs=60)
    head, row = (line.split() for line in done("visitor", "list").splitlines())
    assert head == ["ID", "BOX", "PRINCIPAL", "CREDENTIAL", "EXPIRES", "STATE"]
    assert [*row[:4], row[5]] == ["1", "a", "github:ada", "env:ADA_KEY", "good"]
    assert done("visitor", "revoke", "1") == "grant 1 of github:ada for box a revoked\n"
    assert ask(lambda store: store.grant_of(value.encode(), "a#1", now=now)) is None
    assert "no grants" in run("visitor", "list").stderr
    assert json.loads(done("visitor", "list", "--all", "--json"))[0]["state"] == "revoked"


def test_grants_are_revoked_by_box_and_person() -> None:
    """All of a box, all of a person; with `--json` their numbers."""
    add("a")
    for _ in range(3):
        grant()
    document = json.loads(grant("--box", "fixed", "--json"))
    assert set(document) == {"id", "grant", "expires"}
    assert json.loads(done("visitor", "revoke", "--box", "fixed", "--json")) == [document["id"]]
    assert json.loads(done("visitor", "revoke", "--principal", "github:ada", "--json")) == [1, 2, 3]


def test_a_file_is_found_from_anywhere(here: Path) -> None:
    """A relative path is relative to the settings, as everywhere, and stored whole."""
    add("a")
    value = grant("--credential", "file:ada.key")
    found = ask(lambda store: store.grant_of(value.encode(), "a#1", now=time.time()))
    assert found is not None
    assert found.credential == f"file:{here}/ada.key"


@pytest.mark.parametrize("written", ["{}", "Bearer {}", "a:{}:b", "base64"])
@pytest.mark.parametrize("whose", ["of the settings", "added", "before a rotation"])
def test_no_token_pays(here: Path, monkeypatch: pytest.MonkeyPatch, whose: str, written: str) -> None:
    """A credential that is, or holds, a box's token is refused, and no grant is made; its text is not shown."""
    first = add("a")
    token = {"of the settings": TOKEN, "added": first, "before a rotation": first}[whose]
    if whose == "before a rotation":
        done("box", "rotate", "a", "--grace", "1h")
    value = b64encode(f"u:{token}".encode()).decode() if written == "base64" else written.format(token)
    monkeypatch.setenv("ADA_KEY", value)
    result = run("visitor", "grant", "--box", "a", "--principal", "p", "--credential", "env:ADA_KEY")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "error: the credential is, or holds, the token of a box, which goes nowhere; name the person's own\n"
    )
    assert ask(lambda store: store.list_grants()) == ()


def test_the_token_of_the_settings_is_none_wherever_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its very reference is refused also where nothing can be read; another that cannot be read is taken."""
    add("a")
    monkeypatch.delenv("FIXED_TOKEN")
    words = ("visitor", "grant", "--box", "a", "--principal", "p", "--credential")
    assert run(*words, "env:FIXED_TOKEN").exit_code == 1
    assert run(*words, "env:NOT_HERE").exit_code == 0


# --- for programs ---

# By its words: the keys of what `--json` prints, of the first one where that is a list.
DOCUMENTS = {
    "box add b": {"name", "token"},
    "box add b --env": {"STUDIO_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "GITHUB_KEY", "GITHUB_BASE_URL"},
    "box list": {"name", "from", "endpoints", "tunnels", "reported"},
    "box rotate a": {"name", "token"},
    "box rotate a --env": {"STUDIO_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "GITHUB_KEY", "GITHUB_BASE_URL"},
    "box remove a": {"name", "removed"},
    "box env a": {"STUDIO_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "GITHUB_KEY", "GITHUB_BASE_URL"},
    "visitor grant --box a --principal p --credential env:K": {"id", "grant", "expires"},
    "visitor list": {"id", "box", "principal", "credential", "issued", "expires", "state"},
    "visitor revoke 1": set(),
}


@pytest.mark.parametrize("words", DOCUMENTS)
def test_each_command_prints_one_document_for_programs(words: str) -> None:
    """With `--json` standard output is one JSON document and nothing else."""
    add("a")
    done("visitor", "grant", "--box", "a", "--principal", "github:ada", "--credential", "env:ADA_KEY")
    document = json.loads(done(*words.split(), "--json"))
    first = document[0] if isinstance(document, list) else document
    assert (set(first) if isinstance(first, dict) else set()) == DOCUMENTS[words]


def test_every_command_is_in_that_table() -> None:
    """No command is without `--json`, and none without its row."""
    every = {f"{group.name} {name}" for group in (box.command, visitor.command) for name in group.commands}
    assert {" ".join(words.split()[:2]) for words in DOCUMENTS} == every


@pytest.mark.parametrize("words", ["box list", "visitor list --all"])
def test_an_empty_list_is_a_document_too(here: Path, words: str) -> None:
    """A program gets a list of nothing."""
    (here / "grantproxy.yaml").write_text("state: st\nbroker: {listen: '127.0.0.1:1', word: lobby}\n")
    assert json.loads(done(*words.split(), "--json")) == []


def test_a_box_that_the_settings_list_as_well_can_be_removed(here: Path) -> None:
    """That is the way out where the program does not start for a name that is two boxes'."""
    add("twice")
    (here / "grantproxy.yaml").write_text(SETTINGS.replace("name: fixed", "name: twice"))
    assert done("box", "remove", "twice") == "box twice removed\n"
    assert ask(lambda store: store.list_boxes()) == ()
    result = run("box", "remove", "twice")
    assert (result.exit_code, result.stderr) == (1, "error: box `twice` is in the settings; take it out there\n")


# --- what is refused ---


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        pytest.param("box add fixed", 1, "box `fixed` is in the settings; choose another name", id="add-one-of-the-settings"),
        pytest.param("box add taken", 1, "there is a box `taken` already; remove it first, or give it a new token with `box rotate`", id="add-twice"),
        pytest.param("box add a/b", 2, "`a/b` is no box's name; write at most 63 letters, digits, `.`, `_` and `-`", id="name"),
        pytest.param("box add a --endpoint x", 1, "`x` is no endpoint; the endpoints are: llm", id="endpoint"),
        pytest.param("box add a --tunnels", 1, "there are no tunnels in the settings; add `tunnels` there, or leave --tunnels out", id="tunnels"),
        pytest.param("box add a --own v-1", 2, "`v-1` names nothing; write KIND:ID, the kinds are agent, conversation, sandbox, vault", id="own"),
        pytest.param("box add a --env --url ftp://x", 2, "`ftp://x` is neither https nor http; write `https://host`", id="url"),
        pytest.param("box rotate none", 1, "there is no box `none`; `grantproxy box list` shows them", id="rotate-none"),
        pytest.param("box rotate fixed", 1, "box `fixed` is in the settings; change the token that its `token` names", id="rotate-one-of-the-settings"),
        pytest.param("box rotate taken --grace 1", 2, "`1` is not a duration; write a number and its unit, such as `10s`, `500ms` or `2m`", id="grace"),
        pytest.param("box remove none", 1, "there is no box `none`; `grantproxy box list` shows them", id="remove-none"),
        pytest.param("box remove fixed", 1, "box `fixed` is in the settings; take it out there", id="remove-one-of-the-settings"),
        pytest.param("box env none", 1, "there is no box `none`; `grantproxy box list` shows them", id="env-of-none"),
        pytest.param("visitor grant --box none --principal p --credential env:K", 1, "there is no box `none`; `grantproxy box list` shows them", id="grant-for-none"),
        pytest.param("visitor grant --box taken --principal 'a b' --credential env:K", 2, "that names nobody; write 1 to 200 visible ASCII characters, such as github:login", id="principal"),
        pytest.param("visitor grant --box taken --principal p --credential hunter2", 2, "does not say where the credential is; write env:NAME or file:PATH", id="credential"),
        pytest.param("visitor grant --box taken --principal p --credential 'exec:hunter2 x'", 2, "a command is for the settings, not for the database; write env:NAME or file:PATH", id="command"),
        pytest.param("visitor grant --box taken --principal p --credential env:K --ttl 25h", 2, "a grant is short; write a time up to 24h", id="ttl"),
        pytest.param("visitor grant --box taken --principal p --credential env:K --ttl 0", 2, "a grant is short; write a time up to 24h", id="ttl-of-nothing"),
        pytest.param("visitor revoke", 2, "say which: a number of `visitor list`, --box or --principal", id="revoke-nothing"),
        pytest.param("visitor revoke 7", 1, "no live grant is that one; `grantproxy visitor list` shows them", id="revoke-none"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_remedy(words: str, code: int, expected: str) -> None:
    """One line on standard error, exit 1, or 2 where the words themselves are wrong; nothing that may be a secret."""
    add("taken")
    result = run(*shlex.split(words))
    assert (result.exit_code, result.stdout) == (code, "")
    assert expected in " ".join(result.stderr.split())
    assert "hunter2" not in result.stderr


@pytest.mark.parametrize("words", ["box list", "box add a", "visitor list"])
def test_settings_without_a_broker_are_told(here: Path, words: str) -> None:
    """The boxes are in the broker's database: where there is none, nothing is made up."""
    text = SETTINGS.partition("broker:")[0]
    (here / "grantproxy.yaml").write_text(text)
    result = run(*words.split())
    assert result.exit_code == 1
    assert result.stderr == (
        "error: `grantproxy.yaml` has no `broker`, whose database holds the boxes; "
        "add it, or name other settings with -c\n"
    )
    assert not (here / "st").exists()
    (here / "grantproxy.yaml").unlink()
    assert "grantproxy.yaml: does not exist; name settings with `-c FILE`" in run(*words.split()).stderr


def test_a_database_that_is_not_there_is_named_without_its_password(here: Path) -> None:
    """Exit 1, one line, with the remedy."""
    url = "postgresql://u:hunter2@127.0.0.1:1/b"
    (here / "other.yaml").write_text(SETTINGS.replace("  word: lobby", f"  word: lobby\n  database: {url}"))
    result = run("box", "list", "-c", "other.yaml")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: database `postgresql://u:***@127.0.0.1:1/b` cannot be used: connection refused; "
        "start it, or correct `database` in the settings\n"
    )


def test_a_token_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable's name, and the remedy."""
    monkeypatch.delenv("FIXED_TOKEN")
    result = run("box", "env", "fixed")
    assert result.exit_code == 1
    assert (
        "error: the token of box `fixed` cannot be read: environment variable `FIXED_TOKEN` is not set" in result.stderr
    )


def test_the_commands_are_found() -> None:
    """`grantproxy --help` lists both."""
    result = CliRunner().invoke(main, ["--help"])
    assert "  box " in result.output
    assert "  visitor " in result.output
