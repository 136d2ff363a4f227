"""`broker.database`: a URL, as people write them for these databases."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from proxy.settings.broker_model import Database, PostgresDatabase, SqliteDatabase
from proxy.settings.values import ValueInvalid

_REMEDY = "write `sqlite:///broker.db` or `postgresql://user@host/name`"


def parse_database(text: str, *, state: Path) -> Database:
    """Read `sqlite:///PATH`, relative to `state` unless it begins with a slash, or `postgresql://…`.

    Raises:
        ValueInvalid: it is neither. The message holds nothing of `text`, which may hold a password.
    """
    scheme, _, rest = text.partition("://")
    if any(not char.isprintable() or char.isspace() for char in text):
        raise ValueInvalid(f"holds white space or a control character; {_REMEDY}")
    if scheme == "sqlite":
        path = rest.removeprefix("/")
        if not rest.startswith("/") or not path or path.endswith("/") or "?" in path or "#" in path or ":" in path:
            raise ValueInvalid("names no SQLite file; write `sqlite:///broker.db`, or four slashes for a whole path")
        return SqliteDatabase(path=state / path)
    if scheme == "postgresql":
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise ValueInvalid(f"has a host or a port that cannot be read; {_REMEDY}") from None
        if parts.fragment or port == 0:
            raise ValueInvalid(f"has a `#` that is not encoded, or a port of 0; {_REMEDY}")
        return PostgresDatabase(url=text)
    if re.fullmatch(r"(?:sqlite|postgres(?:ql)?)(?:\+[a-z0-9]+)?", scheme):
        raise ValueInvalid(f"names a driver, which is not chosen here, or no known database; {_REMEDY}")
    raise ValueInvalid(f"is no database's URL; {_REMEDY}")
