"""`grantproxy audit`: what is shown, what is checked, and what is said when there is nothing."""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from addons.record import EndedBy, Event, Mode, Record
from grants.decision import Reason, Rule
from proxy.cli.audit import command
from proxy.cli.audit_text import HEADER, plain, records_table, safe, summary_lines, summary_tables
from proxy.decisionlog import FileLog
from proxy.decisionlog.query import Filter, summarize
from proxy.decisionlog.reader import LONGEST_LINE, with_rotated
from proxy.decisionlog.remedies import ANSWERS, CLIENT_ONLY, REMEDIES
from proxy.settings.model import Sync

READ = Record(
    id="r1", event=Event.ALLOW, mode=Mode.PROXY, verdict="allow", box="agent-1", endpoint="github",
    host="api.github.com", method="GET", assurance="semantic", operation="list issues", effect="read", status=200,
    duration_ms=1.5,
)  # fmt: skip
REFUSED = replace(
    READ, id="r2", event=Event.DENY, verdict="deny", operation=None, effect=None, rule=Rule.REQUEST,
    reason=Reason.NO_OPERATION, status=403, box="agent-2",
)  # fmt: skip
INTENT = replace(READ, id="r3", event=Event.INTENT, operation="create issue", effect="write", status=None)
WRITE = replace(INTENT, event=Event.ALLOW, status=201, endpoint="gitea")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings file here, and a state directory of the test's own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "decisions.jsonl"
    log = FileLog(path, sync=Sync.OFF)
    for record in (READ, REFUSED, INTENT, WRITE):
        log.write(record)
    log.close()
    return path


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def _ids(result: Result) -> list[str]:
    return [json.loads(line)["id"] + json.loads(line)["event"][14:] for line in result.stdout.splitlines()]


ALL = ["r1_allow", "r2_deny", "r3_intent", "r3_allow"]


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        pytest.param([], ALL, id="all"),
        pytest.param(["--endpoint", "github"], ["r1_allow", "r2_deny", "r3_intent"], id="endpoint"),
        pytest.param(["--endpoint", "github", "--endpoint", "gitea"], ALL, id="two-endpoints"),
        pytest.param(["--verdict", "deny"], ["r2_deny"], id="verdict"),
        pytest.param(["--rule", "semantic-request-deny"], ["r2_deny"], id="rule"),
        pytest.param(["--operation", "create issue"], ["r3_intent", "r3_allow"], id="operation"),
        pytest.param(["--box", "agent-2"], ["r2_deny"], id="box"),
        pytest.param(["--since", "1h"], ALL, id="since-an-hour"),
        pytest.param(["--since", "2999-01-01T00:00:00Z"], [], id="since-the-future"),
        pytest.param(["--since", "2020-01-01"], ALL, id="since-a-day"),
        pytest.param(["--limit", "2"], ["r3_intent", "r3_allow"], id="limit"),
        pytest.param(["--limit", "1", "--verdict", "deny"], ["r2_deny"], id="limit-after-filter"),
    ],
)
def test_records_are_picked(path: Path, arguments: list[str], ids: list[str]) -> None:
    """Filters by endpoint, verdict, rule, operation, box and time; the limit counts what matches."""
    result = _run("show", "--log", path, "--json", *arguments)
    assert result.exit_code == 0
    assert _ids(result) == ids


def test_json_prints_the_lines_as_they_are(path: Path) -> None:
    """`--json` prints raw lines, so that they can be checked and piped."""
    assert _run("show", "--log", path, "--json").stdout_bytes == path.read_bytes()


def test_a_pipe_gets_one_line_a_record(path: Path) -> None:
    """Without a terminal each record is one line of words."""
    lines = _run("show", "--log", path).stdout.splitlines()
    assert len(lines) == 4
    assert re.fullmatch(r"\S+Z allow 200 GET github list_issues - 1\.5ms agent-1 r1", lines[0])
    assert lines[1].split()[5:7] == ["api.github.com", "semantic-request-deny/no-operation"]
    assert lines[2].split()[6] == "intent"


