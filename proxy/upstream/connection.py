"""One connection to an upstream: one exchange at a time, whole with one future and one deadline, or a stream.

The state is in four places only: `_reader` is there while a whole answer is awaited, `_stream` while a stream has the
connection, `lost` says that the connection is of no more use, and the keeper (the pool) hears of its end exactly once.
Bytes that come while nobody awaits them are nobody's: the connection ends, since the next answer on it could be
another client's.
"""

import asyncio
import select
import ssl
from typing import Final, Protocol, final

from addons.ports import UpstreamFailed
from grants.message import Response

from .failures import incomplete, timed_out, unreachable
from .reader import ResponseReader

_POLL: Final = select.POLLIN | select.POLLPRI
_LARGE_BYTES: Final = 64 * 1024


class Keeper(Protocol):
    """Who keeps connections between exchanges."""

    def give_back(self, connection: "Connection") -> None:
        """`connection` ended an exchange and can carry another."""
        ...

    def forget(self, connection: "Connection") -> None:
        """`connection` has ended. Called once."""
        ...


class Streaming(Protocol):
    """Who has a connection to itself, piece by piece."""

    def received(self, data: bytes) -> None:
        """Bytes came."""
        ...

    def peer_ended(self, *, clean: bool) -> bool:
        """The peer sends no more; `clean` where that cannot be somebody else's cut. True keeps plain TCP half open."""
        ...

    def writable(self) -> None:
        """Enough was taken of what was written."""
        ...

    def lost(self) -> None:
        """The connection has ended."""
        ...


