"""What a relay works with: the client's side and the upstream's side of a stream, as small interfaces.

Both are read piece by piece with back-pressure: a `write` waits until the other side has taken enough, so that what is
held is bounded whatever is relayed.
"""

from dataclasses import dataclass, field
from typing import Protocol, final

from grants.decision import Deny
from grants.message import Fields, Outgoing


class ClientLeft(Exception):
    """The client has ended its connection, or takes nothing any more."""


class ClientChannel(Protocol):
    """The client of a request that is being relayed.

    Attributes:
        unreadable: the refusal, where the client left because its body cannot be read on.
    """

    unreadable: Deny | None

    @property
    def final(self) -> bool:
        """No further request can follow on this connection, since where it would begin is not known."""
        ...

    @property
    def is_raw(self) -> bool:
        """The protocol has changed."""
        ...

    @property
    def quiet_since(self) -> float:
        """When something was sent last, on the monotonic clock."""
        ...

    async def read(self) -> bytes:
        """The next piece of the request's body (or of a raw stream); empty at its end.

        Raises:
            ClientLeft: it did not come to its end.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send, and wait until the client has taken enough.

        Raises:
            ClientLeft: the client is gone, or was too slow.
        """
        ...

    async def finish(self) -> None:
        """Nothing more is sent: the client sees the end of the stream (half-close)."""
        ...

    async def left(self) -> None:
        """Wait until the client has ended its connection."""
        ...

    def become_raw(self) -> None:
        """The protocol changes: what comes from now on is a raw stream."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """The final head of an upstream's answer.

    Attributes:
        status: 200 to 599, or 101 where an upgrade was asked for.
        fields: as they came.
        length: bytes of the body that follows; None where only its end tells (chunked, or by the connection's
            end). 0 for what has no body (HEAD, 204, 304).
    """

    status: int
    reason: bytes = field(repr=False)
    fields: Fields = field(repr=False)
    length: int | None


class UpstreamStream(Protocol):
    """One exchange with an upstream, or an opaque connection to it. Every method raises `UpstreamFailed`."""

    async def write(self, data: bytes) -> None:
        """Send a piece of the body (framed as the request said), or raw bytes; wait until enough was taken."""
        ...

    async def finish(self) -> None:
        """The body is complete; of a raw stream: nothing more is sent (half-close)."""
        ...

    async def head(self) -> ResponseHead:
        """Wait for the final head. 1xx are dropped; 101 is one only where `upgrade` was asked for, and makes it raw."""
        ...

    @property
    def ready(self) -> bool:
        """`read` would not wait, and not raise."""
        ...

    async def read(self) -> bytes:
        """The next piece of the answer's body, as soon as it came, transfer coding off; empty at its end."""
        ...

    async def close(self) -> None:
        """End. A connection whose exchange is complete on both sides may serve another request, any other is closed."""
        ...


class StreamingUpstream(Protocol):
    """Opens streams to the upstream of one endpoint."""

    async def open(
        self, request: Outgoing, *, length: int | None, upgrade: bool, connect_timeout: float
    ) -> UpstreamStream:
        """Send the head of `request` (its `body` is not used) and return the stream.

        `length` is that of the body that will be written: 0 for none (for GET no Content-Length is sent), None for
        a chunked one. `upgrade` lets `Connection: Upgrade` with the `Upgrade` field among `fields` go out.

        Raises:
            UpstreamFailed: there is no connection, or the head could not be sent.
        """
        ...


class TunnelDialler(Protocol):
    """Opens opaque connections for CONNECT."""

    async def dial(self, host: str, port: int, *, timeout: float) -> UpstreamStream:  # noqa: ASYNC109 - one bound for all
        """A raw stream to `host`, which is judged as an upstream's name is: no inside address unless it was written so.

        Raises:
            UpstreamFailed: it cannot be reached, or leads to an inside address.
        """
        ...