def test_a_terminal_gets_a_table(path: Path) -> None:
    """On a terminal `show` and `summary` print tables."""
    for subcommand, header in (("show", "endpoint"), ("summary", "what helps")):
        main, end = os.openpty()
        done = subprocess.run(
            [sys.executable, "-c", "from proxy.cli.audit import command; command()", subcommand, "--log", str(path)],
            stdout=end, stderr=subprocess.PIPE, check=True, env={**os.environ, "COLUMNS": "200", "TERM": "xterm"},
            cwd=Path(__file__).parents[3],
        )  # fmt: skip
        os.close(end)
        shown = b""
        while b"\n" not in shown or header.encode() not in shown:
            shown += os.read(main, 65536)
        os.close(main)
        assert done.stderr == b""
        assert b"\x1b[" in shown


HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e\x9b31m\r\n\x7f[bold]x"


def test_no_record_moves_the_cursor() -> None:
    """Characters of a record that are not printable are shown as escapes; markup is text."""
    record = {"operation": HOSTILE, "endpoint": HOSTILE, "verdict": HOSTILE, "box": [HOSTILE], "rule": HOSTILE}
    console = Console(file=io.StringIO(), width=400)
    console.print(records_table([record], console.width))
    for part in summary_tables(summarize([record | {"event": "broker_request_deny"}])):
        console.print(part)
    file = console.file
    assert isinstance(file, io.StringIO)
    for text in (plain(record), file.getvalue().replace("\n", "")):
        assert text.isprintable()
        assert r"\x1b[2J" in text
        assert "[bold]x" in text
    assert safe("\ud800") == r"\ud800"
    assert safe(None) == safe("") == "-"


def test_raw_lines_are_made_harmless_too(path: Path) -> None:
    """A line that somebody changed to hold control characters is printed as plain ASCII JSON."""
    path.write_bytes(path.read_bytes().replace(b"list issues", "list\x9b31m\x7f".encode()))
    shown = _run("show", "--log", path, "--json").stdout
    assert shown.isascii()
    assert "\x7f" not in shown.replace("\\u007f", "")
    assert json.loads(shown.splitlines()[0])["operation"] == "list\x9b31m\x7f"


def _table(width: int, *more: dict[str, object]) -> str:
    stamp = {"ts": "2026-01-02T03:04:05.678Z", "id": "0b5f1c6f9f6a", "box": "agent-1", "endpoint": "github-issues"}
    allowed = {"verdict": "allow", "operation": "list issues", "status": 200, "method": "GET", "duration_ms": 1.5}
    denied = {"verdict": "deny", "host": "api.github.com", "rule": "semantic-request-deny", "reason": "no-operation"}
    file = io.StringIO()
    console = Console(file=file, width=width)
    console.print(records_table([stamp | allowed, stamp | denied, *more], console.width))
    return file.getvalue()


@pytest.mark.parametrize(
    ("width", "columns", "time"),
    [
        pytest.param(200, HEADER.split(), "2026-01-02T03:04:05.678Z", id="all"),
        pytest.param(140, HEADER.split(), "2026-01-02T03:04:05.678Z", id="just-all"),
        pytest.param(139, HEADER.split(), "01-02 03:04:05", id="short-time"),
        pytest.param(126, [name for name in HEADER.split() if name != "ms"], "01-02 03:04:05", id="no-ms"),
        pytest.param(110, [n for n in HEADER.split() if n not in ("ms", "box", "method")], "01-02 03:04:05", id="110"),
        pytest.param(80, ["time", "verdict", "endpoint", "operation", "why", "id"], "01-02 03:04:05", id="80"),
    ],
)
def test_a_narrow_terminal_has_the_columns_that_matter(width: int, columns: list[str], time: str) -> None:
    """The time, the verdict and the id are whole at 80 columns, and so is all that why and operation say."""
    shown = _table(width)
    lines = shown.splitlines()
    assert lines[0].split() == columns
    assert max(map(len, lines)) <= width
    assert lines[1].startswith(time)
    assert "deny" in shown
    assert shown.count("0b5f1c6f") == 2
    assert "…" not in shown
    if width > 100:
        assert "semantic-request-deny/no-operation" in shown


