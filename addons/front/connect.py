"""The forward proxy front: CONNECT, then TLS with a leaf of our own, then HTTP/1.1, in one layer.

A tunnel is opened only to an endpoint's host, and never an opaque one: what comes inside is TLS for that host or is
refused. Everything that is no CONNECT is refused too, since a semantic endpoint is https only.
"""

from collections.abc import Callable
from typing import final

from mitmproxy.proxy.context import Context

from addons.boxes import Box
from addons.exchange import Arrival, Exchange
from addons.hooks import Hook
from addons.policy import Policies, Service
from addons.ports import Certificates
from addons.record import TLS_ALERT, Mode
from addons.streams import ClientLeft
from grants.canonical import parse_authority
from grants.decision import Deny, Reason, Rule
from grants.message import Authority, RequestHead

from .channel import Channel
from .events import HeadRead
from .layer import FrontLayer, Limits
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

    async def _head(self, event: HeadRead) -> None:
        if event.head.method != b"CONNECT":
            await self._not_connect(event)
            return
        exchange = self.begin(event.head)
        # One head is all that is read here: a refusal ends the connection.
        exchange.close = True
        await self._layer.client.ask(Hook.CONNECT, exchange)
        if exchange.denial is not None or exchange.reply is None:
            self._layer.reply(exchange)
            return
        self.tunnel, self.service, self.box = exchange.authority, exchange.service, exchange.box
        self.box_token = exchange.box_token
        self._layer.send(exchange.reply)
        if exchange.tunnel is not None:
            await self._opaque(exchange)
            return
        # It is answered without a record: what fails from here on is not it.
        self._current = None
        self._layer.arm(self._layer.limits.body)

    async def _not_connect(self, event: HeadRead) -> None:
        """Plain http is relayed to an endpoint whose upstream is plain http too, and to nothing else."""
        target = event.head.target
        authority = plain_authority(target)
        service = self._policies.current.authorities.get(authority) if authority is not None else None
        if service is not None and service.upstream.scheme == "http":
            self._plain = Arrival(mode=Mode.PROXY, peer=self._arrival().peer, service=service.name, authority=authority)
            await super()._head(event)
            self._plain = None
        else:
            await self._refuse(self.begin(event.head), _not_connect(target))

    async def _opaque(self, exchange: Exchange) -> None:
        """Carry a tunnel until it ends; what came behind the head goes first."""
        channel = Channel(self._layer.wire, None, complete=False)
        channel.received(self._reader.take_rest())
        await self._carry(exchange, channel, Hook.TUNNEL)
        self._layer.close()

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
        self._policies = policies
        self._peer = peer
        self._certificates = certificates

    async def converse(self) -> None:
        """The head and the handshake, then requests."""
        inner = await self._enter()
        if inner is not None:
            await inner.run()

    async def _enter(self) -> Stream | None:
        """What reads the requests inside the tunnel; None where there are none to read."""
        self.requests = opening = Opening(self, self._policies, lambda: Arrival(mode=Mode.CONNECT, peer=self._peer))
        await opening.run()
        if opening.tunnel is None or self.finished:
            return None
        behind = await self._secure(opening, opening.tunnel.host)
        if behind is None:
            return None
        arrival = self._inside(opening)
        self.requests = inner = Stream(self, self._policies, lambda: arrival)
        inner.feed(behind)
        return inner

    async def _secure(self, opening: Opening, host: str) -> bytes | None:
        """The handshake. Returns what came behind it; None where it failed.

        A tunnel in which nothing was said leaves no record, a handshake that fails does.
        """
        inbox = self.client.inbox
        try:
            data = opening.rest() or await inbox.take()
        except (TimeoutError, ClientLeft):
            self.finish()
            return None
        if data[0] != TLS_HANDSHAKE_RECORD:
            await opening.refuse(_not_tls(data))
            return None
        tls = self.wire = Tls(self._certificates.context(host))
        try:
            while True:
                plain = self._handshake(tls, data)
                if tls.established:
                    return plain
                data = await inbox.take()
        except (TimeoutError, ClientLeft):
            await opening.record(_no_handshake(refused_name=False))
        except TlsFailed as failed:
            said = () if failed.alert is None else (f"{TLS_ALERT}{failed.alert}",)
            await opening.record(_no_handshake(refused_name=failed.refused_name), *said)
        self.finish()
        return None

    def _handshake(self, tls: Tls, data: bytes) -> bytes:
        """Go on with the handshake. The client sees what it is told of it, also where it fails."""
        try:
            return tls.receive(data)
        finally:
            if pending := tls.pending():
                self.client.send(pending)

    def _inside(self, opening: Opening) -> Arrival:
        """How the requests inside the tunnel come in: the same for all of them."""
        service, tls = opening.service, self.wire
        if service is None or not isinstance(tls, Tls):
            raise ValueError("no tunnel")
        return Arrival(
            mode=Mode.PROXY,
            peer=self._peer,
            service=service.name,
            authority=opening.tunnel,
            box=opening.box.name if opening.box is not None else None,
            box_token=opening.box_token,
            server_name=self._certificates.server_name(tls.connection),
            encrypted=True,
        )


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


def _no_handshake(*, refused_name: bool) -> Deny:
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
