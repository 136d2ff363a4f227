"""The table of a run, as text: `python -m bench.report RUN.json` prints it once more."""

import json
import statistics
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from bench.goals import verdicts
from bench.plan import PLAN
from bench.results import Results, Row, cpu, cpu_ratio, load, p50, p99, parse, rate, ratio

LIMIT = 0.9
"""The share of a core above which the load is itself the limit."""
QUIET = 0.1
"""The share of the cores that others may take before the report warns."""
_COLUMNS = (
    ("requests/s", 11),
    ("ratio", 9),
    ("by CPU", 8),
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
    if others := [one.others for row in results.rows for one in row.rounds]:
        share = statistics.median(others)
        rough = "; ratios of a run beside so much are rough, those by CPU less so" if share > QUIET else ""
        yield f"others: took {share:.0%} of the cores in the median round{rough}"
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
    yield "of latency to direct; by CPU: how many times less CPU a request, of all processes of the proxy. load: the"
    yield f"load's share of a core; from {LIMIT:.0%} on (*) the load is the limit, and the proxy could do more."
    yield ""
    yield "Goals, from ratios within one round:"
    yield from (f"  {verdict}" for verdict in verdicts(results))


def _line(row: Row, peer: Row | None) -> str:
    share = row.median(load) or 0
    memory = f"{row.before / 1e6:11.0f}{row.after / 1e6:7.0f}" if row.before else f"{'-':>11}{'-':>7}"
    numbers = (
        _number(row.median(rate), 11, 0),
        _number(ratio(row, peer), 9, 2),
        _number(cpu_ratio(row, peer), 8, 2),
        _number(row.median(p50), 9, 2),
        _number(row.median(p99), 9, 2),
        _number(row.median(cpu), 8, 0),
    )
    return f"{row.target:28}{''.join(numbers)}{memory}{share:6.0%}{'*' if share >= LIMIT else ''}"


def _number(value: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width},.{digits}f}"


if __name__ == "__main__":
    print("\n".join(report(parse(json.loads(Path(sys.argv[1]).read_text())))))
