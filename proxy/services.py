"""From settings to services: each endpoint's core, upstream client and vault."""

from collections.abc import Iterable
from pathlib import Path
from typing import final

from addons.policy import Policy, Service
from grants.endpoint import Endpoint
from grants.message import Origin
from proxy.secrets import EndpointVault, parse_source
from proxy.settings.model import EndpointSettings, Settings
from proxy.state import StartRefused, reason
from proxy.upstream.client import UpstreamClient
from proxy.upstream.pool import Pool
from proxy.upstream.trust import Trust, TrustInvalid


@final
class Services:
    """Makes the services of a settings file. What they share, the pool and the contexts, lives as long as this."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._system: Trust | None = None

    def policy(self, settings: Settings) -> Policy:
        """The policy of `settings`, with every secret read once.

        Raises:
            StartRefused: one line for each secret or CA bundle that cannot be read.
        """
        problems: list[str] = []
        services = []
        for endpoint in settings.endpoints:
            vault = EndpointVault(
                endpoint.name, {name: parse_source(text, settings.directory) for name, text in endpoint.secrets.items()}
            )
            problems += vault.check()
            try:
                services.append(self._service(settings, endpoint, vault))
            except StartRefused as refused:
                problems.append(str(refused))
        if problems:
            raise StartRefused("\n".join(problems))
        return Policy.of(services)

    def _service(self, settings: Settings, endpoint: EndpointSettings, vault: EndpointVault) -> Service:
        upstream = UpstreamClient(
            self._pool,
            endpoint.upstream,
            self._trust(endpoint),
            connect_timeout=endpoint.connect_timeout,
            consented=_consented(endpoint),
        )
        core = Endpoint.of(
            name=endpoint.name,
            upstream=endpoint.upstream,
            base=endpoint.base,
            grant=endpoint.grant,
            secrets=frozenset(endpoint.secrets),
        )
        return Service(
            endpoint=core,
            upstream=upstream,
            vault=vault,
            timeout=endpoint.total_timeout,
            body_limit=settings.limits.body_bytes,
            hosts=frozenset(endpoint.hosts),
            assurance=endpoint.assurance,
        )

    def _trust(self, endpoint: EndpointSettings) -> Trust:
        if endpoint.ca is None:
            if self._system is None:
                self._system = Trust.system()
            return self._system
        try:
            return Trust.only(_read(endpoint.ca))
        except (OSError, TrustInvalid) as error:
            cause = reason(error) if isinstance(error, OSError) else str(error)
            raise StartRefused(f"endpoint `{endpoint.name}`: ca `{endpoint.ca}`: {cause}") from None


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _consented(endpoint: EndpointSettings) -> frozenset[tuple[str, int]]:
    """What the operator wrote as an address or as `localhost` may be an inside address: that is what it says."""
    redirects = endpoint.grant.redirects
    origins: Iterable[Origin] = (endpoint.upstream, *(redirects.origins if redirects is not None else ()))
    return frozenset((origin.host, origin.port) for origin in origins if _is_written_out(origin.host))


def _is_written_out(host: str) -> bool:
    return host == "localhost" or ":" in host or host.rpartition(".")[2].isdigit()
