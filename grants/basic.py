"""The credentials of `Authorization: Basic`, decoded and encoded strictly (RFC 7617, 2; RFC 4648, 3).

Base64 hides a reference, so it is taken off before a rule sees the value and put back when the value is sent. There is
one encoding of each text: wrong alphabet, missing padding, stray bits or a second space make the value unreadable.
"""

import binascii
from base64 import b64decode, b64encode
from typing import Final

_SCHEME: Final = b"basic"


def is_basic(value: bytes) -> bool:
    """Whether a value of `Authorization` has the scheme Basic, in any case (RFC 9110, 11.1)."""
    return value[:5].lower() == _SCHEME and (len(value) == len(_SCHEME) or value[5:6] in {b" ", b"\t"})


def decode_basic(value: bytes) -> bytes | None:
    """`Basic user:password` for a value of scheme Basic; the scheme stays as it was sent.

    None when the credentials are not canonical base64 of UTF-8 without control characters. Total: never raises.
    """
    scheme, credentials = value[:6], value[6:]
    try:
        plain = b64decode(credentials, validate=True)
        text = plain.decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    if scheme[5:] != b" " or not text or b64encode(plain) != credentials:
        return None
    if any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in text):
        return None
    return scheme + plain


def encode_basic(plain: bytes) -> bytes:
    """The field value for `Basic user:password`."""
    return plain[:6] + b64encode(plain[6:])


def encoded_cores(value: bytes) -> tuple[bytes, bytes, bytes]:
    """What the base64 of every text that holds `value` holds: one of these three, by where in the text it stands.

    A character of base64 is six bits of the text. Whatever stands before and behind `value`, as a user name or padding
    does, changes only the characters that it shares bits with. Those are left out: fewer than two of 4n/3 for n bytes.
    """
    return _core(value, 0), _core(value, 1), _core(value, 2)


def _core(value: bytes, before: int) -> bytes:
    """The characters that are of `value` alone, with `before` bytes of another text in the group of three before it."""
    first, end = -(-8 * before // 6), 8 * (before + len(value)) // 6
    return b64encode(bytes(before) + value)[first:end]
