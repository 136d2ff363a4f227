"""`grantproxy check`: every problem of grant and settings files, before anything runs."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, final

import click

from grants.document import MapNode, parse
from grants.load import grant_structure, load_grant, notices
from grants.model import Grant
from grants.problems import Invalid, Problem, quoted
from proxy.cli import examples
from proxy.cli.files import FILE
from proxy.settings import load_settings, settings_structure
from proxy.settings.files import Unreadable, read_bounded
from proxy.settings.model import Settings


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What came out for one file. `digest`: the grant's, None for settings. `notices`: what is no problem."""

    file: str
    kind: Literal["grant", "settings"]
    summary: str = ""
    digest: str | None = None
    notices: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()


@click.command(
    epilog=examples("grantproxy check examples/*.yaml"),
    short_help="Check grant and settings files, with every problem.",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def command(files: tuple[Path, ...], as_json: bool) -> None:
    """Check grants and settings, and print every problem as FILE:LINE:COLUMN.

    Settings are checked together with the grants that they name. Exits 0 when all is well, 1 when there is a problem.
    """
    results = [check(path) for path in files]
    if as_json:
        click.echo(json.dumps([_as_json(result) for result in results], indent=2, ensure_ascii=False))
    else:
        for result in results:
            _show(result)
    raise SystemExit(1 if any(result.problems for result in results) else 0)


def check(path: Path) -> Checked:
    """Check one file. What it is, its keys tell."""
    file = str(path)
    try:
        text = read_bounded(path)
    except Unreadable as unreadable:
        problem = Problem(file, 0, 0, "", f"{unreadable}; write the path of a grant or settings file")
        return Checked(file=file, kind="grant", problems=(problem,))
    if is_settings(text):
        return _check_settings(path)
    try:
        grant = load_grant(text, file=file)
    except Invalid as invalid:
        return Checked(file=file, kind="grant", problems=invalid.problems)
    return Checked(
        file=file,
        kind="grant",
        summary=_count(len(grant.operations), "operation"),
        digest=grant.digest,
        notices=_of_grant(file, grant),
    )


def _check_settings(path: Path) -> Checked:
    try:
        settings = load_settings(path)
    except Invalid as invalid:
        return Checked(file=str(path), kind="settings", problems=invalid.problems)
    grants = {endpoint.grant_path: endpoint.grant for endpoint in settings.endpoints if endpoint.grant is not None}
    return Checked(
        file=str(path),
        kind="settings",
        summary=", ".join(_parts(settings)),
        notices=settings.notices
        + tuple(notice for file, grant in grants.items() for notice in _of_grant(str(file), grant)),
    )


def _parts(settings: Settings) -> Iterator[str]:
    """What there is, counted; the endpoints in any case, unless there is only a broker."""
    if settings.endpoints or settings.broker is None:
        yield _count(len(settings.endpoints), "endpoint")
    if settings.broker is not None:
        yield f"broker {quoted(settings.broker.word)} with {_count(len(settings.broker.secrets), 'secret')}"
    if settings.tunnels.allow:
        yield _count(len(settings.tunnels.allow), "tunnel rule")
    if settings.boxes:
        yield _count(len(settings.boxes), "box", "boxes")


def _of_grant(file: str, grant: Grant) -> tuple[Problem, ...]:
    return tuple(Problem(file, 0, 0, "", text) for text in notices(grant))


def is_settings(text: bytes) -> bool:
    """Whether the top-level keys are those of settings rather than those of a grant."""
    root = parse(text, file="").root
    if not isinstance(root, MapNode):
        return False
    keys = set(root.entries)
    grant, settings = (set(kind().schema["properties"]) for kind in (grant_structure, settings_structure))
    return len(keys & settings) > len(keys & grant)


def _count(number: int, noun: str, several: str = "") -> str:
    return f"{number} {noun if number == 1 else several or noun + 's'}"


def _show(result: Checked) -> None:
    for problem in result.problems:
        place, _, rest = str(problem).partition(": ")
        click.echo(f"{click.style(place, bold=True)}: {click.style(rest, fg='red')}", err=True)
    for notice in result.notices:
        place, _, rest = str(notice).partition(": ")
        click.echo(f"{click.style(place, bold=True)}: {click.style('notice', fg='yellow')}: {rest}", err=True)
    if not result.problems:
        parts = [f"{click.style('ok', fg='green')}", result.summary, *([result.digest] if result.digest else [])]
        click.echo(f"{result.file}: {', '.join(parts)}")


def _as_json(result: Checked) -> dict[str, object]:
    return {"ok": not result.problems, **asdict(result)}
