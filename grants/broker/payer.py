"""Whose credential pays for a box's model calls, as the answer to a report and the `chant-payer` header say it.

Beside it the other header of a person's turn, `chant-grant`: this module only knows which values can be a grant.
Source: "Who pays" and "Whose turn" in the specification.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from .facts import JsonObject

PAYER_HEADER: Final = b"chant-payer"
GRANT_HEADER: Final = b"chant-grant"
MAX_GRANT: Final = 2048
"""Characters of a grant."""
MAX_PRINCIPAL: Final = 200

_GRANT: Final = re.compile(rb"[\x21-\x7e]{1,%d}" % MAX_GRANT)
_HEADER: Final = re.compile(r"[ \t]*(shared|owner|visitor)(?:[ \t]+(\S+))?[ \t]*")


class PayerKind(StrEnum):
    """Whose credential it is."""

    SHARED = "shared"
    OWNER = "owner"
    VISITOR = "visitor"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """Who pays.

    Attributes:
        principal: who that is, as in `github:login`; None when the broker does not know.

    Raises:
        ValueError: `principal` is not one.
    """

    kind: PayerKind
    principal: str | None = None

    def __post_init__(self) -> None:
        if self.principal is not None and not is_principal(self.principal):
            raise ValueError(f"a principal is 1 to {MAX_PRINCIPAL} printable characters without white space")

    def document(self) -> "JsonObject":
        """The payer as a JSON object."""
        return {"kind": self.kind.value, "principal": self.principal}

    def header(self) -> bytes:
        """The value of `chant-payer`: `KIND` or `KIND PRINCIPAL`, in UTF-8."""
        return (self.kind.value if self.principal is None else f"{self.kind.value} {self.principal}").encode()


def is_principal(text: str) -> bool:
    """Whether `text` can name a payer: 1 to 200 characters, no white space and no control character."""
    return 1 <= len(text) <= MAX_PRINCIPAL and text.isprintable() and not any(map(str.isspace, text))


def parse_payer_header(value: bytes) -> Payer | None:
    """The payer that a `chant-payer` value names, or None. Total: never raises."""
    match = _HEADER.fullmatch(value.decode("utf-8", "replace"))
    if match is None or (match[2] is not None and not is_principal(match[2])):
        return None
    return Payer(kind=PayerKind(match[1]), principal=match[2])


def is_grant(value: bytes) -> bool:
    """Whether a `chant-grant` value can be a grant: visible ASCII, at most `MAX_GRANT`."""
    return _GRANT.fullmatch(value) is not None
