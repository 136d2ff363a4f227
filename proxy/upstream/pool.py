"""Keeps connections for all clients and endpoints: bounded, aged, used again.

A place is taken before a connection is dialled and is free again only when that connection has really ended, so the
number of descriptors is bounded too. Who finds no place waits in one queue; a connection that becomes free goes
straight to the first in it who can use it, so nobody is overtaken.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final, final
from weakref import WeakValueDictionary

from grants.canonical import authority_bytes
from grants.message import Origin

from .connection import Connection
from .dial import Reach
from .failures import at_capacity, shutting_down, unreachable
from .trust import Trust

_SWEEP_SECONDS = 5.0
_CLOSE_SECONDS = 1.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Bounds of a pool.

    Attributes:
        per_group: open connections to one origin, with one trust and one reach.
        total: open connections.
        idle: of those, the ones without an exchange.
        idle_age: seconds that a connection is kept without an exchange.
        total_age: seconds after which a connection carries no further exchange.
        exchanges: requests on one connection.
    """

    per_group: int = 128
    total: int = 1024
    idle: int = 256
    idle_age: float = 30.0
    total_age: float = 300.0
    exchanges: int = 10_000


STREAM_LIMITS: Final = PoolLimits(per_group=512, total=2048, idle=64)
"""Bounds of a pool for streams alone, which last: in a pool of their own they take no place from whole exchanges."""


@final
class Group:
    """The connections that may serve the same requests: one origin, judged and verified in one way."""

    __slots__ = ("__weakref__", "host", "idle", "open", "origin", "reach", "trust")

    def __init__(self, origin: Origin, trust: Trust | None, reach: Reach) -> None:
        self.origin = origin
        self.trust = trust
        self.reach = reach
        self.host = authority_bytes(origin)
        self.idle: list[Connection] = []
        self.open = 0


type _Waiter = asyncio.Future[Connection | None]


