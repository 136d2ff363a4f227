"""What `grantproxy serve` is set to: frozen values, all of them checked. Source: docs/reference/settings.md."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, final

from grants.addresses import is_address
from grants.message import Authority, Origin
from grants.model import Grant
from grants.problems import Problem

if TYPE_CHECKING:
    from proxy.settings.broker_model import BoxAnthropic, BoxFountain, BrokerSettings


class Assurance(StrEnum):
    """What an endpoint promises. The values are log text."""

    SEMANTIC = "semantic"
    TRUSTED_UPSTREAM = "trusted-upstream"


class Sync(StrEnum):
    """When a record is forced to the disk."""

    ALWAYS = "always"
    INTERVAL = "interval"
    OFF = "off"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TcpListen:
    """An address and a port. Port 0: any free one. Prints as `127.0.0.1:8080` or `[::1]:8080`."""

    host: str
    port: int

    @property
    def local(self) -> bool:
        """Whether only this machine reaches it: the address is a loopback one."""
        return ipaddress.ip_address(self.host).is_loopback

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UnixListen:
    """A Unix socket, for its owner only. Prints as `unix:path`."""

    path: Path

    @property
    def local(self) -> bool:
        """Only this machine reaches it, always."""
        return True

    def __str__(self) -> str:
        return f"unix:{self.path}"


type Listen = TcpListen | UnixListen


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """One endpoint.

    Attributes:
        name: unique; the upstream's host where none was given.
        upstream: the origin, canonical. Always https where the assurance is `semantic`.
        base: decoded segments of the upstream's own path.
        grant: the loaded grant; None where, and only where, the assurance is `trusted-upstream`.
        grant_path: where the grant came from.
        secrets: by reference name, where the value is: `env:NAME`, `file:PATH` (absolute where the settings file's
            directory is) or `exec:COMMAND`.
        inject: fields that are set on every request to the upstream's own origin, names as written and no two alike
            but for letter case, references still in the values; each name that they refer to is in `secrets`.
        listen: the base-URL front; None for none.
        ca: the only bundle that is trusted for this upstream; None for the system's.
        hosts: further authorities by which clients may call the base URL.
        env: names of variables that hold the base URL for clients.
        allow_inside: the upstream's name may resolve to an inside address.
        capture: requests are written to the endpoint's own file before the secrets are put in.
        websocket: an upgrade to WebSocket is relayed; `trusted-upstream` only.
        concurrent: the most requests in flight.
        connect_timeout: seconds until the upstream is connected.
        total_timeout: seconds until the answer is complete, redirects included; of a relay, until both sides are done.
        idle_timeout: seconds between two pieces of a relayed stream; `trusted-upstream` only.
    """

    name: str
    upstream: Origin
    assurance: Assurance
    grant: Grant | None = field(default=None, repr=False)
    grant_path: Path | None = None
    base: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    inject: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    listen: Listen | None = None
    ca: Path | None = None
    hosts: tuple[Authority, ...] = ()
    env: tuple[str, ...] = ()
    allow_inside: bool = False
    capture: bool = False
    websocket: bool = False
    concurrent: int = 256
    connect_timeout: float = 10.0
    total_timeout: float = 60.0
    idle_timeout: float = 300.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelRule:
    """One entry of `tunnels.allow`. Prints as it is written: `host:port` or `.suffix:port`.

    Attributes:
        host: canonical; of a suffix, without the dot before it, and never an address.
        suffix: every name below `host` is meant, at any depth, and `host` itself is not.
        port: 1 to 65535.
    """

    host: str
    suffix: bool
    port: int

    def covers(self, host: str, port: int) -> bool:
        """Whether the rule is for this host, in canonical form, and port."""
        return port == self.port and (host.endswith(f".{self.host}") if self.suffix else host == self.host)

    @property
    def consented(self) -> bool:
        """Whether it was written as an address or as `localhost`, so that exactly that inside address is allowed."""
        return not self.suffix and is_written_inside(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'.' if self.suffix else ''}{host}:{self.port}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnels:
    """Opaque tunnels. Without a rule there are none.

    Attributes:
        allow: where they may lead.
        idle: seconds that nothing may move in either direction.
        total: seconds that one may last.
    """

    allow: tuple[TunnelRule, ...] = ()
    idle: float = 600.0
    total: float = 86400.0

    def allows(self, authority: Authority) -> bool:
        """Whether a tunnel may lead to `authority`, which is in canonical form."""
        return any(rule.covers(authority.host, authority.port) for rule in self.allow)

    @property
    def consented(self) -> frozenset[tuple[str, int]]:
        """Hosts and ports that may be inside addresses, because the operator wrote exactly those."""
        return frozenset((rule.host, rule.port) for rule in self.allow if rule.consented)


def is_written_inside(host: str) -> bool:
    """Whether a canonical host is an address or `localhost`: whoever writes that means exactly that place."""
    return host == "localhost" or is_address(host)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSettings:
    """A client that is known by its token, and what it may use.

    Attributes:
        name: unique; what records call it.
        token: where its token is, a reference as in `EndpointSettings.secrets`; no other box or secret has the same.
        endpoints: names of the endpoints that it may use.
        tunnels: whether it may open tunnels.
        fountain: what is its own at Fountain from the start; None for nothing.
        anthropic: its owner's own credential; None where the house's pays.
    """

    name: str
    token: str
    endpoints: frozenset[str] = frozenset()
    tunnels: bool = False
    fountain: "BoxFountain | None" = None
    anthropic: "BoxAnthropic | None" = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The decision log. `path`: absolute, or None for standard output."""

    path: Path | None
    sync: Sync = Sync.INTERVAL


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of what is held.

    Attributes:
        header_bytes: of a request's head.
        body_bytes: of any body that is held, whatever a grant allows.
        clients: connections at one time.
        client_idle: seconds that a client's connection may do nothing.
    """

    header_bytes: int = 64 * 1024
    body_bytes: int = 32 * 1024 * 1024
    clients: int = 1000
    client_idle: float = 75.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that `serve` needs to start.

    Attributes:
        proxy: the forward proxy; None switches it off.
        admin: the admin listener; None switches it off.
        state: directory of the CA, its key and the decision log, absolute.
        directory: where the settings file is; `exec:` commands run in it.
        boxes: the clients that are known; with none, whoever reaches a listener is let in, and all are local.
        broker: the front that speaks the broker protocol; None switches it off.
        workers: processes that share the work; 1: the one that was started does it all.
        notices: what whoever wrote this should know, each with its place.
    """

    state: Path
    directory: Path
    endpoints: tuple[EndpointSettings, ...]
    audit: Audit
    limits: Limits
    proxy: Listen | None = None
    admin: Listen | None = None
    tunnels: Tunnels = field(default_factory=Tunnels)
    boxes: tuple[BoxSettings, ...] = ()
    broker: "BrokerSettings | None" = None
    workers: int = 1
    notices: tuple[Problem, ...] = field(default=(), compare=False)
