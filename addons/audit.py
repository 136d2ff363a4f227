"""One decision record a request, in the log before the answer leaves. What is not recorded is not shown."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from grants.authorize import Granted
from grants.decision import Deny, Reason, Rule
from grants.message import Relay
from grants.model import Operation
from grants.resource import resource_digest

from .exchange import Exchange
from .policy import Judged
from .ports import NO_FLIGHTS, DecisionLog, Flights, LogUnavailable
from .record import EndedBy, Event, Mode, Record, Signal
from .refusal import broker_refusal, refusal
from .reply import BARE_500, reply_bytes

log = logging.getLogger(__name__)

KNOWN_METHODS: Final[Mapping[bytes, str]] = {
    name.encode(): name for name in ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
}
"""What a record calls each method that it may name, by the method's bytes."""
_TUNNEL_OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"
_SIGNALS = {
    Rule.UNRESOLVED_SECRET: Signal.UNRESOLVED_SECRET,
    Rule.RESPONSE_CREDENTIAL: Signal.CREDENTIAL_DISCLOSED,
    Rule.MISDIRECTED: Signal.MISDIRECTED,
}


@dataclass(frozen=True, slots=True)
class Audit:
    """Record each exchange and set its reply. The last of the chain.

    Attributes:
        key: of the installation, for resource digests.
        terse: refusals leave their detail out.
    """

    decisions: DecisionLog
    key: bytes = field(repr=False)
    terse: bool = False
    flights: Flights = NO_FLIGHTS

    def broker_connect(self, exchange: Exchange) -> None:
        """An intercepted tunnel leaves a record only when it is refused: its requests leave theirs.

        An opaque one has its record already, since it was dialled.
        """
        if exchange.settled:
            self._finish(exchange)
        else:
            exchange.reply = _TUNNEL_OPEN

    def broker_tunnel(self, exchange: Exchange) -> None:
        """An opaque tunnel has ended."""
        self._end(exchange)

    def broker_head(self, exchange: Exchange) -> None:
        """A refused head ends the request here."""
        if exchange.settled:
            self._finish(exchange)

    def broker_request(self, exchange: Exchange) -> None:
        """Every request ends here."""
        if exchange.opened:
            self._end(exchange)
        else:
            self._finish(exchange)

    def open(self, exchange: Exchange) -> bool:
        """Record the decision for a stream, before its first byte. False: refused, since it could not be recorded."""
        try:
            self.decisions.write(self.record(exchange))
        except LogUnavailable:
            exchange.deny(log_unavailable())
            return False
        exchange.opened = True
        self.flights.opened(exchange)
        return True

    def _end(self, exchange: Exchange) -> None:
        """Record how a stream ended. What it carried is gone, so a log that fails here only stops what comes next."""
        try:
            self.decisions.write(self.record(exchange, Event.END))
        except Exception as error:
            log.error("%s: its end is not recorded (%s)", exchange.id, type(error).__name__)  # noqa: TRY400 - one line is enough

    def _finish(self, exchange: Exchange) -> None:
        """Render, record, then set the reply. An error on the way is a 500, an unwritten record a 503."""
        try:
            if exchange.denial is None and exchange.relay is None:
                raise ValueError("nobody decided")
            record, reply = self.record(exchange), self._render(exchange)
        except Exception as error:
            log.error("%s: %s while recording; the request is refused", exchange.id, type(error).__name__)  # noqa: TRY400 - the traceback's values may be secret
            exchange.fault()
            record, reply = _fault_record(exchange), BARE_500
        try:
            self.decisions.write(record)
        except Exception as error:
            log.error("%s: not recorded (%s); the request is refused", exchange.id, type(error).__name__)  # noqa: TRY400 - one line is enough
            exchange.relay, exchange.denial, exchange.close = None, log_unavailable(), True
            reply = self._render(exchange)
        exchange.reply = reply

    def _render(self, exchange: Exchange) -> bytes:
        shown: Relay | None = exchange.relay
        if exchange.denial is not None:
            if exchange.arrival.mode is Mode.BROKER:
                shown = broker_refusal(exchange.denial, exchange.methods)
            else:
                shown = refusal(exchange.denial, exchange.id, terse=self.terse)
        if shown is None:
            raise ValueError("nothing to show")
        method = b"" if exchange.head is None else exchange.head.method
        return reply_bytes(shown, method=method, close=exchange.close)

    def record(self, exchange: Exchange, event: Event | None = None) -> Record:
        """What happened so far, as a record. `event` stands in for the verdict's own, for an intent."""
        denial, service, granted, last = exchange.denial, exchange.service, exchange.granted, exchange.final
        head, status = exchange.head, exchange.status
        if denial is not None:
            status = denial.status
        elif exchange.relay is not None:
            status = exchange.relay.status
        if service is None:
            endpoint = exchange.endpoint
            host = exchange.authority.host if exchange.authority is not None else None
            assurance = "tunnel" if exchange.tunnel is not None else None
        else:
            endpoint, host, assurance = service.name, service.upstream.host, service.way.assurance
        judged = service.way if service is not None and isinstance(service.way, Judged) else None
        operation = granted.operation if granted is not None else _named(denial, judged)
        return Record(
            id=exchange.id,
            event=event or (Event.ALLOW if denial is None else Event.DENY),
            mode=exchange.arrival.mode,
            verdict="allow" if denial is None else "deny",
            box=exchange.box.name if exchange.box is not None else None,
            endpoint=endpoint,
            host=host,
            method=KNOWN_METHODS.get(head.method) if head is not None else None,
            assurance=assurance,
            rule=denial.rule if denial is not None else None,
            reason=denial.reason if denial is not None else None,
            operation=operation.name if operation is not None else None,
            effect=operation.effect if operation is not None else None,
            route=operation.route.template if operation is not None else None,
            resource_digest=self._resource(granted) if granted is not None else None,
            redirect_hops=exchange.hops,
            final_host=last.origin.host if last is not None else None,
            final_operation=last.operation.name if last is not None else None,
            final_effect=last.operation.effect if last is not None else None,
            final_route=last.operation.route.template if last is not None else None,
            final_resource_digest=self._resource(last) if last is not None else None,
            status=status,
            upstream_status=exchange.upstream_status,
            bytes_out=exchange.bytes_out,
            bytes_in=exchange.bytes_in,
            duration_ms=(monotonic() - exchange.started) * 1000,
            secret_refs=exchange.secret_refs,
            signals=_signals(denial) if denial is not None else (),
            labels=((exchange.ended_by or EndedBy.PROXY, *exchange.labels) if event is Event.END else exchange.labels),
            grant_digest=judged.endpoint.grant.digest if judged is not None else None,
        )

    def _resource(self, granted: Granted) -> str | None:
        if not granted.parameters:
            return None
        return resource_digest(self.key, granted.origin, granted.parameters)


def _fault_record(exchange: Exchange) -> Record:
    """What can be said of a request whose record could not be made."""
    return Record(
        id=exchange.id,
        event=Event.DENY,
        mode=exchange.arrival.mode,
        verdict="deny",
        rule=Rule.FAULT,
        reason=Reason.FAULT,
        status=500,
    )


def log_unavailable() -> Deny:
    """The refusal while the decision log cannot be written."""
    return Deny(
        rule=Rule.DENIED, reason=Reason.LOG, status=503, detail="the decision log cannot be written, so nothing is sent"
    )


def _named(denial: Deny | None, judged: Judged | None) -> Operation | None:
    """The operation that a refusal is about, where it is about one."""
    if denial is None or judged is None or denial.operation is None:
        return None
    return next((o for o in judged.endpoint.grant.operations if o.name == denial.operation), None)


def _signals(denial: Deny) -> tuple[Signal, ...]:
    found = [Signal.DENIED]
    if (signal := _SIGNALS.get(denial.rule)) is not None:
        found.append(signal)
    if denial.reason is Reason.INSIDE_ADDRESS:
        found.append(Signal.INSIDE_ADDRESS)
    return tuple(found)
