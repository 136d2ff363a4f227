"""Takes connections from a listening socket, one each time it is ready.

asyncio's own servers take all that wait at once. Where several processes share a socket, the first to wake would have
a whole burst, and the others nothing; one at a time, whoever is free next takes the next.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final, final

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 1.0
# Another process was faster, or the connection was gone before it was taken (accept(2), "Error handling").
_NOTHING: Final = frozenset(
    {
        errno.EAGAIN,
        errno.ECONNABORTED,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EINTR,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENOPROTOOPT,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EPROTO,
    }
)


@final
class Acceptor:
    """Gives each connection of `sock` to `take`, which must not block and closes what it does not want.

    `sock` is listening and non-blocking; it stays the caller's. `wait` says how many seconds to leave what waits to
    other processes; after so long it is taken here.
    """

    def __init__(
        self, sock: socket.socket, take: Callable[[socket.socket], None], wait: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._sock = sock
        self._take = take
        self._wait = wait
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def start(self) -> None:
        """Take connections from now on.

        Raises:
            OSError, ValueError: the socket is closed, or cannot be watched.
        """
        self._loop.add_reader(self._sock, self._ready)

    def stop(self) -> None:
        """Take nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif not self._stopped:
            self._loop.remove_reader(self._sock)
        self._stopped = True

    def _ready(self) -> None:
        if seconds := self._wait():
            self._pause(seconds, self._late)
            return
        self._accept()

    def _late(self) -> None:
        """Nobody else took it: it has waited long enough."""
        self._resume()
        self._accept()

    def _accept(self) -> None:
        try:
            taken, _ = self._sock.accept()
        except OSError as error:
            if error.errno not in _NOTHING:
                # No descriptor or memory is left. The socket stays ready, so to ask at once would be a busy loop.
                log.warning("no connection can be accepted for a second: %s", errno.errorcode.get(error.errno or 0))
                self._pause(PAUSE_SECONDS, self._resume)
            return
        taken.setblocking(False)
        self._take(taken)

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._sock)
        self._timer = self._loop.call_later(seconds, then)

    def _resume(self) -> None:
        self._timer = None
        self._loop.add_reader(self._sock, self._ready)
