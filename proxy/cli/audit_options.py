"""What the options of `grantproxy audit` say, as values."""

import re
from datetime import UTC, datetime, timedelta

import click

_DIGEST = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f]{6,24}")
_AGO = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def since(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """A duration before now, or an RFC 3339 time (UTC where it names no zone)."""
    if value is None:
        return None
    if ago := _AGO.fullmatch(value):
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        stamp = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"`{value}` is no time; write 90m, 24h, 7d or 2026-01-31T12:00:00Z") from None
    return stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)


def identifier(_: click.Context, __: click.Parameter, value: str | None) -> str:
    """How the id of a decision begins; empty for every one."""
    if value is not None and not _ID.fullmatch(value):
        raise click.BadParameter(f"`{value}` is no decision; write its id, or at least the first 6 of its hex digits")
    return value or ""


def digests(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Digests as `verify` prints them."""
    for value in values:
        if not _DIGEST.fullmatch(value):
            raise click.BadParameter(f"`{value}` is no head; write the 64 hex digits that `audit verify` prints")
    return values
