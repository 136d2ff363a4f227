"""The table of a run, as text."""

from collections.abc import Iterator
from itertools import groupby

from bench.goals import verdicts
from bench.plan import PLAN
from bench.results import Results, Row, cpu, load, p50, p99, rate, ratio

LIMIT = 0.9
"""The share of a core above which the load is itself the limit."""
_COLUMNS = (
    ("requests/s", 11),
    ("ratio", 9),
    ("p50 ms", 9),
    ("p99 ms", 9),
    ("CPU µs", 8),
    ("MB before", 11),
    ("after", 7),
)
_HEAD = f"{'':28}" + "".join(f"{name:>{width}}" for name, width in _COLUMNS) + f"{'load':>6}"


def report(results: Results) -> Iterator[str]:
    """Facts, a table a section and shape, the goals."""
    yield from (f"{name}: {text}" for name, text in results.facts.items())
    titles = {section.name: section.title for section in PLAN}
    for (section, shape), rows in groupby(results.rows, key=lambda row: (row.section, row.shape)):
        yield ""
        yield f"{titles[section]}: {shape}"
        yield _HEAD
        for row in rows:
            yield _line(row, results.find(section, row.peer, row.shape) if row.peer else None)
    for name, reason in results.skipped.items():
        yield f"skipped: {name}: {reason}"
    yield ""
    yield "ratio: of requests/s, to mitmdump in the same front; of grants to 10 operations, of workers to one worker,"
    yield "of latency to direct. CPU: of all processes of the proxy, a request. load: the load's share of a core; from"
    yield f"{LIMIT:.0%} on (*) the load is the limit, and the proxy could do more."
    yield ""
    yield "Goals, from ratios within one round:"
    yield from (f"  {verdict}" for verdict in verdicts(results))


def _line(row: Row, peer: Row | None) -> str:
    share = row.median(load) or 0
    memory = f"{row.before / 1e6:11.0f}{row.after / 1e6:7.0f}" if row.before else f"{'-':>11}{'-':>7}"
    return (
        f"{row.target:28}{_number(row.median(rate), 11, 0)}{_number(ratio(row, peer), 9, 2)}"
        f"{_number(row.median(p50), 9, 2)}{_number(row.median(p99), 9, 2)}{_number(row.median(cpu), 8, 0)}"
        f"{memory}{share:6.0%}{'*' if share >= LIMIT else ''}"
    )


def _number(value: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width},.{digits}f}"
