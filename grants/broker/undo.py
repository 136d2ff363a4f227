"""Percent-encoding and JSON's escapes, undone in a stream as it comes.

What cannot be the beginning of an escape goes through at once, in calls that run in C; only an end that may be one
waits for the next piece. A step can also tell how much of what went in its last bytes come from, so that whoever reads
what comes out can hold back what has not been judged yet. Sources: RFC 3986, 2.1; RFC 8259, 7.
"""

import re
from binascii import a2b_qp
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from grants.disclosure import unescaped

_OCTET: Final = re.compile(rb"%[0-9A-Fa-f]{2}")
_STRAY: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_OCTET_BEGUN: Final = re.compile(rb"%[0-9A-Fa-f]?\Z")
# what may stand for a character of a value, which is visible ASCII
_ESCAPED: Final = re.compile(rb"\\(?:[\\/]|u00[2-7])")
_QUOTED: Final = re.compile(rb"\\(?:[\\/\"]|u00[2-7])")
_VISIBLE: Final = re.compile(rb"\\u00[2-7]")
_ESCAPE_BEGUN: Final = re.compile(rb"\\(?:u(?:0(?:0[0-9A-Fa-f]?)?)?)?\Z")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Escape:
    """One way to write characters as others.

    Attributes:
        mark: the byte that begins each escape.
        longest: bytes of an escape at most; each stands for one byte.
        complete: an escape that has to be undone.
        begun: the beginning of an escape, at the end of a text.
        undo: a text in which no escape is cut, with all of them undone.
    """

    mark: bytes
    longest: int
    complete: re.Pattern[bytes]
    begun: re.Pattern[bytes]
    undo: Callable[[bytes], bytes]

    def touches(self, text: bytes) -> bool:
        """Whether there is something to undo in a text, or something that may be at its end."""
        return self.mark in text and (self.complete.search(text) is not None or self.waiting(text) > 0)

    def waiting(self, text: bytes) -> int:
        """How many bytes at the end of a text begin an escape that is not complete."""
        last = text.rfind(self.mark, max(0, len(text) - self.longest + 1))
        if last < 0 or self.begun.match(text, last) is None:
            return 0
        # a backslash begins an escape if the ones right before it make pairs
        before = text[:last] if self.mark == b"\\" else b""
        return 0 if (len(before) - len(before.rstrip(self.mark))) % 2 else len(text) - last


def unquoted(text: bytes) -> bytes:
    """`text` with percent-encoding undone; a percent sign that begins none stays.

    Quoted-printable writes a byte as `=41` where a URL writes `%41`, and its decoder runs in C (RFC 2045, 6.7).
    """
    text = _STRAY.sub(b"=25", text.replace(b"=", b"=3d"))
    return a2b_qp(text.replace(b"%", b"="))


def _unescaped(text: bytes) -> bytes:
    # most texts escape only what must be, for which a few replacements do
    if b"\0" in text or _VISIBLE.search(text) is not None:
        return unescaped(text)
    text = text.replace(b"\\\\", b"\0")
    return text.replace(b"\\/", b"/").replace(b'\\"', b'"').replace(b"\0", b"\\")


PERCENT: Final = Escape(mark=b"%", longest=3, complete=_OCTET, begun=_OCTET_BEGUN, undo=unquoted)
JSON: Final = Escape(mark=b"\\", longest=6, complete=_ESCAPED, begun=_ESCAPE_BEGUN, undo=_unescaped)
JSON_QUOTES: Final = Escape(mark=b"\\", longest=6, complete=_QUOTED, begun=_ESCAPE_BEGUN, undo=_unescaped)
"""With the escapes of quotation marks, which are the most frequent and matter only to a value that holds one."""


@final
class Undo:
    """Undoes one kind of escapes in one stream.

    Attributes:
        pending: an end that may begin an escape.
    """

    __slots__ = ("_begins", "_escape", "_grown", "_same", "pending")

    def __init__(self, escape: Escape) -> None:
        self._escape = escape
        # bytes at the end of the output that came through as they are: how many the last piece added, to those or anew
        self._same = self._grown = 0
        self._begins = False
        self.pending = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be said now. It is `piece` itself where nothing is undone and nothing waits."""
        data = self.pending + piece if self.pending else piece
        begun = self._escape.waiting(data)
        self.pending = data[len(data) - begun :]
        if begun:
            data = data[:-begun]
        mark = data.rfind(self._escape.mark)
        self._begins = mark >= 0 and self._escape.complete.search(data) is not None
        # what stands behind the last mark came through as it is
        self._grown = max(0, len(data) - mark - self._escape.longest) if self._begins else len(data)
        self._count()
        return self._escape.undo(data) if self._begins else data

    def passed(self, count: int) -> None:
        """So many bytes went by, in which nothing is to be undone, while nothing waited."""
        self._same += count

    def follow(self, other: "Undo") -> None:
        """Do as `other` did, which undoes the same, had the same waiting and was fed the same piece."""
        self._begins, self._grown, self.pending = other._begins, other._grown, other.pending
        self._count()

    def _count(self) -> None:
        self._same = self._grown + (0 if self._begins else self._same)

    def finish(self) -> bytes:
        """What waited, when the stream has ended: it was no escape."""
        rest, self.pending = self.pending, b""
        return rest

    def before(self, count: int) -> int:
        """Bytes that went in, at most, from the first that made the last `count` which came out."""
        return min(count, self._same) + max(0, count - self._same) * self._escape.longest + len(self.pending)
