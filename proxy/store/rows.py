"""Values as the tables have them, and rows as the values that they stand for."""

import json
import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row

from addons.boxes import name_of
from grants.broker.declaration import Declaration, Report
from grants.jsontext import JsonValue

from .values import StoredBox, StoredReport, VisitorGrant


def stored(time: float) -> int:
    """A time in seconds, as a column has it."""
    return round(time * 1000)


def seconds(time: int | None) -> float | None:
    """A time as a column has it, in seconds."""
    return None if time is None else time / 1000


def json_text(value: JsonValue | Sequence[str]) -> str:
    """JSON in ASCII."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def box_of(row: Row[Any]) -> StoredBox:
    """The box of a row."""
    return StoredBox(
        number=row.id,
        name=row.name,
        endpoints=frozenset(json.loads(row.endpoints)),
        tunnels=bool(row.tunnels),
        created=row.created / 1000,
        rotated=seconds(row.rotated),
        previous_until=seconds(row.previous_until),
        removed=seconds(row.removed),
    )


def report_row(report: Report, at: str) -> dict[str, str | None]:
    """The columns of a report, with a version of its own."""
    return {
        "declaration": report.declaration.to_json(),
        "listing": None if report.listing is None else json_text(report.listing),
        "spend": None if report.spend is None else json_text(report.spend),
        "at": at,
        "version": secrets.token_hex(16),
    }


def report_of(row: Row[Any]) -> StoredReport | None:
    """The report of a row; None where that is damaged."""
    try:
        report = Report(
            declaration=Declaration.from_json(row.declaration),
            listing=None if row.listing is None else json.loads(row.listing),
            spend=None if row.spend is None else json.loads(row.spend),
        )
    except ValueError:
        return None
    return StoredReport(report=report, at=row.at, version=row.version)


def grant_of(row: Row[Any]) -> VisitorGrant:
    """The grant of a row."""
    return VisitorGrant(
        id=row.id,
        box=name_of(row.box),
        principal=row.principal,
        credential=row.credential,
        issued=row.issued / 1000,
        expires=row.expires / 1000,
        revoked=seconds(row.revoked),
    )
