"""From settings to the policy in force: each endpoint's parts, the boxes and the tunnels."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import final

from addons.boxes import Box, Boxes
from addons.gate import Gate
from addons.policy import Judged, Policy, Relayed, Service, Tunnels
from grants.endpoint import Endpoint
from grants.message import Origin
from proxy.secrets import EndpointVault, parse_source
from proxy.settings.model import Assurance, EndpointSettings, Settings, is_written_inside
from proxy.state import StartRefused, reason
from proxy.upstream import Dialler, Pool, StreamingClient, Trust, TrustInvalid, UpstreamClient

BOXES = "boxes"
"""The name of the vault that holds the boxes' tokens, for messages."""


@final
class Services:
    """Makes the policy of settings. What every policy shares, the pool and the system's trust, lives as long as this.

    A new policy takes over, from the one before it, the values that its vaults held: an answer may still not hold them.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._system: Trust | None = None
        self._vaults: dict[str, EndpointVault] = {}

    def policy(self, settings: Settings) -> Policy:
        """The policy of `settings`, with every secret read once. Blocks.

        Raises:
            StartRefused: one line for each secret, token or CA bundle that cannot be used. Nothing has changed.
        """
        problems: list[str] = []
        vaults: dict[str, EndpointVault] = {}
        services = []
        for endpoint in settings.endpoints:
            vault = vaults[endpoint.name] = self._vault(endpoint.name, endpoint.secrets, settings, problems)
            try:
                services.append(self._service(settings, endpoint, vault))
            except StartRefused as refused:
                problems.append(str(refused))
        boxes = None
        if settings.boxes:
            tokens = {box.name: box.token for box in settings.boxes}
            # Not the name of an endpoint: those have no colon alone in front.
            vaults[f":{BOXES}"] = self._vault(BOXES, tokens, settings, problems)
            boxes = Boxes(
                [Box(name=box.name, endpoints=box.endpoints, tunnels=box.tunnels) for box in settings.boxes],
                vaults[f":{BOXES}"],
            )
        if not problems:
            problems += _same_values(vaults)
        if problems:
            raise StartRefused("\n".join(problems))
        for name, vault in vaults.items():
            if (previous := self._vaults.get(name)) is not None:
                vault.succeed(previous)
        self._vaults = vaults
        return Policy.of(services, boxes=boxes, tunnels=_tunnels(settings))

    def _vault(self, name: str, secrets: Mapping[str, str], settings: Settings, problems: list[str]) -> EndpointVault:
        sources = {key: parse_source(text, settings.directory) for key, text in secrets.items()}
        vault = EndpointVault(name, sources)
        problems += vault.check()
        return vault

    def _service(self, settings: Settings, endpoint: EndpointSettings, vault: EndpointVault) -> Service:
        return Service(
            name=endpoint.name,
            upstream=endpoint.upstream,
            base=endpoint.base,
            secrets=frozenset(endpoint.secrets),
            vault=vault,
            timeout=endpoint.total_timeout,
            way=self._judged(settings, endpoint)
            if endpoint.assurance is Assurance.SEMANTIC
            else self._relayed(endpoint),
            hosts=frozenset(endpoint.hosts),
            inject=endpoint.inject,
            gate=Gate(endpoint.concurrent),
        )

    def _judged(self, settings: Settings, endpoint: EndpointSettings) -> Judged:
        if endpoint.grant is None:
            raise ValueError("a semantic endpoint without a grant")
        core = Endpoint.of(
            name=endpoint.name,
            upstream=endpoint.upstream,
            base=endpoint.base,
            grant=endpoint.grant,
            secrets=frozenset(endpoint.secrets),
        )
        upstream = UpstreamClient(
            self._pool,
            endpoint.upstream,
            self._trust(endpoint),
            connect_timeout=endpoint.connect_timeout,
            consented=_consented(endpoint),
            allow_inside=endpoint.allow_inside,
        )
        return Judged(endpoint=core, upstream=upstream, body_limit=settings.limits.body_bytes)

    def _relayed(self, endpoint: EndpointSettings) -> Relayed:
        upstream = StreamingClient(
            self._pool,
            endpoint.upstream,
            self._trust(endpoint) if endpoint.upstream.scheme == "https" else None,
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

    def _trust(self, endpoint: EndpointSettings) -> Trust:
        if endpoint.ca is None:
            if self._system is None:
                self._system = Trust.system()
            return self._system
        try:
            return Trust.only(endpoint.ca.read_bytes())
        except (OSError, TrustInvalid) as error:
            cause = reason(error) if isinstance(error, OSError) else str(error)
            raise StartRefused(f"endpoint `{endpoint.name}`: ca `{endpoint.ca}`: {cause}") from None


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
    for vault_name, vault in sorted(vaults.items()):
        for name, secret in vault.current.items():
            digest = hashlib.sha256(secret.reveal()).digest()
            if vault_name == f":{BOXES}":
                if digest in seen:
                    problems.append(f"box `{name}`: its token is also that of {seen[digest]}; give it one of its own")
                seen[digest] = f"box `{name}`"
            elif digest in seen:
                problems.append(f"endpoint `{vault_name}`: secret `{name}` is also the token of {seen[digest]}")
    return problems
