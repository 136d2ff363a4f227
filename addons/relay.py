"""The trusted-upstream relay: the credential goes in, everything else is streamed both ways as it comes.

Its record is written before the first byte of the answer, and says that nothing of it is checked. The client's end ends
the upstream's, and the other way round; a stream that breaks ends without looking complete.
"""

import asyncio
from dataclasses import dataclass
from typing import final

from grants.decision import Deny, Reason, Rule
from grants.references import seal
from grants.target import encode_path

from .audit import Audit, log_unavailable
from .capture import BODY_BYTES
from .exchange import Exchange
from .guard import fail_closed
from .inject import with_injected, without_injected
from .policy import Relayed, Service
from .ports import UpstreamFailed
from .pump import first_failure, pump, read_within
from .record import EndedBy, Mode
from .relay_head import Called, answer_head, request_of
from .send import at_capacity, failure
from .streams import ClientChannel, ClientLeft, UpstreamStream


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
        head, client = exchange.head, exchange.client
        if head is None or client is None:
            raise ValueError("a relay without a client")
        base = () if exchange.arrival.mode is Mode.PROXY else service.base
        asked = request_of(
            without_injected(head, service.inject),
            origin=service.upstream,
            base=base,
            websocket=way.websocket,
            authority=exchange.authority,
            scheme="https" if exchange.arrival.encrypted else "http",
            has_body=exchange.announced != 0,
        )
        if isinstance(asked, Deny):
            exchange.deny(asked)
            return
        held = await service.vault.open()
        sealed = seal(with_injected(asked.request, service.inject), held.values, service.secrets)
        if isinstance(sealed, Deny):
            exchange.deny(sealed)
            return
        exchange.secret_refs = sealed.names
        try:
            stream = await way.upstream.open(
                sealed.request, length=exchange.announced, upgrade=asked.upgrade, connect_timeout=way.connect_timeout
            )
        except UpstreamFailed as failed:
            exchange.deny(failure(failed, None))
            return
        try:
            await self._carry(exchange, service, way, client, stream)
        finally:
            await stream.close()

    async def _carry(
        self, exchange: Exchange, service: Service, way: Relayed, client: ClientChannel, stream: UpstreamStream
    ) -> None:
        """Both directions at once; whichever side fails ends them both."""
        try:
            async with asyncio.timeout(service.timeout), asyncio.TaskGroup() as group:
                upload = group.create_task(self._upload(exchange, client, stream, way))
                watch = group.create_task(_watch(client))
                await self._answer(exchange, service, way, client, stream)
                # An answer may come before the request has been taken: the rest of that is of no use.
                upload.cancel()
                watch.cancel()
        except* TimeoutError:
            if not exchange.opened:
                exchange.deny(failure(UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504), None))
        except* ClientLeft:
            exchange.ended_by = EndedBy.CLIENT
            exchange.close = True
            if not exchange.opened:
                exchange.deny(client.unreadable or client_left())
        except* UpstreamFailed as failures:
            if not exchange.opened:
                exchange.deny(failure(first_failure(failures), None))

    async def _upload(self, exchange: Exchange, client: ClientChannel, stream: UpstreamStream, way: Relayed) -> None:
        if exchange.announced == 0:
            return
        while piece := await read_within(client, way.idle):
            if exchange.service is not None and exchange.service.capture is not None:
                exchange.body_prefix += piece[: BODY_BYTES - len(exchange.body_prefix)]
            await stream.write(piece)
            exchange.bytes_out += len(piece)
        await stream.finish()

    async def _answer(
        self, exchange: Exchange, service: Service, way: Relayed, client: ClientChannel, stream: UpstreamStream
    ) -> None:
        head = await stream.head()
        exchange.status = head.status
        if not self.audit.open(exchange):
            return
        method = b"" if exchange.head is None else exchange.head.method
        if head.status == 101:
            client.become_raw()
        shown, chunked = answer_head(head, method=method, close=exchange.close, called=_called(exchange, service))
        await client.write(shown)
        if head.status == 101:
            exchange.close = True
            exchange.ended_by = await pump(exchange, client, stream, idle=way.idle, total=None)
            return
        while piece := await stream.read():
            exchange.bytes_in += len(piece)
            await client.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            await client.write(b"0\r\n\r\n")
        exchange.ended_by = EndedBy.UPSTREAM


async def _watch(client: ClientChannel) -> None:
    """Fail as soon as the client is gone, also while neither side says anything."""
    await client.left()
    raise ClientLeft


def _called(exchange: Exchange, service: Service) -> Called | None:
    """How the client calls the base URL; None on the forward proxy, where it calls the upstream by its own name."""
    if exchange.arrival.mode is Mode.PROXY or exchange.head is None:
        return None
    host = next((value for name, value in exchange.head.fields if name.lower() == b"host"), b"")
    scheme = b"https://" if exchange.arrival.encrypted else b"http://"
    return Called(
        url=scheme + host + exchange.box_prefix,
        upstream=service.upstream,
        base=encode_path(service.base) if service.base else b"",
    )


def client_left() -> Deny:
    """The refusal, for the record, of a request whose client went before an answer began."""
    return Deny(
        rule=Rule.BAD_REQUEST,
        reason=Reason.CLIENT_LEFT,
        status=400,
        detail="the client ended before its request was complete",
    )
