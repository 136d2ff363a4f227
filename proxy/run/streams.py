"""The standard streams of an isolated program, where they lead to something that it could open anew.

Through `/proc/self/fd` a file is opened again with other rights than its descriptor has: an input is written, a log
that is only added to is read or emptied. So the program has pipes in place of files, and threads here carry what
passes. What it leaves of an input is there for whoever reads on, as without us.

Of pipes only outputs are carried: what others put into them is not for the program. An input that is a pipe is left to
it, as what was taken out too early could not be put back. Terminals and other devices are what they are.
"""

import contextlib
import errno
import fcntl
import os
import select
import signal
import stat
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable
from typing import Final, final

from proxy.run.refused import IsolationRefused

_CHUNK: Final = 64 * 1024
_NAMES: Final = ("standard input", "standard output", "standard error")


@final
class Streams:
    """What the program gets as its standard streams.

    Attributes:
        stdin, stdout, stderr: descriptors, ours where they are no files.

    Raises:
        IsolationRefused: one is a directory.
    """

    def __init__(self) -> None:
        for number in range(3):
            if stat.S_ISDIR(os.fstat(number).st_mode):
                raise IsolationRefused(
                    f"{_NAMES[number]} is a directory, through which the program would come to all that is in and "
                    "around it; give it a file or /dev/null"
                )
        self._theirs: list[int] = []
        self._carried: list[Callable[[], None]] = []
        self._open = 0
        self._stop, self._stopped = os.pipe()
        self._unread = -1
        self.stdin = self._input() if _is_file(0) else 0
        self.stdout = self._output(1) if _is_file(1) or _is_pipe(1) else 1
        if self.stdout != 1 and _same(1, 2):
            self.stderr = self.stdout  # in one pipe, so that lines keep their order
        else:
            self.stderr = self._output(2) if _is_file(2) or _is_pipe(2) else 2
        self._lock = threading.Lock()

    def started(self) -> None:
        """The program has its ends: begin."""
        self.close()
        self._open = len(self._carried)
        for carry in self._carried:
            threading.Thread(target=self._carry, args=(carry,), daemon=True).start()

    def close(self) -> None:
        """The program's ends are no longer ours."""
        for end in self._theirs:
            os.close(end)
        self._theirs.clear()

    def finished(self) -> bool:
        """Said when the program has ended: whether all that it said is out. Else SIGCHLD comes when it is."""
        if self._stopped >= 0:
            os.close(self._stopped)
            self._stopped = -1
        with self._lock:
            done = self._open == 0
        if done and self._unread >= 0:
            self._put_back()
        return done

    def finish(self, seconds: float) -> None:
        """As `finished`, but what takes longer is lost."""
        end = time.monotonic() + seconds
        while not self.finished() and time.monotonic() < end:
            time.sleep(0.02)

    def _carry(self, carry: Callable[[], None]) -> None:
        carry()
        with self._lock:
            self._open -= 1
        os.kill(os.getpid(), signal.SIGCHLD)

    def _put_back(self) -> None:
        """What the program did not read is there for the next one."""
        (left,) = struct.unpack("i", fcntl.ioctl(self._unread, termios.FIONREAD, bytes(4)))
        with contextlib.suppress(OSError):
            os.lseek(0, -left, os.SEEK_CUR)
        os.close(self._unread)
        self._unread = -1

    def _input(self) -> int:
        reader, writer = os.pipe()
        self._unread = os.dup(reader)
        os.set_blocking(writer, False)
        self._theirs.append(reader)
        self._carried.append(lambda: _feed(writer, self._stop))
        return reader

    def _output(self, number: int) -> int:
        reader, writer = os.pipe()
        self._theirs.append(writer)
        self._carried.append(lambda: _drain(reader, number))
        return writer


def _feed(writer: int, stop: int) -> None:
    """Copy standard input into a pipe that does not block, to its end, or until nobody holds the other end of `stop`:
    what did not fit is put back."""
    waiting = select.poll()
    waiting.register(stop, 0)
    waiting.register(writer, select.POLLOUT)
    try:
        while data := os.read(0, _CHUNK):
            while data:
                if any(number == stop for number, _ in waiting.poll()):
                    os.lseek(0, -len(data), os.SEEK_CUR)
                    return
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(writer, data) :]
    except OSError as error:
        _say(0, error)
    finally:
        os.close(writer)


def _drain(reader: int, number: int) -> None:
    """Copy what the program says, to its end. Where nobody takes it any more, the program is told so by its pipe."""
    try:
        while data := os.read(reader, _CHUNK):
            while data:
                try:
                    data = data[os.write(number, data) :]
                except BlockingIOError:  # whoever shares it made it so
                    select.select([], [number], [])
    except OSError as error:
        if error.errno != errno.EPIPE:
            _say(number, error)
    finally:
        os.close(reader)


def _say(number: int, error: OSError) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"warning: {_NAMES[number]}: {os.strerror(error.errno or 0).lower()}\n")
        sys.stderr.flush()


def _is_file(number: int) -> bool:
    mode = os.fstat(number).st_mode
    return stat.S_ISREG(mode) or stat.S_ISBLK(mode)


def _is_pipe(number: int) -> bool:
    return stat.S_ISFIFO(os.fstat(number).st_mode)


def _same(one: int, other: int) -> bool:
    """Whether what is written to the one may as well be written to the other."""
    flags = {fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_APPEND | os.O_ACCMODE) for number in (one, other)}
    return os.path.samestat(os.fstat(one), os.fstat(other)) and len(flags) == 1
