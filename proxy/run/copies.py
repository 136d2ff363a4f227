"""Variables that hold a secret which comes from a file or a command. Only the proxy's process has those values."""

import os
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

from grants.secret import Secret


def copies(environment: Mapping[str, str], secrets: Iterable[Secret], known: Iterable[str]) -> tuple[str, ...]:
    """The names of variables in which one stands, as it is or percent-encoded, but for those in `known` and for copies
    of their values, which are found where they are told of."""
    known = frozenset(known)
    told = {os.fsencode(environment[name]) for name in known if name in environment}
    values = {value for secret in secrets if (value := secret.reveal()) not in told}
    found = []
    for name, text in environment.items():
        data = os.fsencode(text)
        if name not in known and any(value in data or value in unquote_to_bytes(data) for value in values):
            found.append(name)
    return tuple(found)
