"""From settings to the policy in force: each endpoint's parts, the boxes and the tunnels."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, final

from addons.boxes import Box, Boxes
from addons.gate import Gate
from addons.policy import Judged, Policy, Relayed, Service, Tunnels
from grants.endpoint import Endpoint
from grants.message import Origin
from grants.secret import Secret
from proxy.capture import CaptureFile
from proxy.part import part
from proxy.secrets import EndpointVault, parse_source
from proxy.settings.model import Assurance, EndpointSettings, Settings, is_written_inside
from proxy.state import StartRefused, reason
from proxy.upstream import Dialler, Pool, StreamingClient, Trust, TrustInvalid, UpstreamClient

if TYPE_CHECKING:
    from proxy.broker.state import State
    from proxy.broker.wiring import Wiring

BOXES = "boxes"
"""The name of the vault that holds the boxes' tokens, for messages."""
# Not the name of an endpoint: those have no colon alone in front.
_BOXES_KEY = f":{BOXES}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What of an endpoint takes time or may fail: made in a thread, shared with nobody yet."""

    settings: EndpointSettings
    vault: EndpointVault
    trust: Trust | None
    core: Endpoint | None
    capture: CaptureFile | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Settings whose secrets and bundles have been read: `Services.adopt` puts them in force."""

    settings: Settings
    parts: tuple[_Parts, ...] = field(repr=False)
    boxes: EndpointVault | None = field(repr=False)
    broker: "Wiring | None" = field(default=None, repr=False)


@final
class Services:
    """Makes the policy of settings. What every policy shares lives as long as this: the pools, the system's trust, and
    an endpoint's count of requests in flight.

    A new policy takes over, from the one before it, the values that its vaults held: an answer may still not hold them.

    Args:
        judged: connections for requests of semantic endpoints.
        streams: connections for relays, which may last long, and keep no judged request waiting.
        state: what the broker remembers; None where there is no broker.
        of: how many processes share what an upstream may be asked at one time.
    """

    def __init__(self, judged: Pool, streams: Pool, state: "State | None" = None, of: int = 1) -> None:
        self._of = of
        self._state = state
        self._pool = judged
        self._streams = streams
        self._system: Trust | None = None
        self._vaults: dict[str, EndpointVault] = {}
        self._gates: dict[str, tuple[int, Gate]] = {}

    def prepare(self, settings: Settings) -> Prepared:
        """Read every secret and bundle once. Blocks, and changes nothing: for a thread.

        Raises:
            StartRefused: one line for each secret, token, CA bundle or capture file that cannot be used.
        """
        problems: list[str] = []
        vaults: dict[str, EndpointVault] = {}
        parts = []
        for endpoint in settings.endpoints:
            vault = vaults[endpoint.name] = self._vault(endpoint.name, endpoint.secrets, settings, problems)
            try:
                parts.append(self._parts(settings, endpoint, vault))
            except StartRefused as refused:
                problems.append(str(refused))
        boxes = None
        if settings.boxes:
            tokens = {box.name: box.token for box in settings.boxes}
            boxes = vaults[_BOXES_KEY] = self._vault(BOXES, tokens, settings, problems, _token_of)
        broker = self._broker(settings, vaults, problems)
        if not problems:
            problems += _same_values(vaults)
        if problems:
            raise StartRefused("\n".join(problems))
        return Prepared(settings=settings, parts=tuple(parts), boxes=boxes, broker=broker)

    def adopt(self, prepared: Prepared) -> Policy:
        """The policy of what was prepared. Does not block; from here on its vaults are the ones that live."""
        settings = prepared.settings
        gates = {endpoint.name: self._gate(endpoint.name, endpoint.concurrent) for endpoint in settings.endpoints}
        services = [self._service(settings, parts, gates[parts.settings.name][1]) for parts in prepared.parts]
        vaults = {parts.settings.name: parts.vault for parts in prepared.parts}
        boxes = None
        if prepared.boxes is not None:
            vaults[_BOXES_KEY] = prepared.boxes
            boxes = Boxes(
                [Box(name=box.name, endpoints=box.endpoints, tunnels=box.tunnels) for box in settings.boxes],
                prepared.boxes,
                self._state,
            )
        broker = None
        if prepared.broker is not None and self._state is not None:
            vaults.update(prepared.broker.vaults)
            from proxy.broker.wiring import Maker  # here, as below

            def gate(name: str, limit: int) -> Gate:
                return gates.setdefault(name, self._gate(name, limit))[1]

            maker = Maker(settings, prepared.broker, self._state, self._pool, self._streams, gate)
            broker = maker.broker(boxes or Boxes((), None, self._state))
        gone = [vault for name, vault in self._vaults.items() if name not in vaults]
        for name, vault in vaults.items():
            # An endpoint may come back by another name: what one that is gone has held stays forbidden everywhere.
            for previous in (*([self._vaults[name]] if name in self._vaults else []), *gone):
                vault.succeed(previous)
        self._vaults, self._gates = vaults, gates
        return Policy.of(services, boxes=boxes, tunnels=_tunnels(settings), broker=broker)

    def values(self) -> frozenset[Secret]:
        """Every value that was read last."""
        return frozenset(value for vault in self._vaults.values() for value in vault.current.values())

    def _vault(
        self,
        name: str,
        secrets: Mapping[str, str],
        settings: Settings,
        problems: list[str],
        called: Callable[[str], str] | None = None,
    ) -> EndpointVault:
        sources = {key: parse_source(text, settings.directory) for key, text in secrets.items()}
        vault = EndpointVault(name, sources, called=called)
        problems += vault.check()
        return vault

    def _broker(self, settings: Settings, vaults: dict[str, EndpointVault], problems: list[str]) -> "Wiring | None":
        if settings.broker is None:
            return None
        from proxy.broker.references import references
        from proxy.broker.wiring import Wiring, bundles, needs_trust  # here: its libraries are slow to load

        own = {
            key: self._vault("broker", {found.name: found.text}, settings, problems, found.called)
            for key, found in references(settings).items()
        }
        vaults.update(own)
        system = self._system_trust() if needs_trust(settings.broker) else None
        trusted = {}
        for path, name in bundles(settings.broker).items():
            try:
                trusted[path] = _only(path)
            except StartRefused as refused:
                problems.append(f"broker: {name}: {refused}")
        return Wiring(settings=settings.broker, vaults=own, system=system, bundles=trusted)

    def _gate(self, name: str, limit: int) -> tuple[int, Gate]:
        """The upstream's own for as long as its limit stays: what is in flight counts also after a reload."""
        kept = self._gates.get(name)
        return kept if kept is not None and kept[0] == limit else (limit, Gate(part(limit, self._of)))

    def _parts(self, settings: Settings, endpoint: EndpointSettings, vault: EndpointVault) -> _Parts:
        core = None
        if endpoint.assurance is Assurance.SEMANTIC:
            if endpoint.grant is None:
                raise ValueError("a semantic endpoint without a grant")
            core = Endpoint.of(
                name=endpoint.name,
                upstream=endpoint.upstream,
                base=endpoint.base,
                grant=endpoint.grant,
                secrets=frozenset(endpoint.secrets),
            )
        return _Parts(
            settings=endpoint,
            vault=vault,
            trust=self._trust(endpoint) if endpoint.upstream.scheme == "https" else None,
            core=core,
            capture=CaptureFile(settings.state, endpoint.name) if endpoint.capture else None,
        )

    def _service(self, settings: Settings, parts: _Parts, gate: Gate) -> Service:
        endpoint = parts.settings
        return Service(
            name=endpoint.name,
            upstream=endpoint.upstream,
            base=endpoint.base,
            secrets=frozenset(endpoint.secrets),
            vault=parts.vault,
            timeout=endpoint.total_timeout,
            way=self._judged(settings, parts) if parts.core is not None else self._relayed(parts),
            hosts=frozenset(endpoint.hosts),
            inject=endpoint.inject,
            gate=gate,
            capture=parts.capture,
        )

    def _judged(self, settings: Settings, parts: _Parts) -> Judged:
        endpoint = parts.settings
        if parts.core is None or parts.trust is None:
            raise ValueError("a semantic endpoint without a grant, or without TLS")
        upstream = UpstreamClient(
            self._pool,
            endpoint.upstream,
            parts.trust,
            connect_timeout=endpoint.connect_timeout,
            consented=_consented(endpoint),
            allow_inside=endpoint.allow_inside,
        )
        return Judged(endpoint=parts.core, upstream=upstream, body_limit=settings.limits.body_bytes)

    def _relayed(self, parts: _Parts) -> Relayed:
        endpoint = parts.settings
        upstream = StreamingClient(
            self._streams,
            endpoint.upstream,
            parts.trust,
            consented=_consented(endpoint),
            allow_inside=endpoint.allow_inside,
            idle=endpoint.idle_timeout,
        )
        return Relayed(
            upstream=upstream,
            websocket=endpoint.websocket,
            idle=endpoint.idle_timeout,
            connect_timeout=endpoint.connect_timeout,
        )

    def _system_trust(self) -> Trust:
        if self._system is None:
            self._system = Trust.system()
        return self._system

    def _trust(self, endpoint: EndpointSettings) -> Trust:
        if endpoint.ca is None:
            return self._system_trust()
        try:
            return _only(endpoint.ca)
        except StartRefused as refused:
            raise StartRefused(f"endpoint `{endpoint.name}`: {refused}") from None


