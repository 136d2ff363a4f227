"""The decision log: what a line is, when a record is in the log, and how a change of it shows."""

import errno
import fcntl
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.waits import wait_for

from addons.ports import LogUnavailable
from addons.record import EndedBy, Event, Mode, Record, Signal
from grants.decision import Reason, Rule
from proxy.decisionlog import FIELDS, Broken, FileLog, Intact, Place, StreamLog, compose, open_log, verify
from proxy.decisionlog import stream as stream_module
from proxy.decisionlog import writer as writer_module
from proxy.decisionlog.chain import as_record
from proxy.decisionlog.lines import FIRST_PREV, Stamp
from proxy.decisionlog.reader import follow, with_rotated
from proxy.decisionlog.schema import build, load_schema, validate_record
from proxy.decisionlog.torn import is_torn
from proxy.settings.model import Assurance, Sync
from proxy.state import StartRefused

ALLOW = Record(
    id="01JABC-x_9", event=Event.ALLOW, mode=Mode.PROXY, verdict="allow", box="agent-1", endpoint="github",
    host="api.github.com", method="GET", assurance="semantic", operation="list open issues", effect="read",
    route="/repos/{owner}/{repo}/issues", resource_digest="a" * 64, redirect_hops=1, final_host="[2001:db8::1]"[1:-1],
    final_operation="read", final_effect="read", final_route="/", final_resource_digest="b" * 64, status=200,
    bytes_out=0, bytes_in=321, duration_ms=1.23456, secret_refs=("api", "org/other.key"),
    grant_digest="sha256:" + "c" * 64,
)  # fmt: skip
DENY = Record(
    id="d", event=Event.DENY, mode=Mode.TERMINATE, verdict="deny", rule=Rule.MISDIRECTED, reason=Reason.HOST_MISMATCH,
    status=421, signals=(Signal.DENIED, Signal.MISDIRECTED),
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.jsonl"


@pytest.fixture
def opened() -> Iterator[Callable[..., FileLog]]:
    logs: list[FileLog] = []

    def make(path: Path, sync: Sync = Sync.OFF) -> FileLog:
        logs.append(FileLog(path, sync=sync))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


type Open = Callable[..., FileLog]


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def _intact(*files: Path, heads: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Intact:
    verdict = verify(files, heads=heads, after=after)
    assert isinstance(verdict, Intact), verdict
    return verdict


def _broken(*files: Path, heads: tuple[str, ...] = ()) -> Broken:
    verdict = verify(files, heads=heads)
    assert isinstance(verdict, Broken), verdict
    return verdict


# what a line is


def test_a_line_has_every_field_in_order(path: Path, opened: Open) -> None:
    """A record is one JSON line with the fields of the format, in their order, and holds what it was given."""
    opened(path).write(ALLOW)
    [line] = _lines(path)
    assert tuple(line) == FIELDS
    assert {field.name for field in fields(Record)} | {"ts", "seq", "chain", "prev"} == set(FIELDS)
    for field in fields(Record):
        given_value = getattr(ALLOW, field.name)
        expected = list(given_value) if isinstance(given_value, tuple) else given_value
        assert line[field.name] == (1.235 if field.name == "duration_ms" else expected), field.name
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(line["ts"]))
    assert validate_record(line) is None


def test_time_stamps_are_utc_with_milliseconds() -> None:
    """`ts` is RFC 3339, UTC, with milliseconds."""
    stamp = Stamp()
    assert stamp.at(1_700_000_000_001_999_999) == "2023-11-14T22:13:20.001Z"
    assert stamp.at(1_700_000_000_999_000_000) == "2023-11-14T22:13:20.999Z"
    assert stamp.at(1_700_000_001_000_000_000) == "2023-11-14T22:13:21.000Z"


@given(text=st.text(), number=st.floats(), count=st.integers(min_value=0))
@settings(deadline=None, max_examples=200)
def test_whatever_a_name_holds_a_record_is_one_ascii_line(text: str, number: float, count: int) -> None:
    """A line is one line of ASCII JSON, whatever stands in it."""
    record = replace(ALLOW, operation=text, endpoint=text, duration_ms=number, bytes_in=count, labels=(text, text))
    line = compose(record, ts="t", seq=1, chain="c", prev="p")
    assert all(0x20 <= byte < 0x7F for byte in line)
    read = json.loads(line)
    assert (read["operation"], read["labels"], read["bytes_in"]) == (text, [text, text], count)


def test_the_shipped_schema_is_that_of_the_code() -> None:
    """The schema in the package knows the words of the code (else run `python -m proxy.decisionlog.schema`)."""
    assert load_schema() == build()


@pytest.mark.parametrize(
    ("field", "words"),
    [
        pytest.param("event", Event, id="events"),
        pytest.param("mode", Mode, id="modes"),
        pytest.param("rule", Rule, id="rules"),
        pytest.param("reason", Reason, id="reasons"),
        pytest.param("assurance", [*Assurance, "tunnel"], id="assurances"),
        pytest.param("labels", EndedBy, id="labels"),
        pytest.param("signals", Signal, id="signals"),
    ],
)
def test_the_schema_knows_every_word(field: str, words: Iterable[str]) -> None:
    """Each word that a record may hold is in the schema."""
    good = json.loads(compose(ALLOW, ts="2026-01-01T00:00:00.000Z", seq=1, chain="0" * 16, prev=FIRST_PREV))
    for word in words:
        value = [str(word)] if field in ("labels", "signals") else str(word)
        assert validate_record(good | {field: value}) is None, word


@pytest.mark.parametrize(
    ("change", "name"),
    [
        pytest.param({"route": "/a?token=x"}, "route", id="query-in-route"),
        pytest.param({"route": "/a%20b"}, "route", id="path-in-route"),
        pytest.param({"route": "a"}, "route", id="route-without-slash"),
        pytest.param({"host": "https://x/"}, "host", id="url-as-host"),
        pytest.param({"host": "X.example"}, "host", id="upper-case-host"),
        pytest.param({"endpoint": "a/b"}, "endpoint", id="path-as-endpoint"),
        pytest.param({"box": "Bearer x"}, "box", id="header-as-box"),
        pytest.param({"method": "get"}, "method", id="unknown-method"),
        pytest.param({"reason": "because"}, "reason", id="unknown-reason"),
        pytest.param({"rule": "because"}, "rule", id="unknown-rule"),
        pytest.param({"event": "x"}, "event", id="unknown-event"),
        pytest.param({"verdict": "maybe"}, "verdict", id="unknown-verdict"),
        pytest.param({"effect": "delete"}, "effect", id="unknown-effect"),
        pytest.param({"resource_digest": "owner/repo"}, "resource_digest", id="object-as-digest"),
        pytest.param({"grant_digest": "c" * 64}, "grant_digest", id="digest-without-kind"),
        pytest.param({"secret_refs": ["ghp value"]}, "secret_refs", id="value-as-reference"),
        pytest.param({"signals": ["x"]}, "signals", id="unknown-signal"),
        pytest.param({"labels": ["Set-Cookie: x"]}, "labels", id="header-as-label"),
        pytest.param({"labels": ["tls-alert:UNKNOWN_CA"]}, "labels", id="alert-as-openssl-has-it"),
        pytest.param({"status": 42}, "status", id="no-status"),
        pytest.param({"bytes_in": -1}, "bytes_in", id="negative"),
        pytest.param({"seq": 0}, "seq", id="seq-zero"),
        pytest.param({"prev": "x"}, "prev", id="no-digest"),
        pytest.param({"ts": "2026-01-01"}, "ts", id="no-stamp"),
        pytest.param({"id": "a b"}, "id", id="no-id"),
        pytest.param({"path": "/x"}, "path", id="further-field"),
    ],
)
def test_the_schema_leaves_no_place_for_content(change: dict[str, object], name: str) -> None:
    """Metadata only, by schema: no path, query, header, body or value fits a field."""
    good = json.loads(compose(ALLOW, ts="2026-01-01T00:00:00.000Z", seq=1, chain="0" * 16, prev=FIRST_PREV))
    assert validate_record(good) is None
    problem = validate_record(good | change)
    assert problem is not None
    assert name in problem


# the chain


def test_lines_are_chained(path: Path, opened: Open) -> None:
    """`prev` is the SHA-256 of the line before in the chain, zeros at the top of a new file; `seq` counts from 1."""
    log = opened(path)
    for _ in range(3):
        log.write(ALLOW)
    raw = path.read_bytes().splitlines()
    lines = _lines(path)
    assert [line["seq"] for line in lines] == [1, 2, 3]
    assert [line["prev"] for line in lines] == ["0" * 64, sha256(raw[0]).hexdigest(), sha256(raw[1]).hexdigest()]
    assert len({line["chain"] for line in lines}) == 1
    assert log.head == sha256(raw[2]).hexdigest()
    verdict = _intact(path, heads=(log.head,))
    assert (verdict.records, verdict.chains, verdict.head, verdict.torn) == (3, 1, log.head, ())


def test_a_new_start_goes_on_from_the_last_line(path: Path, opened: Open) -> None:
    """A chain's first `prev` is the last digest of the chain before it."""
    first = opened(path)
    first.write(ALLOW)
    second = opened(path)
    second.write(DENY)
    lines = _lines(path)
    assert lines[1]["prev"] == first.head
    assert lines[1]["seq"] == 1
    assert lines[0]["chain"] != lines[1]["chain"]
    assert _intact(path).chains == 2


def test_two_writers_may_share_a_file(path: Path, opened: Open) -> None:
    """Chains of several workers may be interleaved in one file."""
    logs = [opened(path) for _ in range(3)]
    for number in range(30):
        logs[number * 7 % 3].write(ALLOW)
    verdict = _intact(path)
    assert (verdict.records, verdict.chains) == (30, 3)
    assert set(verdict.heads.values()) == {log.head for log in logs}


def test_processes_may_share_a_file(path: Path) -> None:
    """Several processes write at once and every line is whole."""
    script = (
        "import sys; from pathlib import Path; from proxy.decisionlog import FileLog; "
        "from addons.record import *; log = FileLog(Path(sys.argv[1])); "
        "[log.write(Record(id='r', event=Event.DENY, mode=Mode.PROXY, verdict='deny')) for _ in range(300)]; "
        "log.close()"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert (_intact(path).records, _intact(path).chains) == (900, 3)


def _fill(path: Path) -> None:
    for count in (4, 3):
        log = FileLog(path, sync=Sync.OFF)
        for number in range(count):
            log.write(replace(ALLOW, id=f"r{number}"))
        log.close()


def _edit(path: Path, change: Callable[[list[bytes]], None]) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    path.write_bytes(b"".join(lines))


def _change(number: int) -> Callable[[list[bytes]], None]:
    def change(lines: list[bytes]) -> None:
        lines[number] = lines[number].replace(b'"status":200', b'"status":404')

    return change


def _remove(number: int) -> Callable[[list[bytes]], None]:
    def change(lines: list[bytes]) -> None:
        del lines[number]

    return change


def _swap(lines: list[bytes]) -> None:
    lines[1], lines[2] = lines[2], lines[1]


def _twice(lines: list[bytes]) -> None:
    lines.insert(2, lines[1])


def _blur(lines: list[bytes]) -> None:
    lines[1] = b"{" + lines[1]


def _garble(number: int) -> Callable[[list[bytes]], None]:
    def change(lines: list[bytes]) -> None:
        lines[number] = b"garbage\n"

    return change


def _tear(number: int) -> Callable[[list[bytes]], None]:
    def change(lines: list[bytes]) -> None:
        lines[number] = lines[number][:40] + b"\n"

    return change


def _renumber(lines: list[bytes]) -> None:
    lines[1] = lines[1].replace(b'"seq":2', b'"seq":7')


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        pytest.param(_change(1), 3, "record 3 of chain .* does not fit record 2; that line was changed", id="changed"),
        pytest.param(_change(3), 5, "chain .* begins after a record that is not there", id="changed-end-of-chain"),
        pytest.param(_remove(0), 1, "begins at record 2; name the older file first", id="removed-first"),
        pytest.param(_remove(1), 2, "record 3 of chain .* follows record 1; a line was removed", id="removed"),
        pytest.param(_remove(3), 4, "chain .* begins after a record that is not there", id="removed-end-of-chain"),
        pytest.param(_remove(4), 5, "begins at record 2", id="removed-start-of-chain"),
        pytest.param(_swap, 2, "follows record 1", id="moved"),
        pytest.param(_twice, 3, "record 2 of chain .* follows record 2", id="added"),
        pytest.param(_blur, 2, "the line is no record, nor the beginning of one", id="made-unreadable"),
        pytest.param(_garble(1), 2, "the line is no record, nor the beginning of one", id="made-garbage"),
        pytest.param(_garble(6), 7, "the line is no record, nor the beginning of one", id="last-made-garbage"),
        pytest.param(_tear(1), 3, r"record 3 .* follows record 1; .*, added or moved; .*:2 cannot be read", id="torn"),
        pytest.param(_tear(3), 5, r"begins after a record that is not there; .*:4 cannot be read", id="torn-end"),
        pytest.param(_renumber, 2, "record 7 of chain .* follows record 1", id="renumbered"),
    ],
)
def test_a_changed_line_shows_at_its_place(
    path: Path, change: Callable[[list[bytes]], None], line: int, says: str
) -> None:
    """A removed, changed, moved or added line shows: the first place that does not fit is reported."""
    _fill(path)
    assert _intact(path).records == 7
    _edit(path, change)
    broken = _broken(path)
    assert broken.place == Place(file=str(path), line=line)
    assert str(broken.place) == f"{path}:{line}"
    assert re.search(says, broken.what)


