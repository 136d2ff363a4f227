"""From settings to what `run` serves, on listeners of its own, and what the program may not see.

Pure. The addresses of the settings are for `serve`, which may run beside it; here each is a free port of loopback, or a
socket where the program is isolated.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Final, final
from urllib.parse import parse_qsl, unquote, urlsplit

from proxy.settings.broker_model import FeedbackFile, PostgresDatabase, SqliteDatabase
from proxy.settings.model import Listen, Settings, TcpListen, UnixListen
from proxy.settings.values import named

LOG: Final = "decisions.jsonl"
_ANY_PORT: Final = TcpListen(host="127.0.0.1", port=0)
_VARIABLE: Final = re.compile(r"env:\s*([A-Za-z_][A-Za-z0-9_]*)\s*")
_RULES: Final = ("grant_path", "ca")
_POSTGRES_FILES: Final = ("PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY")
_POSTGRES: Final = ("PGPASSWORD", *_POSTGRES_FILES)
"""What a client of PostgreSQL takes its credentials from (libpq, "Environment Variables")."""


class NothingToServe(Exception):
    """The settings have nothing that `run` could serve. The text says what would be right."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Where the credentials come from, and what decides about them.

    Attributes:
        variables: names of environment variables.
        files: files that hold secrets, absolute.
        rules: the settings file, the grants and CA bundles, absolute: what the program may read, and must not write.
    """

    variables: frozenset[str]
    files: tuple[Path, ...]
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


def unfound(settings: Settings, box: str | None) -> str | None:
    """What to say of endpoints whose base URL the program does not find, as no variable is to hold it."""
    usable = next((one.endpoints for one in settings.boxes if one.name == box), None)
    names = [
        endpoint.name
        for endpoint in settings.endpoints
        if endpoint.listen is not None and not endpoint.env and (usable is None or endpoint.name in usable)
    ]
    if not names:
        return None
    of = f"endpoint {named(names)} names" if len(names) == 1 else f"endpoints {named(names)} name"
    way = "; the forward proxy leads there" if settings.proxy is not None else ""
    return f"{of} no variable for the base URL, so the program has none; add such as `env: [API_BASE_URL]`{way}"


def _place(sockets: Path | None, name: str) -> Listen:
    return _ANY_PORT if sockets is None else UnixListen(path=sockets / name)


def hidden(settings: Settings, config: Path | None, environment: Mapping[str, str] | None = None) -> Hidden:
    """What the whole settings say, the parts that are not served included.

    Args:
        environment: what the database's client reads, and where copies of its password are looked for.
    """
    environment = environment or {}
    texts = list(references(settings))
    base = settings.directory.absolute()
    variables = {match[1] for text in texts if (match := _VARIABLE.fullmatch(text))}
    files = [base / Path(text.removeprefix("file:").strip()).expanduser() for text in texts if text.startswith("file:")]
    if settings.broker is not None and isinstance(settings.broker.database, PostgresDatabase):
        variables |= set(_POSTGRES)
        files += [Path(environment[name]).expanduser() for name in _POSTGRES_FILES if environment.get(name)]
    if (password := database_password(settings)) is not None:
        variables |= {name for name, text in environment.items() if password in unquote(text)}
        files += [config] if config is not None else []
    return Hidden(
        variables=frozenset(variables),
        files=tuple(path.absolute() for path in files),
        rules=tuple(path.absolute() for path in (config, *_values(settings, _RULES)) if path is not None),
    )


def database_password(settings: Settings) -> str | None:
    """The password that the settings themselves hold, in the URL of the broker's database."""
    database = settings.broker and settings.broker.database
    if not isinstance(database, PostgresDatabase):
        return None
    parts = urlsplit(database.url)
    _, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    if colon and password:
        return unquote(password)
    return next((value for key, value in parse_qsl(parts.query) if key == "password"), None)


def written(settings: Settings) -> Iterator[tuple[str, Path]]:
    """What the proxy writes, by the key that names it, but for what is always in the state directory."""
    if settings.audit.path is not None:
        yield "audit.path", settings.audit.path
    if settings.broker is not None:
        for key, value in (
            ("broker.feedback", settings.broker.feedback),
            ("broker.database", settings.broker.database),
        ):
            if isinstance(value, FeedbackFile | SqliteDatabase):
                yield key, value.path


def references(value: object) -> Iterator[str]:
    """Every text in the settings that says where a secret is, wherever it stands."""
    if isinstance(value, str):
        if value.startswith(("env:", "file:", "exec:")):
            yield value
    else:
        for _, item in _parts(value):
            yield from references(item)


def _values(value: object, names: Collection[str]) -> Iterator[Path]:
    """Every path in the settings under one of these names."""
    for name, item in _parts(value):
        if name in names and isinstance(item, Path):
            yield item
        yield from _values(item, names)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    if is_dataclass(value):
        for field in fields(value):
            yield field.name, getattr(value, field.name)
    elif isinstance(value, Mapping):
        yield from ((str(key), item) for key, item in value.items())
    elif isinstance(value, tuple | list | frozenset):
        yield from (("", item) for item in value)
