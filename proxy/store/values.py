"""What the store gives and takes: frozen values."""

from dataclasses import dataclass, field
from typing import final

from addons.boxes import added_key
from grants.broker.declaration import Report


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBox:
    """A box that was added with `grantproxy box add`.

    Attributes:
        number: its own for ever, also once it is removed.
        endpoints: names of the endpoints that it may use on the other fronts.
        tunnels: it may open opaque tunnels.
        created, rotated, removed: seconds since 1970 (UTC); None where it has not happened.
        previous_until: until when the token before the last rotation is taken too, same clock.
    """

    number: int
    name: str
    endpoints: frozenset[str]
    tunnels: bool
    created: float
    rotated: float | None = None
    previous_until: float | None = None
    removed: float | None = None

    @property
    def key(self) -> str:
        """What it has is kept under this, see `addons.boxes.Box`."""
        return added_key(self.name, self.number)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """A box's last report.

    Attributes:
        at: when it was taken, as the box was told.
        version: which one it is.
    """

    report: Report
    at: str
    version: str = field(default="", compare=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedGrant:
    """A grant just made. `value` is known now and never again: only its digest is stored."""

    id: int
    value: str = field(repr=False)
    expires: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VisitorGrant:
    """A visitor's grant for one box.

    Attributes:
        principal: who pays, such as `github:login`.
        credential: where the visitor's credential is, `env:NAME` or `file:PATH`, never the credential.
        issued, expires, revoked: seconds since 1970 (UTC); None where it has not happened.
    """

    id: int
    box: str
    principal: str
    credential: str
    issued: float
    expires: float
    revoked: float | None = None

    def live(self, now: float) -> bool:
        """Whether it neither has expired nor was revoked."""
        return self.revoked is None and now < self.expires
