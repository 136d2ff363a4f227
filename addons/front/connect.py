"""The forward proxy front: CONNECT, then TLS with a leaf of our own, then HTTP/1.1, in one layer.

A tunnel is opened only to an endpoint's host, and never an opaque one: what comes inside is TLS for that host or is
refused. Everything that is no CONNECT is refused too, since a semantic endpoint is https only.
"""

from collections.abc import Callable
from typing import final

from mitmproxy.proxy import commands
from mitmproxy.proxy.context import Context

from addons.boxes import Box
from addons.exchange import Arrival, Exchange
from addons.hooks import BrokerConnectHook, BrokerTunnelHook
from addons.policy import Policies, Service
from addons.ports import Certificates
from addons.record import TLS_ALERT, Mode
from grants.canonical import parse_authority
from grants.decision import Deny, Reason, Rule
from grants.message import Authority, RequestHead

from .channel import Channel
from .layer import Commands, FrontLayer, Limits
from .reader import HeadRead
from .stream import Stream
from .wire import TLS_HANDSHAKE_RECORD, Tls, TlsFailed


@final
class Opening(Stream):
    """Reads the one CONNECT of a connection. Afterwards `tunnel` and `service` say where it leads."""

    def __init__(self, layer: FrontLayer, policies: Policies, arrival: Callable[[], Arrival]) -> None:
        super().__init__(layer, policies, arrival)
        self.tunnel: Authority | None = None
        self.service: Service | None = None
        self.box: Box | None = None
        self.box_token: bytes | None = None
        self._plain: Arrival | None = None

    @property
    def reading(self) -> bool:
        """One head is all that is read."""
        return self.tunnel is None and super().reading

    def begin(self, head: RequestHead | None) -> Exchange:
        """Once the tunnel is there, what goes wrong in it is told with its names."""
        exchange = super().begin(head)
        if self._plain is not None:
            exchange.arrival = self._plain
            return exchange
        exchange.authority, exchange.service = self.tunnel, self.service
        return exchange

    def _head(self, event: HeadRead) -> Commands:
        if event.head.method != b"CONNECT":
            yield from self._not_connect(event)
            return
        exchange = self.begin(event.head)
        # One head is all that is read here: a refusal ends the connection.
        exchange.close = True
        self._layer.disarm()
        yield BrokerConnectHook(exchange)
        if exchange.denial is not None or exchange.reply is None:
            yield from self._layer.reply(exchange)
            return
        self.tunnel, self.service, self.box = exchange.authority, exchange.service, exchange.box
        self.box_token = exchange.box_token
        yield from self._layer.send(exchange.reply)
        if exchange.tunnel is not None:
            yield from self._opaque(exchange)
            return
        yield from self._layer.arm(self._layer.limits.body)

    def _not_connect(self, event: HeadRead) -> Commands:
        """Plain http is relayed to an endpoint whose upstream is plain http too, and to nothing else."""
        target = event.head.target
        authority = plain_authority(target)
        service = self._policies.current.authorities.get(authority) if authority is not None else None
        if service is not None and service.upstream.scheme == "http":
            self._plain = Arrival(mode=Mode.PROXY, peer=self._arrival().peer, service=service.name, authority=authority)
            yield from super()._head(event)
            self._plain = None
        else:
            yield from self._refuse(self.begin(event.head), _not_connect(target))

    def _opaque(self, exchange: Exchange) -> Commands:
        """Carry a tunnel until it ends; what came behind the head goes first."""
        channel = Channel(self._layer.wire, None, complete=False)
        channel.received(self._reader.take_rest())
        yield from self._carry(exchange, channel, BrokerTunnelHook(exchange))
        yield from self._layer.close()

    def rest(self) -> bytes:
        """What came behind the head."""
        return self._reader.take_rest()


