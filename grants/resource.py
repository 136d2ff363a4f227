"""A keyed digest of the object that a request is about, so that records can be tied together without naming it.

The same parameters at the same origin give the same digest, whichever operation names them and in whichever order: a
read and a write of one object match. Without the installation's key, names cannot be tried out against a record.
Source: "Decision log" in docs/reference/records.md.
"""

import hmac
from functools import lru_cache
from typing import Final

from .message import Origin

_LONGEST_KEPT: Final = 256


def resource_digest(key: bytes, origin: Origin, parameters: tuple[tuple[str, str], ...]) -> str:
    """HMAC-SHA-256 in hex over the origin and each path parameter's name and value.

    Each part is preceded by its length in bytes, so that no two different lists run together into one text.
    """
    for _, value in parameters:
        if len(value) > _LONGEST_KEPT:  # a client chooses it, so it is not remembered
            return _digest(key, origin, parameters)
    return _remembered(key, origin, parameters)


def _digest(key: bytes, origin: Origin, parameters: tuple[tuple[str, str], ...]) -> str:
    message = bytearray()
    for part in (str(origin), *[text for pair in sorted(parameters) for text in pair]):
        data = part.encode("utf-8")
        message += len(data).to_bytes(8, "big") + data
    return hmac.digest(key, message, "sha256").hex()


_remembered = lru_cache(maxsize=1024)(_digest)
