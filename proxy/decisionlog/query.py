"""Picking and counting records, and what to do about the common refusals. Pure: records in, values out."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import final

from addons.record import TLS_ALERT, Event
from grants.decision import Reason, Rule

_NAMED = 5
_EXPLAIN = "`grantproxy explain GRANT METHOD URL` says what the grant lacks; widen it if the call is meant"
_ANSWER = (
    "the upstream answers with something that the operation's `response` does not declare; widen it if that is meant"
)
_REACH = "the upstream cannot be reached; check the endpoint's `upstream`, and the network of this machine"

REMEDIES: Mapping[str, str] = {
    Reason.TLS_CLIENT: "the client does not trust the proxy's CA; run `eval \"$(grantproxy env)\"` where it starts",
    Reason.NOT_HTTP: "the client speaks no TLS inside the tunnel; call the endpoint by https",
    Reason.PLAIN_HTTP: "call the endpoint by https",
    Reason.BOX_UNKNOWN: "the client shows no box's token; give it one, for `Proxy-Authorization` or the base URL",
    Reason.BOX_TOKEN_LEAK: "the client sends its box's token elsewhere too; send it only where the proxy takes it",
    Reason.BOX_ENDPOINT: "the box may not use that endpoint; add it to the box's `endpoints` if it is meant",
    Reason.BOX_TUNNEL: "the box may open no tunnels; set its `tunnels` if they are meant",
    Reason.HOST_UNKNOWN: "the host is no endpoint; add one with that upstream to the settings if the call is meant",
    Reason.HOST_MISMATCH: "the client names two hosts; call a base URL by its own address, or add the name to `hosts`",
    Reason.CROSS_SITE: "a web page made this call; use a program",
    Reason.INSIDE_ADDRESS: "the name resolves to an inside address; write the upstream as that address if it is meant",
    Reason.NO_OPERATION: _EXPLAIN,
    Reason.METHOD: _EXPLAIN,
    Reason.ROUTE: _EXPLAIN,
    Reason.PATH_PARAMETER: _EXPLAIN,
    Reason.QUERY_UNDECLARED: _EXPLAIN,
    Reason.QUERY_VALUE: _EXPLAIN,
    Reason.AMBIGUOUS: "two operations match one request; tell them apart by route or values",
    Reason.HEADER_UNDECLARED: "declare the header, or set `undeclaredHeaders: strip` at the top of the grant",
    Reason.REFERENCE_UNKNOWN: "the client names a secret that the endpoint does not hold; add it to `secrets`",
    Reason.REFERENCE_EMPTY: "the secret cannot be read; `grantproxy serve` says why at its start",
    Reason.CREDENTIAL: "an upstream showed a credential; replace it, and find what echoes it",
    Reason.STATUS: _ANSWER,
    Reason.MEDIA_TYPE: _ANSWER,
    Reason.RESPONSE_SCHEMA: _ANSWER,
    Reason.RESPONSE_JSON: _ANSWER,
    Reason.RESPONSE_TOO_LARGE: "the answer is over the operation's `response.maxBytes`; ask for less or raise it",
    Reason.REDIRECT_NOT_ALLOWED: "the upstream redirects; set `redirects` in the grant if that is meant",
    Reason.REDIRECT_ORIGIN: "a redirect leaves the upstream; add its origin to `redirects.allowedOrigins` if meant",
    Reason.RESOLVE: _REACH,
    Reason.CONNECT: _REACH,
    Reason.TIMEOUT: "the upstream is too slow; raise the endpoint's `timeout` if that is usual",
    Reason.TLS: "the upstream's certificate is not trusted; set the endpoint's `ca` if it is a private one",
    Reason.LOG: "the decision log could not be written; make room on its disk",
    Reason.CAPACITY: "too many clients at once; raise `limits.clients` if they are yours",
    Rule.FAULT: "a fault of this program; its messages on standard error tell more",
}  # fmt: skip
"""What to do, by reason, or by rule where the reason has none."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which records are wanted. An empty set takes every value; `since` is inclusive."""

    endpoint: frozenset[str] = frozenset()
    verdict: frozenset[str] = frozenset()
    rule: frozenset[str] = frozenset()
    operation: frozenset[str] = frozenset()
    box: frozenset[str] = frozenset()
    since: datetime | None = None

    def takes(self, record: Mapping[str, object]) -> bool:
        """Whether `record` is wanted."""
        for name in ("endpoint", "verdict", "rule", "operation", "box"):
            wanted = getattr(self, name)
            if wanted and record.get(name) not in wanted:
                return False
        return self.since is None or self.since <= written(record)


