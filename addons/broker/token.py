"""Where a request shows its box's token: in `Authorization` or `x-api-key`, and on egress wherever an API has its key.

What is found are candidates; a box is found by the digest of one, so that how long that takes tells nothing.
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from grants.basic import decode_basic, is_basic
from grants.message import RequestHead

_BEARER: Final = b"bearer"
_MOST: Final = 64
_WORD: Final = re.compile(rb"[^\s,;=\"']{8,}")


def candidates(head: RequestHead, query: bytes | None, *, anywhere: bool) -> tuple[bytes, ...]:
    """What may be a token, each once; `anywhere` also looks in every field and in the query."""
    found: dict[bytes, None] = {}
    for name, value in head.fields:
        lower = name.lower()
        if lower == b"x-api-key":
            found[value] = None
        elif lower == b"authorization":
            scheme, _, rest = value.partition(b" ")
            if scheme.lower() == _BEARER:
                found[rest.strip()] = None
    if anywhere:
        for _, value in head.fields:
            found.update(dict.fromkeys(_in_value(value)))
        for pair in re.split(rb"[&;]", query or b""):
            found.update(dict.fromkeys(_forms(pair.partition(b"=")[2])))
    found.pop(b"", None)
    return tuple(found)[:_MOST]


def _in_value(value: bytes) -> list[bytes]:
    found = [value, value.partition(b" ")[2], *_WORD.findall(value)]
    plain = decode_basic(value) if is_basic(value) else None
    if plain is not None:
        user, _, password = plain[6:].partition(b":")
        found += [plain[6:], user, password]
    return found


def _forms(value: bytes) -> list[bytes]:
    return [value, unquote_to_bytes(value), unquote_to_bytes(value.replace(b"+", b" "))]
