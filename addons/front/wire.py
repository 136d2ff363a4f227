"""The bytes between a client and an HTTP stream: as they are, or within TLS on memory buffers."""

import contextlib
import re
import ssl
from typing import Protocol, final

_PIECE = 64 * 1024
TLS_HANDSHAKE_RECORD = 0x16


class TlsFailed(Exception):
    """The TLS connection cannot go on.

    Attributes:
        reason: OpenSSL's word for it.
        refused_name: our own side refused the server name.
        alert: what the client said is wrong, as RFC 8446, 6.2 calls it with `-` for `_`; None where it said nothing.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.refused_name = reason == "CALLBACK_FAILED"
        said = re.search(r"_ALERT_([A-Z_]{1,40})$", reason)
        self.alert = said[1].lower().replace("_", "-") if said else None


class Wire(Protocol):
    """Both directions of one client connection."""

    def receive(self, data: bytes) -> bytes:
        """What the client's bytes mean.

        Raises:
            TlsFailed: they mean nothing any more.
        """
        ...

    def send(self, data: bytes) -> bytes:
        """Bytes for the client that carry `data`.

        Raises:
            TlsFailed: nothing can be sent any more.
        """
        ...

    def pending(self) -> bytes:
        """Bytes that the client must get though nothing was sent."""
        ...

    def finish(self) -> bytes:
        """Bytes that say to the client that nothing more comes."""
        ...

    @property
    def ended(self) -> bool:
        """The client said that nothing more comes from it."""
        ...

    @property
    def failed(self) -> TlsFailed | None:
        """What came behind the last plaintext cannot be read."""
        ...


@final
class Plain:
    """The bytes as they are."""

    ended = False
    failed = None

    def receive(self, data: bytes) -> bytes:
        """The same bytes."""
        return data

    def send(self, data: bytes) -> bytes:
        """The same bytes."""
        return data

    def pending(self) -> bytes:
        """Nothing."""
        return b""

    def finish(self) -> bytes:
        """Nothing: the connection's end says it."""
        return b""


@final
class Tls:
    """Server side TLS (stdlib `ssl` on memory buffers).

    Attributes:
        established: the handshake is over.
        failed: what came behind the last plaintext cannot be read.
    """

    __slots__ = ("_in", "_out", "connection", "ended", "established", "failed")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.connection = context.wrap_bio(self._in, self._out, server_side=True)
        self.established = False
        self.ended = False
        self.failed: TlsFailed | None = None

    def receive(self, data: bytes) -> bytes:
        """Decrypt; during the handshake there is nothing to return.

        What comes behind an end is dropped: nothing reads it any more, so it would only be held.
        """
        if self.ended or self.failed is not None:
            return b""
        self._in.write(data)
        try:
            if not self.established:
                self.connection.do_handshake()
                self.established = True
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            raise TlsFailed(error.reason or "TLS_ERROR") from None
        return self._read()

    def _read(self) -> bytes:
        pieces: list[bytes] = []
        while True:
            try:
                piece = self.connection.read(_PIECE)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError as error:
                # What was decrypted before counts; the next one to look sees the end.
                self.failed = TlsFailed(error.reason or "TLS_ERROR")
                break
            if not piece:
                self.ended = True
                break
            pieces.append(piece)
            # A piece is of one record, and OpenSSL reads no further ahead: behind the last one there is nothing to try.
            if len(piece) < _PIECE and not self._in.pending:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def send(self, data: bytes) -> bytes:
        """Encrypt."""
        view = memoryview(data)
        try:
            while view:
                view = view[self.connection.write(view) :]
        except ssl.SSLError as error:
            raise TlsFailed(error.reason or "TLS_ERROR") from None
        return self._out.read()

    def pending(self) -> bytes:
        """Handshake bytes and alerts."""
        return self._out.read() if self._out.pending else b""

    def finish(self) -> bytes:
        """close_notify (RFC 8446, 6.1)."""
        if self.established:
            # It is written all the same; the client's own is not waited for.
            with contextlib.suppress(ssl.SSLError):
                self.connection.unwrap()
        return self.pending()
