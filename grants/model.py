"""A loaded grant: frozen values that say what may be done. Source: "Grant file" in the specification."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol, final

from .message import Origin

if TYPE_CHECKING:
    from .schema import Schema


class Effect(StrEnum):
    """Whether an operation changes the remote side."""

    READ = "read"
    WRITE = "write"


class UndeclaredHeaders(StrEnum):
    """What becomes of a request header that the operation does not declare."""

    DENY = "deny"
    STRIP = "strip"


class Disclosure(StrEnum):
    """Which forms of a credential an answer may not hold."""

    DENY_EXACT = "deny-exact"


type JsonType = Literal["string", "number", "integer", "boolean", "object", "array", "null"]


class Pattern(Protocol):
    """An RE2 pattern, compiled when the grant is loaded."""

    @property
    def source(self) -> str:
        """As written in the grant."""
        ...

    def matches(self, value: bytes) -> bool:
        """Whether the whole of `value` matches."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRule:
    """What one query parameter or request header may be.

    Attributes:
        name: as declared.
        required: the request is denied without it.
        values: the exact values, or None when only `pattern` counts. Both must hold where both are given.
        pattern: matched against the whole value.
        max_bytes: limit of the value in UTF-8 bytes, or None.
        allow_url: a URL-shaped query value is not denied for being one.
    """

    name: str
    required: bool = False
    values: frozenset[str] | None = None
    pattern: Pattern | None = None
    max_bytes: int | None = None
    allow_url: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PathParameter:
    """One `{name}` segment of a route.

    Attributes:
        values: exact decoded segments, or None when `pattern` is given.
        pattern: a bounded RE2 pattern for the decoded segment (map form only).
        max_bytes: limit of the decoded segment in UTF-8 bytes (with `pattern`).
    """

    name: str
    values: frozenset[str] | None = None
    pattern: Pattern | None = None
    max_bytes: int | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route template: literal segments (str) and parameters. `/` alone has no segments.

    Attributes:
        template: as written, for records and messages.
    """

    template: str
    segments: tuple[str | PathParameter, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObject:
    """The small schema of the specification: a top-level object."""

    properties: Mapping[str, JsonType]
    required: frozenset[str]
    additional: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRule:
    """What a JSON body must be. Both must hold where both are given; at least one is."""

    object: JsonObject | None = None
    schema: "Schema | None" = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BodyRule:
    """What a request body must be. `content_types` are lower case, without parameters."""

    max_bytes: int
    content_types: frozenset[str]
    json: JsonRule


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRule:
    """What an answer must be.

    Attributes:
        empty: an answer without a body passes for any granted status.
        headers: the only response fields that are relayed (lower case), or None for all that are end-to-end.
    """

    statuses: frozenset[int]
    content_types: frozenset[str]
    max_bytes: int
    disclosure: Disclosure
    json: JsonRule
    empty: bool = False
    headers: frozenset[str] | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Redirects:
    """Redirects that may be followed: at most `max_hops`, within the upstream's origin and `origins`."""

    max_hops: int
    origins: frozenset[Origin]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One finite HTTP operation.

    Attributes:
        headers: by lower-case field name.
        query: by name.
        origins: the operation matches only requests to these, and may carry the credential there; None: the
            upstream's and the allowed ones, and the credential only to the upstream's.
    """

    name: str
    effect: Effect
    method: str
    route: Route
    response: ResponseRule
    query: Mapping[str, ValueRule] = field(default_factory=dict)
    headers: Mapping[str, ValueRule] = field(default_factory=dict)
    body: BodyRule | None = None
    origins: frozenset[Origin] | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A loaded grant file.

    Attributes:
        digest: `sha256:` and hex, over the canonical JSON form of the file.
        redirects: None when no redirect may be followed.
    """

    operations: tuple[Operation, ...]
    redirects: Redirects | None
    digest: str
    undeclared_headers: UndeclaredHeaders = UndeclaredHeaders.DENY