def test_a_time_that_is_none_is_shown_as_it_is() -> None:
    """What somebody wrote in the place of a time is not cut."""
    assert "yesterday-at-four" in _table(80, {"ts": "yesterday-at-four"})


@pytest.mark.parametrize("subcommand", ["show", "tail", "summary", "verify"])
def test_a_missing_log_is_named(subcommand: str, tmp_path: Path) -> None:
    """Without a log the message says where it was looked for and what to do; exit 1."""
    result = _run(subcommand)
    expected = tmp_path / "state" / "grantproxy" / "decisions.jsonl"
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: there is no decision log at `{expected}`; start `grantproxy serve`, or name one with --log\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["show"], "no record in", id="show"),
        pytest.param(["tail"], "no record in", id="tail"),
        pytest.param(["summary"], "no record in", id="summary"),
        pytest.param(["show", "--box", "x"], "no record that matches in", id="show-filtered"),
    ],
)
def test_an_empty_log_is_said_to_be(tmp_path: Path, arguments: list[str], says: str) -> None:
    """An empty log is no error: a word on stderr, nothing on stdout, exit 0."""
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    result = _run(*arguments, "--log", empty)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{says} `{empty}`\n"
    assert _run("verify", "--log", empty).stdout == "ok, but there is no record in it, so nothing was checked\n"
    assert json.loads(_run("verify", "--log", empty, "--json").stdout)["records"] == 0


def test_what_a_crash_left_of_the_first_record_is_no_log_yet(tmp_path: Path) -> None:
    """Where nothing but the beginning of a first record is left, it is said that there is no record."""
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b'{"id":"a')
    result = _run("verify", "--log", torn)
    assert (result.exit_code, result.stdout) == (0, "ok, but there is no record in it, so nothing was checked\n")
    assert result.stderr.startswith(f"{torn}:1: torn line")


@pytest.mark.parametrize("content", [b"operations:\n- name: read\n", b"garbage\n" * 4])
def test_a_file_that_is_no_log_is_not_ok(tmp_path: Path, content: bytes) -> None:
    """A file of something else is not ok: its first line is named; exit 1."""
    other = tmp_path / "other"
    other.write_bytes(content)
    result = _run("verify", other)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"{other}:1: the line is no record, nor the beginning of one")


