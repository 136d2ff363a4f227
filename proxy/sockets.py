"""Listening sockets, bound before anything else starts: an address in use stops the start and names its setting."""

import contextlib
import errno
import os
import socket
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, final

from proxy.settings.model import Listen, TcpListen, UnixListen

_BACKLOG: Final = 1024


class ListenFailed(Exception):
    """An address cannot be listened on. The text names it, its setting and the remedy."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A bound socket.

    Attributes:
        setting: the setting that asks for it, for messages.
        endpoint: the endpoint of a base URL, or None for the forward proxy and the admin listener.
        asked: the address as the settings have it.
        address: where it really listens (a port 0 is a real one here).
        broker: it is the broker's.
        made: tells a Unix socket from another one that has taken its path since.
    """

    setting: str
    endpoint: str | None
    asked: Listen
    address: Listen
    sock: socket.socket = field(repr=False)
    made: tuple[int, ...] | None = field(default=None, repr=False)
    broker: bool = False

    def remove(self) -> None:
        """Close the socket, and take its name out of the file system if it is still there."""
        self.sock.close()
        if isinstance(self.address, UnixListen):
            with contextlib.suppress(OSError):
                if _made(self.address.path) == self.made:
                    self.address.path.unlink()

    def serves(self, listen: Listen, endpoint: str | None, *, broker: bool = False) -> bool:
        """Whether it can go on for this setting. Where the port is any, each endpoint has its own."""
        if isinstance(listen, TcpListen) and listen.port == 0:
            return self.asked == listen and self.endpoint == endpoint and self.broker == broker
        return self.asked == listen

    def renamed(self, setting: str, endpoint: str | None, *, broker: bool = False) -> "Listener":
        """The same socket, for this setting."""
        return replace(self, setting=setting, endpoint=endpoint, broker=broker)


def bind(listen: Listen, *, setting: str, endpoint: str | None = None, broker: bool = False) -> Listener:
    """Bind and listen.

    Raises:
        ListenFailed: the address is in use or cannot be had.
    """
    try:
        sock = _unix(listen.path) if isinstance(listen, UnixListen) else _tcp(listen)
        sock.listen(_BACKLOG)
    except OSError as error:
        raise ListenFailed(_explain(listen, setting, error)) from None
    sock.setblocking(False)
    address: Listen = listen
    made = None
    if isinstance(listen, TcpListen):
        address = TcpListen(host=listen.host, port=sock.getsockname()[1])
    else:
        made = _made(listen.path)
    return Listener(
        setting=setting, endpoint=endpoint, asked=listen, address=address, sock=sock, made=made, broker=broker
    )


def _made(path: Path) -> tuple[int, ...]:
    """An inode's number alone may be used again."""
    found = path.lstat()
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _tcp(listen: TcpListen) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in listen.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((listen.host, listen.port))
    except OSError:
        sock.close()
        raise
    return sock


def _unix(path: Path) -> socket.socket:
    """A socket for the owner only. One that a dead process left is replaced, a live one is not."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                try:
                    probe.connect(str(path))
                except ConnectionRefusedError:
                    path.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        sock.bind(str(path))
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(mask)
    return sock


def _explain(listen: Listen, setting: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"`{listen}` (setting `{setting}`) is in use; stop what listens there or choose another port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"`{listen}` (setting `{setting}`) may not be listened on by this user; choose a port above 1023"
    return f"`{listen}` (setting `{setting}`) cannot be listened on: {os.strerror(error.errno or 0).lower()}"
