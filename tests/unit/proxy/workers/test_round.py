"""A reload over several workers: none changes before all have agreed, whoever fails, and whenever."""

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grants.message import Origin
from grants.problems import Invalid, Problem
from proxy.fronts import bind_fronts
from proxy.reload import Outcome
from proxy.settings.fingerprint import fingerprint
from proxy.settings.model import Assurance, Audit, EndpointSettings, Limits, Settings, TcpListen, UnixListen
from proxy.workers import process
from proxy.workers.ledger import Ledger
from proxy.workers.line import Do, LineBroken, Message, pair, receive, send
from proxy.workers.process import Worker
from proxy.workers.round import CHANGE_SECONDS, PREPARE_SECONDS, InForce, Round

ANY = TcpListen(host="127.0.0.1", port=0)


class Fleet:
    """Workers that are only lines, and the round that they are asked in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        origin = Origin(scheme="https", host="a.example", port=443)
        self.old = Settings(
            state=folder,
            directory=folder,
            endpoints=(EndpointSettings(name="a", upstream=origin, assurance=Assurance.TRUSTED_UPSTREAM, listen=ANY),),
            audit=Audit(path=folder / "log"),
            limits=Limits(),
            proxy=ANY,
            workers=2,
        )
        self.in_force = InForce(settings=self.old, fronts=bind_fronts(self.old, None)[0], began_ns=0)
        self.ends: list[socket.socket] = []
        self.workers: list[Worker] = []
        self.killed: list[int] = []
        for index in range(2):
            ours, theirs = pair()
            self.ends.append(theirs)
            self.workers.append(Worker(index=index, pid=-index, end=ours, ledger=Ledger(1)))
        self.round = Round(number=7, in_force=self.in_force, workers=frozenset(self.workers), of=2, slots=4096)
        self.path = folder / "new.sock"
        self.new = replace(self.old, proxy=UnixListen(path=self.path))

    def heard(self, index: int) -> list[Message]:
        """What a worker was told."""
        found = []
        while (message := receive(self.ends[index])) is not None:
            found.append(message)
            for sock in message.sockets:
                sock.close()
        return found

    def prepared(self, index: int, mark: str | None = None) -> None:
        mark = fingerprint(self.new) if mark is None else mark
        self.round.answered(self.workers[index], Message(do=Do.PREPARED, round=7, mark=mark))

    def ended(self, index: int) -> None:
        self.round.answered(self.workers[index], Message(do=Do.ENDED, round=7))


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    monkeypatch.setattr(process.os, "kill", lambda pid, _number: made.killed.append(-pid))
    yield made
    for listener in made.in_force.fronts.every:
        listener.remove()
    for end in (*made.ends, *(worker.end for worker in made.workers)):
        end.close()


def refused(fleet: Fleet, says: str) -> None:
    """Every worker that there is is told to let go, and nothing has changed."""
    for worker in fleet.round.workers:
        last = fleet.heard(worker.index)[-1]
        assert (last.do, last.round) == (Do.ABORT, 7)
        assert any(says in line for line in last.lines)
    assert fleet.in_force.settings is fleet.old
    assert fleet.in_force.last is not None
    assert fleet.in_force.last.outcome is Outcome.REFUSED
    assert any(says in line for line in fleet.in_force.last.problems)
    assert not fleet.path.exists()
    assert not fleet.round.done
    for index in (0, 1):
        fleet.ended(index)
    assert fleet.round.done


def test_all_change_when_all_have_agreed(fleet: Fleet) -> None:
    """New sockets go along, and what is gone is closed once it is decided."""
    gone = fleet.in_force.fronts.proxy
    assert gone is not None
    fleet.round.begin(lambda: fleet.new)
    for index in (0, 1):
        sockets, prepare = fleet.heard(index)
        assert (sockets.do, sockets.names) == (Do.SOCKETS, (f"proxy unix:{fleet.path}",))
        assert (prepare.do, prepare.round) == (Do.PREPARE, 7)
    fleet.prepared(0)
    assert fleet.heard(0) == []
    assert fleet.in_force.settings is fleet.old
    fleet.prepared(1)
    assert fleet.in_force.settings is fleet.new
    assert gone.sock.fileno() == -1
    for index in (0, 1):
        (commit,) = fleet.heard(index)
        assert (commit.do, commit.round, commit.began_ns) == (Do.COMMIT, 7, fleet.in_force.began_ns)
        assert not fleet.round.done
        fleet.ended(index)
    assert fleet.round.done
    assert (fleet.in_force.refused, fleet.path.exists()) == (None, True)


def _refuse(fleet: Fleet) -> None:
    message = Message(do=Do.REFUSED, round=7, lines=("no secret",), files=("f.yaml",))
    fleet.round.answered(fleet.workers[1], message)


def _late(fleet: Fleet) -> None:
    fleet.round.look(time.monotonic() + PREPARE_SECONDS + 1)


@pytest.mark.parametrize(
    ("fail", "says"),
    [
        pytest.param(_refuse, "no secret", id="refused"),
        pytest.param(lambda fleet: fleet.prepared(1, "other"), "changed while they were read", id="another-mark"),
        pytest.param(lambda fleet: fleet.round.gone(fleet.workers[1]), "a worker ended", id="gone"),
        pytest.param(_late, "worker 1 did not prepare within 60 s", id="late"),
    ],
)
def test_none_changes_where_one_has_not_agreed(fleet: Fleet, fail: Callable[[Fleet], None], says: str) -> None:
    """Also when the other one had agreed already."""
    fleet.round.begin(lambda: fleet.new)
    fleet.round.look(time.monotonic() + PREPARE_SECONDS - 1)
    fleet.prepared(0)
    fail(fleet)
    refused(fleet, says)
    assert fleet.killed == []


def _bad_grant() -> Settings:
    raise Invalid([Problem("g.yaml", 1, 1, "", "is wrong")])


@pytest.mark.parametrize(
    ("load", "says"),
    [
        pytest.param(lambda _fleet: _bad_grant(), "is wrong", id="invalid"),
        pytest.param(lambda fleet: replace(fleet.new, workers=3), "`workers` is `3`", id="fixed"),
        pytest.param(lambda fleet: replace(fleet.new, limits=Limits(clients=8193)), "is over 8192", id="no-room"),
        pytest.param(lambda fleet: replace(fleet.new, directory=object()), "the program failed", id="fault"),
    ],
)
def test_what_the_supervisor_refuses_nobody_prepares(
    fleet: Fleet, load: Callable[[Fleet], Settings], says: str
) -> None:
    """It is told to all, for `/readyz`, and asked of none."""
    fleet.round.begin(lambda: load(fleet))
    assert all(message.do is Do.ABORT for message in fleet.heard(0))
    fleet.round._ask([Message(do=Do.ABORT, round=7, lines=fleet.in_force.last.problems)], 1)  # type: ignore[union-attr]
    refused(fleet, says)


def test_who_does_not_change_in_time_is_killed(fleet: Fleet) -> None:
    """The one that takes its place begins with what is in force; the reload counts as applied."""
    fleet.round.begin(lambda: fleet.new)
    fleet.prepared(0)
    fleet.prepared(1)
    fleet.ended(0)
    fleet.round.look(time.monotonic() + CHANGE_SECONDS + 1)
    assert fleet.killed == [1]
    assert not fleet.round.done
    fleet.round.gone(fleet.workers[1])
    assert fleet.round.done
    assert fleet.in_force.settings is fleet.new


def test_answers_of_another_round_count_for_nothing(fleet: Fleet) -> None:
    """A late answer must not stand for a later question."""
    fleet.round.begin(lambda: fleet.new)
    for number in (6, 8):
        for index in (0, 1):
            message = Message(do=Do.PREPARED, round=number, mark=fingerprint(fleet.new))
            fleet.round.answered(fleet.workers[index], message)
    fleet.prepared(0)
    fleet.prepared(0)
    assert fleet.in_force.settings is fleet.old
    fleet.round.drop()
    assert not fleet.path.exists()


def test_a_worker_that_takes_no_message_is_killed(fleet: Fleet) -> None:
    """It would not know of the decision."""
    fleet.ends[1].close()
    fleet.round.begin(lambda: fleet.new)
    assert 1 in fleet.killed
    fleet.round.drop()
    with pytest.raises(LineBroken):
        send(fleet.workers[1].end, Message(do=Do.REOPEN))