@pytest.mark.parametrize("line", [b"{{damaged\n", b"garbage\n", b'{"id":"r3\n'])
@pytest.mark.parametrize("subcommand", ["show", "tail", "summary"])
def test_lines_that_cannot_be_read_are_counted(path: Path, subcommand: str, line: bytes) -> None:
    """What is left out is said on stderr, with the first place and what looks further; a record is never hidden."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], line, b"\n", lines[2], line, lines[3][:-9]]))
    result = _run(subcommand, "--log", path)
    assert result.exit_code == 0
    assert result.stderr == (
        f"warning: 2 lines could not be read, the first is {path}:2; run `grantproxy audit verify --log {path}`\n"
    )
    path.write_bytes(b"".join(lines) + b"garbage")
    assert "1 line could not be read, the first is" in _run(subcommand, "--log", path).stderr
    path.write_bytes(b"".join(lines) + lines[3][:9])
    assert _run(subcommand, "--log", path).stderr == "", "it is being written"


def test_a_log_that_was_moved_away_is_found_beside(path: Path) -> None:
    """Where the log was rotated and nothing was written since, the message names the file that it was moved to."""
    path.rename(path.with_name("decisions.jsonl.1"))
    for subcommand in ("show", "tail", "summary", "verify"):
        result = _run(subcommand, "--log", path)
        assert result.exit_code == 1
        assert result.stderr == (
            f"error: there is no decision log at `{path}`, which was moved to `{path}.1`; the next request makes it"
            f" anew, and `--log {path}.1` reads that one\n"
        )


def test_the_settings_say_where_the_log_is(path: Path, tmp_path: Path) -> None:
    """`-c` reads the log of those settings; `grantproxy.yaml` is the default."""
    (tmp_path / "a.grant.yaml").write_text(
        "operations:\n- name: read\n  effect: read\n  method: GET\n  route: /x\n"
        "  response: {statuses: [200], contentTypes: [application/json], maxBytes: 100,"
        " credentialDisclosure: deny-exact, json: {type: object}}\n"
    )
    endpoint = "{name: a, upstream: 'https://a.example', assurance: semantic, grant: %s}" % (tmp_path / "a.grant.yaml")
    text = f"proxy: 127.0.0.1:0\nstate: {tmp_path}\nendpoints: [{endpoint}]\n"
    (tmp_path / "settings.yaml").write_text(text)
    result = _run("show", "-c", tmp_path / "settings.yaml", "--json")
    assert result.exit_code == 0, result.stderr
    assert _ids(result) == ALL
    Path("grantproxy.yaml").write_text(text + "audit: {path: stdout}\n")
    result = _run("show")
    assert result.exit_code == 1
    assert "goes to standard output; keep it in a file and name that with --log" in result.stderr
    Path("grantproxy.yaml").write_text("nothing: here\n")
    result = _run("show")
    assert result.exit_code == 1
    assert "grantproxy.yaml:1:1" in result.stderr


def test_verify_says_how_much_is_whole(path: Path) -> None:
    """`verify` prints counts and the head, which a later `--head` holds the log to."""
    result = _run("verify", "--log", path)
    assert result.exit_code == 0
    found = re.fullmatch(
        r"ok, 4 records in 1 chain, head ([0-9a-f]{64}); a changed last record or a cut tail shows only with --head\n",
        result.stdout,
    )
    assert found
    held = _run("verify", path, "--head", found[1])
    assert (held.exit_code, held.stdout) == (0, f"ok, 4 records in 1 chain, head {found[1]}\n")
    document = json.loads(_run("verify", path, "--json").stdout)
    assert (document["ok"], document["records"], document["head"]) == (True, 4, found[1])
    assert list(document["heads"].values()) == [found[1]]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert _run("verify", path).exit_code == 0
    result = _run("verify", path, "--head", found[1])
    assert result.exit_code == 1
    assert (
        result.stderr
        == f"{path}:3: the log ends without the record {found[1]}; its tail was cut, or that record was changed\n"
    )


def test_verify_names_the_broken_place(path: Path) -> None:
    """A broken chain is named by file and line; exit 1."""
    path.write_bytes(path.read_bytes().replace(b"agent-2", b"agent-3"))
    result = _run("verify", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"{path}:3: record 3 of chain ")
    result = _run("verify", path, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "ok": False, "file": str(path), "line": 3, "what": result.stderr.strip().split(": ", 1)[1],
    }  # fmt: skip


def test_verify_reports_torn_lines(path: Path) -> None:
    """A line that a crash tore is reported, and breaks nothing."""
    with path.open("ab") as file:
        file.write(b'{"id":"x')
    result = _run("verify", path)
    assert result.exit_code == 0
    assert result.stderr == (f"{path}:5: torn line; a crash cut it off before anybody was told that it was written\n")
    assert json.loads(_run("verify", path, "--json").stdout)["torn"] == [f"{path}:5"]


def test_verify_reads_rotated_files(path: Path) -> None:
    """Without FILES the rotated files beside the log are read too; what is gone is vouched for by `--after`."""
    log = FileLog(path, sync=Sync.OFF)
    log.write(READ)
    head, old = log.head, path.with_name("decisions.jsonl.1")
    path.rename(old)
    log.reopen()
    log.write(READ)
    log.close()
    assert _run("verify", "--log", path).stdout.startswith("ok, 6 records in 2 chains, ")
    old.unlink()
    result = _run("verify", "--log", path)
    assert result.exit_code == 1
    assert "name the older file first, or give its last digest with --after" in result.stderr
    assert _run("verify", "--log", path, "--after", head).exit_code == 0


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    """A file that cannot be read is named; exit 1."""
    packed = tmp_path / "log.gz"
    packed.write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x00")
    for subcommand in ("show", "tail", "summary"):
        result = _run(subcommand, "--log", packed)
        assert result.exit_code == 1
        assert result.stderr == f"error: `{packed}` cannot be read: it is damaged; name another with --log\n"
    result = _run("verify", packed)
    assert result.exit_code == 1
    assert f"`{packed}` cannot be read" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["show", "--since", "yesterday"], "`yesterday` is no time; write 90m, 24h", id="since"),
        pytest.param(["show", "--verdict", "maybe"], "maybe", id="verdict"),
        pytest.param(["show", "--limit", "0"], "0", id="limit"),
        pytest.param(["verify", "--head", "abc"], "`abc` is no head; write the 64 hex digits", id="head"),
        pytest.param(["verify", "absent"], "absent", id="file"),
        pytest.param(["list"], "list", id="command"),
    ],
)
def test_wrong_usage_is_exit_2(arguments: list[str], says: str) -> None:
    """Wrong usage is exit 2 with what was written."""
    result = _run(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr


def test_tail_shows_the_last_records(path: Path) -> None:
    """`tail` shows the last so many."""
    assert _ids(_run("tail", "--log", path, "--json", "-n", "2")) == ALL[2:]
    assert len(_run("tail", "--log", path).stdout.splitlines()) == 4


def test_tail_follows_over_a_rotation(path: Path) -> None:
    """`tail -f` shows each record once as it comes, over a rotation too; Ctrl-C is its end, exit 0."""
    log = FileLog(path, sync=Sync.OFF)
    process = subprocess.Popen(
        [sys.executable, "-c", "from proxy.cli.audit import command; command()",
         "tail", "-f", "-n", "1", "--json", "--log", str(path), "--endpoint", "github", "--endpoint", "gitea"],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert process.stdout is not None
    timer = threading.Timer(30, process.kill)
    timer.start()
    shown = [process.stdout.readline()]
    log.write(replace(READ, id="n1"))
    log.write(replace(READ, id="n2", endpoint="other"))
    shown.append(process.stdout.readline())
    path.rename(path.with_name("decisions.jsonl.1"))
    log.reopen()
    log.write(replace(READ, id="n3"))
    shown.append(process.stdout.readline())
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate()
    timer.cancel()
    log.close()
    assert [json.loads(line)["id"] for line in shown] == ["r3", "n1", "n3"]
    assert (rest, process.returncode) == ("", 0)


@pytest.mark.parametrize("table", [False, True])
def test_what_helps_with_several_refusals_is_said_once(tmp_path: Path, table: bool) -> None:
    """One hint of many reasons stands with the first; the others name that."""
    reasons = [Reason.NO_OPERATION, Reason.METHOD, Reason.QUERY_VALUE, Reason.BODY_SCHEMA, Reason.BODY_TOO_LARGE]
    log = FileLog(tmp_path / "log", sync=Sync.OFF)
    for reason in reasons:
        log.write(replace(REFUSED, reason=reason))
    log.close()
    counted = summarize([json.loads(line) for line in (tmp_path / "log").read_text().splitlines()])
    if table:
        console = Console(width=4000, file=io.StringIO())
        for part in summary_tables(counted):
            console.print(part)
        assert isinstance(console.file, io.StringIO)
        text = console.file.getvalue()
    else:
        text = "\n".join(summary_lines(counted))
    assert text.count(REMEDIES[Reason.NO_OPERATION]) == 1
    assert text.count(REMEDIES[Reason.BODY_TOO_LARGE]) == 1
    assert text.count("as for semantic-request-deny/") == 3


def test_summary_counts_and_says_what_helps(path: Path) -> None:
    """`summary` counts decisions (no intents) by endpoint and operation, refusals by rule and reason, with a remedy."""
    lines = _run("summary", "--log", path).stdout.splitlines()
    assert lines[0].startswith("2 allowed, 1 denied, ")
    assert sorted(lines[1:4]) == [
        "gitea create issue: 1 allowed, 0 denied",
        "github -: 0 allowed, 1 denied",
        "github list issues: 1 allowed, 0 denied",
    ]
    assert lines[4] == f"semantic-request-deny/no-operation: 1; {REMEDIES[Reason.NO_OPERATION]}"
    document = json.loads(_run("summary", "--log", path, "--json").stdout)
    assert (document["allowed"], document["denied"]) == (2, 1)
    assert document["refusals"] == [
        {
            "rule": "semantic-request-deny",
            "reason": "no-operation",
            "count": 1,
            "remedy": REMEDIES[Reason.NO_OPERATION],
            "where": [],
        }
    ]
    assert json.loads(_run("summary", "--log", path, "--json", "--verdict", "deny").stdout)["allowed"] == 0


STREAM = replace(READ, id="s1", endpoint="llm", operation=None, effect=None)
END = replace(STREAM, event=Event.END, labels=(EndedBy.UPSTREAM,))


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        *(pytest.param([side.value], side.value, id=side.value) for side in EndedBy),
        pytest.param([], "end", id="no-label"),
        pytest.param("x", "end", id="no-list"),
        pytest.param(None, "end", id="no-labels"),
    ],
)
def test_an_end_says_who_ended(labels: object, shown: str) -> None:
    """The record of a stream's end is shown as one, with the side that ended it."""
    record = {"event": "broker_request_end", "verdict": "allow", "labels": labels}
    assert plain(record).split()[6] == shown
    console = Console(file=io.StringIO(), width=200)
    console.print(records_table([record], console.width))
    assert isinstance(console.file, io.StringIO)
    assert shown in console.file.getvalue()