@final
class Connection(asyncio.Protocol):
    """A connection, from before it is made.

    Attributes:
        lost: it has ended, or is ending.
        full: enough is written that the peer has not taken yet.
        secured: it is TLS.
        opened: when it was made (seconds of the loop's clock).
        idle_since: when it last became idle.
        exchanges: how many requests were written to it.
    """

    __slots__ = (
        "_below",
        "_deadline",
        "_future",
        "_keeper",
        "_large",
        "_loop",
        "_poll",
        "_reader",
        "_stream",
        "_timer",
        "_transport",
        "exchanges",
        "full",
        "idle_since",
        "lost",
        "opened",
        "secured",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        # The TCP transport. The TLS one that stands on it would lose what it holds if the peer ended while it pauses.
        self._below: asyncio.Transport | None = None
        self._keeper: Keeper | None = None
        self._reader: ResponseReader | None = None
        self._stream: Streaming | None = None
        self._future: asyncio.Future[Response] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._large = False
        self._poll: select.poll | None = None
        self.lost = self.full = self.secured = False
        self.opened = self.idle_since = loop.time()
        self.exchanges = 0

    def keep(self, keeper: Keeper) -> None:
        """Let `keeper` hear of the end of exchanges and of the connection."""
        self._keeper = keeper

    def quiet(self) -> bool:
        """Whether the connection is open and nothing has come since the last answer, as far as the system knows.

        An end or stray bytes that the event loop has not seen yet show here, before a request is written: so a
        request is not lost on a connection that the peer has closed, nor given an answer that was there before it.
        """
        transport = self._transport
        if self.lost or transport is None or transport.is_closing():
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(transport.get_extra_info("socket").fileno(), _POLL)
        return not self._poll.poll(0)

    async def exchange(self, request: bytes, method: bytes, max_body: int, deadline: float) -> Response:
        """Write `request`, once, and wait for its whole answer until `deadline` (the loop's time).

        Raises:
            UpstreamFailed: there is none; the connection is closed.
        """
        transport = self._transport
        if self.lost or transport is None:
            raise unreachable()
        future: asyncio.Future[Response] = self._loop.create_future()
        self._future = future
        self._reader = ResponseReader(method, max_body)
        self._large = len(request) > _LARGE_BYTES
        self._deadline = deadline
        # A timer left from an exchange before serves this one too, unless it would come too late.
        if self._timer is None or self._timer.when() > deadline:
            self._arm(deadline)
        self.exchanges += 1
        transport.write(request)
        try:
            return await future
        except BaseException:
            self.abort()
            raise
        finally:
            # A failure that it holds refers back here by its traceback.
            del future

    def abort(self) -> None:
        """End the connection now, without ceremony: the descriptor is closed in the next turn of the loop."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    # --- for a stream

    def attach(self, stream: Streaming) -> None:
        """Let `stream` have the connection, which may not be made yet."""
        self._stream = stream
        self.exchanges += 1

    def detach(self, *, reusable: bool) -> None:
        """The stream is over: keep the connection for another exchange, or end it."""
        self._stream = None
        transport = self._transport
        if not reusable or self._keeper is None or self.lost or transport is None or transport.is_closing():
            self.abort()
        else:
            self.idle_since = self._loop.time()
            self._keeper.give_back(self)

    def end(self) -> None:
        """The stream is over: end TLS in good order, in a second at most."""
        self._stream = None
        if self._transport is not None:
            self._transport.close()

    @property
    def open(self) -> bool:
        """Whether it is there and can be written to, as far as the loop knows."""
        return not self.lost and self._transport is not None and not self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Send `data`; nothing where the connection is not open."""
        if self.open and self._transport is not None:
            self._transport.write(data)

    def unsent(self) -> int:
        """Bytes written that are not with the system yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def half_close(self) -> None:
        """Send nothing more over plain TCP, and be `full` until all that was written is with the system."""
        if self.open and self._transport is not None:
            self._transport.write_eof()
            if self.unsent():
                self._transport.set_write_buffer_limits(high=0)

    def pause(self) -> None:
        """Read no more for now."""
        if self.open and self._below is not None:
            self._below.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self.open and self._below is not None:
            self._below.resume_reading()

    # --- what asyncio calls

    def tls_made(self, transport: asyncio.Transport, below: asyncio.Transport) -> None:
        """TLS is up on the TCP transport `below`."""
        self.secured = True
        self._below = below
        self._transport = transport
        if self.lost:
            self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP is up, and is all that is wanted."""
        self._below = transport  # type: ignore[assignment]  # a stream transport, by the call that makes it
        self._transport = transport  # type: ignore[assignment]  # a stream transport, by the call that makes it
        if self.lost:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes of the answer, or nobody's."""
        reader = self._reader
        if reader is None:
            if self._stream is None:
                self.abort()
            else:
                self._stream.received(data)
            return
        failure: UpstreamFailed | None = None
        response: Response | None = None
        try:
            response = reader.feed(data)
        except UpstreamFailed as failed:
            failure = failed.with_traceback(None)
        if failure is not None:
            self._fail(failure)
        elif response is not None:
            self._succeed(response, reusable=reader.reusable)

    def pause_writing(self) -> None:
        """Enough is written for now."""
        self.full = True

    def resume_writing(self) -> None:
        """Enough was taken."""
        self.full = False
        if self._stream is not None:
            self._stream.writable()

    def eof_received(self) -> bool:
        """The peer sends no more: the end of an answer without a length, if TLS says so too."""
        if self._stream is not None:
            return self._stream.peer_ended(clean=self._closed_cleanly())
        reader = self._reader
        response = None if reader is None else reader.eof(clean=self._closed_cleanly())
        if response is None:
            self._fail(incomplete())
        else:
            self._succeed(response, reusable=False)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self.lost = True
        self._fail(incomplete())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport = self._below = self._poll = None
        if self._stream is not None:
            self._stream.lost()
        if (keeper := self._keeper) is not None:
            self._keeper = None
            keeper.forget(self)

    # --- ends of an exchange

    def _succeed(self, response: Response, *, reusable: bool) -> None:
        future, transport = self._future, self._transport
        self._reader = self._future = None
        if future is None or future.done() or transport is None:
            self.abort()
            return
        # An upstream may refuse a large request without reading it; what it left unread must not hit the next one.
        unread = self._large and response.status >= 400
        if reusable and not unread and not self.lost and not transport.is_closing():
            self.idle_since = self._loop.time()
            if self._keeper is not None:
                self._keeper.give_back(self)
        else:
            self.abort()
        future.set_result(response)

    def _fail(self, failure: UpstreamFailed) -> None:
        future, reader = self._future, self._reader
        self._reader = self._future = None
        self.abort()
        if reader is not None:
            reader.close()
        if future is not None and not future.done():
            future.set_exception(failure)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._reader is None:
            return
        if self._loop.time() >= self._deadline:
            self._fail(timed_out())
        else:
            self._arm(self._deadline)

    def _closed_cleanly(self) -> bool:
        """Whether the peer sent close_notify, or there is no TLS that could say so.

        asyncio reports the end of the TCP connection under TLS in the same way.
        """
        transport = self._transport
        if transport is None or not self.secured:
            return transport is not None
        channel = transport.get_extra_info("ssl_object")
        if channel is None:
            return False
        try:
            return not channel.read(1)
        except ssl.SSLZeroReturnError:
            return True
        except (OSError, ValueError):
            return False
