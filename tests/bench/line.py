"""One connection of the load: CONNECT where there is a tunnel, TLS through memory buffers, then one request at a time.

A protocol on the bare transport, with TLS done here, costs the load less than the loop's own TLS and no coroutine.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from bench.answers import Answers, Wrong

_PIECE = 262144


class Line(asyncio.Protocol):
    """A connection. Calls `ready(line)` when it may send, and `complete(line)` for each answer.

    Attributes:
        begun: for the owner, when the request that is on its way was begun.
        turn: for the owner, which request comes next.
        over: the owner is done with it: what comes, and its end, mean nothing more.
    """

    def __init__(
        self,
        answers: Answers,
        *,
        tunnel: bytes,
        tls: tuple[ssl.SSLContext, str] | None,
        ready: Callable[["Line"], None],
        complete: Callable[["Line"], None],
        fail: Callable[[str], None],
    ) -> None:
        self._answers = answers
        self._tunnel = tunnel
        self._held = b""
        self._ready = ready
        self._complete = complete
        self._fail = fail
        self._receive = self._plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        if tls is not None:
            self._tls = tls[0].wrap_bio(self._incoming, self._outgoing, server_hostname=tls[1])
        self.begun = 0.0
        self.turn = 0
        self.over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        if self._tunnel:
            self._receive = self._open_tunnel
            transport.write(self._tunnel)
        else:
            self._opened()

    def data_received(self, data: bytes) -> None:
        if self.over:
            return
        try:
            self._receive(data)
        except (Wrong, ssl.SSLError, ValueError) as error:
            self._fail(str(error))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over:
            when = "before" if self._answers.idle else "in the middle of"
            self._fail(f"the connection ended {when} an answer ({exc or 'closed'})")

    def send(self, request: bytes) -> None:
        """Send a request; the one before has been answered."""
        if self._tls is None:
            self._transport.write(request)
        else:
            self._tls.write(request)
            self._transport.write(self._outgoing.read())

    def close(self) -> None:
        self.over = True
        self._transport.close()

    def _opened(self) -> None:
        if self._tls is None:
            self._receive = self._plain
            self._ready(self)
        else:
            self._receive = self._shake_hands
            self._shake_hands(b"")

    def _open_tunnel(self, data: bytes) -> None:
        self._held += data
        if self._held.endswith(b"\r\n\r\n"):
            if b" 200 " not in self._held[:16]:
                raise Wrong(f"CONNECT: {self._held!r}")
            self._opened()

    def _shake_hands(self, data: bytes) -> None:
        assert self._tls is not None
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._transport.write(self._outgoing.read())
            return
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())
        self._receive = self._sealed
        self._ready(self)

    def _sealed(self, data: bytes) -> None:
        assert self._tls is not None
        self._incoming.write(data)
        while self._incoming.pending or self._tls.pending():
            try:
                piece = self._tls.read(_PIECE)
            except ssl.SSLWantReadError:
                return
            if not piece:
                raise Wrong("TLS was ended")
            self._plain(piece)

    def _plain(self, data: bytes) -> None:
        if self._answers.feed(data):
            self._complete(self)
