"""Sizes, durations, listen addresses and lists of names as people write and read them."""

import ipaddress
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from grants.place import Place
from grants.problems import quoted
from proxy.settings.model import Listen, TcpListen, UnixListen

_SIZE = re.compile(r"([1-9][0-9]{0,11})(B|KiB|MiB|GiB)?")
_SIZE_UNITS = {None: 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_DURATION = re.compile(r"([1-9][0-9]{0,8})(ms|s|m|h)")
_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+|localhost)):(0|[1-9][0-9]{0,4})")
_PORT = re.compile(r":0*([0-9]+)$")
_SOCKET_PATH_BYTES = 100
MAX_PORT = 65535
_MAX_NAMED = 5


class ValueInvalid(ValueError):
    """The message says what is wrong and what would be right, without repeating the value."""


def read[Value](place: Place | None, parse: Callable[[str], Value]) -> Value | None:
    """What `parse` makes of the text at `place`; None when there is none, or it has problems."""
    if place is None:
        return None
    try:
        return parse(place.text)
    except ValueInvalid as invalid:
        place.problem(str(invalid))
        return None


def parse_size(text: str) -> int:
    """Bytes of `64KiB`, `32MiB` or a plain number.

    Raises:
        ValueInvalid: it is none of those.
    """
    if match := _SIZE.fullmatch(text):
        return int(match[1]) * _SIZE_UNITS[match[2]]
    raise ValueInvalid("is not a size; write `64KiB`, `32MiB` or a plain number of bytes")


def parse_duration(text: str) -> float:
    """Seconds of `500ms`, `10s`, `2m` or `1h`.

    Raises:
        ValueInvalid: it is none of those.
    """
    if match := _DURATION.fullmatch(text):
        return int(match[1]) * _DURATION_UNITS[match[2]]
    raise ValueInvalid("is not a duration; write a number and its unit, such as `10s`, `500ms` or `2m`")


def parse_path(text: str, *, directory: Path) -> Path:
    """A path as the settings have it: a relative one is relative to `directory`, `~` is the user's home.

    Raises:
        ValueInvalid: the system has no such paths.
    """
    if not text or "\0" in text:
        raise ValueInvalid("is empty or holds a NUL; write a path")
    try:
        os.fsencode(text)
        return _without_parents(directory / Path(text).expanduser())
    except UnicodeEncodeError:
        raise ValueInvalid("holds a character that no path can; write it without") from None
    except RuntimeError:
        raise ValueInvalid("begins with the home of somebody who is not known here; write the path in full") from None


def _without_parents(path: Path) -> Path:
    """The same path without `..`: whoever reads it in a message need not work it out. What comes after is kept as it
    is, since a link there may lead elsewhere tomorrow.
    """
    last = max((place for place, part in enumerate(path.parts) if part == ".."), default=-1)
    if last < 0:
        return path
    return Path(*path.parts[: last + 1]).resolve().joinpath(*path.parts[last + 1 :])


def parse_listen(text: str, *, directory: Path) -> Listen:
    """A listener's address, on this machine alone or not. A relative socket path is relative to `directory`.

    Raises:
        ValueInvalid: it cannot be read.
    """
    if text.startswith("unix:"):
        path = parse_path(text.removeprefix("unix:"), directory=directory)
        if path == directory:
            raise ValueInvalid("names no socket; write `unix:` and a path")
        if len(os.fsencode(path)) > _SOCKET_PATH_BYTES:
            raise ValueInvalid(f"is longer than the {_SOCKET_PATH_BYTES} bytes of a socket's path; use a shorter one")
        return UnixListen(path=path)
    match = _ADDRESS.fullmatch(text)
    if port_is_too_large(text):
        raise ValueInvalid(f"has a port above {MAX_PORT}; write one from 1 to {MAX_PORT}, or 0 for any that is free")
    if match is None:
        raise ValueInvalid("is not a listen address; write `127.0.0.1:8080`, `[::1]:8080` or `unix:path`")
    try:
        host = "127.0.0.1" if match[2] == "localhost" else match[1] or match[2]
        address = ipaddress.IPv6Address(host) if match[1] else ipaddress.IPv4Address(host)
    except ipaddress.AddressValueError:
        raise ValueInvalid("holds no IP address; write `127.0.0.1:8080` or `[::1]:8080`") from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise ValueInvalid("is an IPv4 address in IPv6 notation; write it as IPv4, such as `127.0.0.1:8080`")
    return TcpListen(host=str(address), port=int(match[3]))


def port_is_too_large(text: str) -> bool:
    """Whether a text ends in a port that there is not."""
    port = _PORT.search(text)
    return port is not None and (len(port[1]) > len(str(MAX_PORT)) or int(port[1]) > MAX_PORT)


def where(place: Place) -> str:
    """Where something stands, for a message about another place: the line, or the option that it came from."""
    line = place.node.line
    return f"in line {line}" if place.report.file else f"in `--endpoint[{line - 1}]`"


def parse_local_listen(text: str, *, directory: Path) -> Listen:
    """As `parse_listen`, for a listener that stays on this machine whoever is known by name.

    Raises:
        ValueInvalid: it cannot be read, or others can reach it.
    """
    listen = parse_listen(text, directory=directory)
    if not listen.local:
        raise ValueInvalid("is not a loopback address, and this listener is for this machine alone; write `127.0.0.1`")
    return listen


def named(names: Sequence[str]) -> str:
    """The first five names, in backticks, and how many more there are."""
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(quoted(name) for name in names[:_MAX_NAMED]) + more
