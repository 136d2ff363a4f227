"""Reads one answer from bytes (RFC 9112). No I/O: bytes in, the parts of an answer or a failure out.

The head is cut off first, at its empty line, so that its size is bounded while it is read and its end is known; then
llhttp, strict, reads it in one piece. Bodies with a length and bodies that end with the connection are counted here;
chunked ones are llhttp's, which is told anew that chunks follow. So every byte after the answer is seen, and a
connection that holds one is never used again. llhttp does not know the request's method: what HEAD means is decided
here. `reader` says what becomes of the parts.
"""

import re
from typing import Final

import httptools

from grants.message import Fields

from .failures import body_too_large, head_too_large, incomplete, malformed, unasked_upgrade

MAX_HEAD_BYTES: Final = 64 * 1024
"""Bound of a header section, and of a trailer section, with its start line and line ends (bytes)."""
MAX_FIELDS: Final = 256
"""Bound of the number of fields, trailers included."""
MAX_INTERIM: Final = 16
"""Bound of the number of 1xx answers before the final one."""
CODED_SLACK: Final = 1024
"""A body with a content coding may be this much longer than its limit (bytes): what does not compress grows a
little. The limit itself holds for the decoded body, and is checked by whoever decodes it."""

_OVERHEAD_PER_BYTE: Final = 16
"""Chunk framing allowed for a body byte (bytes): one-byte chunks take five."""
_REFUSED = (httptools.HttpParserError, httptools.HttpParserUpgrade)
_END = b"\r\n\r\n"
_REASON = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")
# From the head itself llhttp would not know where a tab follows the coding: it would take the chunks for the body.
_CHUNKS_FOLLOW = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_FRAMING = frozenset({b"connection", b"content-length", b"transfer-encoding", b"content-encoding"})


