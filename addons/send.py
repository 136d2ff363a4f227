"""Send an authorized request, follow what the grant lets it follow, and hold the answer to the grant.

Nothing of an answer leaves this module unchecked: `relay` is what `grants` made of it.
Source: "Redirects" and "Checking an answer" in docs/reference/grants.md.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final

from grants.authorize import Allow
from grants.coding import content_codings
from grants.decision import Deny, Reason, Rule
from grants.message import Relay, Response
from grants.model import Effect, Operation
from grants.redirect import NotRedirect, next_hop, start
from grants.references import Sealed, seal
from grants.response import check_response, scan_intermediate
from grants.secret import Secret

from .audit import Audit, log_unavailable
from .exchange import Exchange
from .guard import fail_closed
from .inject import with_injected
from .policy import Judged, Service
from .ports import Held, LogUnavailable, UpstreamFailed
from .record import UPSTREAM_TLS, Event

# An answer that may turn out to be a redirect is read this far, in bytes, even where the operation allows less.
_INTERMEDIATE_BYTES: Final = 64 * 1024

# An answer that may be longer than this, decoded, is checked in a thread, so that it does not hold up the others.
_AT_ONCE_BYTES: Final = 64 * 1024
# Apart from asyncio's own threads, which resolve names; few, since what checks wants the processor.
_checkers: Final = ThreadPoolExecutor(2, thread_name_prefix="check")

# Failures before the first byte of a request is written.
_UNSENT: Final = frozenset(
    {
        Reason.CONNECT,
        Reason.RESOLVE,
        Reason.TLS,
        Reason.CAPACITY,
        Reason.INSIDE_ADDRESS,
        Reason.SHUTDOWN,
        Reason.FAULT,
    }
)

_FAILURES: Final = {
    Reason.CONNECT: "the upstream could not be reached",
    Reason.RESOLVE: "the upstream's name could not be resolved",
    Reason.TLS: "the upstream's TLS certificate or handshake was not accepted",
    Reason.TIMEOUT: "the upstream did not answer in time",
    Reason.MALFORMED: "the upstream's answer is not strict HTTP/1.1",
    Reason.INCOMPLETE: "the upstream's answer ended before it was complete",
    Reason.UPGRADE: "the upstream changed the protocol unasked",
    Reason.RESPONSE_TOO_LARGE: "the answer is over the limit of its operation",
    Reason.RESPONSE_HEAD_TOO_LARGE: "the answer's head is over its limit",
    Reason.INSIDE_ADDRESS: "the upstream's name leads to an inside address",
    Reason.CAPACITY: "too many requests to this upstream are under way; try again shortly",
    Reason.SHUTDOWN: "the proxy is stopping",
}


@dataclass(frozen=True, slots=True)
class Send:
    """Acts on an `Allow` alone. `audit` makes the record that a write leaves before it is sent."""

    audit: Audit

    @fail_closed
    async def broker_request(self, exchange: Exchange) -> None:
        """Send, follow, check."""
        if exchange.relayed or exchange.own:
            return
        allow, service = exchange.allow, exchange.service
        if allow is None or service is None or not isinstance(service.way, Judged):
            raise ValueError("sending what nobody allowed")
        if not self.audit.decisions.writable:
            exchange.deny(log_unavailable())
            return
        if not service.gate.enter():
            exchange.deny(at_capacity(service.name))
            return
        try:
            held = await service.vault.open()
            sealed = _sealed(allow, service, held)
            if isinstance(sealed, Deny):
                exchange.deny(sealed)
                return
            if allow.granted.operation.effect is Effect.WRITE and not self._intend(exchange, sealed):
                return
            await self._follow(exchange, service, service.way, allow, held, sealed)
        finally:
            service.gate.leave()

    def _intend(self, exchange: Exchange, sealed: Sealed) -> bool:
        """Leave the intent of a write in the log, or refuse: a write that may have happened is never unrecorded."""
        exchange.secret_refs = sealed.names
        try:
            self.audit.decisions.write(self.audit.record(exchange, Event.INTENT))
        except LogUnavailable:
            exchange.deny(log_unavailable())
            return False
        return True

    async def _follow(
        self, exchange: Exchange, service: Service, way: Judged, allow: Allow, held: Held, sealed: Sealed
    ) -> None:
        chain = start(way.endpoint, allow.granted)
        end = monotonic() + service.timeout
        while True:
            exchange.secret_refs = tuple(dict.fromkeys(exchange.secret_refs + sealed.names))
            size = len(sealed.request.body or b"")
            exchange.bytes_out += size
            operation = chain.current.operation
            try:
                response = await way.upstream.send(
                    sealed.request,
                    max_body=max(operation.response.max_bytes, _INTERMEDIATE_BYTES),
                    timeout=end - monotonic(),
                )
            except UpstreamFailed as failed:
                exchange.bytes_out -= size if failed.reason in _UNSENT else 0
                deny_failed(exchange, failed, operation.name)
                return
            exchange.bytes_in += len(response.body)
            exchange.upstream_status = response.status
            step = next_hop(chain, response)
            if isinstance(step, NotRedirect):
                checked = await _checked(operation, sealed.request.method, response, held.needles)
                break
            # A credential in an answer outweighs whatever else is wrong with where it leads.
            if (leak := scan_intermediate(response, held.needles)) is not None:
                exchange.deny(leak)
                return
            if isinstance(step, Deny):
                exchange.deny(step)
                return
            hop = _sealed(step.allow, service, held)
            if isinstance(hop, Deny):
                exchange.deny(hop)
                return
            chain, sealed = step.chain, hop
            exchange.hops, exchange.final = chain.hops, chain.current
        if isinstance(checked, Deny):
            exchange.deny(checked)
        else:
            exchange.relay = checked


async def _checked(
    operation: Operation, method: bytes, response: Response, needles: tuple[Secret, ...]
) -> Relay | Deny:
    """What `check_response` says, without holding up the loop for a large answer."""
    size, limit = len(response.body), operation.response.max_bytes
    if size and limit > _AT_ONCE_BYTES and content_codings(response.fields):
        size = max(size, limit)
    if size <= _AT_ONCE_BYTES:
        return check_response(operation, method=method, response=response, needles=needles)
    check = partial(check_response, operation, method=method, response=response, needles=needles)
    return await asyncio.get_running_loop().run_in_executor(_checkers, check)


def _sealed(allow: Allow, service: Service, held: Held) -> Sealed | Deny:
    """The request with its secrets in; what is injected goes only where the credential may go."""
    request, origins = allow.request, allow.granted.operation.origins
    if request.origin == service.upstream or (origins is not None and request.origin in origins):
        request = with_injected(request, service.inject)
    return seal(request, held.values, service.secrets)


def at_capacity(name: str) -> Deny:
    """The refusal while an endpoint has as many requests in flight as it may."""
    detail = f"endpoint `{name}` has as many requests under way as it may; try again shortly"
    return Deny(rule=Rule.DENIED, reason=Reason.CAPACITY, status=503, detail=detail)


def deny_failed(exchange: Exchange, failed: UpstreamFailed, operation: str | None) -> None:
    """Refuse for an upstream that gave no complete answer. Why a handshake with it failed is for the record alone."""
    if failed.tls is not None and not exchange.settled:
        exchange.labels = (*exchange.labels, f"{UPSTREAM_TLS}{failed.tls}")
    exchange.deny(failure(failed, operation))


def failure(failed: UpstreamFailed, operation: str | None) -> Deny:
    """The refusal for an upstream that gave no complete answer."""
    return Deny(
        rule=failed.rule,
        reason=failed.reason,
        status=failed.status,
        detail=_FAILURES.get(failed.reason, "the upstream gave no answer that may be shown"),
        operation=operation,
    )
