"""The records that a worker which is gone can no longer make, made by the supervisor in a chain of its own.

The log says which of the requests that were in flight have theirs: a request with a decision is not refused once more,
and a stream with an end does not get another. What came before in the log is searched as far back as `_TAIL_BYTES`;
a stream that was opened before that is known by its slot alone. How many bytes a stream had carried is not known, and
recorded as 0.
"""

import json
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, final

from addons.ports import LogUnavailable
from addons.record import EndedBy, Event, Mode, Record, Signal
from grants.decision import Reason, Rule
from proxy.decisionlog import open_log
from proxy.settings.model import Settings
from proxy.state import StartRefused
from proxy.workers.ledger import Flight

log = logging.getLogger(__name__)

_TAIL_BYTES: Final = 64 * 1024 * 1024
_AGAIN_SECONDS: Final = 1.0
_STREAMED: Final = ("trusted-upstream", "tunnel")
_COPIED: Final = frozenset(field.name for field in fields(Record)) - {"id", "event", "mode", "labels", "signals"}


@dataclass(slots=True)
class _Known:
    """What the log says of a request."""

    record: Mapping[str, Any] | None = None
    decided: str | None = None
    ended: bool = False


@final
class Cuts:
    """What still has to be recorded: a log that cannot be written now may be later."""

    def __init__(self) -> None:
        self._owed: list[Flight] = []
        self._again = 0.0

    @property
    def next(self) -> float | None:
        """When to `look` again (seconds of the monotonic clock); None: nothing is owed."""
        return self._again if self._owed else None

    def lost(self, settings: Settings, flights: Iterable[Flight]) -> None:
        """A worker is gone that had these in flight."""
        self._owed += flights
        self._again = 0.0
        self.look(settings)

    def look(self, settings: Settings) -> None:
        """Record what has no record yet, where it is time to try."""
        now = time.monotonic()
        if self._owed and now >= self._again:
            first, self._again = not self._again, now + _AGAIN_SECONDS
            self._owed = record_cuts(settings, self._owed, tell=first)


def record_cuts(settings: Settings, flights: Iterable[Flight], *, tell: bool = True) -> list[Flight]:
    """Record what has no record, and give what could not be recorded; `tell`: log how many, and why."""
    wanted = {flight.id: flight for flight in flights}
    path = settings.audit.path
    if not wanted or path is None:
        return []
    missing = [(flight, record) for flight, known in _known(path, wanted) if (record := _missing(flight, known))]
    written = _write(settings, [record for _, record in missing], tell=tell) if missing else 0
    return [flight for flight, _ in missing[written:]]


def _write(settings: Settings, records: Sequence[Record], *, tell: bool) -> int:
    """How many of them are in the log now."""
    written = 0
    try:
        decisions = open_log(settings.audit.path or "", state=settings.state, sync=settings.audit.sync, quiet=True)
        try:
            for record in records:
                decisions.write(record)
                written += 1
        finally:
            # Its thread ends here: the supervisor may fork again.
            decisions.close()
    except (LogUnavailable, StartRefused) as unavailable:
        if tell:
            left = len(records) - written
            log.error("%d requests of a worker that is gone have no record yet: %s", left, unavailable)  # noqa: TRY400 - one line is enough
    return written


def _missing(flight: Flight, known: _Known) -> Record | None:
    found = known.record or {}
    streamed = flight.opened or (known.decided == Event.ALLOW and found.get("assurance") in _STREAMED)
    if known.decided is not None or flight.opened:
        if not streamed or known.ended:
            return None
        return replace(_base(flight, found), event=Event.END, verdict="allow", labels=(EndedBy.PROXY, *_labels(found)))
    return replace(
        _base(flight, found),
        event=Event.DENY,
        verdict="deny",
        rule=Rule.FAULT,
        reason=Reason.WORKER_LOST,
        status=500,
        signals=(Signal.DENIED,),
        labels=_labels(found),
    )


def _base(flight: Flight, found: Mapping[str, Any]) -> Record:
    """What is known of a request: by its slot, and by the records that it left."""
    known = {name: _plain(found[name]) for name in _COPIED & found.keys() if found[name] is not None}
    known.update(verdict="allow", bytes_in=0, bytes_out=0, duration_ms=0.0)
    known.setdefault("endpoint", flight.endpoint)
    known.setdefault("method", flight.method)
    return Record(id=flight.id, event=Event.END, mode=Mode(found.get("mode", flight.mode)), **known)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _labels(found: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(label for label in found.get("labels") or () if label not in set(EndedBy))


def _known(path: Path, wanted: Mapping[str, Flight]) -> list[tuple[Flight, _Known]]:
    known = {identifier: _Known() for identifier in wanted}
    for line in _tail(path):
        # Each line begins with `{"id":"` and the id.
        identifier = line[7:31].decode("ascii", "replace")
        if identifier not in known:
            continue
        try:
            record = json.loads(line)
        except ValueError:
            continue
        entry = known[identifier]
        entry.record = record
        match record.get("event"):
            case Event.ALLOW | Event.DENY:
                entry.decided = record["event"]
            case Event.END:
                entry.ended = True
    return [(wanted[identifier], entry) for identifier, entry in known.items()]


def _tail(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).split(b"\n")
    except OSError:
        return []
