"""What supervisor and workers say to each other: a message is one JSON object in one packet, with descriptors.

Messages are bounded. Whoever gets one that is none of those that it knows ends the other side, or itself.
"""

import array
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, final

MOST_BYTES: Final = 64 * 1024
MOST_DESCRIPTORS: Final = 64
_LINES_BYTES: Final = 32 * 1024
_FILES_BYTES: Final = 16 * 1024
_MOST_CHARACTERS: Final = 500


class Do(StrEnum):
    """What a message is for."""

    # a worker's
    READY = "ready"
    FAILED = "failed"
    RELOAD = "reload"
    PREPARED = "prepared"
    REFUSED = "refused"
    ENDED = "ended"
    # the supervisor's
    SOCKETS = "sockets"
    PREPARE = "prepare"
    COMMIT = "commit"
    ABORT = "abort"
    REOPEN = "reopen"
    WATCH = "watch"
    HURRY = "hurry"


class LineBroken(Exception):
    """The other side is gone, takes nothing, or says what is no message."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message.

    Attributes:
        round: the reload that it belongs to; 0 for none.
        lines: problems, one line each.
        files: paths that hold them.
        names: of the sockets that come with it.
        mark: of the settings (see `proxy.settings.fingerprint`).
        began_ns: when the settings were read, in nanoseconds of the wall clock.
    """

    do: Do
    round: int = 0
    lines: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    mark: str = ""
    began_ns: int = 0
    sockets: tuple[socket.socket, ...] = field(default=(), repr=False)


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a line. Neither blocks."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
    return ends


def send(end: socket.socket, message: Message) -> None:
    """Send a message, without waiting. Of very many lines or files those are left out that do not fit.

    Raises:
        LineBroken: it does not go through.
    """
    document = {
        "do": message.do,
        "round": message.round,
        "lines": _bounded([line[:_MOST_CHARACTERS] for line in message.lines], _LINES_BYTES, "and {} more"),
        "files": _bounded(message.files, _FILES_BYTES),
        "names": list(message.names),
        "mark": message.mark,
        "began_ns": message.began_ns,
    }
    data = json.dumps(document, separators=(",", ":")).encode("ascii")
    if len(data) > MOST_BYTES or len(message.sockets) > MOST_DESCRIPTORS:
        raise LineBroken("a message is too large")
    descriptors = array.array("i", [sock.fileno() for sock in message.sockets])
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if descriptors else []
    try:
        end.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)
    except OSError as error:
        raise LineBroken(os.strerror(error.errno or 0).lower()) from None


def receive(end: socket.socket) -> Message | None:
    """The next message; None while there is none.

    Raises:
        LineBroken: the other side has ended, or what came is no message.
    """
    descriptors = array.array("i")
    room = socket.CMSG_LEN(MOST_DESCRIPTORS * descriptors.itemsize)
    try:
        # `socket.recv_fds` passes no flags on (Python 3.13), and a descriptor must not reach a command.
        data, ancillary, flags, _ = end.recvmsg(MOST_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError as error:
        raise LineBroken(os.strerror(error.errno or 0).lower()) from None
    for level, kind, piece in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(piece[: len(piece) - len(piece) % descriptors.itemsize])
    sockets = tuple(socket.socket(fileno=descriptor) for descriptor in descriptors)
    for sock in sockets:
        sock.setblocking(False)
    message = None if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) else _read(data, sockets)
    if message is None:
        for sock in sockets:
            sock.close()
        raise LineBroken("what came is no message" if data else "the other side has ended")
    return message


def _read(data: bytes, sockets: tuple[socket.socket, ...]) -> Message | None:
    try:
        document = json.loads(data)
        message = Message(
            do=Do(document["do"]),
            round=_whole(document["round"]),
            lines=_texts(document["lines"]),
            files=_texts(document["files"]),
            names=_texts(document["names"]),
            mark=str(document["mark"]),
            began_ns=_whole(document["began_ns"]),
            sockets=sockets,
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return message if isinstance(document, Mapping) and len(message.names) == len(sockets) else None


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError
    return tuple(value)


def _bounded(texts: Sequence[str], most: int, rest: str = "") -> list[str]:
    """As many as fit into so many bytes of JSON; `rest` says how many were left out."""
    shown: list[str] = []
    for text in texts:
        most -= len(json.dumps(text)) + 1
        if most < 0:
            return [*shown, rest.format(len(texts) - len(shown))] if rest else shown
        shown.append(text)
    return shown
