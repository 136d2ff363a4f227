"""From settings to what `run` serves, on listeners of its own, and what the program may not see.

Pure. The addresses of the settings are for `serve`, which may run beside it; here each is a free port of loopback, or a
socket where the program is isolated.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Final, final

from proxy.settings.model import Listen, Settings, TcpListen, UnixListen

LOG: Final = "decisions.jsonl"
_ANY_PORT: Final = TcpListen(host="127.0.0.1", port=0)
_VARIABLE: Final = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")


class NothingToServe(Exception):
    """The settings have nothing that `run` could serve. The text says what would be right."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Where the credentials come from, and what decides about them.

    Attributes:
        variables: names of environment variables.
        files: files that hold secrets, absolute.
        commands: where `exec:` commands run, absolute; None where there are none.
        rules: the settings file, the grants and CA bundles, absolute: what the program may read, and must not write.
    """

    variables: frozenset[str]
    files: tuple[Path, ...]
    commands: Path | None
    rules: tuple[Path, ...]


def served(settings: Settings, *, sockets: Path | None = None) -> Settings:
    """The settings with listeners that are free: of loopback, or in the directory `sockets`.

    The admin listener and the broker are for others than the program, so they are left out. Records go into a file,
    as standard output is the program's.

    Raises:
        NothingToServe: there is no endpoint.
    """
    if not settings.endpoints:
        raise NothingToServe("the settings have no endpoint; add one, or use --upstream")
    endpoints = tuple(
        replace(endpoint, listen=_place(sockets, f"{number}.sock")) if endpoint.listen is not None else endpoint
        for number, endpoint in enumerate(settings.endpoints)
    )
    audit = settings.audit if settings.audit.path is not None else replace(settings.audit, path=settings.state / LOG)
    proxy = None if settings.proxy is None else _place(sockets, "proxy.sock")
    return replace(settings, proxy=proxy, admin=None, broker=None, endpoints=endpoints, audit=audit)


def _place(sockets: Path | None, name: str) -> Listen:
    return _ANY_PORT if sockets is None else UnixListen(path=sockets / name)


def hidden(settings: Settings, config: Path | None) -> Hidden:
    """What the whole settings say, the parts that are not served included."""
    references = list(_references(settings))
    base = settings.directory.absolute()
    named = [path for endpoint in settings.endpoints for path in (endpoint.grant_path, endpoint.ca)]
    return Hidden(
        variables=frozenset(match[1] for text in references if (match := _VARIABLE.fullmatch(text))),
        files=tuple(base / text.removeprefix("file:") for text in references if text.startswith("file:")),
        commands=base if any(text.startswith("exec:") for text in references) else None,
        rules=tuple(path.absolute() for path in (config, *named) if path is not None),
    )


def _references(value: object) -> Iterator[str]:
    """Every text in the settings that says where a secret is, wherever it stands."""
    if isinstance(value, str):
        if value.startswith(("env:", "file:", "exec:")):
            yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _references(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            yield from _references(item)
