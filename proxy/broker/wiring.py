"""The broker of the settings: a vault for each credential, a service for each upstream, a part for each route."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from addons.boxes import Boxes
from addons.broker.decide import DecidePart
from addons.broker.egress import EgressPart, HeldSecret
from addons.broker.extra import Addition, ExtraPart
from addons.broker.feedback import OFF, WITHHELD, FeedbackPart
from addons.broker.fountain import FountainPart
from addons.broker.inference import InferencePart
from addons.broker.ownership import Ownership
from addons.broker.parts import Broker, Credential, Part
from addons.broker.payers import Payers
from addons.broker.report import ReportPart
from addons.gate import Gate
from addons.policy import Judged, Relayed, Service
from grants.broker.capabilities import EGRESS, FEEDBACK, FOUNTAIN, INFERENCE, Route, Served
from grants.broker.fountain import Kind, Owned
from grants.broker.payer import Payer
from grants.endpoint import Endpoint
from grants.message import Origin
from grants.model import Grant
from proxy.broker.bounded import Bounded
from proxy.broker.feedback import FeedbackFileSink, FeedbackForwardSink
from proxy.broker.references import KEY, secret_key
from proxy.broker.state import State
from proxy.secrets import EndpointVault
from proxy.settings.broker_model import (
    BrokerSettings,
    FeedbackFile,
    FeedbackForward,
    FeedbackOff,
    FeedbackWithheld,
)
from proxy.settings.broker_model import Service as Upstream
from proxy.settings.model import Settings, is_written_inside
from proxy.settings.terms import Terms
from proxy.upstream import Pool, StreamingClient, Trust, UpstreamClient

RELAY_SECONDS: Final = 24 * 3600.0
WHOLE_SECONDS: Final = 120.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What a broker is made of: its credentials, read once, by what they are for.

    Attributes:
        vaults: by a name that no endpoint has.
        system: whom https upstreams trust; None where there are none.
        bundles: whom those trust that name a bundle, by its path.
    """

    settings: BrokerSettings
    vaults: Mapping[str, EndpointVault] = field(repr=False)
    system: Trust | None = field(repr=False)
    bundles: Mapping[Path, Trust] = field(default_factory=dict, repr=False)


def needs_trust(settings: BrokerSettings) -> bool:
    """Whether an upstream is https and names no bundle of its own."""
    origins = [origin for _, origin, terms in _upstreams(settings) if terms.ca is None]
    if isinstance(settings.feedback, FeedbackForward):
        origins.append(settings.feedback.origin)
    return any(each.scheme == "https" for each in origins)


def bundles(settings: BrokerSettings) -> dict[Path, str]:
    """Every bundle of authorities, and for which upstream it is, for messages."""
    return {terms.ca: name for name, _, terms in _upstreams(settings) if terms.ca is not None}


def _upstreams(settings: BrokerSettings) -> Iterator[tuple[str, Origin, Terms]]:
    if settings.anthropic is not None:
        yield "`anthropic`", settings.anthropic.service.origin, settings.anthropic.service.terms
    if settings.fountain is not None:
        yield "`fountain`", settings.fountain.origin, settings.fountain.terms
    for secret in settings.secrets:
        yield f"secret `{secret.name}`", secret.host, secret.terms
    for capability in settings.capabilities:
        yield f"capability `{capability.extra.name}`", capability.service.origin, capability.service.terms


