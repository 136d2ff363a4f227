"""What becomes of an answer's parts: one whole `Response` within a limit, or a head and then pieces without one."""

from typing import Final, final

from addons.streams import ResponseHead
from grants.message import Response

from .answer import AnswerReader

_NO_LIMIT: Final = 1 << 63
"""More than any Content-Length that is read (bytes)."""


@final
class ResponseReader(AnswerReader):
    """Reads a whole answer, its body at most `limit` bytes as received."""

    __slots__ = ()

    def feed(self, data: bytes) -> Response | None:
        """Take the next bytes. The complete answer, or None while there is more to come.

        Raises:
            UpstreamFailed: the answer is malformed or over a bound. The reader is then of no more use.
        """
        return self._whole() if self._advance(data) else None

    def eof(self, *, clean: bool) -> Response | None:
        """The peer ended the connection, `clean` as TLS does: the complete answer if that is how it ends, else None."""
        return self._whole() if self._ended(clean=clean) else None

    def _whole(self) -> Response:
        body = self._body
        return Response(
            status=self._status,
            reason=self._phrase,
            fields=self._fields,
            body=body[0] if len(body) == 1 else b"".join(body),
            trailers=tuple(self._lines),
        )


@final
class StreamReader(AnswerReader):
    """Reads an answer piece by piece: a body of any length, trailers dropped.

    Attributes:
        head: the final head, once it came.
    """

    __slots__ = ("head",)

    def __init__(self, method: bytes, upgrade: frozenset[bytes] = frozenset()) -> None:
        super().__init__(method, _NO_LIMIT, upgrade)
        self.head: ResponseHead | None = None

    def feed(self, data: bytes) -> bool:
        """Take the next bytes. Whether the answer is complete; of 101 it never is.

        Raises:
            UpstreamFailed: the answer is malformed or over a bound. What was read before that can still be taken.
        """
        return self._advance(data)

    def eof(self, *, clean: bool) -> bool:
        """The peer ended the connection, `clean` as TLS does: whether the answer is complete by that."""
        return self._ended(clean=clean)

    def take(self) -> bytes:
        """What came of the body since it was taken last."""
        body = self._body
        if not body:
            return b""
        self._body = []
        return body[0] if len(body) == 1 else b"".join(body)

    def _read_head(self, head: bytes) -> None:
        super()._read_head(head)
        if self._status:
            self.head = ResponseHead(
                status=self._status, reason=self._phrase, fields=self._fields, length=self._remaining
            )
