"""A chain of lines: each holds the digest of the one before, so that a line that is removed or changed shows."""

import json
import secrets
import time
from typing import final

from addons.record import Record

from .lines import FIRST_PREV, Stamp, compose, digest


@final
class Chain:
    """The lines of one start of one process.

    `next` composes a line and `written` moves on; a line that could not be written leaves the chain where it was.
    """

    __slots__ = ("_stamp", "id", "prev", "seq")

    def __init__(self) -> None:
        self._stamp = Stamp()
        self.begin(FIRST_PREV)

    def begin(self, prev: str) -> None:
        """Begin anew, after the line with the digest `prev`."""
        self.id = secrets.token_hex(8)
        self.seq = 0
        self.prev = prev

    def next(self, record: Record) -> bytes:
        """The record's line in this chain, without its line end."""
        return compose(record, ts=self._stamp.at(time.time_ns()), seq=self.seq + 1, chain=self.id, prev=self.prev)

    def written(self, line: bytes) -> None:
        """The line is in the log."""
        self.seq += 1
        self.prev = digest(line)


def as_record(line: bytes) -> dict[str, object] | None:
    """The line's record, or None for a line that is none: torn by a crash, or foreign.

    Only what the chain rests on is looked at: `chain` and `prev` are strings, `seq` a positive integer.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    seq = record.get("seq")
    if not isinstance(record.get("chain"), str) or not isinstance(record.get("prev"), str):
        return None
    return record if type(seq) is int and seq > 0 else None
