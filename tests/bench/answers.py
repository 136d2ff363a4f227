"""Counting answers without a parser: a search for the length, then subtraction.

One answer is on its way at a time. The spelling of `Content-Length` is learnt from the first.
"""

_HEAD = b"HTTP/1.1 200 "


class Wrong(Exception):
    """An answer is not what was asked for. The message says what came."""


class Answers:
    """Takes the bytes of a connection; each answer has to be a 200 of `length` bytes."""

    __slots__ = ("_held", "_length", "_missing", "_name")

    def __init__(self, length: int) -> None:
        self._length = length
        self._missing = 0
        self._held = b""
        self._name = b"\r\nContent-Length: "

    def feed(self, data: bytes) -> bool:
        """Whether the answer is complete with `data`.

        Raises:
            Wrong: another status or length, no length, or a byte too many.
        """
        if self._missing:
            self._missing -= len(data)
        elif not self._begin(data):
            return False
        if self._missing > 0:
            return False
        if self._missing:
            raise Wrong(f"{-self._missing} bytes more than its length")
        return True

    def _begin(self, data: bytes) -> bool:
        """Whether the head is complete; then `_missing` is what the body lacks."""
        if self._held:
            data = self._held + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > 65536:
                raise Wrong(f"no end of the head: {data[:200]!r}")
            self._held = data
            return False
        self._held = b""
        if not data.startswith(_HEAD):
            raise Wrong(repr(data[:600]))
        at = data.find(self._name, 0, end)
        if at < 0:
            at = data[:end].lower().find(self._name.lower())
            if at < 0:
                raise Wrong(f"no content-length: {data[:end]!r}")
            self._name = data[at : at + len(self._name)]
        at += len(self._name)
        stop = data.find(b"\r\n", at)
        length = int(data[at:stop])
        if length != self._length:
            raise Wrong(f"{length} bytes in place of {self._length}: {data[:600]!r}")
        self._missing = length - (len(data) - end - 4)
        return True

    @property
    def idle(self) -> bool:
        """Nothing of an answer has come."""
        return not self._held and not self._missing
