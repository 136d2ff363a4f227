"""A strict HTTP/1.1 client that sends exactly the bytes it is given.

Answers are parsed by the letter of RFC 9112: what is not exactly framed raises `AnswerInvalid`.
"""

import re
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2}) ([\t \x21-\x7e\x80-\xff]*)")
_FIELD_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*?)[ \t]*")


class AnswerInvalid(AssertionError):
    """The proxy's answer is not framed as RFC 9112 says."""


class NoAnswer(AssertionError):
    """The connection ended, or nothing came in time, before a whole answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer, and the informational ones before it."""

    status: int
    reason: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes
    informational: tuple[int, ...] = ()
    raw: bytes = b""

    def get(self, name: str) -> bytes | None:
        """The value of the only field of that name; None where there is none."""
        values = [value for key, value in self.fields if key.lower() == name.lower().encode()]
        if len(values) > 1:
            raise AnswerInvalid(f"{name} came {len(values)} times")
        return values[0] if values else None


class Client:
    """One connection to the proxy: plain, or a CONNECT tunnel with verified TLS in it."""

    def __init__(self, address: tuple[str, int], *, timeout: float = 15.0) -> None:
        self.socket: socket.socket = socket.create_connection(address, timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def connect(self, authority: str, *, headers: bytes = b"") -> Answer:
        """Send a CONNECT for `authority` and read its answer (RFC 9110, 9.3.6)."""
        self.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n".encode() + headers + b"\r\n")
        return self.read("CONNECT")

    def start_tls(self, *, name: str | None, ca: Path, check: str | None = None) -> None:
        """Do the TLS handshake, with `name` as server name (None: none), trusting only `ca`."""
        context = ssl.create_default_context(cafile=str(ca))
        if name is None:
            context.check_hostname = False
        self.socket = context.wrap_socket(self.socket, server_hostname=name)

    def send(self, data: bytes) -> None:
        """Send `data` as it is. A peer that closes while we send is not an error: it may have answered."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            return

    def exchange(self, data: bytes, method: str = "GET") -> Answer:
        """Send `data` and read one answer."""
        self.send(data)
        return self.read(method)

    def read(self, method: str = "GET") -> Answer:
        """Read one answer to a request of `method`."""
        informational: list[int] = []
        while True:
            status, reason, fields, head = self._head()
            if 100 <= status < 200 and status != 101:
                informational.append(status)
                continue
            body = self._body(method, status, fields)
            return Answer(
                status=status,
                reason=reason,
                fields=fields,
                body=body,
                informational=tuple(informational),
                raw=head + body,
            )

    def closed(self) -> bool:
        """Whether the peer closes the connection without sending anything more."""
        if self.pending:
            return False
        self.socket.settimeout(25)  # less than what ends by itself
        try:
            return self.socket.recv(1) == b""
        except (ConnectionResetError, ssl.SSLError):
            return True
        except TimeoutError:
            return False

    def _head(self) -> tuple[int, bytes, tuple[tuple[bytes, bytes], ...], bytes]:
        while b"\r\n\r\n" not in self.pending:
            self._more()
        head, _, self.pending = self.pending.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        match = _STATUS_LINE.fullmatch(first)
        if match is None:
            raise AnswerInvalid(f"status line {first!r}")
        fields = []
        for line in lines:
            field = _FIELD_LINE.fullmatch(line)
            if field is None:
                raise AnswerInvalid(f"field line {line!r}")
            fields.append((field[1], field[2]))
        return int(match[1]), match[2], tuple(fields), head + b"\r\n\r\n"

    def _body(self, method: str, status: int, fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
        lengths = [value for name, value in fields if name.lower() == b"content-length"]
        codings = [value for name, value in fields if name.lower() == b"transfer-encoding"]
        if status == 204 and (lengths or codings):
            raise AnswerInvalid("a 204 has no framing field (RFC 9110, 8.6)")
        if method == "HEAD" or status in {204, 304} or (method == "CONNECT" and status < 300):
            return b""
        if codings or len(lengths) != 1 or not lengths[0].isdigit():
            raise AnswerInvalid(f"framing fields {lengths} {codings}; exactly one Content-Length is promised")
        length = int(lengths[0])
        while len(self.pending) < length:
            self._more()
        body, self.pending = self.pending[:length], self.pending[length:]
        return body

    def _more(self) -> None:
        try:
            data = self.socket.recv(65536)
        except (TimeoutError, ConnectionResetError, ssl.SSLError) as error:
            raise NoAnswer(f"{type(error).__name__}, after {self.pending[:80]!r}") from None
        if not data:
            raise NoAnswer(f"closed, after {self.pending[:80]!r}")
        self.pending += data