def test_a_cut_tail_shows_with_the_head(path: Path) -> None:
    """A cut tail shows only by a head that was noted; a log that grew since is whole."""
    _fill(path)
    head = _intact(path).head
    _fill(path)
    assert _intact(path, heads=(head,)).records == 14
    _edit(path, lambda lines: lines.__delitem__(slice(6, None)))
    assert _intact(path).records == 6
    assert "its tail was cut" in _broken(path, heads=(head,)).what


def test_an_empty_log_is_whole(path: Path, opened: Open) -> None:
    """A log without a record is whole; its head is zeros."""
    opened(path)
    assert _intact(path) == Intact(records=0, chains=0, head=FIRST_PREV)
    assert "cut" in _broken(path, heads=("a" * 64,)).what


@pytest.mark.parametrize(
    ("content", "line"),
    [
        pytest.param(b"operations:\n- name: read\n", 1, id="grant-file"),
        pytest.param(b'{\n  "a": 1\n}\n', 2, id="json"),
        pytest.param(b"\n\ngarbage", 3, id="no-line-end"),
        pytest.param(b"  \n", 1, id="blanks"),
        pytest.param(b"{}\n", 1, id="empty-object"),
        pytest.param(b'{"id":"a"}\n', 1, id="object"),
        pytest.param(b'{"id":"a","seq":5,', 1, id="other-order"),
        pytest.param(b"\x80\n", 1, id="no-text"),
    ],
)
def test_a_file_that_is_no_log_is_not_whole(path: Path, content: bytes, line: int) -> None:
    """What no crash leaves is damage, named by its line, and such a file is not written to."""
    path.write_bytes(content)
    path.chmod(0o600)
    assert _broken(path).place.line == line
    with pytest.raises(StartRefused, match="holds something else"):
        FileLog(path)


