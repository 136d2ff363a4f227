"""What the chain needs of the world, as small interfaces. `proxy` implements them; tests may too."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, final

from grants.decision import Reason, Rule
from grants.message import Outgoing, Response
from grants.secret import Secret

from .record import Record, TlsCause

if TYPE_CHECKING:
    from .exchange import Exchange


class UpstreamFailed(Exception):
    """No complete answer came. Carries the words for the record; never any text of the cause.

    `rule` is UPSTREAM_ERROR, TRANSPORT, RESPONSE_SIZE, DENIED (an inside address: 403) or FAULT (500); else `status`
    is 502, 503 or 504. `tls` says why a handshake failed, where one did.
    """

    def __init__(self, rule: Rule, reason: Reason, status: int = 502, *, tls: TlsCause | None = None) -> None:
        super().__init__(reason.value)
        self.rule = rule
        self.reason = reason
        self.status = status
        self.tls = tls


class Upstream(Protocol):
    """Sends requests of one endpoint. Connections are shared by all clients."""

    async def send(self, request: Outgoing, *, max_body: int, timeout: float) -> Response:  # noqa: ASYNC109 - one bound for all that it does
        """Send `request` at most once and return the complete answer.

        `max_body` (bytes) bounds the body as received; `timeout` (seconds) bounds the whole exchange.

        Raises:
            UpstreamFailed: there is no complete answer within the bounds.
        """
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What an endpoint holds at one moment.

    Attributes:
        values: by reference name; a name that cannot be read now is absent.
        needles: every value that an answer may not hold: the current ones, and the ones before a rotation
            that may still live.
    """

    values: Mapping[str, Secret]
    needles: tuple[Secret, ...] = field(default=())


class Vault(Protocol):
    """The secrets of one endpoint."""

    async def open(self) -> Held:
        """The values now: from a short cache, or read again. Never raises: what cannot be read is absent."""
        ...


class CaptureSink(Protocol):
    """Takes captured requests of one endpoint."""

    def write(self, request: Mapping[str, object]) -> None:
        """Append one request; may raise OSError."""
        ...


class StateUnavailable(Exception):
    """What the broker remembers cannot be asked now. Nothing is known, so nothing may be allowed."""


class LogUnavailable(Exception):
    """A record could not be written."""


class DecisionLog(Protocol):
    """The decision log. It adds `ts`, `seq`, `chain` and `prev` to each record."""

    def write(self, record: Record) -> None:
        """Append one record before anything else happens.

        Raises:
            LogUnavailable: it is not in the log.
        """
        ...

    @property
    def writable(self) -> bool:
        """False from a failed write until one succeeds."""
        ...


class Certificates(Protocol):
    """Server side TLS for the hosts that are intercepted, with the installation's own CA."""

    def context(self, host: str) -> ssl.SSLContext:
        """A context whose leaf is for `host` alone; a client that names another server is refused by an alert."""
        ...

    def server_name(self, connection: ssl.SSLObject) -> str | None:
        """The server name that the client of a connection sent, lower case, after its handshake."""
        ...


class Flights(Protocol):
    """Notes which requests are in flight where another process can read it, so that what a process which is killed
    can no longer record is recorded all the same. Nothing here waits, or raises.
    """

    def begin(self, exchange: "Exchange") -> None:
        """A decision record of it is to come. It may have been noted already."""
        ...

    def opened(self, exchange: "Exchange") -> None:
        """Its decision record is in the log, and its end record is to come."""
        ...

    def done(self, exchange: "Exchange") -> None:
        """Nothing more of it is to come."""
        ...


@final
class _NoFlights:
    """The process is alone: what it leaves behind, nobody could record."""

    def begin(self, exchange: "Exchange") -> None:
        """Nothing."""

    def opened(self, exchange: "Exchange") -> None:
        """Nothing."""

    def done(self, exchange: "Exchange") -> None:
        """Nothing."""


NO_FLIGHTS: Final[Flights] = _NoFlights()
