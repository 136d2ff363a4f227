"""The first moments of `run`: closed to others, with three standard streams, and ended in order by a signal."""

import os
import signal
import sys
from types import FrameType
from typing import Final, NoReturn

from proxy.undumpable import close_to_others

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_LAST_STANDARD: Final = 2


def begin() -> None:
    """Before anything else is read or started. What was before, Python's own start, is open to the same user.

    Raises:
        StartRefused: the kernel does not let us close this process.
    """
    close_to_others()
    _fill_streams()
    for number in _ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:  # where it is ignored, as by nohup, it stays so
            signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> NoReturn:
    """Leave nothing behind. Once the program is there, it gets the signals instead (`Signals`)."""
    sys.exit(128 + number)


def _fill_streams() -> None:
    """The places of closed streams: the next file opened would have one, and our messages, or the program's, in it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - to the end
