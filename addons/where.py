"""Where a request goes: the endpoint that its connection stands for, and only if every name in it says the same.

Source: "Host" in docs/reference/matching.md; RFC 9112, 3.2; RFC 9110, 7.2 and 15.5.20 (421).
"""

from dataclasses import dataclass
from typing import Final

from grants.canonical import parse_authority
from grants.decision import Deny, Reason, Rule
from grants.message import Authority, RequestHead

from .boxes import Box
from .exchange import Arrival, Exchange
from .guard import fail_closed
from .policy import Service
from .record import Mode

# What a browser says of a request that another site's page made it send (Fetch Metadata, 2.4).
_FOREIGN_SITES: Final = frozenset({b"cross-site", b"same-site"})


@dataclass(frozen=True, slots=True)
class Where:
    """Find the endpoint, or refuse."""

    @fail_closed
    def broker_connect(self, exchange: Exchange) -> None:
        """CONNECT names an authority (RFC 9110, 9.3.6): only an endpoint's is tunnelled to, and intercepted."""
        if exchange.head is None:
            raise ValueError("a tunnel without a head")
        authority = parse_authority(exchange.head.target, scheme="https") if b":" in exchange.head.target else None
        if authority is None:
            exchange.deny(
                _misdirected(Reason.HOST_UNREADABLE, "the CONNECT target is not a host and port in their usual form")
            )
            return
        exchange.authority = authority
        hosts = _values(exchange.head, b"host")
        if len(hosts) > 1 or (hosts and parse_authority(hosts[0], scheme="https") != authority):
            detail = "the Host field is not the CONNECT target; send that, or none"
            exchange.deny(_misdirected(Reason.HOST_MISMATCH, detail))
            return
        service = exchange.policy.authorities.get(authority)
        if service is None and exchange.policy.tunnels is not None and exchange.policy.tunnels.allows(authority):
            if exchange.box is not None and not exchange.box.tunnels:
                exchange.deny(_not_for_box(exchange.box, Reason.BOX_TUNNEL, "may open no tunnels"))
            return
        if service is None:
            exchange.deny(
                Deny(
                    rule=Rule.DENIED,
                    reason=Reason.HOST_UNKNOWN,
                    detail=_unknown_host(exchange, authority),
                )
            )
            return
        exchange.service = service
        if service.upstream.scheme == "http":
            # TLS to us and none behind us is nothing that a client can see.
            detail = f"endpoint `{service.name}` is plain http; call it by http, which needs no CONNECT"
            exchange.deny(Deny(rule=Rule.DENIED, reason=Reason.PLAIN_HTTP, detail=detail))
        elif (denial := _box_may_use(exchange.box, service)) is not None:
            exchange.deny(denial)

    @fail_closed
    def broker_head(self, exchange: Exchange) -> None:
        """A head was read."""
        if exchange.arrival.mode is not Mode.BROKER:
            self._find(exchange)

    @fail_closed
    def broker_request(self, exchange: Exchange) -> None:
        """A request is complete; its head may not have been asked about alone."""
        if exchange.service is None and exchange.arrival.mode is not Mode.BROKER:
            self._find(exchange)

    def _find(self, exchange: Exchange) -> None:
        arrival, head = exchange.arrival, exchange.head
        service = exchange.policy.services.get(arrival.service) if arrival.service is not None else None
        if service is None or head is None:
            exchange.deny(
                Deny(rule=Rule.DENIED, reason=Reason.HOST_UNKNOWN, detail="this endpoint is no longer in the settings")
            )
            return
        exchange.service = service
        exchange.authority = arrival.authority
        if (denial := _box_may_use(exchange.box, service)) is not None:
            exchange.deny(denial)
            return
        hosts = _values(head, b"host")
        if len(hosts) != 1:
            exchange.deny(
                Deny(
                    rule=Rule.BAD_REQUEST,
                    reason=Reason.HOST_UNREADABLE,
                    status=400,
                    detail="a request has exactly one Host field",
                )
            )
            return
        named = parse_authority(hosts[0], scheme=_scheme(arrival))
        # For a target in absolute form: it names what the Host field names, or it is refused.
        exchange.authority = named
        proxied = arrival.mode is Mode.PROXY
        denial = _proxied(arrival, named) if proxied else _base_url(arrival, service, head, named)
        if denial is not None:
            exchange.deny(denial)