def test_an_end_is_no_decision(path: Path) -> None:
    """A stream has two records and is one decision: `summary` counts its beginning; `show` and `tail` show both."""
    log = FileLog(path, sync=Sync.OFF)
    log.write(STREAM)
    log.write(END)
    log.close()
    lines = _run("summary", "--log", path).stdout.splitlines()
    assert lines[0].startswith("3 allowed, 1 denied, ")
    assert "llm -: 1 allowed, 0 denied" in lines
    for subcommand in ("show", "tail"):
        shown = _run(subcommand, "--log", path).stdout.splitlines()[-2:]
        assert [line.split()[6] for line in shown] == ["-", "ended-by-upstream"]
    assert summarize([{"event": "broker_request_end", "verdict": "allow"}]).allowed == 0


def test_all_reads_rotated_files(path: Path) -> None:
    """`--all` reads the files that the log was rotated into too, packed ones included, oldest first."""
    data = path.read_bytes()
    path.unlink()
    path.with_name("decisions.jsonl.1.gz").write_bytes(gzip.compress(data))
    path.with_name("decisions.jsonl-damaged.gz").write_bytes(gzip.compress(data)[:40] + b"x" * 40)
    os.mkfifo(path.with_name("decisions.jsonl.fifo"))
    log = FileLog(path, sync=Sync.OFF)
    log.write(STREAM)
    log.close()
    assert _ids(_run("show", "--log", path, "--json")) == ["s1_allow"]
    assert _ids(_run("show", "--log", path, "--json", "--all")) == [*ALL, "s1_allow"]
    assert _ids(_run("show", "--log", path, "--json", "--all", "-n", "1")) == ["s1_allow"]
    assert _run("summary", "--log", path).stdout.startswith("1 allowed, 0 denied, ")
    assert _run("summary", "--log", path, "--all").stdout.startswith("3 allowed, 1 denied, ")


