"""What a worker notes of its requests is what its supervisor reads, whenever it is killed."""

import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from addons.exchange import Arrival, Exchange
from addons.policy import Policy
from addons.record import Mode
from grants.message import RequestHead
from proxy.workers import ledger as module
from proxy.workers.ledger import Flight, Ledger, State

ARRIVAL = Arrival(mode=Mode.TERMINATE, peer=None, service="api")


def exchange(arrival: Arrival = ARRIVAL, method: bytes | None = b"GET") -> Exchange:
    head = None if method is None else RequestHead(method=method, target=b"/", fields=())
    return Exchange(arrival=arrival, policy=Policy.of([]), head=head)


NAMELESS = replace(ARRIVAL, service=None)
LONG = "h" * 261


@pytest.mark.parametrize(
    ("arrival", "method", "expected"),
    [
        pytest.param(ARRIVAL, b"GET", (Mode.TERMINATE, "GET", "api"), id="base-url"),
        pytest.param(replace(NAMELESS, mode=Mode.CONNECT), b"CONNECT", (Mode.CONNECT, "CONNECT", None), id="connect"),
        pytest.param(replace(NAMELESS, mode=Mode.BROKER), b"BREW", (Mode.BROKER, None, None), id="unknown-method"),
        pytest.param(replace(ARRIVAL, mode=Mode.PROXY), None, (Mode.PROXY, None, "api"), id="no-head"),
        pytest.param(replace(ARRIVAL, service=LONG), b"TRACE", (Mode.TERMINATE, "TRACE", LONG), id="longest-name"),
    ],
)  # fmt: skip
def test_what_is_noted_of_a_request(arrival: Arrival, method: bytes | None, expected: tuple[Any, ...]) -> None:
    """Its id, how it came, what it asked for; from `begin` to `done`."""
    ledger = Ledger(2)
    one = exchange(arrival, method)
    mode, name, endpoint = expected
    flight = Flight(id=one.id, opened=False, mode=mode, method=name, endpoint=endpoint)
    ledger.begin(one)
    assert list(ledger.left()) == [flight]
    ledger.opened(one)
    ledger.begin(one)
    assert list(ledger.left()) == [replace(flight, opened=True)]
    ledger.done(one)
    assert list(ledger.left()) == []
    ledger.done(one)
    ledger.opened(one)
    assert list(ledger.left()) == []
    ledger.close()


def test_slots_are_used_again_and_bounded() -> None:
    """One too many is not noted, and spoils nothing."""
    ledger = Ledger(3)
    for _ in range(5):
        several = [exchange() for _ in range(4)]
        for one in several:
            ledger.begin(one)
        assert {flight.id for flight in ledger.left()} == {one.id for one in several[:3]}
        for one in several:
            ledger.done(one)
        assert list(ledger.left()) == []


def test_after_the_log_is_closed_nothing_is_done() -> None:
    """What has no record by then is left for the supervisor."""
    ledger = Ledger(1)
    one = exchange()
    ledger.begin(one)
    ledger.freeze()
    ledger.done(one)
    assert [flight.id for flight in ledger.left()] == [one.id]


def test_a_slot_that_was_written_in_part_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state comes last: killed within `begin`, a worker leaves no half of a request."""
    ledger = Ledger(1)

    class Torn:
        size = module._SLOT.size

        def pack_into(self, memory: Any, place: int, *_values: object) -> None:
            memory[place] = 0xFF
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "_SLOT", Torn())
    with pytest.raises(KeyboardInterrupt):
        ledger.begin(exchange())
    assert list(ledger.left()) == []
    assert ledger._memory[0] == State.FREE


def test_another_process_reads_it() -> None:
    """The memory is shared, and outlives the worker."""
    ledger = Ledger(8)
    pid = os.fork()
    if pid == 0:
        try:
            for _ in range(3):
                ledger.begin(exchange())
            ledger.done(exchange())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert len(list(ledger.left())) == 3
