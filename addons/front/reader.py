"""Reads HTTP/1.1 requests off a byte stream: bytes in, events out, no I/O.

A head is held until it is whole, and bounded while it is not. It must then have exactly one reading: first a strict
pattern over the raw bytes (RFC 9112, 2 to 5, without any of the leniencies that they allow), then llhttp, which also
judges the framing and takes chunked bodies apart. Where either objects, the head is unreadable and the stream ends.

A client repeats its fields byte for byte from request to request. The block of fields behind the last request line is
remembered with its reading, and where the same bytes come again that reading is taken over; the request line is read
anew by both. Only a head behind which llhttp begins anew is remembered: one without a body and without an upgrade.
"""

import re
from typing import Final, final

import httptools

from grants.decision import Reason
from grants.memo import Memo
from grants.message import RequestHead

from .events import BodyPiece, BodyRead, HeadRead, ReadEvent, Unreadable, too_large, unreadable

MAX_FIELDS: Final = 256
# A longer block of fields is read anew each time, so that connections which wait hold little.
_MOST_REMEMBERED: Final = 8 * 1024
# Chunk framing may cost this much beside the bytes that it carries, so that one-byte chunks cannot go on for ever.
_CHUNK_OVERHEAD: Final = 64 * 1024

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_LINE: Final = rb"(?P<method>[A-Z]+) (?P<target>[\x21-\x7e]+) HTTP/1\.(?P<minor>[01])\r\n"
_REQUEST_LINE: Final = re.compile(_LINE)
_HEAD: Final = re.compile(_LINE + rb"(?:" + _TOKEN + rb":[\t\x20-\x7e]*\r\n)*\r\n")
_CHUNKS_FOLLOW: Final = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
_BYTES_FOLLOW: Final = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n"
_LENGTH: Final = re.compile(rb"0|[1-9][0-9]{0,17}")