def test_siblings_are_those_of_the_very_name(path: Path, tmp_path: Path) -> None:
    """A name is taken as it is written: what would be a pattern finds no other files."""
    odd = tmp_path / "decisions.json[l]"
    odd.write_bytes(b"")
    path.with_name("decisions.jsonl.1").write_bytes(path.read_bytes())
    assert with_rotated(odd) == (odd,)


@pytest.mark.parametrize("subcommand", ["show", "tail", "summary", "verify"])
@pytest.mark.parametrize(
    ("file", "says"),
    [
        pytest.param("/dev/zero", "it is no file", id="never-ends"),
        pytest.param("/dev/urandom", "it is no file", id="never-ends-in-lines"),
        pytest.param("long", "it has a line of over 1 MiB, so it is no decision log", id="long-line"),
        pytest.param("packed.gz", "it has a line of over 1 MiB, so it is no decision log", id="packed-long-line"),
    ],
)
def test_reading_ends(tmp_path: Path, subcommand: str, file: str, says: str) -> None:
    """Whatever is named as a log, reading it ends, in little memory; exit 1."""
    (tmp_path / "long").write_bytes(b"\n" + b"x" * (LONGEST_LINE + 1))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(bytes(8 * LONGEST_LINE)))
    path = tmp_path / file
    result = _run(subcommand, "--log", path)
    assert result.exit_code == 1
    assert result.stderr == f"error: `{path}` cannot be read: {says}; name another with --log\n"
    if subcommand == "verify":
        assert _run("verify", path).exit_code == 1


