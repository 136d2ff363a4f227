"""`inject`: fields that the proxy sets on every request to an endpoint's own upstream, whatever the client sent there.

Source: docs/reference/settings.md, "Attached by host"; RFC 9110, 5.1 and 5.5 (names and values), 7.6.1 (hop-by-hop).
"""

import re
from typing import Final

from grants.framing import HOP_BY_HOP
from grants.place import Place
from grants.references import referenced
from proxy.settings.values import named

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")

# What says how the client's body is to be read: the checks went by what the client said.
_OF_THE_BODY: Final = frozenset({b"content-encoding", b"content-type"})


def load_inject(place: Place) -> tuple[tuple[bytes, bytes], ...]:
    """The fields that the endpoint at `place` injects, references still in them, in the order of the file.

    A value may be the credential itself, so no message repeats any of it.
    """
    known = _secret_names(place)
    fields: dict[bytes, tuple[bytes, bytes]] = {}
    for name, found in place.fields("inject").items():
        if message := _wrong_name(name):
            found.problem(message)
            continue
        field = (name.encode("ascii"), found.text.encode("utf-8", "replace"))
        lower = field[0].lower()
        if lower in fields:
            found.problem("sets one header twice, as letter case makes no difference; keep one of them")
        elif not _VALUE.fullmatch(found.text):
            found.problem("is not visible ASCII without white space around it; write such as `Bearer @secret:api`")
        elif known is not None and not known.issuperset(referenced((field,))):
            has = f"has {named(sorted(known))}" if known else "has none"
            found.problem(f"refers to a secret that the endpoint, which {has}, does not have; add it to `secrets`")
        fields[lower] = field
    return tuple(fields.values())


def _secret_names(place: Place) -> frozenset[str] | None:
    """The names in `secrets`, sound or not; None when that is no map, which has been told already."""
    if not place.has("secrets"):
        return frozenset()
    secrets = place.get("secrets")
    return frozenset(secrets.value) if secrets else None


def _wrong_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        return "has a name that no header can have; write letters, digits and `-`"
    lower = name.lower().encode("ascii")
    if lower in HOP_BY_HOP:
        return "sets a header that the connection itself needs; leave it out"
    if lower in _OF_THE_BODY:
        return "sets a header that says how the client's body is read; leave it to the client"
    return ""
