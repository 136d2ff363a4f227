"""The secrets of one endpoint: what a request may carry now, and what an answer may not show.

Opening costs a clock reading until a source is due. Then one thread reads what is due and the loop goes on; everybody
who opens meanwhile waits for that one read, unless the value that is there may still serve (`Source.grace`). What was
read last stays forbidden in answers when it can no longer be read, and after a rotation for as long as the old value
may still be accepted upstream.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import final

from addons.ports import Held
from grants.secret import Secret

from .source import RETRY_SECONDS, SecretUnreadable, Source

KEEP_SECONDS = 24 * 3600.0
"""How long a replaced value is still searched for in answers: a day covers the usual overlap of a rotation."""
KEEP_VALUES = 32
"""At most so many replaced values a name: a command that prints a new token each minute must not slow each answer."""
KEEP_INHERITED = 128
"""At most so many values of the vaults before a reload."""

type _Replaced = dict[Secret, float]
"""Replaced values, oldest first, each with the time at which it is forgotten."""

_readers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="secret-reader")


@dataclass(slots=True)
class _Entry:
    """One name's state. `value` is None while it cannot be read; `last` is the last value that could be."""

    source: Source
    due: float = -math.inf
    overdue: float = -math.inf
    value: Secret | None = None
    last: Secret | None = None
    before: _Replaced = field(default_factory=dict)
    trouble: str | None = None


@final
class EndpointVault:
    """The vault of one endpoint (see `addons.ports.Vault`).

    Args:
        endpoint: the endpoint's name, for messages.
        sources: by reference name.
        called: what messages call the source of a name; without it a secret of the endpoint.
        clock: seconds that only go up.
    """

    def __init__(
        self,
        endpoint: str,
        sources: Mapping[str, Source],
        *,
        called: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint
        self.called = called or (lambda name: f"endpoint `{endpoint}`: secret `{name}`")
        self._entries = {name: _Entry(source) for name, source in sources.items()}
        self._clock = clock
        self._inherited: _Replaced = {}
        self._held = Held(values={})
        self._due = self._overdue = -math.inf if sources else math.inf
        self._reading: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<vault of {self._endpoint}>"

    def check(self) -> tuple[str, ...]:
        """Read every source now and return one problem for each that gives no secret. Blocks, for the start.

        A problem names what the value is for (`called`), cause and remedy, never a value.
        """
        now = self._clock()
        for entry in self._entries.values():
            entry.due = -math.inf
        self._install(self._read_due(now), now)
        return tuple(
            f"{self.called(name)}: {entry.trouble}"
            for name, entry in self._entries.items()
            if entry.trouble is not None
        )

    def succeed(self, previous: "EndpointVault") -> None:
        """Take over, after a reload, the values that `previous` held, so that answers are still searched for them."""
        now = self._clock()
        self._inherited = dict(previous._inherited)
        for old in previous._entries.values():
            self._inherited.update(old.before)
            if old.last is not None:
                _replace(self._inherited, old.last, now)
        self._install({}, now)

    @property
    def current(self) -> Mapping[str, Secret]:
        """The values that were read last, by name."""
        return self._held.values

    async def open(self) -> Held:
        """The values now; the same object until something changes. Never raises but when the caller is cancelled."""
        now = self._clock()
        if now < self._due:
            return self._held
        if self._reading is None:
            loop = asyncio.get_running_loop()
            self._reading = loop.create_future()
            work = loop.run_in_executor(_readers, self._read_due, now)
            work.add_done_callback(lambda done: self._finish(done, now))
        if now >= self._overdue:
            await asyncio.shield(self._reading)
        return self._held

    def _finish(self, work: "asyncio.Future[dict[str, Secret | str]]", now: float) -> None:
        """Runs on the loop whether or not the caller that began the read is still there."""
        reading, self._reading = self._reading, None
        try:
            found: dict[str, Secret | str] = work.result()
        except BaseException:  # fail closed: what was due is unknown, so it is absent
            found = {name: "cannot be read" for name, entry in self._entries.items() if entry.due <= now}
        self._install(found, now)
        if reading is not None and not reading.done():
            reading.set_result(None)

    def _read_due(self, now: float) -> dict[str, Secret | str]:
        """Read each source that is due: its secret, or the trouble in words. Runs in a thread; changes nothing."""
        found: dict[str, Secret | str] = {}
        for name, entry in self._entries.items():
            if entry.due > now:
                continue
            try:
                found[name] = entry.source.read()
            except SecretUnreadable as unreadable:
                found[name] = str(unreadable)
            except Exception:  # a source that fails in its own way is a source that cannot be read
                found[name] = "cannot be read; name another source"
        return found

    def _install(self, found: Mapping[str, Secret | str], now: float) -> None:
        for name, outcome in found.items():
            entry = self._entries[name]
            lasts = entry.source.lasts
            if isinstance(outcome, Secret):
                if entry.last is not None and entry.last != outcome:
                    _replace(entry.before, entry.last, now)
                entry.value = entry.last = outcome
                entry.trouble = None
                entry.due = math.inf if lasts is None else now + lasts
                entry.overdue = entry.due + entry.source.grace
            else:
                entry.value, entry.trouble = None, outcome
                entry.due = entry.overdue = math.inf if lasts is None else now + min(lasts, RETRY_SECONDS)
        needles: dict[Secret, None] = {}
        for entry in self._entries.values():
            entry.before = _living(entry.before, KEEP_VALUES, now)
            if entry.last is not None:
                needles[entry.last] = None
            needles.update(dict.fromkeys(entry.before))
        self._inherited = _living(self._inherited, KEEP_INHERITED, now)
        needles.update(dict.fromkeys(self._inherited))
        values = {name: entry.value for name, entry in self._entries.items() if entry.value is not None}
        if values != self._held.values or tuple(needles) != self._held.needles:
            self._held = Held(values=values, needles=tuple(needles))
        self._due = min((entry.due for entry in self._entries.values()), default=math.inf)
        self._overdue = min((entry.overdue for entry in self._entries.values()), default=math.inf)


def _replace(replaced: _Replaced, value: Secret, now: float) -> None:
    replaced.pop(value, None)
    replaced[value] = now + KEEP_SECONDS


def _living(replaced: _Replaced, most: int, now: float) -> _Replaced:
    return dict([(value, until) for value, until in replaced.items() if until > now][-most:])