class AnswerReader:
    """One answer to a request with `method`, its body at most `limit` bytes as received.

    `upgrade` are the protocols, lower case, that the request asked to change to: 101 is then a final answer, and every
    byte after its head is body.

    Attributes:
        reusable: after a complete answer, whether the connection may carry another request: the peer keeps it open
            and not one byte came after the answer.
    """

    __slots__ = (
        "_body",
        "_complete",
        "_fields",
        "_head",
        "_interim",
        "_limit",
        "_lines",
        "_method",
        "_parser",
        "_persistent",
        "_phrase",
        "_quiet",
        "_remaining",
        "_size",
        "_status",
        "_tail",
        "_total",
        "_upgrade",
        "reusable",
    )

    def __init__(self, method: bytes, limit: int, upgrade: frozenset[bytes] = frozenset()) -> None:
        self._method = method
        self._limit = limit
        self._upgrade = upgrade
        self._head: bytearray | None = None
        self._interim = 0
        # What llhttp reads now: header fields, and after the head the trailers.
        self._lines: list[tuple[bytes, bytes]] = []
        self._fields: Fields = ()
        self._body: list[bytes] = []
        self._size = 0
        self._status = 0
        self._phrase = b""
        # Body bytes still to come; None while the end is not known by a length.
        self._remaining: int | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._complete = False
        self._persistent = False
        self._tail = b""
        self._quiet = 0
        self._total = 0
        self.reusable = False

    def _advance(self, data: bytes) -> bool:
        """Take the next bytes, pieces of the body into `_body`. Whether the answer is complete.

        Raises:
            UpstreamFailed: the answer is malformed or over a bound. The reader is then of no more use.
        """
        if self._status == 0:
            rest = self._feed_head(data)
            if rest is None:
                return False
        else:
            rest = data
        if self._parser is not None:
            return self._feed_chunked(self._parser, rest)
        remaining = self._remaining
        if remaining is None:
            self._take(rest)
            return False
        if len(rest) < remaining:
            self._remaining = remaining - len(rest)
            self._take(rest)
            return False
        self._take(rest[:remaining])
        self._finish(leftover=len(rest) > remaining)
        return True

    def _ended(self, *, clean: bool) -> bool:
        """The peer ended the connection: whether the answer is complete by that.

        `clean` says that TLS said so (close_notify), or that there is no TLS: without it anybody on the way could have
        cut the body short (RFC 9112, 9.8).
        """
        if clean and self._status and self._parser is None and self._remaining is None:
            self._finish(leftover=True)
            return True
        return False

    def close(self) -> None:
        """Let go of what was read. The parser refers back here, and would keep it until a collection."""
        self._parser = None
        self._body.clear()

    # --- head

    def _feed_head(self, data: bytes) -> bytes | None:
        """Read heads up to the final one. The bytes after it, or None while it is not complete."""
        while True:
            head, rest = self._cut_head(data)
            if head is None:
                return None
            self._read_head(head)
            if self._status:
                return rest
            data = rest

    def _cut_head(self, data: bytes) -> tuple[bytes | None, bytes]:
        held = self._head
        if held is None:
            end = data.find(_END)
            if end < 0:
                self._head = held = bytearray(data)
                self._check_partial(held, 0)
                return None, b""
            whole = data
        else:
            start = len(held)
            held += data
            end = held.find(_END, max(0, start - 3))
            if end < 0:
                self._check_partial(held, start)
                return None, b""
            whole = bytes(held)
            self._head = None
        end += len(_END)
        if end > MAX_HEAD_BYTES:
            raise head_too_large()
        return whole[:end], whole[end:]

    @staticmethod
    def _check_partial(held: bytearray, start: int) -> None:
        """Refuse at once what can never become a head, so that it does not run into the deadline."""
        if len(held) > MAX_HEAD_BYTES:
            raise head_too_large()
        # Line feeds among the new bytes, and those of them that follow a carriage return.
        feeds, ends = held.count(b"\n", start), held.count(b"\r\n", max(0, start - 1))
        if feeds != ends or not held.startswith(b"HTTP/1."[: len(held)]):
            raise malformed()

    def _read_head(self, head: bytes) -> None:
        """Read a whole head; `_status` stays 0 for a 1xx answer, which is dropped."""
        current = head.startswith(b"HTTP/1.1 ")
        if not current and not head.startswith(b"HTTP/1.0 "):
            raise malformed()
        parser = httptools.HttpResponseParser(self)
        broken = False
        try:
            parser.feed_data(head)
        except httptools.HttpParserUpgrade:
            broken = parser.get_status_code() != 101
        except httptools.HttpParserError:
            broken = True
        status = parser.get_status_code()
        if status == 101 and not self._upgrade:
            raise unasked_upgrade()
        phrase = head[13 : head.find(b"\r\n")]
        if broken or not 100 <= status <= 599 or _REASON.fullmatch(phrase) is None:
            raise malformed()
        if len(self._lines) > MAX_FIELDS:
            raise head_too_large()
        self._fields = tuple(self._lines)
        self._lines.clear()
        if status < 200 and status != 101:
            self._interim += 1
            if self._interim > MAX_INTERIM:
                raise malformed()
            self._complete = False
            return
        self._status = status
        self._phrase = phrase
        self._frame(current=current)

    def _frame(self, *, current: bool) -> None:
        """Find where the body ends (RFC 9112, 6.3). llhttp has refused two lengths, and a length with a coding."""
        framing: dict[bytes, bytes] = {}
        for name, value in self._fields:
            key = name.lower()
            if key in _FRAMING:
                value = value.lower()
                framing[key] = framing[key] + b"," + value if key in framing else value
        length, coding = framing.get(b"content-length"), framing.get(b"transfer-encoding")
        if length is not None and _LENGTH.fullmatch(length) is None:
            raise malformed()
        # Another coding would still be on the body; HTTP/1.0 has none (RFC 9112, 6.1).
        if coding is not None and not (current and coding == b"chunked"):
            raise malformed()
        if self._status == 101:
            self._check_upgrade(framing, current=current)
            return
        self._persistent = current and b"close" not in framing.get(b"connection", b"")
        if framing.get(b"content-encoding", b"identity") != b"identity":
            self._limit += CODED_SLACK
        if self._method == b"HEAD" or self._status in (204, 304):
            self._remaining = 0
            if coding is not None or length not in (None, b"0"):
                # It announces a body that does not follow here (RFC 9110, 9.3.2, 15.3.5 and 15.4.5). A server that
                # sends it all the same would answer the next request with it, so there is none on this connection.
                self._persistent = False
        elif coding is not None:
            self._parser = httptools.HttpResponseParser(self)
            self._parser.feed_data(_CHUNKS_FOLLOW)
            self._lines.clear()
        elif length is not None:
            self._remaining = int(length)
            if self._remaining > self._limit:
                raise body_too_large()

    def _check_upgrade(self, framing: dict[bytes, bytes], *, current: bool) -> None:
        """101 names the one protocol that was asked for, and has no body (RFC 9110, 7.8 and 8.6; RFC 9112, 6.1)."""
        protocols = [value.lower() for name, value in self._fields if name.lower() == b"upgrade"]
        options = framing.get(b"connection", b"").split(b",")
        if not (len(protocols) == 1 and protocols[0] in self._upgrade and b"upgrade" in map(bytes.strip, options)):
            raise unasked_upgrade()
        if not current or b"content-length" in framing or b"transfer-encoding" in framing:
            raise malformed()

    # --- body

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit:
            raise body_too_large()
        if data:
            self._body.append(data)

    def _feed_chunked(self, parser: httptools.HttpResponseParser, data: bytes) -> bool:
        size = self._size
        broken = False
        try:
            parser.feed_data(data)
        except _REFUSED:
            broken = True
        if self._size > self._limit:
            raise body_too_large()
        if self._complete:
            # llhttp passes over line ends between messages without a word. An answer ends in exactly one empty line.
            tail = (self._tail + data)[-6:]
            self._finish(leftover=broken or not tail.endswith(_END) or tail.endswith(b"\n" + _END))
            return True
        self._tail = (self._tail + data[-6:])[-6:]
        self._total += len(data)
        self._quiet = 0 if self._size > size else self._quiet + len(data)
        if (
            self._quiet > MAX_HEAD_BYTES
            or self._total > MAX_HEAD_BYTES + self._size * _OVERHEAD_PER_BYTE
            or len(self._fields) + len(self._lines) > MAX_FIELDS
        ):
            raise head_too_large()
        if broken:
            raise malformed()
        return False

    def _finish(self, *, leftover: bool) -> None:
        trailers = self._lines
        if trailers and (
            len(self._fields) + len(trailers) > MAX_FIELDS
            or sum(len(name) + len(value) + 4 for name, value in trailers) > MAX_HEAD_BYTES
        ):
            raise head_too_large()
        self._parser = None
        self.reusable = self._persistent and not leftover

    # --- what llhttp calls

    def on_message_begin(self) -> None:
        """A second message in the same bytes is left over: stop at it."""
        if self._complete:
            raise incomplete()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or after the head a trailer. llhttp leaves white space at the end of a value."""
        self._lines.append((name, value.rstrip(b" \t")))

    def on_body(self, data: bytes) -> None:
        """A piece of a chunk."""
        self._size += len(data)
        if self._size > self._limit:
            raise body_too_large()
        self._body.append(data)

    def on_message_complete(self) -> None:
        """The end of a chunked body, or of an answer without a body."""
        self._complete = True
