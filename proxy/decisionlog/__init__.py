"""The decision log: one chained JSON line a record, and its reader. The record's JSON Schema is in `schema`."""

from .lines import FIELDS, compose
from .stream import StreamLog
from .verify import Broken, Intact, Place, verify
from .writer import FileLog, open_log

__all__ = [
    "FIELDS",
    "Broken",
    "FileLog",
    "Intact",
    "Place",
    "StreamLog",
    "compose",
    "open_log",
    "verify",
]