def _token_of(box: str) -> str:
    return f"box `{box}`: its token"


def _only(ca: Path) -> Trust:
    try:
        return Trust.only(ca.read_bytes())
    except (OSError, TrustInvalid) as error:
        cause = reason(error) if isinstance(error, OSError) else str(error)
        raise StartRefused(f"ca `{ca}`: {cause}") from None


def _consented(endpoint: EndpointSettings) -> frozenset[tuple[str, int]]:
    """What the operator wrote as an address or as `localhost` may be an inside address: that is what it says."""
    redirects = endpoint.grant.redirects if endpoint.grant is not None else None
    origins: Iterable[Origin] = (endpoint.upstream, *(redirects.origins if redirects is not None else ()))
    return frozenset((origin.host, origin.port) for origin in origins if is_written_inside(origin.host))


def _tunnels(settings: Settings) -> Tunnels | None:
    tunnels = settings.tunnels
    if not tunnels.allow:
        return None
    return Tunnels(
        allows=tunnels.allows,
        dialler=Dialler(consented=tunnels.consented, idle=tunnels.idle),
        idle=tunnels.idle,
        total=tunnels.total,
    )


def _same_values(vaults: dict[str, EndpointVault]) -> list[str]:
    """A token is one box's alone: who shares it with another box or a credential would be that, or hold it."""
    seen: dict[bytes, str] = {}
    problems = []
    for vault_name, vault in sorted(vaults.items(), key=lambda item: (item[0] != _BOXES_KEY, item[0])):
        for name, secret in vault.current.items():
            digest = hashlib.sha256(secret.reveal()).digest()
            if vault_name == _BOXES_KEY:
                if digest in seen:
                    problems.append(f"{vault.called(name)} is also that of {seen[digest]}; give it one of its own")
                seen[digest] = f"box `{name}`"
            elif digest in seen:
                problems.append(
                    f"{vault.called(name)} is also the token of {seen[digest]}; give the box one of its own"
                )
    return problems
