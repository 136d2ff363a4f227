"""Picking and counting records. Pure: records in, values out."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import final

from addons.record import TLS_ALERT, UPSTREAM_TLS, Event
from grants.decision import Reason

from .remedies import ANSWERS, REMEDIES

_NAMED = 5
_ERRORS = 400


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which records are wanted. An empty set takes every value; `since` is inclusive; `id` is how one begins."""

    endpoint: frozenset[str] = frozenset()
    verdict: frozenset[str] = frozenset()
    rule: frozenset[str] = frozenset()
    operation: frozenset[str] = frozenset()
    box: frozenset[str] = frozenset()
    since: datetime | None = None
    id: str = ""

    def takes(self, record: Mapping[str, object]) -> bool:
        """Whether `record` is wanted."""
        for name in ("endpoint", "verdict", "rule", "operation", "box"):
            wanted = getattr(self, name)
            if wanted and record.get(name) not in wanted:
                return False
        if not str(record.get("id")).startswith(self.id):
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
        where: of handshakes that failed, the hosts with what the client said, or with why the upstream is not trusted;
            of unknown hosts, which, with how often. The most frequent first, and no more than five.
    """

    rule: str
    reason: str | None
    count: int
    remedy: str | None
    where: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCount:
    """Answers of an endpoint's upstream with one status of 400 or more, shown to the client or not."""

    endpoint: str | None
    status: int
    count: int
    remedy: str | None


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
    answers: tuple[AnswerCount, ...] = ()


def summarize(records: Iterable[Mapping[str, object]]) -> Summary:
    """Count decisions by endpoint and operation, and refusals by rule and reason, and what upstreams refused."""
    verdicts: Counter[tuple[str | None, str | None, bool]] = Counter()
    refused: Counter[tuple[str, str | None]] = Counter()
    named: dict[str, Counter[str]] = {reason: Counter() for reason in _NAMES}
    answered: Counter[tuple[str | None, int]] = Counter()
    first = last = None
    for record in records:
        if record.get("event") not in (Event.ALLOW, Event.DENY):
            continue
        denied = record["event"] == Event.DENY
        verdicts[_text(record, "endpoint"), _text(record, "operation"), denied] += 1
        if denied:
            refused[_text(record, "rule") or "-", _text(record, "reason")] += 1
            if (reason := _text(record, "reason") or "") in named:
                named[reason][_NAMES[reason](record)] += 1
        status = record.get("upstream_status")
        if isinstance(status, int) and status >= _ERRORS:
            answered[_text(record, "endpoint"), status] += 1
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
                where=_where(word, named.get(word or "", Counter())),
            )
            for (rule, word), count in refused.most_common()
        ),
        answers=tuple(
            AnswerCount(endpoint=endpoint, status=status, count=count, remedy=ANSWERS.get(status))
            for (endpoint, status), count in answered.most_common()
        ),
    )


def said(record: Mapping[str, object]) -> tuple[str, ...]:
    """What the labels of a failed handshake say, the client's alert or the fault of the upstream's certificate."""
    labels = record.get("labels")
    texts = map(str, labels) if isinstance(labels, list) else ()
    return tuple(
        text.removeprefix(prefix) for text in texts for prefix in (TLS_ALERT, UPSTREAM_TLS) if text.startswith(prefix)
    )


def _host(record: Mapping[str, object]) -> str:
    return _text(record, "host") or "-"


def _handshake(record: Mapping[str, object]) -> str:
    """The host, and what was said of the handshake where anything was."""
    return " ".join([_host(record), *said(record)])


_NAMES: Mapping[str, Callable[[Mapping[str, object]], str]] = {
    Reason.TLS_CLIENT: _handshake,
    Reason.TLS: _handshake,
    Reason.HOST_UNKNOWN: _host,
}
"""By reason: what of a record is named."""


def _where(word: str | None, names: Counter[str]) -> tuple[str, ...]:
    counted = word == Reason.HOST_UNKNOWN
    return tuple(f"{name} {count}" if counted else name for name, count in names.most_common(_NAMED))


def _text(record: Mapping[str, object], name: str) -> str | None:
    value = record.get(name)
    return None if value is None else str(value)