def _composed(record: Record) -> bytes:
    return compose(record, ts="2026-01-01T00:00:00.000Z", seq=12, chain="0" * 16, prev=FIRST_PREV)


_ODD = replace(ALLOW, operation='\x1b"\\{}é', labels=("a", "b\x9b"), duration_ms=0.0)


@pytest.mark.parametrize(
    "record", [pytest.param(ALLOW, id="a"), pytest.param(DENY, id="b"), pytest.param(_ODD, id="c")]
)
@pytest.mark.parametrize("end", [b"", b"\n", b"!\n", b"!!\n", b"\0\0", b"\0\0\n"])
def test_every_beginning_of_a_record_is_torn(record: Record, end: bytes) -> None:
    """A crash leaves a beginning of a record, ended as the next writer does it, or by what a power failure leaves."""
    line = _composed(record)
    for length in range(len(line)):
        assert is_torn(line[:length] + end), length
    assert is_torn(line + end) is (end != b"\n"), "a whole line is a record"


@pytest.mark.parametrize("byte", [b"~", b"\x80", b"\n"])
def test_a_line_with_another_byte_is_not_torn(byte: bytes) -> None:
    """A whole line in which a byte was changed is no beginning of a record, unless its last text lost its end."""
    line = _composed(ALLOW)
    for place in [*range(len(line) - 2), len(line) - 1]:
        assert not is_torn(line[:place] + byte + line[place + 1 :] + b"\n"), place


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"{}", b"[" * 5000, b'{"seq":true}'])), max_size=8)
)
@settings(deadline=None, max_examples=100)
def test_verify_takes_any_bytes(lines: list[bytes]) -> None:
    """Whatever a file holds, the check ends with a verdict."""
    from proxy.decisionlog.verify import verify_lines

    verdict = verify_lines([("f", iter([line + b"\n" for line in lines]))])
    assert isinstance(verdict, Intact | Broken)


# rotation


def test_the_chain_goes_on_over_a_rotation(path: Path, opened: Open) -> None:
    """SIGHUP reopens the file, so that it can be rotated; the chain goes on."""
    log = opened(path)
    log.write(ALLOW)
    old = path.with_name("decisions.jsonl.1")
    log.write(ALLOW)
    path.rename(old)
    log.reopen()
    link = log.head
    log.write(DENY)
    assert [line["seq"] for line in _lines(path)] == [3]
    assert _lines(path)[0]["prev"] == link
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert with_rotated(path) == (old, path)
    assert _intact(old, path).records == 3
    assert "name the older file first" in _broken(path).what
    assert _intact(path, after=(link,)).records == 1


def test_a_log_that_wrote_nothing_links_to_the_new_file(path: Path, opened: Open) -> None:
    """A chain is linked when its first line is written, so a rotation before it leaves no gap."""
    opened(path).write(ALLOW)
    log = opened(path)
    path.rename(path.with_name("decisions.jsonl.1"))
    log.reopen()
    log.write(ALLOW)
    assert _lines(path)[0]["prev"] == FIRST_PREV
    assert _intact(*with_rotated(path)).records == 2


def test_rotated_files_are_found_oldest_first(path: Path, opened: Open) -> None:
    """Rotated files are ordered by their first record, packed ones included; foreign files beside them are left."""
    import gzip

    log = opened(path)
    for name in ("decisions.jsonl.2.gz", "decisions.jsonl-20260101", None):
        log.write(ALLOW)
        time.sleep(0.003)
        if name:
            data = path.read_bytes()
            path.unlink()
            target = path.with_name(name)
            target.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
            log.reopen()
    path.with_name("decisions.jsonl.bak").write_bytes(b"not a log\n")
    path.with_name("decisions.jsonl.3.gz").write_bytes(b"not gzip")
    files = with_rotated(path)
    assert [file.name for file in files] == ["decisions.jsonl.2.gz", "decisions.jsonl-20260101", "decisions.jsonl"]
    assert _intact(*files).records == 3


