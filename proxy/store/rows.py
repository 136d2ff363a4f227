"""Values as the tables have them, and rows as the values that they stand for."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row

from grants.jsontext import JsonValue

from .values import StoredBox, VisitorGrant


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
        name=row.name,
        endpoints=frozenset(json.loads(row.endpoints)),
        tunnels=bool(row.tunnels),
        created=row.created / 1000,
        rotated=seconds(row.rotated),
        previous_until=seconds(row.previous_until),
        removed=seconds(row.removed),
    )


def grant_of(row: Row[Any]) -> VisitorGrant:
    """The grant of a row."""
    return VisitorGrant(
        id=row.id,
        box=row.box,
        principal=row.principal,
        credential=row.credential,
        issued=row.issued / 1000,
        expires=row.expires / 1000,
        revoked=seconds(row.revoked),
    )
