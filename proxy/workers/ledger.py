"""Requests in flight of one worker, in memory that its supervisor reads when the worker is gone.

A slot is written once when a request begins, its state last, so that a process that is killed in the middle leaves it
free. `opened` follows the decision record of a stream and `done` the last record of a request: a worker that is killed
between record and slot leaves one that looks as if its record were still to come. Whoever reads the slots afterwards
asks the log which of them have theirs (see `proxy.workers.cuts`).

On the developers' machine a request costs 1 µs: that is `begin` and `done` together.
"""

import logging
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, final

from addons.audit import KNOWN_METHODS
from addons.exchange import Exchange
from addons.record import Mode

log = logging.getLogger(__name__)

_NAME_BYTES: Final = 261
_SLOT: Final = struct.Struct(f"<24sBBH{_NAME_BYTES}s")
_STRIDE: Final = 1 + _SLOT.size
_MODES: Final = tuple(Mode)
_METHODS: Final = (None, *sorted(method.decode() for method in KNOWN_METHODS))
_MODE_NUMBERS: Final = {mode: number for number, mode in enumerate(_MODES)}
_METHOD_NUMBERS: Final = {(method or "").encode(): number for number, method in enumerate(_METHODS)}


class State(IntEnum):
    """Of a slot. The values are its first byte."""

    FREE = 0
    BEGUN = 1
    OPENED = 2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """A request that was in flight: its decision record, or of an `opened` stream its end record, may be missing."""

    id: str
    opened: bool
    mode: Mode
    method: str | None
    endpoint: str | None


@final
class Ledger:
    """The slots of one worker: made by the supervisor before the fork, written by the worker (see
    `addons.ports.Flights`), read by the supervisor after its end.

    Args:
        slots: the most requests at one time. A client's connection has at most one.
    """

    def __init__(self, slots: int) -> None:
        self._memory = mmap.mmap(-1, slots * _STRIDE)
        self._free = list(range((slots - 1) * _STRIDE, -1, -_STRIDE))
        self._places: dict[str, int] = {}
        self._closed = False

    def begin(self, exchange: Exchange) -> None:
        """See `Flights`."""
        identifier = exchange.id
        if identifier in self._places:
            return
        if not self._free:
            log.error("%s: no slot is free, so a crash would leave no record of it", identifier)
            return
        arrival, head = exchange.arrival, exchange.head
        name = (arrival.service or "").encode()
        method = 0 if head is None else _METHOD_NUMBERS.get(head.method, 0)
        place = self._places[identifier] = self._free.pop()
        memory = self._memory
        _SLOT.pack_into(memory, place + 1, identifier.encode(), _MODE_NUMBERS[arrival.mode], method, len(name), name)
        memory[place] = State.BEGUN

    def opened(self, exchange: Exchange) -> None:
        """See `Flights`."""
        place = self._places.get(exchange.id)
        if place is not None:
            self._memory[place] = State.OPENED

    def done(self, exchange: Exchange) -> None:
        """See `Flights`."""
        place = self._places.pop(exchange.id, None)
        if place is not None and not self._closed:
            self._memory[place] = State.FREE
            self._free.append(place)

    def freeze(self) -> None:
        """Free no slot any more: the log is closed, and what has no record by now does not get one here."""
        self._closed = True

    def left(self) -> Iterator[Flight]:
        """What is in flight. For the supervisor, once the worker is gone."""
        for place in range(0, len(self._memory), _STRIDE):
            state = self._memory[place]
            if state == State.FREE:
                continue
            identifier, mode, method, length, name = _SLOT.unpack_from(self._memory, place + 1)
            yield Flight(
                id=identifier.decode("ascii"),
                opened=state == State.OPENED,
                mode=_MODES[mode],
                method=_METHODS[method],
                endpoint=name[:length].decode() or None,
            )

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()