@final
class Maker:
    """Makes the broker of `wiring`.

    Args:
        judged: connections for exchanges that are read whole.
        streams: connections for relays.
        gate: the gate that has this name and limit, which is kept through reloads.
    """

    def __init__(
        self,
        settings: Settings,
        wiring: Wiring,
        state: State,
        judged: Pool,
        streams: Pool,
        gate: Callable[[str, int], Gate],
    ) -> None:
        self._settings = settings
        self._broker = wiring.settings
        self._wiring = wiring
        self._state = state
        self._judged = judged
        self._streams = streams
        self._gate = gate

    def broker(self, boxes: Boxes) -> Broker:
        """The broker. A part that is left out of the settings is not served."""
        broker = self._broker
        parts: dict[Route, Part] = {Route.DECLARATION: ReportPart()}
        standard = {FEEDBACK}
        payers: Payers | None = None
        if broker.anthropic is not None:
            standard.add(INFERENCE)
            payers = self._payers(self._credential("anthropic"), broker.anthropic.payer)
            terms = broker.anthropic.service.terms
            service = self._of(INFERENCE, broker.anthropic.service)
            parts[Route.INFERENCE] = InferencePart(service=service, payers=payers)
            parts[Route.DECIDE] = DecidePart(
                service=service,
                payers=payers,
                upstream=self._bounded(service, terms, waits=True),
                timeout=terms.total or WHOLE_SECONDS,
            )
        if broker.fountain is not None:
            standard.add(FOUNTAIN)
            service = self._of(FOUNTAIN, broker.fountain)
            parts[Route.FOUNTAIN] = FountainPart(
                service=service,
                credential=self._credential("fountain"),
                upstream=self._bounded(service, broker.fountain.terms),
                ownership=Ownership(own=self._own()),
            )
        parts[Route.FEEDBACK] = self._feedback()
        if broker.secrets:
            standard.add(EGRESS)
            parts[Route.EGRESS] = self._egress()
        parts[Route.EXTRA] = self._extra()
        return Broker(
            word=broker.word,
            served=Served(
                standard=frozenset(standard),
                extras=tuple(capability.extra for capability in broker.capabilities),
            ),
            boxes=boxes,
            state=self._state,
            parts=parts,
            payer=payers.usual if payers is not None else _nobody,
        )

    def _credential(self, key: str, name: str | None = None) -> Credential:
        return Credential(name=name or key, vault=self._wiring.vaults[f"{KEY}.{key}"])

    def _payers(self, house: Credential, payer: Payer) -> Payers:
        owners = {
            box.name: (self._credential(f"owner.{box.name}", "owner"), box.anthropic.payer)
            for box in self._settings.boxes
            if box.anthropic is not None
        }
        return Payers(house=(house, payer), owners=owners)

    def _feedback(self) -> FeedbackPart:
        match self._broker.feedback:
            case FeedbackFile(path=path):
                return FeedbackPart(sink=FeedbackFileSink(path))
            case FeedbackForward(origin=origin, base=base):
                client = self._client(origin, Terms())
                return FeedbackPart(sink=FeedbackForwardSink(origin=origin, base=base, upstream=client))
            case FeedbackOff():
                return FeedbackPart(sink=OFF)
            case FeedbackWithheld():
                return FeedbackPart(sink=WITHHELD)

    def _own(self) -> dict[str, Owned]:
        return {
            box.name: {
                Kind.AGENT: frozenset({box.fountain.agent} if box.fountain.agent is not None else ()),
                Kind.CONVERSATION: box.fountain.conversations,
                Kind.SANDBOX: box.fountain.sandboxes,
                Kind.VAULT: box.fountain.vaults,
            }
            for box in self._settings.boxes
            if box.fountain is not None
        }

    def _egress(self) -> EgressPart:
        secrets = {}
        for secret in self._broker.secrets:
            vault = self._wiring.vaults[secret_key(secret)]
            name = f"egress:{secret.name.lower()}"
            service = self._service(
                name,
                secret.host,
                (),
                secret.terms,
                # Two boxes' secrets of one name are two upstreams.
                gate=secret_key(secret),
                secret=secret.name,
                vault=vault,
                grant=secret.grant,
            )
            secrets[secret.name, secret.box] = HeldSecret(
                credential=Credential(name=secret.name, vault=vault), service=service
            )
        return EgressPart(secrets=secrets)

    def _extra(self) -> ExtraPart:
        return ExtraPart(
            additions={
                capability.extra.name: Addition(
                    service=self._of(capability.extra.name, capability.service),
                    credential=self._credential(f"capabilities.{capability.extra.name}", capability.extra.name),
                    header=capability.header.encode(),
                )
                for capability in self._broker.capabilities
            }
        )

    def _of(self, name: str, upstream: Upstream) -> Service:
        """The service of a capability, which relays."""
        return self._service(name, upstream.origin, upstream.base, upstream.terms, gate=f"{KEY}.{name}")

    def _service(
        self,
        name: str,
        origin: Origin,
        base: tuple[str, ...],
        terms: Terms,
        *,
        gate: str,
        secret: str | None = None,
        vault: EndpointVault | None = None,
        grant: Grant | None = None,
    ) -> Service:
        """The service of an upstream; with a grant it is judged, without one relayed."""
        held = frozenset({secret} if secret is not None else ())
        way: Judged | Relayed
        if grant is not None:
            core = Endpoint.of(name=name, upstream=origin, base=base, grant=grant, secrets=held)
            redirects = grant.redirects.origins if grant.redirects is not None else ()
            way = Judged(
                endpoint=core,
                upstream=self._client(origin, terms, *redirects),
                body_limit=self._settings.limits.body_bytes,
            )
        else:
            client = StreamingClient(
                self._streams, origin, self._trust(origin, terms), consented=_consented(origin), idle=terms.idle
            )
            way = Relayed(upstream=client, idle=terms.idle, connect_timeout=terms.connect)
        return Service(
            name=name,
            upstream=origin,
            base=base,
            secrets=held,
            vault=vault or EndpointVault(name, {}),
            timeout=terms.total or (WHOLE_SECONDS if grant is not None else RELAY_SECONDS),
            way=way,
            gate=self._gate(gate, terms.concurrent),
        )

    def _bounded(self, service: Service, terms: Terms, *, waits: bool = False) -> Bounded:
        """For the exchanges of a relay's service that are whole."""
        return Bounded(
            upstream=self._client(service.upstream, terms),
            gate=service.gate,
            timeout=terms.total or WHOLE_SECONDS,
            waits=waits,
        )

    def _client(self, origin: Origin, terms: Terms, *others: Origin) -> UpstreamClient:
        return UpstreamClient(
            self._judged,
            origin,
            self._trust(origin, terms),
            connect_timeout=terms.connect,
            consented=_consented(origin, *others),
        )

    def _trust(self, origin: Origin, terms: Terms) -> Trust | None:
        if origin.scheme != "https":
            return None
        return self._wiring.system if terms.ca is None else self._wiring.bundles[terms.ca]


def _nobody(_box: str) -> None:
    """There are no model calls to pay for."""


def _consented(*origins: Origin) -> frozenset[tuple[str, int]]:
    """What the operator wrote as an address or as `localhost` may be an inside address: that is what it says."""
    return frozenset((origin.host, origin.port) for origin in origins if is_written_inside(origin.host))
