"""What a killed worker had in flight is recorded once, and never against what it has recorded itself."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from addons.record import Event, Mode, Record
from proxy.decisionlog import FileLog
from proxy.decisionlog.verify import Intact, verify
from proxy.settings.model import Audit, Limits, Settings
from proxy.workers.cuts import Cuts, record_cuts
from proxy.workers.ledger import Flight

ID = "0123456789abcdef01234567"
BEGUN = Flight(id=ID, opened=False, mode=Mode.PROXY, method="GET", endpoint="api")
OPENED = replace(BEGUN, opened=True)
ALLOW = Record(
    id=ID, event=Event.ALLOW, mode=Mode.PROXY, verdict="allow", box="one", endpoint="api", host="api.example",
    method="POST", assurance="semantic", status=200, bytes_in=7, secret_refs=("api",), labels=("word:lobby",),
)  # fmt: skip
STREAM = replace(ALLOW, assurance="trusted-upstream")
TUNNEL = replace(ALLOW, assurance="tunnel", endpoint=None)
DENY = replace(ALLOW, event=Event.DENY, verdict="deny", status=403)
INTENT = replace(ALLOW, event=Event.INTENT, operation="write", effect="write")
OTHER = replace(ALLOW, id="f" * 24)


def settings(folder: Path) -> Settings:
    audit = Audit(path=folder / "decisions.jsonl")
    return Settings(state=folder, directory=folder, endpoints=(), audit=audit, limits=Limits())


def left(folder: Path, records: list[Record], flight: Flight) -> list[dict[str, Any]]:
    """What is added to a log with these records."""
    path = folder / "decisions.jsonl"
    log = FileLog(path)
    for record in records:
        log.write(record)
    log.close()
    assert record_cuts(settings(folder), [flight]) == []
    added = [json.loads(line) for line in path.read_text().splitlines()[len(records) :]]
    assert isinstance(verify([path]), Intact)
    return added


@pytest.mark.parametrize(
    ("records", "flight", "event"),
    [
        pytest.param([], BEGUN, Event.DENY, id="begun"),
        pytest.param([OTHER], BEGUN, Event.DENY, id="begun-among-others"),
        pytest.param([INTENT], BEGUN, Event.DENY, id="a-write-was-sent"),
        pytest.param([ALLOW], BEGUN, None, id="allowed-and-not-freed"),
        pytest.param([INTENT, ALLOW], BEGUN, None, id="written-and-not-freed"),
        pytest.param([DENY], BEGUN, None, id="refused-and-not-freed"),
        pytest.param([replace(STREAM, event=Event.DENY, verdict="deny")], BEGUN, None, id="stream-refused"),
        pytest.param([STREAM], BEGUN, Event.END, id="stream-recorded-and-not-marked"),
        pytest.param([STREAM], OPENED, Event.END, id="stream-opened"),
        pytest.param([TUNNEL], OPENED, Event.END, id="tunnel-opened"),
        pytest.param([], OPENED, Event.END, id="stream-opened-long-ago"),
        pytest.param([STREAM, replace(STREAM, event=Event.END)], OPENED, None, id="stream-ended-and-not-freed"),
    ],
)
def test_what_is_missing_is_recorded(
    tmp_path: Path, records: list[Record], flight: Flight, event: Event | None
) -> None:
    """A decision where there is none, an end where a stream has none, and else nothing."""
    added = left(tmp_path, records, flight)
    assert [record["event"] for record in added] == ([] if event is None else [event])
    for record in added:
        assert record["id"] == ID
        why = ("deny", "fault", "worker-lost", 500) if event is Event.DENY else ("allow", None, None)
        assert (record["verdict"], record["rule"], record["reason"], record["status"])[: len(why)] == why
        assert ("ended-by-proxy" in record["labels"]) is (event is Event.END)


def test_what_is_known_goes_into_the_record(tmp_path: Path) -> None:
    """Of the records that the request left; what it had carried is not known."""
    (end,) = left(tmp_path, [STREAM], OPENED)
    assert {key: end[key] for key in ("box", "endpoint", "host", "method", "assurance", "status", "secret_refs")} == {
        "box": "one",
        "endpoint": "api",
        "host": "api.example",
        "method": "POST",
        "assurance": "trusted-upstream",
        "status": 200,
        "secret_refs": ["api"],
    }
    assert (end["labels"], end["bytes_in"]) == (["ended-by-proxy", "word:lobby"], 0)


def test_nothing_is_opened_for_nothing(tmp_path: Path) -> None:
    """A worker that ended in order leaves no file and no thread."""
    threads = threading.active_count()
    assert record_cuts(settings(tmp_path), []) == []
    assert list(tmp_path.iterdir()) == []
    assert record_cuts(settings(tmp_path), [BEGUN]) == []
    assert list(tmp_path.iterdir()) != []
    assert threading.active_count() == threads


def test_what_cannot_be_recorded_now_is_recorded_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that cannot be written does not end the supervisor; it is told once and tried once a second."""
    now = 100.0
    monkeypatch.setattr("proxy.workers.cuts.time.monotonic", lambda: now)
    other = replace(BEGUN, id="e" * 24)
    log, cuts = tmp_path / "decisions.jsonl", Cuts()
    assert cuts.next is None
    log.mkdir()
    cuts.lost(settings(tmp_path), [BEGUN, other])
    assert cuts.next == 101
    now = 101.5
    cuts.look(settings(tmp_path))
    assert cuts.next == 102.5
    assert caplog.text.count("2 requests of a worker that is gone have no record yet: decision log") == 1
    log.rmdir()
    cuts.look(settings(tmp_path))
    assert not log.exists()
    now = 103
    cuts.look(settings(tmp_path))
    assert cuts.next is None
    assert [json.loads(line)["id"] for line in log.read_text().splitlines()] == [BEGUN.id, other.id]
    cuts.look(settings(tmp_path))
    assert isinstance(verify([log]), Intact)
    assert len(log.read_text().splitlines()) == 2


def test_what_has_its_record_is_not_tried_again(tmp_path: Path) -> None:
    """Also where the log is another one by then."""
    path = tmp_path / "decisions.jsonl"
    log = FileLog(path)
    log.write(ALLOW)
    log.close()
    cuts = Cuts()
    cuts.lost(settings(tmp_path), [BEGUN])
    assert cuts.next is None
    assert len(path.read_text().splitlines()) == 1