def test_a_client_that_misses_the_ca_is_told_so() -> None:
    """A handshake that failed for want of the CA has a remedy that names the command."""
    record = {"event": "broker_request_deny", "rule": "denied", "reason": "tls-client-error"}
    said = {**record, "host": "api.example", "labels": ["tls-alert:unknown-ca"]}
    [refusal] = summarize([record, said, said, {**record, "host": "b.example", "labels": []}]).refusals
    assert refusal.count == 4
    assert refusal.where == ("api.example unknown-ca", "-", "b.example")
    assert '`eval "$(grantproxy env)"`' in str(refusal.remedy)
    [fault] = summarize([{"event": "broker_request_deny", "rule": "fault", "reason": None}]).refusals
    assert fault.remedy == REMEDIES[Rule.FAULT]
    [bare] = summarize([{"event": "broker_request_deny"}]).refusals
    assert (bare.rule, bare.reason, bare.remedy) == ("-", None, None)


def test_every_remedy_is_for_a_word_of_the_log() -> None:
    """Remedies are keyed by rules and reasons, and are one line without a full stop."""
    words = {*Rule, *Reason}
    for word, remedy in [*REMEDIES.items(), *((Rule.REQUEST, text) for text in ANSWERS.values())]:
        assert word in words
        assert "\n" not in remedy
        assert not remedy.endswith(".")


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_remedy_or_needs_none(reason: Reason) -> None:
    """A reason has its remedy, that of its rule, or is listed as the client's own to mend: never two of these."""
    assert (reason in REMEDIES or reason == Rule.FAULT) != (reason in CLIENT_ONLY)


DENIED = {"event": "broker_request_deny", "verdict": "deny", "rule": "denied"}


def test_unknown_hosts_are_named() -> None:
    """The hosts that clients asked for are named, the most frequent five with how often; the remedy has both ways."""
    asked = ["a.example"] * 3 + ["b.example"] * 2 + ["c.example", "d.example", "e.example", "f.example"]
    [refusal] = summarize([DENIED | {"reason": "host-unknown", "host": host} for host in asked]).refusals
    assert refusal.where == ("a.example 3", "b.example 2", "c.example 1", "d.example 1", "e.example 1")
    assert "endpoint with that upstream" in str(refusal.remedy)
    assert "`tunnels.allow`" in str(refusal.remedy)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        pytest.param(401, "refused the credential; check the endpoint's `secrets`", id="401"),
        pytest.param(403, "refused the credential; check the endpoint's `secrets`", id="403"),
        pytest.param(429, "ask less often", id="429"),
        pytest.param(500, None, id="500"),
    ],
)
def test_what_upstreams_refuse_is_counted(path: Path, status: int, says: str | None) -> None:
    """An upstream's status of 400 or more is counted by endpoint, whether the client was shown it or refused it."""
    log = FileLog(path, sync=Sync.OFF)
    refused = replace(REFUSED, rule=Rule.RESPONSE_STATUS, reason=Reason.STATUS, status=502, upstream_status=status)
    for record in (
        refused,
        replace(STREAM, status=status, upstream_status=status),
        replace(END, upstream_status=status),
    ):
        log.write(record)
    log.close()
    lines = _run("summary", "--log", path).stdout.splitlines()
    for endpoint in ("github", "llm"):
        [line] = [line for line in lines if line.startswith(f"{endpoint} answered {status}: 1")]
        assert ("; " in line) is (says is not None)
    hints = [line.partition("; ")[2] for line in lines if f" answered {status}: " in line]
    if says is not None:
        assert says in hints[0]
        assert hints[1].startswith("as for ")
        assert hints[1].endswith(f" answered {status}")
    assert (
        _run("show", "--log", path).stdout.splitlines()[-3].split()[6]
        == f"semantic-response-status/status,upstream-{status}"
    )
    answers = json.loads(_run("summary", "--log", path, "--json").stdout)["answers"]
    assert {(answer["endpoint"], answer["status"], answer["count"]) for answer in answers} == {
        ("github", status, 1), ("llm", status, 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "label"), [("tls", "upstream-tls:expired"), ("tls-client-error", "tls-alert:expired")]
)
def test_why_a_handshake_failed_is_shown(reason: str, label: str) -> None:
    """`show` has the cause beside the reason, `summary` beside the host."""
    record = DENIED | {"reason": reason, "host": "api.example", "labels": [label, "word:lobby"]}
    assert plain(record).split()[6] == f"denied/{reason},expired"
    [refusal] = summarize([record]).refusals
    assert refusal.where == ("api.example expired",)