@final
class Pool:
    """A pool of upstream connections, for one event loop."""

    def __init__(self, limits: PoolLimits | None = None) -> None:
        self._limits = limits or PoolLimits()
        self._groups: WeakValueDictionary[tuple[Origin, Trust | None, Reach], Group] = WeakValueDictionary()
        self._of: dict[Connection, Group] = {}
        self._places = 0
        self._idle = 0
        self._waiters: deque[tuple[Group, _Waiter]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._closed = False
        self.dialled = 0

    @property
    def open_connections(self) -> int:
        """Connections that are open or being opened."""
        return self._places

    @property
    def idle_connections(self) -> int:
        """Open connections without an exchange."""
        return self._idle

    @property
    def waiting(self) -> int:
        """Requests that wait for a connection."""
        return len(self._waiters)

    def group(self, origin: Origin, trust: Trust | None, reach: Reach) -> Group:
        """The group for these; the same one for as long as anybody holds it. Without a trust it is plain TCP."""
        key = (origin, trust, reach)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(origin, trust, reach)
        return group

    def take(self, group: Group) -> Connection | None:
        """An idle connection that can be written to now, the one used last, or None."""
        while group.idle:
            connection = group.idle.pop()
            self._idle -= 1
            if self._serviceable(connection, asyncio.get_running_loop().time()) and connection.quiet():
                return connection
            connection.abort()
        return None

    async def place(self, group: Group, deadline: float) -> Connection | None:
        """Wait until `deadline` for a connection that became free, or for a place to open one (None).

        A place is given up with `release`, or becomes the connection's with `adopt`.

        Raises:
            UpstreamFailed: there was none in time, or the pool is closed.
        """
        if self._closed:
            raise shutting_down()
        if not self._waiters and self._has_room(group):
            self._occupy(group)
            return None
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((group, waiter))
        self._evict_for(group)
        # Those who stand before may wait for another origin.
        self._serve()
        try:
            async with asyncio.timeout_at(deadline):
                return await waiter
        except BaseException as interruption:
            self._withdraw(group, waiter)
            if not isinstance(interruption, TimeoutError):
                raise
        raise at_capacity()

    def release(self, group: Group) -> None:
        """Give up a place that no connection was opened for, or whose connection has ended."""
        group.open -= 1
        self._places -= 1
        self._serve()
        if self._places == 0 and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def adopt(self, group: Group, connection: Connection) -> None:
        """Make a place the one of `connection`, which has just been opened.

        Raises:
            UpstreamFailed: the pool is closed, or the connection has ended already. The place is still the caller's.
        """
        self.dialled += 1
        if self._closed or connection.lost:
            connection.abort()
            raise shutting_down() if self._closed else unreachable()
        self._of[connection] = group
        connection.keep(self)

    def give_back(self, connection: Connection) -> None:
        """See `Keeper`: to the first who waits for it, else kept, else closed."""
        group = self._of[connection]
        if self._closed or not self._serviceable(connection, connection.idle_since):
            connection.abort()
            return
        for index, (wanted, waiter) in enumerate(self._waiters):
            if wanted is group and not waiter.done():
                del self._waiters[index]
                waiter.set_result(connection)
                return
        starving = bool(self._waiters) and self._places >= self._limits.total
        if starving or self._idle >= self._limits.idle:
            connection.abort()
            return
        group.idle.append(connection)
        self._idle += 1
        if self._sweeper is None:
            self._sweep_later()

    def forget(self, connection: Connection) -> None:
        """See `Keeper`: its place is free."""
        group = self._of.pop(connection)
        if connection in group.idle:
            group.idle.remove(connection)
            self._idle -= 1
        self.release(group)

    async def close(self, *, grace: float = 0.0) -> None:
        """Refuse new requests, let those on their way end within `grace` seconds, then close every connection."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        while self._waiters:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(shutting_down())
        for group in list(self._groups.values()):
            for connection in list(group.idle):
                connection.abort()
        for seconds in (grace, _CLOSE_SECONDS):
            if self._places:
                self._emptied = asyncio.get_running_loop().create_future()
                await asyncio.wait([self._emptied], timeout=seconds)
            for connection in list(self._of):
                connection.abort()

    # --- places

    def _has_room(self, group: Group) -> bool:
        return group.open < self._limits.per_group and self._places < self._limits.total

    def _occupy(self, group: Group) -> None:
        group.open += 1
        self._places += 1

    def _serve(self) -> None:
        """Hand free places to those who wait and can use one, in their order."""
        if not self._waiters or self._closed:
            return
        for entry in list(self._waiters):
            group, waiter = entry
            if self._places >= self._limits.total:
                return
            if not waiter.done() and self._has_room(group):
                self._waiters.remove(entry)
                self._occupy(group)
                waiter.set_result(None)

    def _evict_for(self, group: Group) -> None:
        """Close the connection that has been idle longest, if only the total keeps `group` from another one."""
        if group.open >= self._limits.per_group or self._places < self._limits.total:
            return
        holders = [other for other in self._groups.values() if other.idle]
        if holders:
            oldest = min(holders, key=lambda other: other.idle[0].idle_since)
            self._idle -= 1
            oldest.idle.pop(0).abort()

    def _withdraw(self, group: Group, waiter: _Waiter) -> None:
        """Take back what an interrupted waiter was given, or its place in the queue."""
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            connection = waiter.result()
            if connection is None:
                self.release(group)
            elif connection in self._of:
                self.give_back(connection)
            return
        entry = (group, waiter)
        if entry in self._waiters:
            self._waiters.remove(entry)

    # --- age

    def _serviceable(self, connection: Connection, now: float) -> bool:
        limits = self._limits
        return (
            now - connection.idle_since < limits.idle_age
            and now - connection.opened < limits.total_age
            and connection.exchanges < limits.exchanges
        )

    def _sweep_later(self) -> None:
        seconds = min(_SWEEP_SECONDS, self._limits.idle_age)
        self._sweeper = asyncio.get_running_loop().call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = asyncio.get_running_loop().time()
        for group in list(self._groups.values()):
            for connection in list(group.idle):
                if not self._serviceable(connection, now):
                    connection.abort()
        if self._idle:
            self._sweep_later()