def test_a_failed_reopen_goes_on_in_the_old_file(path: Path, opened: Open) -> None:
    """A reopen that fails says so and loses nothing."""
    log = opened(path)
    log.write(ALLOW)
    moved = path.with_name("moved")
    path.rename(moved)
    path.mkdir()
    with pytest.raises(StartRefused, match="is a directory"):
        log.reopen()
    log.write(ALLOW)
    assert _intact(moved).records == 2


def test_a_file_that_was_moved_away_is_made_again(path: Path, opened: Open) -> None:
    """A rotation by name alone: each of those that share the file goes on in the new one with its next record."""
    logs = [opened(path) for _ in range(3)]
    for log in logs[:2]:
        log.write(ALLOW)
    old = path.with_name("decisions.jsonl.1")
    path.rename(old)
    before = old.read_bytes()
    for number in (1, 2, 0, 1, 2):
        logs[number].write(DENY)
    assert old.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [line["seq"] for line in _lines(path)] == [2, 1, 2, 3, 2]
    verdict = _intact(*with_rotated(path), heads=tuple(log.head for log in logs))
    assert (verdict.records, verdict.chains) == (7, 3)


def test_processes_share_a_file_that_is_moved_away(path: Path) -> None:
    """However often the file is moved while several processes write, each record is there once and the chains hold."""
    script = (
        "import sys; from pathlib import Path; from proxy.decisionlog import FileLog; "
        "from addons.record import *; log = FileLog(Path(sys.argv[1])); "
        "[log.write(Record(id=str(n), event=Event.DENY, mode=Mode.PROXY, verdict='deny')) for n in range(2000)]; "
        "log.close()"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(path)]) for _ in range(3)]
    moved: list[Path] = []
    while any(process.poll() is None for process in running):
        if path.exists() and path.stat().st_size > 50_000:
            moved.append(path.with_name(f"decisions.jsonl.{len(moved)}"))
            path.rename(moved[-1])
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert moved
    verdict = _intact(*moved, *([path] if path.exists() else []))
    assert (verdict.records, verdict.chains) == (6000, 3)


def test_moved_away_twice(path: Path, opened: Open) -> None:
    """A worker that wrote nothing between two rotations goes on in the file that the path names now."""
    busy, idle = opened(path), opened(path)
    for number in (2, 1):
        busy.write(ALLOW)
        if number == 2:
            idle.write(ALLOW)
        path.rename(path.with_name(f"decisions.jsonl.{number}"))
        time.sleep(0.003)  # the files are told apart by the time of their first record
    busy.write(ALLOW)
    idle.write(ALLOW)
    assert len(_lines(path)) == 2
    assert _intact(*with_rotated(path)).records == 5


def test_another_log_in_the_place_of_one_that_was_moved(path: Path, opened: Open) -> None:
    """A file that whoever rotates makes is taken as it is."""
    log = opened(path)
    log.write(ALLOW)
    old = path.with_name("decisions.jsonl.1")
    path.rename(old)
    path.touch(0o600)
    log.write(DENY)
    assert [line["seq"] for line in _lines(path)] == [2]
    assert _intact(old, path).records == 2


def test_a_link_to_where_it_was_moved_names_it_still(path: Path, opened: Open) -> None:
    """A file that was moved to another directory, with a link left behind, is the same log."""
    log = opened(path)
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to(moved)
    log.write(ALLOW)
    assert _intact(moved).records == 1


def test_moved_away_and_nothing_can_be_made(
    path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Records go on in the file that was moved, which the operator is told once, and in a new one when it can be."""
    log = opened(path)
    log.write(ALLOW)
    old = path.with_name("decisions.jsonl.1")
    path.rename(old)
    path.mkdir()
    opens: list[Path] = []
    real = writer_module.open_file
    monkeypatch.setattr(writer_module, "open_file", lambda path: opens.append(path) or real(path))
    monkeypatch.setattr(writer_module, "_PROBE_SECONDS", 3600)
    log.write(ALLOW)
    log.write(ALLOW)
    assert len(opens) == 1, "the path is not tried with each record"
    assert caplog.messages == [], "whoever rotates may be about to make it"
    monkeypatch.setattr(writer_module, "_PROBE_SECONDS", 0.0)
    for _ in range(3):
        log.write(ALLOW)
    assert log.writable
    [message] = caplog.messages
    assert message.startswith("records go on in the file that was moved away from the path of the log: ")
    assert f"`{path}` cannot be opened: is a directory" in message
    assert _intact(old).records == 6
    path.rmdir()
    log.write(DENY)
    assert [line["seq"] for line in _lines(path)] == [7]
    assert _intact(old, path).records == 7


def test_moved_away_during_a_write(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is written while its file is moved is in the log once, and the next one is in the new file."""
    log = opened(path)
    old = path.with_name("decisions.jsonl.1")
    write = os.write

    def write_and_move(descriptor: int, data: bytes) -> int:
        monkeypatch.undo()
        path.rename(old)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_and_move)
    log.write(ALLOW)
    log.write(ALLOW)
    assert [line["seq"] for line in _lines(old)] == [1]
    assert [line["seq"] for line in _lines(path)] == [2]
    assert _intact(old, path).records == 2


def _unlink(path: Path) -> None:
    path.unlink()


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.touch(0o600)
    other.rename(path)


def _edit_in_place(path: Path) -> None:
    subprocess.run(["sed", "-i", "s/GET/PUT/", str(path)], check=True)


@pytest.mark.parametrize(
    "remove",
    [
        pytest.param(_unlink, id="removed"),
        pytest.param(_replace, id="another-put-in-its-place"),
        pytest.param(_edit_in_place, id="edited"),
    ],
)
def test_no_record_goes_into_a_file_without_a_name(path: Path, opened: Open, remove: Callable[[Path], None]) -> None:
    """A record is in the log only when it is in the file that the path names, from the very next write on."""
    log = opened(path)
    log.write(ALLOW)
    head = log.head
    remove(path)
    log.write(DENY)
    assert _lines(path)[-1]["id"] == DENY.id
    assert (_lines(path)[-1]["seq"], _lines(path)[-1]["prev"]) == (2, head)
    assert log.writable


