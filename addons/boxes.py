"""Boxes: the sandboxes that may use the proxy, each by a token of its own, and what each may use.

A token is compared by its SHA-256: looking a digest up tells nothing of how much of a guess was right.
Source: "Boxes" in docs/reference/boxes.md.
"""

import base64
import binascii
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, final
from urllib.parse import unquote_to_bytes

from grants.broker.needles import Needles
from grants.memo import memo_of
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
        number: of one that was added, which no other ever has; None where the settings list it.
    """

    name: str
    endpoints: frozenset[str]
    tunnels: bool = False
    number: int | None = None

    @property
    def key(self) -> str:
        """What the box has is kept under this. A name is given again, to another box; an added box's key is not."""
        return added_key(self.name, self.number) if self.number is not None else self.name


def added_key(name: str, number: int) -> str:
    """The key of an added box. No name holds a `#`."""
    return f"{name}#{number}"


def name_of(key: str) -> str:
    """The name of the box that has this key."""
    return key.partition("#")[0]


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


class AddedBoxes(Protocol):
    """Boxes that are not in the settings. Every method raises `StateUnavailable`."""

    async def find(self, token: bytes) -> Box | None:
        """The box whose token this is now."""
        ...

    async def find_all(self, tokens: Collection[bytes]) -> Mapping[bytes, Box]:
        """Of these texts those that are tokens now, each with its box."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Tokens that are known in clear, compiled once.

    Attributes:
        needles: these tokens, also those that were replaced and may still be in use somewhere.
        folded: in small letters, for field names.
    """

    needles: Needles
    folded: Needles


_NONE: Final = Known(needles=Needles(()), folded=Needles(()))


@final
class Boxes:
    """Finds the box of a token.

    Args:
        boxes: by name.
        vault: holds the token of each box under the box's name; None where there is none.
        added: knows further boxes. Both raise `StateUnavailable` where those cannot be asked for.
    """

    def __init__(self, boxes: Iterable[Box], vault: Vault | None, added: "AddedBoxes | None" = None) -> None:
        self._boxes = {box.name: box for box in boxes}
        self._vault = vault
        self._added = added
        self._held: Held | None = None
        self._by_digest: Mapping[bytes, Box] = {}
        self._known: Known | None = None

    def __repr__(self) -> str:
        return f"<boxes {', '.join(self._boxes)}>"

    async def find(self, token: bytes | None) -> Box | None:
        """The box whose token this is now."""
        if token is None:
            return None
        found = await self._listed(token)
        if found is None and self._added is not None:
            found = await self._added.find(token)
            # What a box has, it has by its name, and a name in the settings is that box's.
            found = None if found is not None and found.name in self._boxes else found
        return found

    async def find_all(self, tokens: Iterable[bytes]) -> dict[bytes, Box]:
        """Of these texts those that are tokens now, each with its box."""
        await self._read()
        found, others = {}, set()
        for token in tokens:
            box = self._by_digest.get(hashlib.sha256(token).digest())
            if box is None:
                others.add(token)
            else:
                found[token] = box
        added = await self._added.find_all(others) if self._added is not None and others else {}
        return found | {token: box for token, box in added.items() if box.name not in self._boxes}

    async def known(self) -> Known:
        """The tokens that the settings name."""
        held = await self._read()
        if held is None:
            return _NONE
        if self._known is None:
            values = [secret.reveal() for secret in (*held.values.values(), *held.needles)]
            self._known = Known(needles=Needles(values), folded=Needles(map(bytes.lower, values), spelled=False))
        return self._known

    async def any_added(self, texts: Collection[bytes]) -> bool:
        """Whether one of these texts is the token of a box that was added."""
        return bool(texts) and self._added is not None and bool(await self._added.find_all(texts))

    async def _listed(self, token: bytes) -> Box | None:
        await self._read()
        return self._by_digest.get(hashlib.sha256(token).digest())

    async def _read(self) -> Held | None:
        if self._vault is None:
            return None
        held = await self._vault.open()
        if held is not self._held:
            self._held, self._known = held, None
            self._by_digest = {
                hashlib.sha256(secret.reveal()).digest(): self._boxes[name] for name, secret in held.values.items()
            }
        return held


def holds_token(head: RequestHead, token: bytes) -> bool:
    """Whether the token stands in a head, also percent-encoded or in Basic credentials."""
    if any(token in form for form in _forms(head.target)):
        return True
    memo = memo_of(head)
    if memo.free_of != token:
        if any(token in form for pair in head.fields for text in pair for form in _forms(text)):
            return True
        memo.free_of = token
    return False


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
    kept = head.fields if len(fields) == len(head.fields) else tuple(fields)
    taken = RequestHead(method=head.method, target=target, fields=kept, memo=head.memo)
    return Shown(head=taken, token=found, prefix=prefix, ambiguous=len(tokens) > 1)


def _credentials(value: bytes) -> bytes:
    """The token in Basic credentials (any user name; the password is the token) or a Bearer's; else what is there."""
    scheme, _, rest = value.partition(b" ")
    if scheme.lower() == b"bearer":
        return rest
    if scheme.lower() == b"basic" and (decoded := _decoded(rest)) is not None:
        return decoded.partition(b":")[2]
    return b""
