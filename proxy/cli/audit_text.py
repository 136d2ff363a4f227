"""Records and counts as text, for a terminal or a pipe.

What a record says was written by others: each character that is not printable is shown as its escape, so that no record
moves the cursor or hides another.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from addons.record import Event
from proxy.decisionlog.query import RefusalCount, Summary, said
from proxy.decisionlog.remedies import once

if TYPE_CHECKING:
    from rich.table import Table

HEADER = "time verdict status method endpoint operation why ms box id"
"""The names of the words of a `plain` line."""
_SHORT_ID = 8
_GAP = 2
"""Blanks between two columns of a table."""
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_LEFT_OUT = ("ms", "box", "method", "status")
"""Columns of a table that a narrow terminal does without, the least useful first."""
_WHOLE = ("time", "verdict", "status", "method", "ms", "id")
"""Columns whose cells are short, and of no use when they are broken."""


def safe(value: object) -> str:
    """Text for one cell of a terminal: `-` for nothing, escapes for what is not printable."""
    if value is None or value == "":
        return "-"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def plain(record: Mapping[str, object]) -> str:
    """A record as one line: time, verdict, status, method, endpoint, operation or host, why, milliseconds, box, id."""
    cells = [safe(record.get(name)) for name in ("ts", "verdict", "status", "method", "endpoint")]
    cells += [safe(_what(record)), safe(_why(record)), f"{safe(record.get('duration_ms'))}ms"]
    cells += [safe(record.get("box")), safe(record.get("id"))]
    return " ".join(cell.replace(" ", "_") for cell in cells)


def _what(record: Mapping[str, object]) -> object:
    return record.get("operation") or record.get("host")


def _why(record: Mapping[str, object]) -> str:
    """Why it was refused, with what a handshake failed for and what the upstream answered where the client was
    answered with another status; of a record that is no decision, what it is, and of an end, by whom.
    """
    rule, reason, labels = record.get("rule"), record.get("reason"), record.get("labels")
    if record.get("event") == Event.INTENT:
        return "intent"
    if record.get("event") == Event.END:
        return ",".join(map(str, labels)) if isinstance(labels, list) and labels else "end"
    what = "/".join(str(word) for word in (rule, reason) if word is not None)
    upstream = record.get("upstream_status")
    answered = [f"upstream-{upstream}"] if upstream not in (None, record.get("status")) else []
    return ",".join(filter(None, [what, *said(record), *answered]))


def records_table(records: Iterable[Mapping[str, object]], width: int) -> "Table":
    """Records as a table for a terminal of `width` columns.

    Where it is too narrow, the time loses its year and milliseconds, then the columns that say least are left out, and
    what still does not fit goes on in further lines.
    """
    from rich.table import Table
    from rich.text import Text

    rows = [_cells(record) for record in records]
    names = _fitting(rows, width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        justify: Literal["left", "right"] = "right" if name in ("status", "ms") else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name in _WHOLE)
    for row in rows:
        style = "red" if row["verdict"] == "deny" else ""
        table.add_row(*(Text(row[name], style=style if name == "verdict" else "") for name in names))
    return table


def _cells(record: Mapping[str, object]) -> dict[str, str]:
    """A record's cells, by column."""
    cells = {name: safe(record.get(name)) for name in ("verdict", "status", "method", "endpoint", "box")}
    cells |= {"time": safe(record.get("ts")), "ms": safe(record.get("duration_ms"))}
    cells |= {"operation": safe(_what(record)), "why": safe(_why(record)), "id": safe(record.get("id"))[:_SHORT_ID]}
    return cells


def _fitting(rows: list[dict[str, str]], width: int) -> list[str]:
    """The columns for which there is room. The rows get shorter times where there is too little."""
    from rich.cells import cell_len

    def needs(name: str) -> int:
        return _GAP + max(map(cell_len, [name, *(row[name] for row in rows)]))

    names = HEADER.split()
    if sum(map(needs, names)) > width + _GAP:
        for row in rows:
            if _STAMP.fullmatch(row["time"]):
                row["time"] = row["time"][5:19].replace("T", " ")
    for name in _LEFT_OUT:
        if sum(map(needs, names)) > width + _GAP:
            names.remove(name)
    return names


def summary_tables(counted: Summary) -> "Iterator[Table | str]":
    """A summary as tables for a terminal."""
    from rich.table import Table
    from rich.text import Text

    yield _totals(counted)
    operations = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("endpoint", "operation", "allowed", "denied"):
        operations.add_column(name, justify="right" if name.endswith("ed") else "left")
    for row in counted.operations:
        operations.add_row(*(Text(safe(cell)) for cell in (row.endpoint, row.operation, row.allowed, row.denied)))
    yield operations
    if counted.refusals:
        refusals = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("refused by", "count", "what helps"):
            refusals.add_column(name, justify="right" if name == "count" else "left")
        for refusal, why, helps in _refusals(counted):
            refusals.add_row(Text(why), str(refusal.count), Text(helps))
        yield refusals
    yield from _answers(counted)


def summary_lines(counted: Summary) -> Iterator[str]:
    """A summary as lines of text."""
    yield _totals(counted)
    for row in counted.operations:
        yield f"{safe(row.endpoint)} {safe(row.operation)}: {row.allowed} allowed, {row.denied} denied"
    for refusal, why, helps in _refusals(counted):
        yield f"{why}: {refusal.count}" + (f"; {helps}" if refusal.remedy or refusal.where else "")
    yield from _answers(counted)


def _answers(counted: Summary) -> Iterator[str]:
    """What upstreams answered, and what helps, which is said once."""
    told: dict[str, str] = {}
    for answer in counted.answers:
        what = f"{safe(answer.endpoint)} answered {answer.status}"
        helps = once(told, answer.remedy, what)
        yield f"{what}: {answer.count}" + (f"; {helps}" if helps else "")


def _refusals(counted: Summary) -> Iterator[tuple[RefusalCount, str, str]]:
    """Each refusal, why it was, and what helps and where. What helps with several is said once."""
    told: dict[str, str] = {}
    for refusal in counted.refusals:
        why = safe(f"{refusal.rule}/{refusal.reason}" if refusal.reason else refusal.rule)
        where = f"{', '.join(map(safe, refusal.where))}: " if refusal.where else ""
        yield refusal, why, where + safe(once(told, refusal.remedy, why))


def _totals(counted: Summary) -> str:
    return f"{counted.allowed} allowed, {counted.denied} denied, {safe(counted.first)} to {safe(counted.last)}"