def test_a_file_removed_during_a_write_is_made_again(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that goes while the record is written does not take the record with it."""
    log = opened(path)
    write = os.write

    def write_and_remove(descriptor: int, data: bytes) -> int:
        monkeypatch.undo()
        path.unlink()
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_and_remove)
    log.write(ALLOW)
    assert [line["id"] for line in _lines(path)] == [ALLOW.id]


def test_a_file_that_is_removed_again_and_again_refuses(
    path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that never stays holds no record, and the loop does not try for ever."""
    log = opened(path)
    write, tries = os.write, 0

    def write_and_remove(descriptor: int, data: bytes) -> int:
        nonlocal tries
        tries += 1
        path.unlink()
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_and_remove)
    with pytest.raises(LogUnavailable, match="it was removed again and again"):
        log.write(ALLOW)
    assert tries == 2
    assert not log.writable
    monkeypatch.undo()
    log.write(ALLOW)
    assert [line["seq"] for line in _lines(path)] == [1]


def test_a_removed_file_that_cannot_be_made_again_refuses(
    path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a file at the path nothing is in the log; when there may be one again, it is."""
    monkeypatch.setattr(writer_module, "_PROBE_SECONDS", 0.0)
    log = opened(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(LogUnavailable, match="it was removed and cannot be made again"):
        log.write(ALLOW)
    assert not log.writable
    path.rmdir()
    assert log.writable
    log.write(ALLOW)
    assert len(_lines(path)) == 1


def test_an_idle_log_notices_that_its_file_is_gone(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without requests makes its file again, or says that it cannot write."""
    monkeypatch.setattr(writer_module, "_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(writer_module, "_PROBE_SECONDS", 0.0)
    log = opened(path)
    path.unlink()
    wait_for(lambda: log.writable and path.exists())


def test_a_followed_log_is_read_over_a_rotation(path: Path, opened: Open) -> None:
    """`follow` yields lines as they come, and goes on in the new file."""
    seen = follow(path)
    assert next(seen) == b""
    log = opened(path)
    log.write(ALLOW)
    log.write(ALLOW)
    got: list[bytes] = []

    def collect(count: int) -> None:
        deadline = time.monotonic() + 10
        while len(got) < count and time.monotonic() < deadline:
            if line := next(seen):
                got.append(line)
        assert len(got) == count

    collect(2)
    log.write(ALLOW)
    path.rename(path.with_name("decisions.jsonl.1"))
    log.write(ALLOW)
    collect(4)
    assert [json.loads(line)["seq"] for line in got] == [1, 2, 3, 4]
    path.write_bytes(b"")
    assert next(seen) == b""
    log.write(ALLOW)
    collect(5)
    seen.close()


# what the start refuses


def test_the_file_is_owner_only(path: Path, opened: Open) -> None:
    """The log is a file of mode 0600, whatever the umask."""
    before = os.umask(0)
    try:
        opened(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _readable(path: Path) -> None:
    path.touch()
    path.chmod(0o644)


def _foreign(path: Path) -> None:
    path.write_bytes(b"somebody's notes\n")
    path.chmod(0o600)


def _link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        pytest.param(_readable, r"can be read by others \(mode 0644\); run `chmod 600", id="readable-by-others"),
        pytest.param(
            lambda path: path.mkdir(), "cannot be opened: is a directory; correct `audit.path`", id="directory"
        ),
        pytest.param(os.mkfifo, "is not a regular file", id="fifo"),
        pytest.param(_link, "is a symbolic link; set `audit.path` to the file itself", id="symbolic-link"),
        pytest.param(_foreign, "holds something else; set `audit.path` to another file", id="foreign-file"),
    ],
)
def test_a_file_that_cannot_be_the_log_stops_the_start(path: Path, prepare: Callable[[Path], None], says: str) -> None:
    """The start is refused, with the file's name and a remedy, when the log cannot be opened."""
    prepare(path)
    with pytest.raises(StartRefused, match=says) as caught:
        FileLog(path)
    assert f"`{path}`" in str(caught.value)


def test_devices_and_missing_directories_are_refused(tmp_path: Path) -> None:
    """A device is no log; a directory that is not there is named."""
    with pytest.raises(StartRefused, match="is not a regular file"):
        FileLog(Path("/dev/full"))
    with pytest.raises(StartRefused, match="no such file or directory"):
        FileLog(tmp_path / "absent" / "log")


def test_a_disk_that_is_full_at_the_start_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the torn line of a crash cannot be closed off, the start is refused."""
    path.write_bytes(b'{"id":"x')
    path.chmod(0o600)
    monkeypatch.setattr(os, "write", lambda descriptor, data: 0)
    with pytest.raises(StartRefused, match=r"cannot be written: .*; make room or set `audit.path`"):
        FileLog(path)


# failures while it runs


def _fails(error: int) -> Callable[..., int]:
    def fail(*arguments: object) -> int:
        raise OSError(error, os.strerror(error))

    return fail


def _limited(path: Path, bytes_more: int) -> tuple[int, int]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + bytes_more, before[1]))
    return before


@pytest.mark.parametrize(
    "room", [pytest.param(0, id="none"), pytest.param(1, id="one-byte"), pytest.param(400, id="half")]
)
def test_a_full_disk_refuses_and_leaves_whole_lines(path: Path, opened: Open, room: int) -> None:
    """A record that does not fit is not in the log, in part neither; `writable` is False until a write succeeds."""
    log = opened(path)
    log.write(ALLOW)
    size = path.stat().st_size
    before = _limited(path, room)
    try:
        for _ in range(2):
            with pytest.raises(LogUnavailable, match=r"decision log `.*` cannot be written: "):
                log.write(ALLOW)
        assert not log.writable
        assert path.stat().st_size == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    log.write(DENY)
    assert log.writable
    assert [line["seq"] for line in _lines(path)] == [1, 2]
    assert _intact(path).torn == ()


@pytest.mark.parametrize("moved", [False, True])
def test_a_chain_whose_first_record_failed_is_linked_anew(
    path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    """What another process wrote between a full disk and a chain's first record is what that record follows."""
    one, other = opened(path), opened(path)
    other.write(ALLOW)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _fails(errno.ENOSPC))
        with pytest.raises(LogUnavailable):
            one.write(ALLOW)
    other.write(ALLOW)
    if moved:
        path.rename(path.with_name("decisions.jsonl.1"))
    one.write(ALLOW)
    other.write(ALLOW)
    assert _intact(*with_rotated(path)).records == 4


