"""One request on its way through the chain.

The front makes an `Exchange`, each step of the chain adds its one value, the last one sets `reply`. A step that
refuses sets the denial, and the steps behind it pass the exchange on untouched. A front shows a client nothing but
`reply`; where there is none, the request was not recorded, and nothing is shown.
"""

from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, final

from grants.authorize import Allow, Granted
from grants.decision import Deny, Reason, Rule
from grants.message import Authority, Relay, RequestHead

from .boxes import Box
from .identifiers import new_id
from .policy import Policy, Service
from .record import EndedBy, Mode
from .streams import ClientChannel, UpstreamStream

if TYPE_CHECKING:
    from .broker.call import Call
    from .relay_rules import RelayRules


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """How a connection came in: what the front knows before a request is read.

    Attributes:
        mode: `terminate` on a base URL, `connect` before and `proxy` inside a tunnel, `broker` on the broker's address.
        peer: the client's address, or None for a Unix socket.
        service: the service that a base URL's listener, or the CONNECT authority, stands for.
        authority: where the connection leads: the CONNECT authority, or the listener's own address.
        server_name: the TLS server name that the client sent.
        box: the box that opened the tunnel, and `box_token` what it showed: it may not go through.
        encrypted: the client speaks TLS to us.
    """

    mode: Mode
    peer: str | None
    service: str | None = None
    authority: Authority | None = None
    server_name: str | None = None
    box: str | None = None
    box_token: bytes | None = field(default=None, repr=False)
    encrypted: bool = False


@final
@dataclass(slots=True, kw_only=True, eq=False)
class Exchange:
    """State of one request. Set by: front (arrival, head, body), Where (service, authority), Authorize (granted,
    allow), Send (relay, counts), Audit (reply).

    Attributes:
        admitted: Who has decided.
        box_token: the token that the client showed, and box_prefix the path prefix that held it.
        call: what the broker found that the request asks of it.
        own: the broker's own steps answer it, or say how it is relayed: there is no grant to ask.
        endpoint: what records call the part of the broker that is asked, where no service is known.
        labels: what records say of the broker's rule, or of a handshake that failed, with the client or the upstream.
        methods: what a refusal with 405 says that the path takes.
        granted: the operation that the head was granted.
        body_limit: bytes of body that may be held; None while nobody has said that one may be.
        relay: the checked answer.
        denial: the first refusal; final.
        final: what the last hop of a followed redirect chain was granted.
        relayed: the endpoint is a relay, and the request may go to it.
        rules: how it is relayed; None as a trusted upstream.
        announced: bytes of the body that the head announces; None for a chunked one.
        body_prefix: the beginning of a body that is relayed, where it is captured.
        client: the client's side of a stream, where the exchange may be streamed.
        status: of the answer that is being streamed.
        upstream_status: of the upstream's last answer, shown or not.
        opened: a stream was opened, after its decision record; its end record is still to come, and there is no reply.
        ended_by: the side that ended the stream in good order; None while it has not.
        reply: the bytes for the client, set only once the record is in the log.
        tunnel: the opaque connection that a CONNECT opened.
        close: the client's connection ends after the reply.
    """

    arrival: Arrival
    policy: Policy
    head: RequestHead | None = None
    body: bytes = field(default=b"", repr=False)
    id: str = field(default_factory=new_id)
    started: float = field(default_factory=monotonic)
    admitted: bool = False
    box: Box | None = None
    box_token: bytes | None = field(default=None, repr=False)
    box_prefix: bytes = field(default=b"", repr=False)
    service: Service | None = None
    authority: Authority | None = None
    call: "Call | None" = None
    own: bool = False
    endpoint: str | None = None
    labels: tuple[str, ...] = ()
    methods: bytes = b""
    granted: Granted | None = None
    body_limit: int | None = None
    allow: Allow | None = None
    relay: Relay | None = field(default=None, repr=False)
    denial: Deny | None = None
    bytes_out: int = 0
    bytes_in: int = 0
    secret_refs: tuple[str, ...] = ()
    hops: int = 0
    final: Granted | None = None
    relayed: bool = False
    rules: "RelayRules | None" = field(default=None, repr=False)
    client: ClientChannel | None = field(default=None, repr=False)
    announced: int | None = 0
    body_prefix: bytearray = field(default_factory=bytearray, repr=False)
    status: int | None = None
    upstream_status: int | None = None
    opened: bool = False
    ended_by: EndedBy | None = None
    reply: bytes | None = field(default=None, repr=False)
    close: bool = False
    tunnel: UpstreamStream | None = field(default=None, repr=False)

    @property
    def settled(self) -> bool:
        """A step has refused: the steps behind it have nothing to do but the record."""
        return self.denial is not None

    def deny(self, denial: Deny) -> None:
        """Refuse, unless it is refused already: the first refusal is the one that counts."""
        self.relay = None
        if self.denial is None:
            self.denial = denial
            # What cannot be read, or was not, leaves open where the next request begins.
            unread = self.client is not None and self.client.final
            self.close = self.close or unread or denial.status == HTTPStatus.BAD_REQUEST

    def fault(self) -> None:
        """Refuse for an error of our own: whatever was decided or answered before no longer counts."""
        self.relay = None
        self.reply = None
        self.denial = Deny(
            rule=Rule.FAULT,
            reason=Reason.FAULT,
            status=500,
            detail="the proxy failed on this request and sent no answer on",
        )
        self.close = True


def client_left() -> Deny:
    """The refusal, for the record, of a request that its client did not bring to its end."""
    return Deny(
        rule=Rule.BAD_REQUEST,
        reason=Reason.CLIENT_LEFT,
        status=400,
        detail="the client ended before its request was complete",
    )
