"""A keyed digest of the object that a request is about, so that records can be tied together without naming it.

The same parameters at the same origin give the same digest, whichever operation names them and in whichever order: a
read and a write of one object match. Without the installation's key, names cannot be tried out against a record.
Source: "Decision log" in docs/reference/records.md.
"""

import hmac
from functools import lru_cache

from .message import Origin


@lru_cache(maxsize=1024)
def resource_digest(key: bytes, origin: Origin, parameters: tuple[tuple[str, str], ...]) -> str:
    """HMAC-SHA-256 in hex over the origin and each path parameter's name and value.

    Each part is preceded by its length in bytes, so that no two different lists run together into one text.
    """
    message = bytearray()
    for part in (str(origin), *[text for pair in sorted(parameters) for text in pair]):
        data = part.encode("utf-8")
        message += len(data).to_bytes(8, "big") + data
    return hmac.digest(key, message, "sha256").hex()