def test_why_nothing_can_be_written_is_told_once(
    path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The operator is told the file, the cause and the remedy, once an outage; `trouble` says it for as long."""
    log = opened(path)
    quiet = FileLog(path, sync=Sync.OFF, quiet=True)
    for error, says in (
        (errno.ENOSPC, "no space left on device; make room on its disk"),
        (errno.EFBIG, "file too large; rotate it, or raise the limit of a file's size"),
        (errno.EIO, "input/output error; see to its disk and its directory"),
    ):
        assert log.trouble == ""
        caplog.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", _fails(error))
            patch.setattr(writer_module, "_PROBE_SECONDS", 0.0)
            for each in (log, log, quiet):
                with pytest.raises(LogUnavailable):
                    each.write(ALLOW)
                assert each.trouble == f"decision log `{path}` cannot be written: {says}"
        assert caplog.messages == [f"{log._why}; until it can be, requests are refused"]
        log.write(ALLOW)
    quiet.close()


def test_why_a_removed_file_cannot_be_made_again_is_told(
    path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What stands in the place of a log that was removed is named, by a program without requests too."""
    monkeypatch.setattr(writer_module, "_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(writer_module, "_PROBE_SECONDS", 0.0)
    log = opened(path)
    path.unlink()
    path.mkdir()
    wait_for(lambda: bool(log.trouble))
    assert log.trouble == f"decision log `{path}` cannot be opened: is a directory; correct `audit.path`"
    assert caplog.messages == [f"{log._why}; until it can be, requests are refused"]


def test_all_but_the_line_end_fits(path: Path, opened: Open) -> None:
    """A line that lacks only its end is not in the log either."""
    log = opened(path)
    log.write(ALLOW)
    size = path.stat().st_size
    before = _limited(path, size - 1)
    try:
        with pytest.raises(LogUnavailable):
            log.write(ALLOW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.stat().st_size == size
    log.write(ALLOW)
    assert _intact(path).records == 2


@pytest.mark.parametrize("lacking", [pytest.param(1, id="only-the-line-end"), pytest.param(200, id="half")])
def test_a_part_that_cannot_be_taken_back_is_closed_off(
    path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, lacking: int
) -> None:
    """Where a torn line stays, a new chain begins after it and the log is still whole."""
    log = opened(path)
    log.write(ALLOW)
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:-lacking]))
    monkeypatch.setattr(os, "ftruncate", _fails(errno.EIO))
    with pytest.raises(LogUnavailable):
        log.write(ALLOW)
    monkeypatch.undo()
    log.write(ALLOW)
    log.write(ALLOW)
    verdict = _intact(path)
    assert verdict.chains == 2
    assert (verdict.records, len(verdict.torn)) == ((4, 0) if lacking == 1 else (3, 1))


