"""Upstreams on loopback that record what reached them.

`Upstream` speaks TLS, keeps every byte of every connection and answers with scripted bytes or through a handler.
`DarkPort` is a bare TCP listener that answers nothing: what must never be dialled points at it.
One thread accepts, one thread serves each connection; all end with the `with` block.
"""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from support.certificates import Certificates

RESET = object()
"""A step that ends the connection with a TCP reset."""
CLOSE = object()
"""A step that ends the connection."""
HANG = object()
"""A step that leaves the connection open and says nothing more."""

type Step = bytes | float | object
"""Bytes to send in one write, seconds to wait, an event to wait for, or one of the marks above."""
type Answer = bytes | Sequence[Step]


@dataclass(slots=True, kw_only=True)
class Received:
    """One request as it came: nothing decoded, names and values as sent."""

    connection: int
    method: bytes
    target: bytes
    version: bytes
    fields: list[tuple[bytes, bytes]]
    body: bytes
    head: bytes

    def get(self, name: str) -> bytes | None:
        """The value of the only field of that name; None where there is none."""
        values = [value for key, value in self.fields if key.lower() == name.lower().encode()]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None


type Handler = Callable[[Received], Answer]


def answer(
    status: int = 200,
    body: bytes = b"{}",
    *headers: tuple[str, str],
    reason: str = "OK",
    content_type: str | None = "application/json",
) -> bytes:
    """A plain HTTP/1.1 answer with a Content-Length."""
    lines = [f"HTTP/1.1 {status} {reason}"]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    lines += [f"{name}: {value}" for name, value in headers]
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class _Listener:
    """A TCP listener on 127.0.0.1 with a thread for each connection."""

    def __init__(self, port: int = 0) -> None:
        self._socket = socket.create_server(("127.0.0.1", port), backlog=512)
        self.port: int = self._socket.getsockname()[1]
        self.connections = 0
        self.bytes_received = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)
        self.drop()

    def drop(self) -> None:
        """Close every open connection."""
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._run, args=(connection, self.connections), daemon=True).start()

    def _run(self, connection: socket.socket, number: int) -> None:
        try:
            self._serve(connection, number)
        except (OSError, ssl.SSLError):
            pass  # the peer went away, or the test closed us: what was received is recorded
        finally:
            with self._lock:
                self._open.discard(connection)
            with contextlib.suppress(OSError):
                connection.close()

    def _serve(self, connection: socket.socket, number: int) -> None:
        raise NotImplementedError


class DarkPort(_Listener):
    """Counts connections and bytes, and never answers."""

    def _serve(self, connection: socket.socket, number: int) -> None:
        while data := connection.recv(65536):
            self.bytes_received += len(data)


class Upstream(_Listener):
    """A TLS server, plain without certificates: records requests, answers from a queue, else through the handler.

    Attributes:
        requests: every complete request, in order.
        raw: every byte of each connection, by its number, TLS off.
        handler: answers what `answers` does not.
        answers: one is taken for each request.
    """

    def __init__(self, certificates: Certificates | None, *, port: int = 0, handler: Handler | None = None) -> None:
        super().__init__(port)
        self._context: ssl.SSLContext | None = None
        if certificates is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificates.chain)
        self.requests: list[Received] = []
        self.raw: dict[int, bytearray] = {}
        self.handler: Handler = handler or (lambda _request: answer())
        self.answers: list[Answer] = []

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def clear(self) -> None:
        """Forget what was recorded and scripted."""
        self.requests.clear()
        self.answers.clear()

    def _serve(self, connection: socket.socket, number: int) -> None:
        self.raw[number] = raw = bytearray()
        connection.settimeout(60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain = connection
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True)
        with self._lock:
            self._open.discard(plain)
            self._open.add(connection)
        try:
            reader = _Reader(connection, self, number, raw)
            while request := reader.request():
                self.requests.append(request)
                scripted = self.answers.pop(0) if self.answers else self.handler(request)
                if not self._answer(connection, scripted):
                    return
        finally:
            with self._lock:
                self._open.discard(connection)
            with contextlib.suppress(OSError):
                connection.close()

    def _answer(self, connection: socket.socket, scripted: Answer) -> bool:
        steps: Sequence[Step] = [scripted] if isinstance(scripted, bytes) else scripted
        for step in steps:
            if isinstance(step, bytes):
                connection.sendall(step)
            elif isinstance(step, float | int):
                time.sleep(step)
            elif isinstance(step, threading.Event):
                step.wait(20)
            elif step is RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            elif step is CLOSE:
                with contextlib.suppress(OSError):
                    connection.unwrap() if isinstance(connection, ssl.SSLSocket) else None
                return False
            else:
                while connection.recv(65536):
                    pass
                return False
        return True


@dataclass(slots=True)
class _Reader:
    """Reads requests off one connection, keeping every byte."""

    connection: socket.socket
    owner: Upstream
    number: int
    raw: bytearray
    pending: bytes = field(default=b"")

    def request(self) -> Received | None:
        while b"\r\n\r\n" not in self.pending:
            if not self._more():
                return None
        head, _, self.pending = self.pending.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        method, target, version = first.split(b" ")
        fields = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        lengths = [int(value) for name, value in fields if name.lower() == b"content-length"]
        if any(name.lower() == b"transfer-encoding" for name, _ in fields):
            body = b"".join(self._chunks())
        else:
            body = self._exactly(lengths[0]) if lengths else b""
        return Received(
            connection=self.number, method=method, target=target, version=version, fields=fields, body=body, head=head
        )

    def _more(self) -> bool:
        data = self.connection.recv(65536)
        self.owner.bytes_received += len(data)
        self.raw += data
        self.pending += data
        return bool(data)

    def _exactly(self, count: int) -> bytes:
        while len(self.pending) < count:
            if not self._more():
                raise OSError("cut short")
        taken, self.pending = self.pending[:count], self.pending[count:]
        return taken

    def _line(self) -> bytes:
        while b"\r\n" not in self.pending:
            if not self._more():
                raise OSError("cut short")
        line, _, self.pending = self.pending.partition(b"\r\n")
        return line

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._line(), 16):
            yield self._exactly(size)
            self._line()
        while self._line():
            pass
