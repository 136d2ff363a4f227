"""Tokens and grants: 256 random bits, shown once, stored as SHA-256.

A value of 256 random bits needs no slow hash: nobody can try them all. It is found by its digest, so how long the
search takes tells nothing of how much of a guess was right.
"""

import hashlib
import secrets
from typing import Final

from grants.broker.issued import BYTES, PREFIX

BOX_PREFIX: Final = PREFIX.decode()
GRANT_PREFIX: Final = "gpv_"


def new_token() -> str:
    """A box's token. Its form is how one is told in a text (`grants.broker.issued`)."""
    return BOX_PREFIX + secrets.token_urlsafe(BYTES)


def new_grant() -> str:
    """A visitor's grant: printable ASCII without spaces, as the `chant-grant` field needs it."""
    return GRANT_PREFIX + secrets.token_urlsafe(BYTES)


def digest(value: bytes) -> str:
    """What is stored in place of a token or a grant."""
    return hashlib.sha256(value).hexdigest()
