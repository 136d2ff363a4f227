"""`grantproxy audit`: read, follow, check and count the decision log."""

import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proxy.cli import Group, examples, fail
from proxy.cli.audit_options import digests, identifier, since
from proxy.cli.audit_text import HEADER, plain, records_table, summary_lines, summary_tables
from proxy.cli.files import FILE
from proxy.cli.place import installation
from proxy.decisionlog import reader
from proxy.decisionlog.chain import as_record
from proxy.decisionlog.query import Filter, summarize
from proxy.decisionlog.verify import Broken, Intact, verify

if TYPE_CHECKING:
    from rich.console import Console

type Found = tuple[bytes, Mapping[str, object]]


def _place(function: Callable[..., None]) -> Callable[..., None]:
    """Options that say which log is read."""
    for option in (
        click.option(
            "--log", type=FILE, metavar="FILE", help="Read this log (default: that of the settings, or the user's own)."
        ),
        click.option("-c", "--config", type=FILE, metavar="FILE", help="Settings (grantproxy.yaml)."),
    ):
        function = option(function)
    return function


def _filters(function: Callable[..., None]) -> Callable[..., None]:
    """Options that pick records; each may be given several times."""
    for option in (
        click.option(
            "--since", callback=since, metavar="TIME", help="Not older than 90m, 24h, 7d, or an RFC 3339 time."
        ),
        click.option("--box", multiple=True, help="Of this box."),
        click.option("--operation", multiple=True, help="Of this operation."),
        click.option("--rule", multiple=True, help="Refused by this rule."),
        click.option("--verdict", multiple=True, type=click.Choice(["allow", "deny"]), help="With this verdict."),
        click.option("--endpoint", multiple=True, help="Of this endpoint."),
    ):
        function = option(function)
    return function


def _rotated(function: Callable[..., None]) -> Callable[..., None]:
    """The option that reads older files too."""
    return click.option("--all", "rotated", is_flag=True, help="Read the files that it was rotated into too.")(function)


def _filter(options: Mapping[str, Any]) -> Filter:
    sets = {name: frozenset(value) for name, value in options.items() if name not in ("since", "id")}
    return Filter(**sets, since=options["since"], id=options.get("id", ""))


def _log(config: Path | None, log: Path | None) -> Path:
    """The log's file. Ends the program where there is none."""
    path = log or installation(config).log
    if path is None:
        fail("the decision log goes to standard output; keep it in a file and name that with --log")
    if not path.exists():
        if beside := reader.with_rotated(path)[:-1]:
            fail(
                f"there is no decision log at `{path}`, which was moved to `{beside[-1]}`; the next request makes it"
                f" anew, and `--log {beside[-1]}` reads that one"
            )
        fail(f"there is no decision log at `{path}`; start `grantproxy serve`, or name one with --log")
    return path


def _read(path: Path, wanted: Filter, *, rotated: bool) -> Iterator[Found]:
    unread = reader.Unread()
    try:
        for file in reader.with_rotated(path) if rotated else (path,):
            for line, record in reader.records(file, unread):
                if wanted.takes(record):
                    yield line, record
    except reader.UNREADABLE as error:
        fail(_cannot_read(getattr(error, "filename", None) or path, error))
    _tell_unread(unread, path)


def _tell_unread(unread: reader.Unread, path: Path) -> None:
    """Nothing is left out in silence."""
    if unread.count:
        lines = "1 line" if unread.count == 1 else f"{unread.count} lines"
        remedy = f"run `grantproxy audit verify --log {path}`"
        click.echo(f"warning: {lines} could not be read, the first is {unread.first}; {remedy}", err=True)


def _cannot_read(path: object, error: Exception) -> str:
    cause = getattr(error, "strerror", None) or "it is damaged"
    return f"`{path}` cannot be read: {cause[:1].lower()}{cause[1:]}; name another with --log"


@click.group("audit", cls=Group, epilog=examples("grantproxy audit show --verdict deny --since 1h"))
def command() -> None:
    """Read the decision log: show, tail, verify, summary."""


