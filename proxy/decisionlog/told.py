"""A decision log that tells somebody of each record that it took, for counting."""

from collections.abc import Callable
from typing import final

from addons.ports import DecisionLog
from addons.record import Record


@final
class Told:
    """`log`, and `tell` called with each record once it is written. What could not be written is not told."""

    def __init__(self, log: DecisionLog, tell: Callable[[Record], None]) -> None:
        self._log = log
        self._tell = tell

    def write(self, record: Record) -> None:
        """Append one record.

        Raises:
            LogUnavailable: it is not in the log.
        """
        self._log.write(record)
        self._tell(record)

    @property
    def writable(self) -> bool:
        """False from a failed write until one succeeds."""
        return self._log.writable