def written(record: Mapping[str, object]) -> datetime:
    """When the record was written; the beginning of time when it does not say."""
    try:
        stamp = datetime.fromisoformat(str(record.get("ts")))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCount:
    """Decisions about one operation of one endpoint; None where a record names none."""

    endpoint: str | None
    operation: str | None
    allowed: int
    denied: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalCount:
    """Refusals of one kind, and what to do about them.

    Attributes:
        where: of handshakes that failed, the hosts with what the client said, the most frequent first.
    """

    rule: str
    reason: str | None
    count: int
    remedy: str | None
    where: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Counts over decisions: a record of an intent or an end is none. The most frequent come first."""

    allowed: int
    denied: int
    first: str | None
    last: str | None
    operations: tuple[OperationCount, ...]
    refusals: tuple[RefusalCount, ...]


def summarize(records: Iterable[Mapping[str, object]]) -> Summary:
    """Count decisions by endpoint and operation, and refusals by rule and reason."""
    verdicts: Counter[tuple[str | None, str | None, bool]] = Counter()
    refused: Counter[tuple[str, str | None]] = Counter()
    handshakes: Counter[str] = Counter()
    first = last = None
    for record in records:
        if record.get("event") not in (Event.ALLOW, Event.DENY):
            continue
        denied = record["event"] == Event.DENY
        verdicts[_text(record, "endpoint"), _text(record, "operation"), denied] += 1
        if denied:
            refused[_text(record, "rule") or "-", _text(record, "reason")] += 1
            if record.get("reason") == Reason.TLS_CLIENT:
                handshakes[_handshake(record)] += 1
        last = _text(record, "ts")
        first = first or last
    pairs = Counter[tuple[str | None, str | None]]()
    for (endpoint, operation, _), count in verdicts.items():
        pairs[endpoint, operation] += count
    return Summary(
        allowed=sum(count for (_, _, denied), count in verdicts.items() if not denied),
        denied=sum(count for (_, _, denied), count in verdicts.items() if denied),
        first=first,
        last=last,
        operations=tuple(
            OperationCount(
                endpoint=endpoint,
                operation=operation,
                allowed=verdicts[endpoint, operation, False],
                denied=verdicts[endpoint, operation, True],
            )
            for (endpoint, operation), _ in pairs.most_common()
        ),
        refusals=tuple(
            RefusalCount(
                rule=rule,
                reason=word,
                count=count,
                remedy=REMEDIES.get(word or "") or REMEDIES.get(rule),
                where=tuple(name for name, _ in handshakes.most_common(_NAMED)) if word == Reason.TLS_CLIENT else (),
            )
            for (rule, word), count in refused.most_common()
        ),
    )


def _handshake(record: Mapping[str, object]) -> str:
    """The host, and the alert where the client sent one."""
    labels = record.get("labels")
    said = [str(label) for label in labels if str(label).startswith(TLS_ALERT)] if isinstance(labels, list) else []
    return " ".join([_text(record, "host") or "-", *(label.removeprefix(TLS_ALERT) for label in said)])


def _text(record: Mapping[str, object], name: str) -> str | None:
    value = record.get(name)
    return None if value is None else str(value)
