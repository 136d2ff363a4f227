"""Boxes: the sandboxes that may use the proxy, each by a token of its own, and what each may use.

A token is compared by its SHA-256: looking a digest up tells nothing of how much of a guess was right.
Source: "Boxes" in docs/reference/boxes.md.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, final
from urllib.parse import unquote_to_bytes

from grants.message import RequestHead

from .ports import Held, Vault

_PREFIX: Final = b"/box/"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A sandbox.

    Attributes:
        endpoints: names of the endpoints that it may use.
        tunnels: it may open opaque tunnels.
    """

    name: str
    endpoints: frozenset[str]
    tunnels: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A head with the token taken out of it.

    Attributes:
        token: what the client shows, or None.
        prefix: the path prefix that held it, to be put back into what leads here; empty where a field held it.
        ambiguous: it shows more than one.
    """

    head: RequestHead = field(repr=False)
    token: bytes | None = field(repr=False)
    prefix: bytes = field(default=b"", repr=False)
    ambiguous: bool = False


@final
class Boxes:
    """Finds the box of a token.

    Args:
        boxes: by name.
        vault: holds the token of each box under the box's name.
    """

    def __init__(self, boxes: Iterable[Box], vault: Vault) -> None:
        self._boxes = {box.name: box for box in boxes}
        self._vault = vault
        self._held: Held | None = None
        self._by_digest: Mapping[bytes, Box] = {}

    def __repr__(self) -> str:
        return f"<boxes {', '.join(self._boxes)}>"

    def named(self, name: str | None) -> Box | None:
        """The box of that name, if it is still there."""
        return self._boxes.get(name) if name is not None else None

    async def token(self, name: str) -> bytes | None:
        """The token of a box now, to look for where it should not be."""
        secret = (await self._vault.open()).values.get(name)
        return None if secret is None else secret.reveal()

    async def find(self, token: bytes | None) -> Box | None:
        """The box whose token this is now."""
        if token is None:
            return None
        held = await self._vault.open()
        if held is not self._held:
            self._held = held
            self._by_digest = {
                hashlib.sha256(secret.reveal()).digest(): self._boxes[name] for name, secret in held.values.items()
            }
        return self._by_digest.get(hashlib.sha256(token).digest())


def holds_token(head: RequestHead, token: bytes) -> bool:
    """Whether the token stands in a head, also percent-encoded or in Basic credentials."""
    texts = [head.target, *(part for pair in head.fields for part in pair)]
    return any(token in form for text in texts for form in _forms(text))


def _forms(text: bytes) -> tuple[bytes, ...]:
    forms = [text, unquote_to_bytes(text)]
    for word in text.split(b" "):
        decoded = _decoded(word)
        if decoded is not None:
            forms.append(decoded)
    return tuple(forms)


def _decoded(word: bytes) -> bytes | None:
    try:
        return base64.b64decode(word + b"=" * (-len(word) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def take_token(head: RequestHead, *, from_path: bool) -> Shown:
    """Take the token out of a head: from `Proxy-Authorization` (Basic or Bearer, RFC 9110, 11.7.2), or from a path that
    begins with `/box/TOKEN/`.
    """
    fields, tokens = [], []
    for name, value in head.fields:
        if name.lower() == b"proxy-authorization":
            tokens.append(_credentials(value))
        else:
            fields.append((name, value))
    target, prefix = head.target, b""
    if from_path and target.startswith(_PREFIX):
        token, slash, rest = target.removeprefix(_PREFIX).partition(b"/")
        tokens.append(token)
        if slash:
            prefix, target = _PREFIX + token, b"/" + rest
    found = tokens[0] if tokens else None
    taken = RequestHead(method=head.method, target=target, fields=tuple(fields))
    return Shown(head=taken, token=found, prefix=prefix, ambiguous=len(tokens) > 1)


def _credentials(value: bytes) -> bytes:
    """The token in Basic credentials (any user name; the password is the token) or a Bearer's; else what is there."""
    scheme, _, rest = value.partition(b" ")
    if scheme.lower() == b"bearer":
        return rest
    if scheme.lower() == b"basic" and (decoded := _decoded(rest)) is not None:
        return decoded.partition(b":")[2]
    return b""
