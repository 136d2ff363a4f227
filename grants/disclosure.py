"""Whether an answer holds a credential, in any place where its reader would see it.

Strategy: bytes are searched, never structures, so that neither a media type that lies nor a text that no parser takes
hides anything. The one transformation that every reader of JSON undoes, its escapes, is undone for the whole text at
once: outside of its strings JSON has no backslash. Source: "Credential guarantee" in the specification.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, final

from .message import Response
from .secret import Secret

_NESTED: Final = 2
"""Times that JSON escapes are undone: a string may hold JSON itself, as in a webhook's log."""

_BACKSLASH: Final = b"\\"
_PAIR: Final = b"\\\\"
_SET_ASIDE: Final = b"\0"
_HEX: Final = re.compile(rb"\\u00([2-7][0-9a-fA-F])")


@final
class Scanner:
    """Looks for exact values. Never shows one."""

    __slots__ = ("_needles",)

    def __init__(self, needles: Iterable[Secret]) -> None:
        self._needles = [needle.reveal() for needle in needles]

    def in_response(self, response: Response, layers: Sequence[bytes]) -> bool:
        """Whether a value stands anywhere in an answer.

        Args:
            response: the answer; its reason phrase, all field names and values, and the trailers are searched.
            layers: its body as received, after each coding taken off, and decoded.
        """
        fields = response.fields + response.trailers
        # one search for all: no value holds a line break, so none is found across two parts
        parts = [response.reason, *[value for _, value in fields], *layers]
        return (
            self.in_bytes(b"\n".join(parts)) or self.in_names([name for name, _ in fields]) or self.in_json(layers[-1])
        )

    def in_bytes(self, data: bytes) -> bool:
        """Whether a value stands in `data` as it is."""
        for needle in self._needles:  # noqa: SIM110 - a generator costs more than the search
            if needle in data:
                return True
        return False

    def in_names(self, names: Sequence[bytes]) -> bool:
        """Whether a value stands in a field name, in any case: whoever reads names may fold it (RFC 9110, 5.1)."""
        longest = max(map(len, names), default=0)
        return any(
            needle.lower() in name.lower() for needle in self._needles if len(needle) <= longest for name in names
        )

    def in_json(self, data: bytes) -> bool:
        """Whether a value stands in a key or a string of `data` once JSON's escapes are undone (RFC 8259, 7).

        `data` need not be JSON: what is undone in any other text is at most searched in vain. Only escapes that could
        stand for a character of a value are undone.
        """
        if _BACKSLASH not in data:
            return False
        used = b"".join(self._needles)
        escapes = [(_BACKSLASH + char, char) for char in (b"/", b'"') if char in used]
        marks = [escape for escape, _ in escapes] + ([_PAIR] if _BACKSLASH in used else [])
        for _ in range(_NESTED):
            if _HEX.search(data) is None and not any(mark in data for mark in marks):
                return False
            # what follows a pair of backslashes is not escaped by it; what pairs are set aside as is in no value
            data = data.replace(_PAIR, _SET_ASIDE)
            for escape, char in escapes:
                data = data.replace(escape, char)
            data = _HEX.sub(_visible, data).replace(_SET_ASIDE, _BACKSLASH)
            if self.in_bytes(data):
                return True
        return False


def _visible(escape: re.Match[bytes]) -> bytes:
    return bytes.fromhex(escape[1].decode("ascii"))
