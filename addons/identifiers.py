"""The ids of requests: random, so that those of several processes and starts differ, and cheap.

Asking the kernel for the bytes of one id takes longer than all else that an exchange begins with, so it is asked for
those of many. An id is shown to the client and names records; it is no secret, and nothing is decided by it. Tokens and
keys are not made here.
"""

import os
from typing import Final

_BYTES: Final = 12
_AT_ONCE: Final = 256

_ready: list[str] = []
# A child of a fork hands out none of those that its parent has ready.
os.register_at_fork(after_in_child=_ready.clear)


def new_id() -> str:
    """24 hexadecimal digits that no other call gives, in whichever thread or process."""
    try:
        return _ready.pop()  # in one step: two threads never get the same
    except IndexError:
        digits = os.urandom(_BYTES * _AT_ONCE).hex()
        made = [digits[at : at + 2 * _BYTES] for at in range(0, len(digits), 2 * _BYTES)]
        taken = made.pop()
        _ready.extend(made)
        return taken