@final
class RequestReader:
    """One client stream. `feed` what came, then take `next_event` until it is None.

    After a `HeadRead` that announces a body, `read_body` must be called with the most that may be read (bytes) before
    the body is; after an `Unreadable` nothing more is read.
    """

    def __init__(self, *, max_head: int) -> None:
        self._max_head = max_head
        self._buffer = bytearray()
        self._scanned = 0
        self._parser = httptools.HttpRequestParser(self)
        self._fields: list[tuple[bytes, bytes]] = []
        self._target = b""
        self._ended = False
        self._in_body = False
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._raw_bytes = 0
        self._announced: int | None = 0
        self._limit: int | None = None
        self._streaming = False
        self._trailers = False
        self._complete = False
        # The last head, where its reading may be taken over, and the bytes behind its request line.
        self._last: HeadRead | None = None
        self._block = b""

    @property
    def started(self) -> bool:
        """Part of a request has come that no event told of."""
        return self._in_body or bool(self._buffer)

    @property
    def buffered(self) -> int:
        """Bytes that wait to be read."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Add what came from the client."""
        self._buffer += data

    def take_rest(self) -> bytes:
        """What came behind the last event, for the protocol that follows (a tunnel)."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def close(self) -> None:
        """Read nothing more. The parser refers back here, and would keep both until a collection."""
        self._ended = True
        del self._parser

    def read_body(self, limit: int) -> None:
        """Allow the announced body, up to `limit` bytes."""
        self._limit = limit

    def stream_body(self) -> None:
        """Allow the announced body, whatever its length, piece by piece."""
        self._streaming = True

    def next_event(self) -> ReadEvent | None:
        """The next event, or None until more bytes come."""
        if self._ended:
            return None
        event = self._read_body() if self._in_body else self._read_head()
        if isinstance(event, Unreadable):
            self._ended = True
            self._buffer.clear()
        return event

    # -- head ---------------------------------------------------------------------------------------------------------

    def _read_head(self) -> HeadRead | Unreadable | None:
        buffer = self._buffer
        end = buffer.find(b"\r\n\r\n", max(0, self._scanned - 3))
        if end < 0:
            self._scanned = len(buffer)
            # What is no head at all is called so, in however large pieces it comes.
            if (early := _hopeless(buffer)) is not None:
                return early
            if len(buffer) > self._max_head:
                return unreadable(Reason.HEAD_TOO_LARGE, f"a request head has at most {self._max_head} bytes", 431)
            return None
        raw = bytes(buffer[: end + 4])
        del buffer[: end + 4]
        self._scanned = 0
        if len(raw) > self._max_head:
            return unreadable(Reason.HEAD_TOO_LARGE, f"a request head has at most {self._max_head} bytes", 431)
        return self._again(raw) or self._anew(raw)

    def _again(self, raw: bytes) -> HeadRead | Unreadable | None:
        """Read a head whose fields are the last one's byte for byte; None for every other.

        The strict pattern is a request line and then fields, and no byte can be of both: it matches what is a request
        line and then fields that matched. llhttp reads these fields as it did for the same method, and behind a head
        without a body it begins a message anew, whether it has seen fields or none; so it is shown none.
        """
        last = self._last
        if last is None or not raw.endswith(self._block):
            return None
        match = _REQUEST_LINE.fullmatch(raw, 0, len(raw) - len(self._block))
        if match is None or match["method"] != last.head.method or match["minor"] != b"1":
            return None
        self._fields, self._complete, self._trailers = [], False, False
        try:
            self._parser.feed_data(match[0] + b"\r\n")
        except httptools.HttpParserError:
            return _not_strict()
        head = RequestHead(
            method=last.head.method, target=match["target"], fields=last.head.fields, memo=last.head.memo
        )
        return HeadRead(head=head, body=last.body, keep_alive=last.keep_alive, continues=last.continues)

    def _anew(self, raw: bytes) -> HeadRead | Unreadable:
        self._last, self._block = None, b""
        match = _HEAD.fullmatch(raw)
        if match is None or (match["minor"] == b"0" and match["method"] != b"CONNECT"):
            # HTTP/1.0 has other rules for bodies and connections. CONNECT has neither, and old clients send it so.
            return _not_a_head(raw)
        self._fields, self._complete, self._trailers = [], False, False
        upgraded = False
        try:
            self._parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            # CONNECT, or a request with Upgrade: llhttp stops behind the head. What follows is not for it.
            self._parser = httptools.HttpRequestParser(self)
            upgraded = True
        except httptools.HttpParserError:
            return _not_strict()
        fields = tuple(self._fields)
        event = self._framed(
            RequestHead(method=match["method"], target=match["target"], fields=fields, memo=Memo(fields=fields))
        )
        if isinstance(event, HeadRead) and event.body == 0 and not upgraded:
            start = match.end("minor") + 2
            if len(raw) - start <= _MOST_REMEMBERED:
                self._last, self._block = event, raw[start:]
        return event

    def _framed(self, head: RequestHead) -> HeadRead | Unreadable:
        """How much body the head announces (RFC 9112, 6.3), refusing every second way to say it."""
        if len(head.fields) > MAX_FIELDS:
            return unreadable(Reason.HEAD_TOO_LARGE, f"a request head has at most {MAX_FIELDS} fields", 431)
        length: bytes | None = None
        coding: bytes | None = None
        keep_alive, continues = True, False
        for name, value in head.fields:
            match name.lower():
                case b"content-length" if length is None and coding is None and _LENGTH.fullmatch(value):
                    length = value
                case b"transfer-encoding" if coding is None and length is None and value.lower() == b"chunked":
                    coding = value
                case b"content-length" | b"transfer-encoding":
                    return unreadable(Reason.FRAMING, "the request's framing can be read in more than one way")
                case b"trailer":
                    return unreadable(Reason.FRAMING, "request trailers are not read")
                case b"connection":
                    keep_alive = keep_alive and b"close" not in [word.strip() for word in value.lower().split(b",")]
                case b"expect":
                    continues = value.lower() == b"100-continue"
        if head.method == b"CONNECT" and (length is not None or coding is not None):
            return unreadable(Reason.FRAMING, "CONNECT has no body")
        announced = None if coding is not None else int(length or b"0")
        if announced != 0:
            self._begin_body(announced)
        return HeadRead(head=head, body=announced, keep_alive=keep_alive, continues=continues)

    # -- body ---------------------------------------------------------------------------------------------------------

    def _begin_body(self, announced: int | None) -> None:
        """Tell llhttp by a head of our own what follows, so that a body is read as its framing was judged.

        By the client's head it would not: of a request that offers an upgrade it reads no body.
        """
        self._parser, self._complete = httptools.HttpRequestParser(self), False
        self._parser.feed_data(_CHUNKS_FOLLOW if announced is None else _BYTES_FOLLOW % announced)
        self._fields = []
        self._in_body, self._announced, self._limit, self._streaming = True, announced, None, False
        self._body, self._body_bytes, self._raw_bytes = [], 0, 0

    def _read_body(self) -> BodyRead | BodyPiece | Unreadable | None:
        if (self._limit is None and not self._streaming) or not self._buffer:
            return None
        if self._announced is not None:
            data = bytes(self._buffer[: self._announced - self._body_bytes])
            del self._buffer[: len(data)]
        else:
            data = bytes(self._buffer)
            self._buffer.clear()
        self._raw_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            # An error behind the end of a chunked body is the next request's, and closes the stream after this one.
            if not self._complete:
                return unreadable(Reason.FRAMING, "the chunked body is not strict HTTP/1.1")
            self._ended = True
        if self._trailers:
            return unreadable(Reason.FRAMING, "request trailers are not read")
        if self._limit is not None and self._body_bytes > self._limit:
            return Unreadable(denial=too_large(self._limit))
        if self._complete or (self._streaming and self._body):
            self._in_body = not self._complete
            body = b"".join(self._body)
            self._body = []
            return BodyPiece(data=body, last=self._complete) if self._streaming else BodyRead(body=body)
        if self._raw_bytes > 8 * self._body_bytes + _CHUNK_OVERHEAD:
            return unreadable(Reason.FRAMING, "the chunked body's framing outweighs what it carries")
        return None

    @property
    def ended(self) -> bool:
        """No further request can be read from this stream."""
        return self._ended

    # -- llhttp's callbacks -------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A message begins. Behind a chunked body in one piece with it, that is where we stop reading."""
        if self._complete and self._in_body:
            self._ended = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field line; in a body it is a trailer."""
        if self._ended:
            return
        if self._in_body:
            self._trailers = True
        else:
            self._fields.append((name, value.strip(b" \t")))

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        if self._ended:
            return
        self._body_bytes += len(data)
        self._body.append(data)

    def on_message_complete(self) -> None:
        """The message is complete."""
        self._complete = True


def _hopeless(buffer: bytearray) -> Unreadable | None:
    """Refuse at once what can no longer become a head, so that nobody waits for its end."""
    newline = buffer.find(b"\n")
    whole_line = newline >= 0 and _REQUEST_LINE.fullmatch(buffer, 0, newline + 1) is None
    return _not_a_head(buffer) if whole_line or not _begins(buffer) else None


def _begins(head: bytes | bytearray) -> bool:
    """The first byte may begin a method."""
    return not head or 0x41 <= head[0] <= 0x5A


def _not_strict() -> Unreadable:
    return unreadable(Reason.HEAD_UNREADABLE, "the request head or its framing is not strict HTTP/1.1")


def _not_a_head(head: bytes | bytearray) -> Unreadable:
    if not _begins(head):
        return unreadable(Reason.NOT_HTTP, "the connection's first bytes are no HTTP/1.1 request")
    return unreadable(Reason.HEAD_UNREADABLE, "the request head is not strict HTTP/1.1")
