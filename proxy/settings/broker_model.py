"""What the broker is set to: frozen values, all of them checked. Source: docs/reference/settings.md, "Broker"."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final
from urllib.parse import parse_qsl, urlsplit

from grants.broker.extra import Extra
from grants.broker.payer import Payer, PayerKind
from grants.message import Origin
from grants.model import Grant
from proxy.settings.model import Listen
from proxy.settings.terms import Terms

DATABASE: Final = "broker.db"
FEEDBACK: Final = "feedback.jsonl"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteDatabase:
    """A file of this machine. Prints as its URL."""

    path: Path

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDatabase:
    """A PostgreSQL server's database. Prints as its URL, without a password. `url` is as it was written."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        user, at, place = parts.netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        hosts = [host for key, host in parse_qsl(parts.query) if key == "host"]
        shown = f"{name}{':***' if colon else ''}{at}{place}"
        return f"postgresql://{shown}{parts.path}" + (f"?host={hosts[0]}" if hosts else "")


type Database = SqliteDatabase | PostgresDatabase


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An upstream and what is sent there in place of the box's token.

    Attributes:
        origin, base: where it is, and the decoded segments of its own path. http only where it was written so.
        credential: where the credential is, a reference as in `EndpointSettings.secrets`.
        terms: how it is called.
    """

    origin: Origin
    base: tuple[str, ...]
    credential: str
    terms: Terms = field(default_factory=Terms)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """The Anthropic API, and who pays there where no visitor and no box's owner does."""

    service: Service
    payer: Payer = field(default_factory=lambda: Payer(kind=PayerKind.SHARED))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackFile:
    """Feedback is appended here, one JSON line a batch."""

    path: Path


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackForward:
    """Feedback is posted on to this URL."""

    origin: Origin
    base: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class FeedbackOff:
    """No feedback is kept: 501."""


@final
@dataclass(frozen=True, slots=True)
class FeedbackWithheld:
    """The owner has not consented to feedback: 403."""


type Feedback = FeedbackFile | FeedbackForward | FeedbackOff | FeedbackWithheld


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EgressSecret:
    """A secret that boxes use through `/egress/NAME`.

    Attributes:
        name: what the scope of `egress` lists.
        host: the one origin that it may be sent to.
        value: where it is, a reference as in `EndpointSettings.secrets`.
        box: the only box that has it; None for every box that declares it. A box's own goes before one of that name
            that is everybody's.
        grant: what its requests are held to; None for a relay.
        terms: how its host is called.
    """

    name: str
    host: Origin
    value: str
    box: str | None = None
    grant: Grant | None = field(default=None, repr=False)
    grant_path: Path | None = None
    terms: Terms = field(default_factory=Terms)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A capability that is not of the protocol: its routes and words, and where its requests go.

    Attributes:
        header: the field that the credential is put into, as the whole value.
    """

    extra: Extra
    service: Service
    header: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BoxFountain:
    """What is a box's own at Fountain from the start. `agent`: the one that it may start conversations with."""

    agent: str | None = None
    conversations: frozenset[str] = frozenset()
    sandboxes: frozenset[str] = frozenset()
    vaults: frozenset[str] = frozenset()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BoxAnthropic:
    """The credential of a box's owner, which pays before the house's."""

    credential: str
    payer: Payer = field(default_factory=lambda: Payer(kind=PayerKind.OWNER))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The broker. A part that is None or empty is not served.

    Attributes:
        word: the broker word that reports must name.
        secrets: at most one of each name and box.
        capabilities: names and routes are unique, and none is the protocol's own.
    """

    listen: Listen
    word: str
    database: Database
    feedback: Feedback
    anthropic: Inference | None = None
    fountain: Service | None = None
    secrets: tuple[EgressSecret, ...] = ()
    capabilities: tuple[Capability, ...] = ()

    def secrets_of(self, box: str) -> tuple[EgressSecret, ...]:
        """The secrets that a box can use, one a name, in the order of the settings."""
        own = {secret.name for secret in self.secrets if secret.box == box}
        return tuple(
            secret for secret in self.secrets if secret.box == box or (secret.box is None and secret.name not in own)
        )
