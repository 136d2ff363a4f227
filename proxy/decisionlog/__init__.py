"""The decision log: one chained JSON line a record, and its reader. The record's JSON Schema is in `schema`."""

from .lines import FIELDS, compose
from .verify import Broken, Intact, Place, verify
from .writer import FileLog, StreamLog, Sync, open_log

__all__ = [
    "FIELDS",
    "Broken",
    "FileLog",
    "Intact",
    "Place",
    "StreamLog",
    "Sync",
    "compose",
    "open_log",
    "verify",
]
