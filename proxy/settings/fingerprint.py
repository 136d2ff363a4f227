"""A digest of settings: two processes that have read the same have the same one.

Everything that the settings say goes into it; a grant by its own digest. References go in, the values of secrets are
not known here.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

from grants.model import Grant
from proxy.settings.model import Settings


def fingerprint(settings: Settings) -> str:
    """The digest, in hex."""
    found = hashlib.sha256()
    for piece in _pieces(settings):
        # each with its length, so that no two lists of pieces read alike
        found.update(b"%d:" % len(piece) + piece)
    return found.hexdigest()


def _pieces(value: object) -> Iterator[bytes]:
    if isinstance(value, Grant):
        yield b"grant"
        yield value.digest.encode()
    elif is_dataclass(value):
        yield type(value).__name__.encode()
        for field in fields(value):
            yield field.name.encode()
            yield from _pieces(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield b"map"
        yield from _each((_whole(key) + _whole(held) for key, held in value.items()), ordered=False)
    elif isinstance(value, frozenset):
        yield b"set"
        yield from _each(map(_whole, value), ordered=False)
    elif isinstance(value, tuple | list):
        yield b"list"
        yield from _each(map(_whole, value), ordered=True)
    else:
        yield type(value).__name__.encode()
        yield _plain(value)


def _each(pieces: Iterable[bytes], *, ordered: bool) -> Iterator[bytes]:
    every = list(pieces) if ordered else sorted(pieces)
    yield b"%d" % len(every)
    yield from every


def _whole(value: object) -> bytes:
    return b"".join(b"%d:" % len(piece) + piece for piece in _pieces(value))


def _plain(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, Enum):
        return str(value.value).encode()
    if isinstance(value, re.Pattern):
        return str(value.pattern).encode()
    if value is None or isinstance(value, str | int | float | Path):
        return str(value).encode("utf-8", "surrogateescape")
    # Left out, it would make settings that differ look alike.
    raise TypeError(f"settings hold a {type(value).__name__}, which has no digest")
