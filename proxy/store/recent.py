"""Answers that were found before, good for as long as nobody has committed anything since.

A request of a box asks the same few questions as the one before it, and each costs a way to the database's thread and
back. SQLite's index of the write-ahead log changes with every commit of every process, and looking at it costs
microseconds: while it is the same, so is every answer. Where there is no such index, every question is asked.
Source: "WAL-mode File Format" (sqlite.org/walformat.html), 2.1.
"""

from collections.abc import Hashable
from typing import Any, Final, final

_MOST: Final = 4096


@final
class Recent:
    """Remembers answers by what was asked. `version`: what changes with each commit, seen before the question."""

    __slots__ = ("_answers", "_version")

    def __init__(self) -> None:
        self._version: bytes | None = None
        self._answers: dict[Hashable, tuple[Any, ...]] = {}

    def get(self, version: bytes | None, asked: Hashable) -> tuple[Any, ...] | None:
        """What was answered at this version, if it is known."""
        return self._answers.get(asked) if version is not None and version == self._version else None

    def keep(self, version: bytes | None, asked: Hashable, answer: tuple[Any, ...]) -> None:
        """Remember an answer, for as long as the version stays."""
        if version is None:
            return
        if version != self._version or len(self._answers) >= _MOST:
            self._answers.clear()
            self._version = version
        self._answers[asked] = answer