@command.command("show", epilog=examples("grantproxy audit show --verdict deny --since 1h"))
@click.argument("id", required=False, callback=identifier)
@_place
@_rotated
@_filters
@click.option("-n", "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="The last so many.")
@click.option("--json", "as_json", is_flag=True, help="Print the records as they are.")
def show(config: Path | None, log: Path | None, rotated: bool, limit: int, as_json: bool, **options: Any) -> None:
    """Show the records that match, oldest first; with ID, those of one decision.

    ID is what a refusal calls `decision`, or at least its first 6 digits.
    """
    path = _log(config, log)
    found = deque(_read(path, _filter(options), rotated=rotated), maxlen=limit)
    if options["id"]:
        _hold_to_one(found, path, options["id"])
    if not found:
        click.echo(_nothing(path, options), err=True)
    elif as_json:
        _echo_json(found)
    elif sys.stdout.isatty():
        console = _console()
        console.print(records_table((record for _, record in found), console.width))
    else:
        for _, record in found:
            click.echo(plain(record))


def _hold_to_one(found: Iterable[Found], path: Path, begins: str) -> None:
    """End the program unless the records are those of one decision."""
    ids = {str(record.get("id")) for _, record in found}
    if not ids:
        fail(f"no record of `{begins}` in `{path}`; `--all` reads the files that it was rotated into too")
    if len(ids) > 1:
        fail(f"{len(ids)} decisions begin with `{begins}`; write more digits of the one that is meant")


@command.command("tail", epilog=examples("grantproxy audit tail -n 20"))
@_place
@_filters
@click.option("-n", "--limit", type=click.IntRange(min=0), default=10, show_default=True, help="Begin with so many.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more, over a rotation of the file too.")
@click.option("--json", "as_json", is_flag=True, help="Print the records as they are.")
def tail(config: Path | None, log: Path | None, limit: int, follow: bool, as_json: bool, **options: Any) -> None:
    """Show the last records, and with -f those that come. On a terminal the first line names the columns."""
    path = _log(config, log)
    wanted = _filter(options)
    last, end = _last(path, wanted, limit)
    if sys.stdout.isatty() and not as_json:
        click.secho(HEADER, bold=True)
    _echo(last, as_json)
    if not follow:
        if not last and limit:
            click.echo(_nothing(path, options), err=True)
        return
    try:
        for line in reader.follow(path, start=end):
            record = as_record(line) if line else None
            if record is not None and wanted.takes(record):
                _echo([(line, record)], as_json)
                sys.stdout.flush()
    except KeyboardInterrupt:
        return


def _last(path: Path, wanted: Filter, limit: int) -> tuple[deque[Found], int]:
    """The last records that match, and the byte behind the last whole line."""
    last: deque[Found] = deque(maxlen=limit)
    end, unread = 0, reader.Unread()
    try:
        for number, raw in enumerate(reader.read_lines(path), 1):
            record = None
            if raw.endswith(b"\n"):
                end += len(raw)
                record = as_record(raw[:-1])
                if record is not None and wanted.takes(record):
                    last.append((raw[:-1], record))
            if record is None:
                unread.add(path, number, raw)
    except reader.UNREADABLE as error:
        fail(_cannot_read(path, error))
    _tell_unread(unread, path)
    return last, end


@command.command("verify", epilog=examples("grantproxy audit verify"))
@_place
@click.argument("files", nargs=-1, type=FILE)
@click.option(
    "--head",
    "heads",
    multiple=True,
    callback=digests,
    metavar="HASH",
    help="A head noted earlier: it must be in the log, with all that came before it in its chain.",
)
@click.option(
    "--after",
    multiple=True,
    callback=digests,
    metavar="HASH",
    help="The head of an older file that is no longer there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def verify_command(
    config: Path | None,
    log: Path | None,
    files: tuple[Path, ...],
    heads: tuple[str, ...],
    after: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check that no record was changed, removed, added or moved, by the record that follows it.

    The last record of a chain may have none behind it: that it was changed, or that a tail was cut off, shows only
    with --head, a head that was noted before. Each worker and each start has a chain of its own; --json prints the
    head of each, and --head may be given for each.

    FILES are read in the order given, oldest first; without any, the log and the files beside it that it was rotated
    into. Exits 0 when all is well, 1 at the first broken place.
    """
    for file in files:
        if file.is_dir() or not file.exists():
            what = "is a directory" if file.is_dir() else "does not exist"
            click.echo(f"{file}: {what}; write the path of a decision log's file", err=True)
            raise SystemExit(2)
    chosen = files or reader.with_rotated(_log(config, log))
    try:
        verdict = verify(chosen, heads=heads, after=after)
    except reader.UNREADABLE as error:
        fail(_cannot_read(getattr(error, "filename", None) or chosen[0], error))
    match verdict:
        case Intact():
            _echo_intact(verdict, as_json, held=bool(heads))
        case Broken(place=place, what=what):
            if as_json:
                click.echo(json.dumps({"ok": False, "file": place.file, "line": place.line, "what": what}))
            click.echo(f"{place}: {what}", err=True)
            raise SystemExit(1)


def _echo_intact(intact: Intact, as_json: bool, *, held: bool) -> None:
    if as_json:
        document = asdict(intact) | {"ok": True, "torn": [str(place) for place in intact.torn]}
        click.echo(json.dumps(document))
        return
    for place in intact.torn:
        click.echo(f"{place}: torn line; a crash cut it off before anybody was told that it was written", err=True)
    if not intact.records:
        click.echo("ok, but there is no record in it, so nothing was checked")
        return
    records = "1 record" if intact.records == 1 else f"{intact.records} records"
    chains = "1 chain" if intact.chains == 1 else f"{intact.chains} chains"
    last = "a changed last record" if intact.chains == 1 else "a changed last record of a chain"
    uncovered = "" if held else f"; {last} or a cut tail shows only with --head"
    click.echo(f"ok, {records} in {chains}, head {intact.head}{uncovered}")


@command.command("summary", epilog=examples("grantproxy audit summary --since 24h"))
@_place
@_rotated
@_filters
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def summary(config: Path | None, log: Path | None, rotated: bool, as_json: bool, **options: Any) -> None:
    """Count decisions by endpoint and operation, refusals by rule and reason, and say what helps.

    A stream counts once, when it begins; its end is no decision.
    """
    path = _log(config, log)
    counted = summarize(record for _, record in _read(path, _filter(options), rotated=rotated))
    if as_json:
        click.echo(json.dumps(asdict(counted), indent=2))
    elif not counted.operations:
        click.echo(_nothing(path, options), err=True)
    elif sys.stdout.isatty():
        console = _console()
        for part in summary_tables(counted):
            console.print(part)
    else:
        for text in summary_lines(counted):
            click.echo(text)


def _nothing(path: Path, options: Mapping[str, Any]) -> str:
    matching = " that matches" if any(options.values()) else ""
    return f"no record{matching} in `{path}`"


def _echo(found: Iterable[Found], as_json: bool) -> None:
    if as_json:
        _echo_json(found)
    else:
        for _, record in found:
            click.echo(plain(record))


def _echo_json(found: Iterable[Found]) -> None:
    """Lines as they are; one that somebody changed so that it is no plain ASCII is written anew."""
    for line, record in found:
        clean = line.isascii() and line.decode("ascii").isprintable()
        click.echo(line.decode("ascii") if clean else json.dumps(record))


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)
