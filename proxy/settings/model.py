"""What `grantproxy serve` is set to: frozen values, all of them checked. Source: docs/reference/settings.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import final

from grants.message import Authority, Origin
from grants.model import Grant


class Assurance(StrEnum):
    """What an endpoint promises. The values are log text."""

    SEMANTIC = "semantic"


class Sync(StrEnum):
    """When a record is forced to the disk."""

    ALWAYS = "always"
    INTERVAL = "interval"
    OFF = "off"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TcpListen:
    """A loopback address and a port. Port 0: any free one. Prints as `127.0.0.1:8080` or `[::1]:8080`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UnixListen:
    """A Unix socket. Prints as `unix:path`."""

    path: Path

    def __str__(self) -> str:
        return f"unix:{self.path}"


type Listen = TcpListen | UnixListen


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """One endpoint.

    Attributes:
        name: unique; the upstream's host where none was given.
        upstream: the origin, canonical.
        base: decoded segments of the upstream's own path.
        grant: the loaded grant. grant_path: where it came from.
        secrets: by reference name, where the value is: `env:NAME`, `file:PATH` (absolute where the settings file's
            directory is) or `exec:COMMAND`.
        listen: the base-URL front; None for none.
        ca: the only bundle that is trusted for this upstream; None for the system's.
        hosts: further authorities by which clients may call the base URL.
        consented: the upstream was written as an address or as `localhost`, so exactly that inside address is allowed.
        connect_timeout, total_timeout: seconds.
    """

    name: str
    upstream: Origin
    assurance: Assurance
    grant: Grant = field(repr=False)
    grant_path: Path
    base: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    listen: Listen | None = None
    ca: Path | None = None
    hosts: tuple[Authority, ...] = ()
    consented: bool = False
    connect_timeout: float = 10.0
    total_timeout: float = 60.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The decision log. `path` None: standard output."""

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
        state: directory of the CA, its key and the decision log.
        directory: where the settings file is; `exec:` commands run in it.
    """

    state: Path
    directory: Path
    endpoints: tuple[EndpointSettings, ...]
    audit: Audit
    limits: Limits
    proxy: Listen | None = None
    admin: Listen | None = None
