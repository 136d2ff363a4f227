"""What a request reader tells of, one event after another."""

from dataclasses import dataclass, field
from typing import final

from grants.decision import Deny, Reason, Rule
from grants.immutable import immutable
from grants.message import RequestHead


@final
@immutable
class HeadRead:
    """A head is complete.

    Attributes:
        body: bytes that the head announces: 0 for none, None for a chunked body.
        keep_alive: the client keeps the connection after this request.
        continues: it waits for a 100 before it sends the body.
    """

    head: RequestHead
    body: int | None
    keep_alive: bool
    continues: bool


@final
@immutable
class BodyRead:
    """The body is complete."""

    body: bytes = field(repr=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """The stream cannot be read on. Carries the refusal."""

    denial: Deny


@final
@immutable
class BodyPiece:
    """Part of a body that is streamed. `last` says that nothing more of it comes."""

    data: bytes = field(repr=False)
    last: bool


type ReadEvent = HeadRead | BodyRead | BodyPiece | Unreadable


def unreadable(reason: Reason, detail: str, status: int = 400) -> Unreadable:
    """A refusal of what cannot be read in exactly one way."""
    return Unreadable(denial=Deny(rule=Rule.BAD_REQUEST, reason=reason, status=status, detail=detail))


def too_large(limit: int) -> Deny:
    """The refusal of a body over `limit` bytes (RFC 9110, 15.5.14)."""
    return Deny(
        rule=Rule.REQUEST,
        reason=Reason.BODY_TOO_LARGE,
        status=413,
        detail=f"the request body is over its limit of {limit} bytes",
    )
