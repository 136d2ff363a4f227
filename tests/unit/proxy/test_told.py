"""A log that tells of its records tells of those that were written, and of no others."""

from addons.ports import LogUnavailable
from addons.record import Event, Mode, Record
from proxy.decisionlog.told import Told


class Log:
    """Takes records while it can."""

    writable = True

    def write(self, record: Record) -> None:
        if not self.writable:
            raise LogUnavailable("full")


def test_what_is_told() -> None:
    """A record that could not be written is not told, and the failure goes on to whoever wrote it."""
    log, told = Log(), []
    telling = Told(log, told.append)
    record = Record(id="1", event=Event.ALLOW, mode=Mode.PROXY, verdict="allow")
    telling.write(record)
    log.writable = False
    try:
        telling.write(record)
    except LogUnavailable:
        failed = True
    assert failed
    assert told == [record]
    assert telling.writable is False