def _box_may_use(box: Box | None, service: Service) -> Deny | None:
    if box is None or service.name in box.endpoints:
        return None
    return _not_for_box(box, Reason.BOX_ENDPOINT, f"may not use endpoint `{service.name}`")


def _not_for_box(box: Box, reason: Reason, what: str) -> Deny:
    return Deny(rule=Rule.DENIED, reason=reason, detail=f"box `{box.name}` {what}")


def _scheme(arrival: Arrival) -> str:
    return "https" if arrival.encrypted else "http"


def _proxied(arrival: Arrival, named: Authority | None) -> Deny | None:
    """CONNECT authority (or that of an absolute form), TLS server name and Host are one and the same."""
    authority, server_name = arrival.authority, arrival.server_name
    if authority is None or named != authority:
        whose = "that CONNECT named" if arrival.encrypted else "of the target"
        return _misdirected(Reason.HOST_MISMATCH, f"the Host field is not the host and port {whose}")
    if not arrival.encrypted:
        return None
    # A server name is never an address (RFC 6066, 3), so a client that calls an address sends none; for a name
    # without a dot (`localhost`) some send none either.
    has_name = "." in authority.host and not authority.host.rpartition(".")[2].isdigit()
    if server_name is None and has_name:
        return _misdirected(Reason.HOST_MISMATCH, "the TLS handshake named no server; send the host that CONNECT named")
    if server_name is not None and server_name != authority.host:
        return _misdirected(Reason.HOST_MISMATCH, "the TLS server name is not the host that CONNECT named")
    return None


def _base_url(arrival: Arrival, service: Service, head: RequestHead, named: Authority | None) -> Deny | None:
    """The Host is one of ours, so that no web page can act by a name that it points here."""
    own = arrival.authority
    if named is None:
        return _misdirected(Reason.HOST_UNREADABLE, "the Host field is not a host and port in their usual form")
    # A Unix socket has no name, and no web page reaches it.
    if own is not None:
        local = named.host == "localhost" and named.port == own.port
        if named != own and not local and named not in service.hosts:
            return _misdirected(
                Reason.HOST_MISMATCH,
                f"the Host field names another host than this base URL; call it by {_text(own)}, localhost:{own.port}"
                " or a name in the endpoint's `hosts`",
            )
    return cross_site(head, named, _scheme(arrival))


def cross_site(head: RequestHead, named: Authority, scheme: str) -> Deny | None:
    """Refuse what a browser sends on behalf of another site (Fetch, 3.1; Fetch Metadata, 2.4)."""
    for name, value in head.fields:
        lower = name.lower()
        foreign = lower == b"sec-fetch-site" and value.lower() in _FOREIGN_SITES
        if lower == b"origin" and not _is_origin(value, named, scheme):
            foreign = True
        if foreign:
            return Deny(
                rule=Rule.DENIED,
                reason=Reason.CROSS_SITE,
                detail="a web page of another site may not call this address",
            )
    return None


def _is_origin(value: bytes, named: Authority, scheme: str) -> bool:
    prefix = scheme.encode() + b"://"
    return value.startswith(prefix) and parse_authority(value.removeprefix(prefix), scheme=scheme) == named


def _values(head: RequestHead, lower: bytes) -> list[bytes]:
    return [value for name, value in head.fields if name.lower() == lower]


def _text(authority: Authority) -> str:
    host = f"[{authority.host}]" if ":" in authority.host else authority.host
    return f"{host}:{authority.port}"


def _unknown_host(exchange: Exchange, authority: Authority) -> str:
    box = exchange.box
    usable = [a for a, s in exchange.policy.authorities.items() if box is None or s.name in box.endpoints]
    known = ", ".join(sorted(map(_text, usable))) or "none"
    return f"no endpoint is for `{_text(authority)}`; endpoints: {known}"


def _misdirected(reason: Reason, detail: str) -> Deny:
    return Deny(rule=Rule.MISDIRECTED, reason=reason, status=421, detail=detail)
