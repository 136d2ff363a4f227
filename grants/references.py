"""References: `@secret:NAME` in a header value stands for a secret that only the proxy holds.

They are found and replaced in one pass, so that a secret's own bytes are never read as a reference. NAME is as long
as its characters go. In Basic credentials they are looked for under the base64. Nothing else of a request is
searched: a reference in a path, a query or a body stays as it is.
Source: "References" in docs/reference/matching.md.
"""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import final

from .basic import decode_basic, encode_basic, is_basic
from .decision import Deny, Reason, Rule
from .immutable import immutable
from .message import Fields, Outgoing
from .secret import Secret
from .text import listed

_MARK = b"@secret:"
_REFERENCE = re.compile(rb"@secret:([A-Za-z0-9._/-]*)")
_AUTHORIZATION = b"authorization"


@final
@immutable
class Sealed:
    """A request with its secrets in. Nothing of it may be shown.

    Attributes:
        names: the references that were replaced, each once, in the order in which they came.
    """

    request: Outgoing = field(repr=False)
    names: tuple[str, ...]


def seen(name: bytes, value: bytes) -> bytes | None:
    """The field value as a rule sees it: Basic credentials decoded, everything else as sent.

    `name` is in lower case. None when Basic credentials cannot be decoded.
    """
    if name == _AUTHORIZATION and is_basic(value):
        return decode_basic(value)
    return value


def carries_reference(name: bytes, value: bytes) -> bool:
    """Whether a field holds `@secret:` where `seal` would look for it. `name` is in lower case."""
    return _MARK in _searched(name, value)


def referenced(fields: Fields) -> tuple[str, ...]:
    """The names that the fields refer to, each once, in the order in which they come."""
    found: dict[str, None] = {}
    for name, value in fields:
        for match in _REFERENCE.finditer(_searched(name.lower(), value)):
            found[match[1].decode("ascii")] = None
    return tuple(found)


def seal(request: Outgoing, held: Mapping[str, Secret], known: frozenset[str]) -> Sealed | Deny:
    """Put the secrets in.

    Args:
        request: what was authorized, references still in it.
        held: the secrets by name; one that cannot be read now is absent.
        known: the names that the endpoint has.

    Returns:
        The request as it goes upstream, or a 502 when a reference has no name, a name that the endpoint does not have,
        or one without a value: then nothing may go upstream.
    """
    names: dict[str, None] = {}
    fields: list[tuple[bytes, bytes]] = []
    for name, value in request.fields:
        searched = value if name.lower() != _AUTHORIZATION else _searched(_AUTHORIZATION, value)
        if _MARK not in searched:
            fields.append((name, value))
            continue
        pieces = _REFERENCE.split(searched)  # every second one is what a reference names
        for at in range(1, len(pieces), 2):
            named = pieces[at].decode("ascii")
            secret = held.get(named) if named in known else None
            if secret is None:
                return _unresolved(named, known)
            names[named] = None
            pieces[at] = secret.reveal()
        filled = b"".join(pieces)
        fields.append((name, filled if searched is value else encode_basic(filled)))
    if not names:
        return Sealed(request=request, names=())
    filled_in = Outgoing(
        origin=request.origin, method=request.method, target=request.target, fields=tuple(fields), body=request.body
    )
    return Sealed(request=filled_in, names=tuple(names))


def _searched(name: bytes, value: bytes) -> bytes:
    """Where references are looked for. Credentials that cannot be decoded were denied before: searched as sent."""
    plain = seen(name, value)
    return value if plain is None else plain


def _unresolved(name: str, known: frozenset[str]) -> Deny:
    if name in known:
        return _deny(Reason.REFERENCE_EMPTY, f"the secret `{name}` has no usable value now; tell the operator")
    detail = f"a header refers to a secret that this endpoint does not have; it has: {listed(sorted(known))}"
    return _deny(Reason.REFERENCE_UNKNOWN, detail)


def _deny(reason: Reason, detail: str) -> Deny:
    return Deny(rule=Rule.UNRESOLVED_SECRET, reason=reason, detail=detail, status=502)
