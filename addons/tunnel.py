"""Opaque tunnels to listed hosts: no credential, no look inside, an address guard, and a record of the bytes."""

from dataclasses import dataclass
from typing import final

from .audit import Audit, log_unavailable
from .exchange import Exchange
from .guard import fail_closed
from .ports import UpstreamFailed
from .pump import pump
from .send import failure


@final
@dataclass(frozen=True, slots=True)
class Tunnel:
    """Dials what Where let through as a tunnel, and carries it."""

    audit: Audit

    @fail_closed
    async def broker_connect(self, exchange: Exchange) -> None:
        """Dial. The record is written once the upstream is there and before the client hears of it."""
        tunnels, authority = exchange.policy.tunnels, exchange.authority
        if exchange.service is not None:
            return
        if tunnels is None or authority is None or not tunnels.allows(authority):
            raise ValueError("a tunnel that nobody allowed")
        if not self.audit.decisions.writable:
            exchange.deny(log_unavailable())
            return
        try:
            stream = await tunnels.dialler.dial(authority.host, authority.port, timeout=tunnels.connect_timeout)
        except UpstreamFailed as failed:
            exchange.deny(failure(failed, None))
            return
        exchange.tunnel, exchange.status = stream, 200
        opened = False
        try:
            opened = self.audit.open(exchange)
        finally:
            if not opened:
                exchange.tunnel = None
                await stream.close()

    @fail_closed
    async def broker_tunnel(self, exchange: Exchange) -> None:
        """Carry it until it ends."""
        tunnels, stream, client = exchange.policy.tunnels, exchange.tunnel, exchange.client
        if tunnels is None or stream is None or client is None:
            raise ValueError("a tunnel to nowhere")
        try:
            exchange.ended_by = await pump(exchange, client, stream, idle=tunnels.idle, total=tunnels.total)
        finally:
            await stream.close()