@final
class ConnectLayer(FrontLayer):
    """A connection to the forward proxy: reading CONNECT, in the TLS handshake, or within the tunnel."""

    def __init__(
        self, context: Context, limits: Limits, policies: Policies, peer: str | None, certificates: Certificates
    ) -> None:
        super().__init__(context, limits)
        self._peer = peer
        self._certificates = certificates
        self._opening = Opening(self, policies, lambda: Arrival(mode=Mode.CONNECT, peer=peer))
        self._inner = Stream(self, policies, self._inside)
        self._arrival: Arrival | None = None
        self._tls: Tls | None = None

    def _inside(self) -> Arrival:
        """How the requests inside the tunnel came in: the same for all of them."""
        if self._arrival is None:
            service, tls = self._opening.service, self._tls
            if service is None or tls is None:
                raise ValueError("no tunnel")
            self._arrival = Arrival(
                mode=Mode.PROXY,
                peer=self._peer,
                service=service.name,
                authority=self._opening.tunnel,
                box=self._opening.box.name if self._opening.box is not None else None,
                box_token=self._opening.box_token,
                server_name=self._certificates.server_name(tls.connection),
                encrypted=True,
            )
        return self._arrival

    def received(self, data: bytes) -> Commands:
        """By state: the head, the handshake, requests."""
        if self._opening.tunnel is None:
            yield from self._opening.received(data)
            data = self._opening.rest() if self._opening.tunnel is not None else b""
        if data:
            yield from self._tunnelled(data)

    def _tunnelled(self, data: bytes) -> Commands:
        tls = self._tls
        if tls is None:
            if data[0] != TLS_HANDSHAKE_RECORD or self._opening.tunnel is None:
                yield from self._opening.refuse(_not_tls(data))
                return
            tls = self._tls = self.wire = Tls(self._certificates.context(self._opening.tunnel.host))
        established = tls.established
        try:
            plain = tls.receive(data)
        except TlsFailed as failed:
            yield from self._broken(tls, failed)
            return
        if pending := tls.pending():
            yield commands.SendData(self.context.client, pending)
        if plain:
            yield from self._inner.received(plain)
        elif tls.established and not established:
            yield from self.arm(self.limits.idle)
        if tls.failed is not None:
            yield from self._broken(tls, tls.failed)
        elif tls.ended and not self.finished:
            yield from self._inner.left()
            yield from self.finish()

    def _broken(self, tls: Tls, failed: TlsFailed) -> Commands:
        """The client sees the alert. A handshake that fails leaves a record; later it is an end like another."""
        if last := tls.pending():
            yield commands.SendData(self.context.client, last)
        if tls.established:
            yield from self._inner.left()
        else:
            said = () if failed.alert is None else (f"{TLS_ALERT}{failed.alert}",)
            yield from self._opening.record(_handshake(refused_name=failed.refused_name), *said)
        yield from self.close()

    def late(self) -> Commands:
        """By state."""
        if self._tls is None:
            yield from self._opening.late()
        elif self._tls.established:
            yield from self._inner.late()
        else:
            yield from self._opening.record(_handshake(refused_name=False))
            yield from self.finish()

    def left(self) -> Commands:
        """By state. A tunnel in which nothing was asked leaves no record, a handshake that was given up does."""
        if self._opening.tunnel is None:
            yield from self._opening.left()
        elif self._tls is not None and self._tls.established:
            yield from self._inner.left()
        elif self._tls is not None:
            yield from self._opening.record(_handshake(refused_name=False))

    def crashed(self) -> Commands:
        """By state."""
        inside = self._tls is not None and self._tls.established
        return (self._inner if inside else self._opening).crashed()


def plain_authority(target: bytes) -> Authority | None:
    """The authority of a target in absolute form with the scheme http (RFC 9112, 3.2.2)."""
    if not target.startswith(b"http://"):
        return None
    return parse_authority(target.removeprefix(b"http://").partition(b"/")[0].partition(b"?")[0], scheme="http")


def _not_connect(target: bytes) -> Deny:
    if target.startswith(b"http://"):
        return Deny(
            rule=Rule.DENIED,
            reason=Reason.PLAIN_HTTP,
            detail="this proxy takes no plain http; call the endpoint by https, through CONNECT",
        )
    return Deny(
        rule=Rule.BAD_REQUEST,
        reason=Reason.TARGET_UNREADABLE,
        status=400,
        detail="this is a forward proxy: set it as HTTPS_PROXY, and call the endpoint by https",
    )


def _not_tls(data: bytes) -> Deny:
    http = data[:1].isalpha() and data[:1].isupper() and b" HTTP/" in data[:8192]
    return Deny(
        rule=Rule.BAD_REQUEST,
        reason=Reason.PLAIN_HTTP if http else Reason.NOT_HTTP,
        status=400,
        detail="this tunnel takes TLS; call the endpoint by https",
    )


def _handshake(*, refused_name: bool) -> Deny:
    """The client does not trust our CA, names another server, or speaks no TLS that we do."""
    if refused_name:
        return Deny(
            rule=Rule.MISDIRECTED,
            reason=Reason.HOST_MISMATCH,
            status=421,
            detail="the TLS server name is not the host that CONNECT named",
        )
    return Deny(
        rule=Rule.BAD_REQUEST,
        reason=Reason.TLS_CLIENT,
        status=400,
        detail="the TLS handshake failed; does the client trust the CA of `grantproxy ca`?",
    )
