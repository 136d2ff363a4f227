"""The trusted-upstream relay: the credential goes in, everything else is streamed both ways as it comes.

Its record is written before the first byte of the answer, and says that nothing of it is checked. The client's end ends
the upstream's, and the other way round; a stream that breaks ends without looking complete.
"""

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Final, final

from grants.decision import Deny, Reason, Rule

from .audit import Audit, log_unavailable
from .capture import BODY_BYTES
from .causes import expected, first
from .download import download
from .exchange import Exchange, client_left
from .guard import fail_closed
from .policy import Relayed, Service
from .ports import UpstreamFailed
from .pump import pump, read_within
from .record import EndedBy
from .relay_head import answer_head
from .relay_rules import TRUSTED, RelayRules, Screen, Withheld
from .send import at_capacity, deny_failed
from .streams import ClientChannel, ClientLeft, UpstreamStream

_ENDS: Final = (TimeoutError, ClientLeft, UpstreamFailed, Withheld)
HALF_CLOSED_SECONDS = 5.0
"""How long a client that sends nothing more, and to which nothing is sent, is waited for."""


@final
@dataclass(frozen=True, slots=True)
class Relay:
    """Relays what goes to a trusted-upstream endpoint. `audit` makes the record before the stream opens."""

    audit: Audit

    @fail_closed
    async def broker_request(self, exchange: Exchange) -> None:
        """Open the stream, and carry it to its end."""
        if not exchange.relayed:
            return
        service = exchange.service
        if service is None or not isinstance(service.way, Relayed):
            raise ValueError("a relay to nowhere")
        if not self.audit.decisions.writable:
            exchange.deny(log_unavailable())
        elif not service.gate.enter():
            exchange.deny(at_capacity(service.name))
        else:
            try:
                await self._exchange(exchange, service, service.way)
            finally:
                service.gate.leave()

    async def _exchange(self, exchange: Exchange, service: Service, way: Relayed) -> None:
        client, rules = exchange.client, exchange.rules or TRUSTED
        if exchange.head is None or client is None:
            raise ValueError("a relay without a client")
        ready = await rules.ready(exchange, service, way)
        if isinstance(ready, Deny):
            exchange.deny(ready)
            return
        exchange.secret_refs = ready.names
        held = exchange.body_limit is not None
        try:
            stream = await way.upstream.open(
                ready.request,
                length=len(exchange.body) if held else exchange.announced,
                upgrade=ready.upgrade,
                connect_timeout=way.connect_timeout,
            )
        except UpstreamFailed as failed:
            deny_failed(exchange, failed, None)
            return
        try:
            await self._carry(exchange, service, way, client, stream, rules)
        finally:
            await stream.close()

    async def _carry(
        self,
        exchange: Exchange,
        service: Service,
        way: Relayed,
        client: ClientChannel,
        stream: UpstreamStream,
        rules: RelayRules,
    ) -> None:
        """Both directions at once; whichever side fails ends them both."""
        try:
            async with asyncio.timeout(service.timeout), asyncio.TaskGroup() as group:
                beside = [group.create_task(_watch(client))]
                if exchange.announced != 0:
                    beside.append(group.create_task(self._upload(exchange, client, stream, way, rules.upload())))
                await self._answer(exchange, service, way, client, stream, rules)
                # An answer may come before the request has been taken: the rest of that is of no use.
                for task in beside:
                    task.cancel()
        except (TimeoutError, BaseExceptionGroup) as error:
            self._broke(exchange, client, expected(error, _ENDS))

    def _broke(self, exchange: Exchange, client: ClientChannel, causes: list[BaseException]) -> None:
        """It did not come to its end. Where nothing was shown yet there is a refusal, else the end record says so."""
        if (withheld := first(causes, Withheld)) is not None:
            exchange.deny(withheld.denial)
            exchange.close = True
        elif first(causes, ClientLeft) is not None:
            self._left(exchange, client)
        elif not exchange.opened:
            late = UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504)
            deny_failed(exchange, first(causes, UpstreamFailed) or late, None)

    def _left(self, exchange: Exchange, client: ClientChannel) -> None:
        """The client ended it. What was whole was sent, and is recorded as that; what was not is refused."""
        exchange.close = True
        if not exchange.opened and (client.unreadable is not None or client.final):
            exchange.deny(client.unreadable or client_left())
        elif exchange.opened or self.audit.open(exchange):
            exchange.ended_by = EndedBy.CLIENT

    async def _upload(
        self, exchange: Exchange, client: ClientChannel, stream: UpstreamStream, way: Relayed, screen: Screen | None
    ) -> None:
        if exchange.body_limit is not None:
            # The whole body was looked at before it was decided to relay.
            exchange.bytes_out += len(exchange.body)
            await stream.write(exchange.body)
            await stream.finish()
            return
        while piece := await read_within(client, way.idle):
            if exchange.service is not None and exchange.service.capture is not None:
                exchange.body_prefix += piece[: BODY_BYTES - len(exchange.body_prefix)]
            for part in (piece,) if screen is None else screen.feed(piece):
                await stream.write(part)
                exchange.bytes_out += len(part)
        for part in () if screen is None else screen.finish():
            await stream.write(part)
            exchange.bytes_out += len(part)
        await stream.finish()

    async def _answer(
        self,
        exchange: Exchange,
        service: Service,
        way: Relayed,
        client: ClientChannel,
        stream: UpstreamStream,
        rules: RelayRules,
    ) -> None:
        received = await stream.head()
        exchange.upstream_status = received.status
        method = b"" if exchange.head is None else exchange.head.method
        bodiless = method == b"HEAD" or received.status in (204, 304)
        head = rules.shown(received, bodiless=bodiless)
        if isinstance(head, Deny):
            exchange.deny(head)
            return
        exchange.status = head.status
        if not self.audit.open(exchange):
            return
        if head.status == 101:
            client.become_raw()
        called = rules.called(exchange, service)
        exchange.close = exchange.close or client.final
        shown, chunked = answer_head(head, method=method, close=exchange.close, called=called)
        if head.status == 101:
            await client.write(shown)
            exchange.close = True
            exchange.ended_by = await pump(exchange, client, stream, idle=way.idle, total=None)
            return
        await download(exchange, client, stream, shown, rules.download(received, bodiless=bodiless), chunked=chunked)
        exchange.ended_by = EndedBy.UPSTREAM


async def _watch(client: ClientChannel) -> None:
    """Fail when the client is gone, also while neither side says anything.

    A client that sends nothing more may still read (a half-close, RFC 9112, 9.6). Whether it does shows when it is
    written to, so one to which nothing is to be sent for a while counts as gone. Raw streams see to their own ends.
    """
    await client.left()
    left = monotonic()
    while not client.is_raw:
        quiet = max(left, client.quiet_since) + HALF_CLOSED_SECONDS - monotonic()
        if quiet <= 0 or client.unreadable is not None:
            raise ClientLeft
        await asyncio.sleep(quiet)