ONE, TWO = "ab12cd34ef56ab12cd34ef56", "ab12cd99ef56ab12cd34ef56"


def _identified(path: Path) -> None:
    log = FileLog(path, sync=Sync.OFF)
    for record in (replace(STREAM, id=ONE), replace(REFUSED, id=TWO), replace(END, id=ONE)):
        log.write(record)
    log.close()


@pytest.mark.parametrize("begins", [ONE, ONE[:12], ONE[:8]])
def test_one_decision_is_shown_by_its_id(path: Path, begins: str) -> None:
    """All records of one decision, and no other's."""
    _identified(path)
    result = _run("show", begins, "--log", path, "--json")
    assert result.exit_code == 0, result.stderr
    assert _ids(result) == [f"{ONE}_allow", f"{ONE}_end"]


@pytest.mark.parametrize(
    ("begins", "code", "says"),
    [
        pytest.param("ab12cd", 1, "2 decisions begin with `ab12cd`; write more digits", id="two"),
        pytest.param("ffffff", 1, "no record of `ffffff` in", id="none"),
        pytest.param("ab12c", 2, "`ab12c` is no decision; write its id, or at least the first 6", id="short"),
        pytest.param("no-digits", 2, "`no-digits` is no decision", id="no digits"),
        pytest.param(f"{ONE}0", 2, "is no decision", id="long"),
    ],
)
def test_an_id_that_names_no_decision(path: Path, begins: str, code: int, says: str) -> None:
    """What is not the beginning of exactly one id is told, with what to write."""
    _identified(path)
    result = _run("show", begins, "--log", path)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr


@pytest.mark.parametrize("begins", [0, 2])
def test_columns_are_named_on_a_terminal(path: Path, begins: int) -> None:
    """On a terminal `tail` begins with a line that names each word of the lines below."""
    main, end = os.openpty()
    program = "from proxy.cli.audit import command; command()"
    subprocess.run(
        [sys.executable, "-c", program, "tail", "-n", str(begins), "--log", str(path)],
        stdout=end, stderr=subprocess.PIPE, check=True, env={**os.environ, "TERM": "xterm"},
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    os.close(end)
    shown = os.read(main, 65536).decode()
    os.close(main)
    assert HEADER in shown
    assert len(HEADER.split()) == len(plain({}).split())
    assert HEADER not in _run("tail", "--log", path).stdout


def test_a_record_without_a_time_is_old() -> None:
    """A record whose time cannot be read is older than any `--since`."""
    wanted = Filter(since=datetime.now(UTC) - timedelta(days=9999))
    assert not wanted.takes({"ts": "whenever"})
    assert not wanted.takes({})
    assert wanted.takes({"ts": datetime.now(UTC).isoformat()})
    assert wanted.takes({"ts": datetime.now(UTC).replace(tzinfo=None).isoformat()})
