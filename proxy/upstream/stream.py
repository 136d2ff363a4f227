"""One exchange piece by piece, or bytes both ways: bounded whatever its length, each piece passed on as it comes.

The connection calls in (`received`, `peer_ended`, `writable`, `lost`), the relay calls from the other side; between
them stand what was received and not read yet, and one set of waiters that every change wakes. What was received
before a failure is still read. A stream holds its connection until `close`, which keeps it for another exchange only
where both the request and the answer were complete and nothing came after them.

The clock runs only while somebody waits for the upstream: a slow client is not the upstream's fault.
"""

import asyncio
from collections.abc import Callable
from typing import Final, final

from addons.ports import UpstreamFailed
from addons.streams import ResponseHead

from .connection import Connection
from .failures import fault, incomplete, timed_out
from .reader import StreamReader

IDLE_SECONDS: Final = 300.0
"""How long an upstream may do nothing while it is waited for."""
HELD_BYTES: Final = 256 * 1024
"""Received and not read yet: no more is read from the connection from here on (bytes; one read may go over it)."""

_HELD_PIECES: Final = 1024
_PART_BYTES: Final = 64 * 1024
_LARGE_BYTES: Final = 64 * 1024
_LINGER_SECONDS: Final = 10.0


@final
class Stream:
    """Has `connection` until it is closed; implements `addons.streams.UpstreamStream`.

    Args:
        reader: of the answer; None for raw bytes from the beginning.
        length: of the request's body; None for a chunked one.
        idle: seconds that the upstream may do nothing while it is waited for; the whole may take any time.
    """

    def __init__(
        self, connection: Connection, reader: StreamReader | None, *, length: int | None = 0, idle: float = IDLE_SECONDS
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._reader = reader
        self._idle = idle
        self._head: ResponseHead | None = None
        self._raw = reader is None
        self._remaining = length
        self._written = 0
        # Nothing more is sent; nothing more is received.
        self._finished = not self._raw and length == 0
        self._ended = False
        # The answer's head came before the request was complete.
        self._early = False
        self._closed = False
        self._failure: UpstreamFailed | None = None
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._paused = False
        self._waiters: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        # When something happened last; None: the clock starts with the next wait.
        self._active: float | None = None
        connection.attach(self)

    # --- the request

    async def write(self, data: bytes) -> None:
        """See `UpstreamStream`. Once the answer has come, what its sender takes no more is dropped: it has spoken.

        Raises:
            UpstreamFailed: it is gone without an answer; or, a fault, this is no part of the announced body.
        """
        if not data:
            return
        if self._finished or (self._remaining is not None and not self._raw and len(data) > self._remaining):
            self._fail(fault())
            raise fault()
        await self._answer_first()
        # In parts, since TLS takes a large piece whole before it says that it is full.
        for start in range(0, len(data), _PART_BYTES):
            await self._until(self._taken)
            self._check()
            if self._over():
                return
            self._send(data if len(data) <= _PART_BYTES else data[start : start + _PART_BYTES])
        await self._until(self._taken)
        self._active = self._loop.time()

    def _send(self, data: bytes) -> None:
        self._written += len(data)
        self._active = self._loop.time()
        if not self._raw and self._remaining is None:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        elif not self._raw and self._remaining is not None:
            self._remaining -= len(data)
        self._connection.write(data)

    async def finish(self) -> None:
        """See `UpstreamStream`. Of an upgrade, to be called only after `head`.

        TLS has no half-close here: a raw stream over it gets ten idle seconds more, in which the peer may end.
        """
        if self._finished:
            return
        if not self._raw:
            self._finish_request()
            return
        self._check()
        self._finished = True
        if self._connection.secured:
            self._idle = min(self._idle, _LINGER_SECONDS)
            self._active = self._loop.time()
            self._rearm()
        else:
            self._connection.half_close()
            await self._until(lambda: not self._connection.full or not self._connection.open)

    def _finish_request(self) -> None:
        self._check()
        if self._over():
            return
        if self._remaining:
            self._fail(fault())
            raise fault()
        self._finished = True
        if self._remaining is None:
            self._connection.write(b"0\r\n\r\n")
        self._active = self._loop.time()

    async def _answer_first(self) -> None:
        """Read an answer that is there already, before a write to a peer that has closed throws it away."""
        for _ in range(3):
            if self._raw or self._head is not None or self._failure is not None or self._connection.quiet():
                return
            await asyncio.sleep(0)

    def _taken(self) -> bool:
        return not self._connection.full or self._over()

    def _over(self) -> bool:
        """Whether nobody takes more of the request, and an answer says why."""
        return not self._raw and self._head is not None and (self._ended or not self._connection.open)

    # --- the answer

    async def head(self) -> ResponseHead:
        """See `UpstreamStream`."""
        if self._raw and self._reader is None:
            raise fault()
        while (head := self._head) is None:
            await self._turn()
        return head

    @property
    def ready(self) -> bool:
        """See `UpstreamStream`."""
        return bool(self._held) or self._ended

    async def read(self) -> bytes:
        """See `UpstreamStream`."""
        while not self._held:
            if self._ended:
                return b""
            await self._turn()
        held = self._held
        self._held, self._held_bytes = [], 0
        self._active = None
        if self._paused:
            self._paused = False
            self._connection.resume()
        return held[0] if len(held) == 1 else b"".join(held)

    async def close(self) -> None:
        """See `UpstreamStream`. Does not wait."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._held.clear()
        if self._reader is not None:
            self._reader.close()
        if self._raw and self._finished and self._ended and self._connection.secured:
            # What is written may still be with TLS; this end is bounded, as TLS's is.
            self._connection.end()
        else:
            self._connection.detach(reusable=self._reusable())
        if self._failure is None:
            self._failure = incomplete()
        self._wake()

    def _reusable(self) -> bool:
        reader = self._reader
        if self._raw or reader is None or self._failure is not None or self._head is None:
            return False
        # An upstream may refuse a request without reading it; what it left unread must not hit the next one.
        unread = self._head.status >= 400 and (self._early or self._written > _LARGE_BYTES)
        return self._finished and self._ended and reader.reusable and not unread and not self._connection.unsent()

    # --- what the connection calls

    def received(self, data: bytes) -> None:
        """See `Streaming`."""
        self._active = self._loop.time()
        reader = self._reader
        if self._ended or self._failure is not None:
            self._connection.abort()
            return
        if self._raw or reader is None:
            self._hold(data)
        else:
            self._answer(reader, data)
        self._wake()

    def _answer(self, reader: StreamReader, data: bytes) -> None:
        failure: UpstreamFailed | None = None
        try:
            self._ended = reader.feed(data)
        except UpstreamFailed as failed:
            failure = failed.with_traceback(None)
        if self._head is None and reader.head is not None:
            self._head = reader.head
            self._early = not self._finished
            if self._head.status == 101:
                self._raw, self._finished = True, False
        self._hold(reader.take())
        if failure is not None:
            self._fail(failure)

    def _hold(self, data: bytes) -> None:
        if not data:
            return
        self._held.append(data)
        self._held_bytes += len(data)
        full = self._held_bytes >= HELD_BYTES or len(self._held) >= _HELD_PIECES
        # At the end of an answer the connection is read on: what comes then must be seen before it is used again.
        if full and not self._paused and not self._ended:
            self._paused = True
            self._connection.pause()

    def peer_ended(self, *, clean: bool) -> bool:
        """See `Streaming`."""
        if self._raw:
            keep = not self._connection.secured and not self._finished
            if clean:
                self._ended = True
            else:
                self._fail(incomplete())
            self._wake()
            return keep
        if not self._ended:
            self._ended = self._reader is not None and self._reader.eof(clean=clean)
        if not self._ended:
            self._fail(incomplete())
        self._connection.abort()
        self._wake()
        return False

    def writable(self) -> None:
        """See `Streaming`."""
        self._active = self._loop.time()
        self._wake()

    def lost(self) -> None:
        """See `Streaming`."""
        if not self._ended:
            self._fail(incomplete())
        self._wake()

    # --- waiting

    def _check(self) -> None:
        """Raise what has gone wrong, for a side that sends."""
        if self._over():
            return
        failure = self._failure
        if failure is None and not self._connection.open:
            failure = incomplete()
        if failure is not None:
            raise UpstreamFailed(failure.rule, failure.reason, failure.status)

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._check()
            await self._turn()

    async def _turn(self) -> None:
        """Wait until anything happens.

        Raises:
            UpstreamFailed: that has failed already; nothing happens any more.
        """
        if (failure := self._failure) is not None:
            raise UpstreamFailed(failure.rule, failure.reason, failure.status)
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        if self._active is None:
            self._active = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self._active + self._idle, self._expire)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _fail(self, failure: UpstreamFailed) -> None:
        if self._failure is None:
            self._failure = failure
        self._connection.abort()
        self._wake()

    def _rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiters and self._active is not None:
            self._timer = self._loop.call_at(self._active + self._idle, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if not self._waiters:
            return
        if self._active is None:
            self._active = self._loop.time()
        if self._loop.time() >= self._active + self._idle:
            self._fail(timed_out())
        else:
            self._rearm()
