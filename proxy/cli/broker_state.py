"""What `box` and `visitor` share: settings with a broker, its database, and how times and durations are told."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, final

import click

from proxy.cli import fail
from proxy.cli.files import FILE, NAME_SETTINGS
from proxy.cli.place import CONFIG

if TYPE_CHECKING:
    from proxy.settings.broker_model import BrokerSettings
    from proxy.settings.model import Settings
    from proxy.store import Store

config_option = click.option("-c", "--config", type=FILE, metavar="FILE", help="Settings (grantproxy.yaml).")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The settings of an installation that has a broker."""

    settings: "Settings"
    broker: "BrokerSettings"

    def run[Result](self, work: "Callable[[Store], Awaitable[Result]]") -> Result:
        """What `work` gives with the broker's database open. Ends the program where that cannot be had."""
        from proxy.state import StartRefused, private_directory
        from proxy.store import Store, StoreUnavailable

        async def opened() -> Result:
            store = await Store.open(self.broker.database)
            try:
                return await work(store)
            finally:
                await store.close()

        try:
            private_directory(self.settings.state)
            return asyncio.run(opened())
        except StartRefused as refused:
            fail(str(refused))
        except StoreUnavailable as unavailable:
            fail(f"database `{self.broker.database}` cannot be used: {unavailable}; try again when it is back")


def load(config: Path | None) -> Broker:
    """The settings at `config`, or `grantproxy.yaml`. Ends the program where they cannot be used or have no broker."""
    from grants.problems import Invalid
    from proxy.settings import load_settings

    path = config or CONFIG
    try:
        settings = load_settings(path, remedy=NAME_SETTINGS)
    except Invalid as invalid:
        for problem in invalid.problems:
            click.echo(f"{problem}", err=True)
        raise SystemExit(1) from None
    if settings.broker is None:
        fail(f"`{path}` has no `broker`, whose database holds the boxes; add it, or name other settings with -c")
    return Broker(settings=settings, broker=settings.broker)


def now() -> float:
    """Seconds since 1970 (UTC)."""
    return datetime.now(UTC).timestamp()


def shown(seconds: float | None) -> str | None:
    """A time as RFC 3339 has it, to the second; None where there is none."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(_: click.Context, __: click.Parameter, value: str) -> float:
    """Seconds of `30m`, `1h` or plain `0`."""
    from proxy.settings.values import ValueInvalid, parse_duration

    if value == "0":
        return 0.0
    try:
        return parse_duration(value)
    except ValueInvalid as invalid:
        raise click.BadParameter(f"`{value}` {invalid}") from None


def echo_rows(rows: list[list[str]]) -> None:
    """Rows in columns that line up."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
