"""What was measured: rounds of a row, their medians, and ratios to another row of the same rounds."""

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.plan import Shape


@dataclass(frozen=True, slots=True)
class Round:
    """One turn.

    Attributes:
        rate: requests a second. p50, p99: milliseconds.
        cpu: microseconds of the proxy's processes a request.
        load: the load's share of one core. others: the share of all cores that went to what is no part of the run.
    """

    rate: float
    p50: float
    p99: float
    cpu: float | None
    load: float
    others: float = 0.0


@dataclass(slots=True)
class Row:
    """A target under one shape. Memory of its processes in bytes: before its first load, and after this one."""

    section: str
    target: str
    peer: str
    shape: Shape
    before: int = 0
    after: int = 0
    rounds: list[Round] = field(default_factory=list)

    def median(self, of: Callable[[Round], float | None]) -> float | None:
        """The median of the rounds; None where a round has none."""
        values = [of(one) for one in self.rounds]
        known = [value for value in values if value is not None]
        return statistics.median(known) if known and len(known) == len(values) else None


@dataclass(slots=True)
class Results:
    """All rows, in their order. `facts`: of the machine; `skipped`: what could not run, with why."""

    facts: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def find(self, section: str, target: str, shape: Shape) -> Row | None:
        for row in self.rows:
            if (row.section, row.target, row.shape) == (section, target, shape) and row.rounds:
                return row
        return None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"facts": self.facts, "skipped": self.skipped, "rows": [asdict(row) for row in self.rows]}


def parse(document: dict[str, Any]) -> Results:
    """What `Results.document` gave."""
    results = Results(document["facts"], skipped=document["skipped"])
    for row in document["rows"]:
        rounds = [Round(**one) for one in row["rounds"]]
        results.rows.append(Row(**{**row, "shape": Shape(**row["shape"]), "rounds": rounds}))
    return results


def rate(one: Round) -> float:
    return one.rate


def cpu(one: Round) -> float | None:
    return one.cpu


def p50(one: Round) -> float:
    return one.p50


def p99(one: Round) -> float:
    return one.p99


def load(one: Round) -> float:
    return one.load


def paired(row: Row | None, other: Row | None, of: Callable[[Round, Round], float | None]) -> float | None:
    """The median over the rounds that both took part in: what else the machine did meets both sides of a round."""
    if row is None or other is None:
        return None
    values = [value for a, b in zip(row.rounds, other.rounds, strict=False) if (value := of(a, b)) is not None]
    return statistics.median(values) if values else None


def cpu_ratio(row: Row | None, other: Row | None) -> float | None:
    """How many times less CPU a request, which a busy machine changes less than requests a second."""
    return paired(row, other, lambda a, b: b.cpu / a.cpu if a.cpu and b.cpu else None)


def ratio(row: Row | None, other: Row | None) -> float | None:
    """How many times as many requests a second."""
    return paired(row, other, lambda a, b: a.rate / b.rate if b.rate else None)