def test_a_failed_lock_refuses(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its lock nothing is written."""
    log = opened(path)
    monkeypatch.setattr(fcntl, "flock", _fails(errno.ENOLCK))
    with pytest.raises(LogUnavailable, match="no locks available"):
        log.write(ALLOW)
    monkeypatch.undo()
    assert path.read_bytes() == b""


def test_a_lock_that_is_held_refuses_soon(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that keeps the file's lock does not keep ours: it is refused after a moment, and then at once."""
    monkeypatch.setattr(writer_module, "_PROBE_SECONDS", 0.0)
    log = opened(path)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for seconds in (0.1, 3600):
            monkeypatch.setattr(writer_module, "_LOCK_SECONDS", seconds)
            with pytest.raises(LogUnavailable, match="another program holds its lock"):
                log.write(ALLOW)
        assert not log.writable
        monkeypatch.setattr(writer_module, "_LOCK_SECONDS_AT_START", 0.01)
        with pytest.raises(StartRefused, match="another program holds its lock"):
            FileLog(path)
    assert log.writable
    log.write(ALLOW)
    assert path.read_bytes().count(b"\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OSError(errno.EMFILE, "x"), id="no-descriptors"),
        pytest.param(RuntimeError("x"), id="anything-else"),
        pytest.param(MemoryError(), id="no-memory"),
    ],
)
def test_the_keeper_outlives_every_error(
    path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whatever fails in the keeper shows in `writable`, and the keeper goes on: the next record is synced by it."""
    seen, synced = threading.Event(), threading.Event()
    broken = True

    def fail(descriptor: int) -> None:
        if broken:
            seen.set()
            raise error
        if threading.current_thread().name == "decision-log":
            synced.set()

    monkeypatch.setattr(writer_module, "_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(os, "fsync", fail)
    log = opened(path, Sync.INTERVAL)
    log.write(ALLOW)
    assert seen.wait(10)
    wait_for(lambda: log._sync_failed)
    broken = False
    log.write(ALLOW)
    assert synced.wait(10)
    assert log.writable


def test_the_keeper_needs_no_descriptor(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has run out of descriptors still syncs its log and sees that the file is gone."""
    monkeypatch.setattr(writer_module, "_INTERVAL_SECONDS", 0.01)
    log = opened(path, Sync.INTERVAL)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        log.write(ALLOW)
        time.sleep(0.1)
        assert log.writable
        path.unlink()
        with pytest.raises(LogUnavailable):
            log.write(ALLOW)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    log.write(ALLOW)
    assert log.writable


def test_a_log_without_its_keeper_is_not_writable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that nobody looks after is not one that is well."""
    monkeypatch.setattr(FileLog, "_keep", lambda log: None)
    log = FileLog(path)
    log._keeper.join()
    assert not log.writable
    assert log.trouble == f"decision log `{path}` cannot be written: its keeper is not running; start grantproxy anew"
    with pytest.raises(LogUnavailable, match="its keeper is not running"):
        log.write(ALLOW)
    log.close()


def test_a_keeper_that_ends_takes_the_log_with_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the keeper, no record is taken after it."""

    def leave(log: FileLog) -> None:
        raise SystemExit

    monkeypatch.setattr(writer_module, "_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(FileLog, "_look_after", leave)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # nobody need be told
    log = FileLog(path)
    log._keeper.join(10)
    assert not log.writable
    with pytest.raises(LogUnavailable, match="its keeper is not running"):
        log.write(ALLOW)
    log.close()


_FORKED = """
import os, sys, warnings
from pathlib import Path
from addons.ports import LogUnavailable
from addons.record import Event, Mode, Record
from proxy.decisionlog import FileLog
warnings.simplefilter("ignore")
log = FileLog(Path(sys.argv[1]))
record = Record(id="r", event=Event.DENY, mode=Mode.PROXY, verdict="deny")
log.write(record)
if not (pid := os.fork()):
    taken = log.writable
    try:
        log.write(record)
        taken = True
    except LogUnavailable as unavailable:
        taken = taken or "its keeper is not running" not in str(unavailable)
    os._exit(taken)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert log.writable
log.write(record)
log.close()
"""


def test_a_forked_process_has_no_keeper(path: Path) -> None:
    """A child of a fork has the log but not the thread that looks after it: it takes no record, and the parent does."""
    done = subprocess.run([sys.executable, "-c", _FORKED, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert _intact(path).records == 2


def test_a_closed_log_takes_no_record(path: Path) -> None:
    """What is written after the end is refused, not lost."""
    log = FileLog(path)
    log.close()
    with pytest.raises(LogUnavailable, match="its keeper is not running"):
        log.write(ALLOW)


def test_writable_comes_back_by_itself(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing can be written, `writable` asks the disk again, leaves no trace and needs no record."""
    log = opened(path)
    log.write(ALLOW)
    size = path.stat().st_size
    monkeypatch.setattr(writer_module, "_PROBE_SECONDS", 0.0)
    before = _limited(path, 100)
    try:
        with pytest.raises(LogUnavailable):
            log.write(ALLOW)
        assert not log.writable
        assert path.stat().st_size == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert log.writable
    assert path.stat().st_size == size
    log.write(ALLOW)
    assert _intact(path).records == 2


def test_writable_asks_seldom(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is asked at most once a second."""
    log = opened(path)
    monkeypatch.setattr(os, "write", _fails(errno.ENOSPC))
    with pytest.raises(LogUnavailable, match="no space left on device"):
        log.write(ALLOW)
    monkeypatch.undo()
    assert not log.writable


def test_always_means_synced_before_it_counts(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `sync: always` a record that cannot be forced to the disk is not in the log."""
    log = opened(path, Sync.ALWAYS)
    log.write(ALLOW)
    monkeypatch.setattr(os, "fsync", _fails(errno.EIO))
    with pytest.raises(LogUnavailable):
        log.write(ALLOW)
    monkeypatch.undo()
    log.write(ALLOW)
    assert [line["seq"] for line in _lines(path)] == [1, 2]
    assert _intact(path).records == 2


def test_interval_syncs_in_a_thread(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `sync: interval` the loop never syncs; a sync that fails makes the log unwritable until one works."""
    threads: list[str] = []
    fail = threading.Event()
    sync = os.fsync

    def note(descriptor: int) -> None:
        threads.append(threading.current_thread().name)
        if fail.is_set():
            raise OSError(errno.EIO, "x")
        sync(descriptor)

    monkeypatch.setattr(writer_module, "_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(os, "fsync", note)
    log = opened(path, Sync.INTERVAL)

    log.write(ALLOW)
    wait_for(lambda: bool(threads))
    assert set(threads) == {"decision-log"}
    fail.set()
    log.write(ALLOW)
    wait_for(lambda: not log.writable)
    with pytest.raises(LogUnavailable):
        log.write(ALLOW)
    fail.clear()
    log.write(ALLOW)
    assert log.writable
    assert _intact(path).records == 3


def test_off_never_syncs(path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `sync: off` the system decides."""
    monkeypatch.setattr(writer_module, "_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(os, "fsync", _fails(errno.EIO))
    log = opened(path)
    log.write(ALLOW)
    time.sleep(0.1)
    log.reopen()
    log.write(ALLOW)
    assert log.writable


def test_a_log_replaced_by_something_else_is_not_written_to(path: Path, opened: Open) -> None:
    """A chain that cannot be linked is not begun."""
    log = opened(path)
    path.write_bytes(b"x" * 100 + b"\n")
    with pytest.raises(LogUnavailable):
        log.write(ALLOW)
    assert path.read_bytes() == b"x" * 100 + b"\n"


# crashes

_CRASH = """
import os, sys
from pathlib import Path
from proxy.decisionlog import FileLog
from addons.record import EndedBy, Event, Mode, Record
log = FileLog(Path(sys.argv[1]))
record = Record(id="r", event=Event.DENY, mode=Mode.PROXY, verdict="deny")
number = 0
while True:
    log.write(record)
    number += 1
    os.write(1, b"%d\\n" % number)
"""


def test_no_acknowledged_record_is_lost_by_a_kill(path: Path, opened: Open) -> None:
    """`kill -9` at any moment loses no record whose write returned, and the log goes on."""
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", _CRASH, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
        process.wait()
        process.stdout.close()
        acknowledged = int(rest.split()[-1]) if rest.endswith(b"\n") and rest.split() else 1
        whole = [record for line in path.read_bytes().splitlines() if (record := as_record(line))]
        assert whole[-1]["seq"] >= acknowledged
    opened(path).write(ALLOW)
    verdict = _intact(path)
    assert verdict.chains == 4
    assert len(verdict.torn) <= 3, "a kill tears at most the line that was not acknowledged"


@pytest.mark.parametrize(
    ("kept", "torn"),
    [
        pytest.param(1, 1, id="first-byte"),
        pytest.param(200, 1, id="half"),
        pytest.param(-2, 1, id="all-but-the-brace"),
        pytest.param(-1, 0, id="all-but-the-line-end"),
    ],
)
@pytest.mark.parametrize("before", [pytest.param(0, id="new-file"), pytest.param(2, id="after-records")])
def test_a_torn_line_is_closed_off_and_reported(path: Path, opened: Open, kept: int, torn: int, before: int) -> None:
    """The last line that a crash tore becomes a line of its own; the chain goes on and `verify` reports it."""
    log = opened(path)
    for _ in range(before + 1):
        log.write(ALLOW)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:kept])
    verdict = _intact(path)
    assert [place.line for place in verdict.torn] == [before + 1], "it was not acknowledged, so it does not count"
    opened(path).write(DENY)
    verdict = _intact(path)
    assert [place.line for place in verdict.torn] == [before + 1] * torn
    assert verdict.records == before + 2 - torn


# standard output


def test_the_log_can_go_to_standard_output(tmp_path: Path) -> None:
    """`audit.path: stdout` writes the same lines for a container's log driver."""
    target = tmp_path / "out"
    script = (
        "from pathlib import Path; from proxy.decisionlog import open_log; from addons.record import *; "
        "log = open_log('stdout', state=Path('/nowhere')); "
        "[log.write(Record(id='r', event=Event.DENY, mode=Mode.PROXY, verdict='deny')) for _ in range(3)]; "
        "log.reopen(); log.close(); assert log.writable"
    )
    with target.open("wb") as out:
        subprocess.run([sys.executable, "-c", script], stdout=out, check=True)
    assert _intact(target).records == 3


@pytest.mark.parametrize("lacking", [pytest.param(1, id="only-the-line-end"), pytest.param(200, id="half")])
def test_a_line_that_was_cut_on_a_stream_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: int
) -> None:
    """On a stream nothing can be taken back: the cut line is ended, a new chain begins, `verify` reports it."""
    target = tmp_path / "out"
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT)
    log = StreamLog(descriptor)
    log.write(ALLOW)
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:-lacking]))
    with pytest.raises(LogUnavailable, match="standard output cannot be written"):
        log.write(ALLOW)
    monkeypatch.undo()
    assert log.writable
    log.write(ALLOW)
    os.close(descriptor)
    verdict = _intact(target)
    assert (verdict.records, verdict.chains) == (2, 2)
    assert [place.line for place in verdict.torn] == [2]


def _drained(descriptor: int, until: int) -> bytes:
    data = b""
    while data.count(b"\n") < until:
        data += os.read(descriptor, 1 << 20)
    return data


def _fill_stream(log: StreamLog, record: Record) -> int:
    """How many records went through until the reader took no more."""
    for written in range(10_000):
        try:
            log.write(record)
        except LogUnavailable:
            return written
    pytest.fail("nothing is refused")


@pytest.mark.parametrize("again", [pytest.param(True, id="opened-again"), pytest.param(False, id="as-it-was-given")])
@pytest.mark.parametrize(
    ("record", "pair"),
    [
        pytest.param(ALLOW, os.pipe, id="pipe"),
        pytest.param(replace(ALLOW, operation="x" * 20_000), os.pipe, id="pipe-and-lines-that-are-cut"),
        pytest.param(ALLOW, lambda: tuple(end.detach() for end in socket.socketpair()), id="socket"),
    ],
)
def test_a_reader_that_stalls_refuses_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Record, pair: Callable[[], tuple[int, int]], again: bool
) -> None:
    """A stalled reader never holds the loop: the record is refused in a moment, then at once; later the log goes on.

    The stream's own flags, which others share, stay as they were.
    """
    if not again:
        monkeypatch.setattr(stream_module, "_opened_again", lambda descriptor: None)
    reader, end = pair()
    log = StreamLog(end)
    written = _fill_stream(log, record)
    monkeypatch.setattr(stream_module, "_WAIT_SECONDS", 3600)
    with pytest.raises(LogUnavailable, match="its reader takes nothing"):
        log.write(record)
    assert os.get_blocking(end)
    assert written > 1
    target = tmp_path / "out"
    data = _drained(reader, written)
    assert log.writable
    log.write(DENY)
    log.close()
    os.close(end)
    while more := os.read(reader, 1 << 20):
        data += more
    os.close(reader)
    target.write_bytes(data)
    verdict = _intact(target)
    assert verdict.records == written + 1
    assert json.loads(data.splitlines()[-1])["id"] == DENY.id


def test_a_terminal_that_was_stopped_refuses_soon() -> None:
    """A terminal that takes nothing does not hold the loop either."""
    main, end = os.openpty()
    log = StreamLog(end)
    assert _fill_stream(log, ALLOW) > 1
    log.close()
    os.close(main)
    os.close(end)


def test_a_file_is_shared_with_whoever_else_writes_to_it(tmp_path: Path) -> None:
    """Messages that go to the same file by the same descriptor and records do not write over each other."""
    target = tmp_path / "out"
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT)
    log = StreamLog(descriptor)
    for _ in range(2):
        log.write(ALLOW)
        os.write(descriptor, b"a message\n")
    log.close()
    os.close(descriptor)
    lines = target.read_bytes().splitlines()
    assert [line == b"a message" or as_record(line) is not None for line in lines] == [True] * 4
    assert _broken(target).place.line == 2, "what is no record is no part of the log"


def test_a_stream_whose_reader_left_is_not_writable(caplog: pytest.LogCaptureFixture) -> None:
    """A closed pipe refuses records and shows in `writable`."""
    reader, end = os.pipe()
    log = StreamLog(end)
    log.write(ALLOW)
    head = log.head
    os.close(reader)
    assert log.trouble == ""
    for _ in range(2):
        with pytest.raises(LogUnavailable, match="broken pipe"):
            log.write(ALLOW)
    assert not log.writable
    why = "decision log on standard output cannot be written: broken pipe; see to the program that reads it"
    assert log.trouble == why
    assert caplog.messages == [f"{why}; until it can be, requests are refused"]
    assert log.head == head
    os.close(end)


def test_a_full_device_refuses() -> None:
    """A full device refuses each record."""
    descriptor = os.open("/dev/full", os.O_WRONLY)
    log = StreamLog(descriptor)
    with pytest.raises(LogUnavailable, match="no space left on device"):
        log.write(ALLOW)
    os.close(descriptor)


def test_the_settings_name_the_log(tmp_path: Path) -> None:
    """A relative path is in the state directory, an absolute one is where it says."""
    log = open_log("a.jsonl", state=tmp_path, sync=Sync.OFF)
    assert isinstance(log, FileLog)
    assert log.path == tmp_path / "a.jsonl"
    log.close()
    log = open_log(tmp_path / "b.jsonl", state=Path("/nowhere"), sync=Sync.OFF)
    log.close()
    assert (tmp_path / "b.jsonl").exists()


def test_no_descriptor_is_left_behind(path: Path) -> None:
    """Opening, reopening, failing and closing leave as many descriptors as before."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        log = FileLog(path)
        log.write(ALLOW)
        log.reopen()
        log.close()
        with pytest.raises(StartRefused):
            FileLog(path.parent)
    assert len(os.listdir("/proc/self/fd")) == before
