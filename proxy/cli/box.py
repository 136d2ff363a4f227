"""`grantproxy box`: the boxes of the broker, and what each is given."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proxy.cli import Group, examples, fail
from proxy.cli.broker_state import (
    Broker,
    config_option,
    duration,
    echo_rows,
    json_option,
    load,
    now,
    shown,
)
from proxy.cli.files import FILE, read_token

if TYPE_CHECKING:
    from grants.broker.fountain import Kind
    from proxy.settings.model import BoxSettings
    from proxy.store import Store, StoredBox

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ONCE = "keep it now, it is shown once"
_ALONE = "write into it the token alone, as `box add` prints it without --env"


def _name(_: click.Context, __: click.Parameter, value: str) -> str:
    if not _NAME.fullmatch(value):
        raise click.BadParameter(f"`{value}` is no box's name; write at most 63 letters, digits, `.`, `_` and `-`")
    return value


name_argument = click.argument("name", callback=_name)


@click.group("box", cls=Group, epilog=examples('eval "$(grantproxy box add agent-1 --env)"'))
def command() -> None:
    """Add, list, rotate and remove boxes, and print what one is given."""


@command.command("add", epilog=examples("grantproxy box add agent-1"))
@config_option
@name_argument
@click.option("--endpoint", "endpoints", multiple=True, metavar="NAME", help="An endpoint that it may use. Repeatable.")
@click.option("--tunnels", is_flag=True, help="It may open tunnels.")
@click.option("--own", "owned", multiple=True, metavar="KIND:ID", help="Its own at Fountain, such as vault:v-1.")
@click.option("--env", "as_env", is_flag=True, help="Print all that the box is given, as `box env` does.")
@click.option("--url", metavar="URL", help="With --env: the broker's address as the box sees it.")
@json_option
def add(
    config: Path | None,
    name: str,
    endpoints: tuple[str, ...],
    tunnels: bool,
    owned: tuple[str, ...],
    as_env: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Add the box NAME and print its token, which is not stored and cannot be shown again."""
    from proxy.store import BoxExists

    own = [_owned(text) for text in owned]
    broker = load(config)
    settings = broker.settings
    _not_in_settings(broker, name, "choose another name")
    known = [endpoint.name for endpoint in settings.endpoints]
    for endpoint in endpoints:
        if endpoint not in known:
            fail(f"`{endpoint}` is no endpoint; the endpoints are: {', '.join(known) or 'none'}")
    if tunnels and not settings.tunnels.allow:
        fail("there are no tunnels in the settings; add `tunnels` there, or leave --tunnels out")
    address = _address(broker, url) if as_env else ""

    async def work(store: "Store") -> str:
        return await store.add_box(name, now=now(), endpoints=endpoints, tunnels=tunnels, owned=own)

    try:
        token = broker.run(work)
    except BoxExists:
        fail(f"there is a box `{name}` already; remove it first, or give it a new token with `box rotate`")
    _echo_token(broker, name, token, address, as_json)


@command.command("list", epilog=examples("grantproxy box list"))
@config_option
@click.option("--all", "everything", is_flag=True, help="Those too that were removed.")
@json_option
def list_command(config: Path | None, everything: bool, as_json: bool) -> None:
    """List the boxes: those of the settings, and those that were added."""
    broker = load(config)

    async def work(store: "Store") -> list[dict[str, Any]]:
        boxes = await store.list_boxes(removed=everything)
        rows = {box.name: _of_settings(box) for box in broker.settings.boxes} | {
            box.key: _of_database(box) for box in boxes
        }
        for key, row in rows.items():
            report = None if row.get("removed") else await store.report_of(key)
            row["reported"] = None if report is None else report.at
        return list(rows.values())

    rows = broker.run(work)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif not rows:
        click.echo("there are no boxes; `grantproxy box add NAME` adds one", err=True)
    else:
        head = [["NAME", "FROM", "ENDPOINTS", "TUNNELS", "REPORTED", "REMOVED"]]
        echo_rows(head + [_row(row) for row in rows])


@command.command("rotate", epilog=examples("grantproxy box rotate agent-1 --grace 10m"))
@config_option
@name_argument
@click.option(
    "--grace", default="1h", show_default=True, callback=duration, metavar="TIME", help="The old token stays good for."
)
@click.option("--env", "as_env", is_flag=True, help="Print all that the box is given, as `box env` does.")
@click.option("--url", metavar="URL", help="With --env: the broker's address as the box sees it.")
@json_option
def rotate(config: Path | None, name: str, grace: float, as_env: bool, url: str | None, as_json: bool) -> None:
    """Give the box NAME a new token and print it; the old one stays good for --grace (0: not at all)."""
    from proxy.store import BoxUnknown

    broker = load(config)
    _not_in_settings(broker, name, "change the token that its `token` names")
    address = _address(broker, url) if as_env else ""

    async def work(store: "Store") -> str:
        return await store.rotate_box(name, now=now(), grace=grace)

    try:
        token = broker.run(work)
    except BoxUnknown:
        fail(_unknown(name))
    _echo_token(broker, name, token, address, as_json)


@command.command("remove", epilog=examples("grantproxy box remove agent-1"))
@config_option
@name_argument
@json_option
def remove(config: Path | None, name: str, as_json: bool) -> None:
    """Remove the box NAME with its report, its visitors' grants and what it owns. Its token is refused at once.

    Of a box that is in the settings too, what was added is removed.
    """
    from proxy.store import BoxUnknown

    broker, time = load(config), now()

    async def work(store: "Store") -> None:
        await store.remove_box(name, now=time)

    try:
        broker.run(work)
    except BoxUnknown:
        _not_in_settings(broker, name, "take it out there")
        fail(_unknown(name))
    click.echo(json.dumps({"name": name, "removed": shown(time)}, indent=2) if as_json else f"box {name} removed")


@command.command("env", epilog=examples("grantproxy box env agent-1"))
@config_option
@name_argument
@click.option("--token-file", type=FILE, metavar="FILE", help="Where its token is; `-` is standard input.")
@click.option("--url", metavar="URL", help="The broker's address as the box sees it.")
@json_option
def env(config: Path | None, name: str, token_file: Path | None, url: str | None, as_json: bool) -> None:
    """Print the variables that the box NAME is given, as shell exports.

    The token of a box of the settings is read where they say. That of a box that was added is known only to whoever
    kept it: give it with --token-file, or the exports take it from the variable BOX_TOKEN where they are run.
    """
    broker = load(config)
    address = _address(broker, url)
    token = read_token(token_file, _ALONE) if token_file is not None else None
    mine = next((box for box in broker.settings.boxes if box.name == name), None)
    if mine is not None:
        token = _settings_token(broker, name, mine.token) if token is None else token
    else:

        async def work(store: "Store") -> bool:
            if token is not None:
                found = await store.box_by_token(token.encode(), now=now())
                return found is not None and found.name == name
            return await store.box_by_name(name) is not None

        if not broker.run(work):
            fail(f"that is no token of box `{name}`; `box rotate` gives a new one" if token else _unknown(name))
    _echo_variables(_variables(broker, name, address, token), as_json)


def _owned(text: str) -> tuple["Kind", str]:
    from grants.broker.fountain import Kind

    kind, _, identifier = text.partition(":")
    if kind not in {known.value for known in Kind} or not identifier or not identifier.isprintable():
        kinds = ", ".join(known.value for known in Kind)
        raise click.BadParameter(f"`{text}` names nothing; write KIND:ID, the kinds are {kinds}", param_hint="--own")
    return Kind(kind), identifier


def _not_in_settings(broker: Broker, name: str, remedy: str) -> None:
    if any(box.name == name for box in broker.settings.boxes):
        fail(f"box `{name}` is in the settings; {remedy}")


def _unknown(name: str) -> str:
    return f"there is no box `{name}`; `grantproxy box list` shows them"


def _address(broker: Broker, url: str | None) -> str:
    """The broker's base URL as a box sees it."""
    from proxy.settings.model import TcpListen
    from proxy.settings.upstream import parse_upstream
    from proxy.settings.values import ValueInvalid

    if url is not None:
        try:
            parse_upstream(url, https_only=False)
        except ValueInvalid as invalid:
            raise click.BadParameter(f"`{url}` {invalid}", param_hint="--url") from None
        return url.removesuffix("/")
    listen = broker.broker.listen
    if not isinstance(listen, TcpListen) or listen.port == 0 or listen.host in ("0.0.0.0", "::"):  # noqa: S104
        fail(f"the broker listens on `{listen}`, which is no address to call; say with --url how the box reaches it")
    return f"http://{listen}"


def _settings_token(broker: Broker, name: str, reference: str) -> str:
    from proxy.secrets import parse_source
    from proxy.secrets.source import SecretUnreadable

    try:
        return parse_source(reference, broker.settings.directory).read().reveal().decode("ascii")
    except SecretUnreadable as unreadable:
        fail(f"the token of box `{name}` cannot be read: {unreadable}")


def _variables(broker: Broker, name: str, address: str, token: str | None) -> dict[str, str | None]:
    """By name; None stands for the token where it is not known."""
    variables: dict[str, str | None] = {"STUDIO_URL": address}
    if broker.broker.anthropic is not None:
        variables |= {"ANTHROPIC_BASE_URL": f"{address}/llm/anthropic", "ANTHROPIC_API_KEY": token}
    for secret in broker.broker.secrets_of(name):
        variables |= {f"{secret.name}_KEY": token, f"{secret.name}_BASE_URL": f"{address}/egress/{secret.name}"}
    return variables


def _echo_variables(variables: dict[str, str | None], as_json: bool) -> None:
    import shlex

    if as_json:
        click.echo(json.dumps(variables, indent=2))
        return
    for key, value in variables.items():
        # Where there is no token, a shell that runs this stops instead of going on without one.
        text = '"${BOX_TOKEN:?is to hold the token that box add printed}"' if value is None else shlex.quote(value)
        click.echo(f"export {key}={text}")


def _echo_token(broker: Broker, name: str, token: str, address: str, as_json: bool) -> None:
    if address:
        _echo_variables(_variables(broker, name, address, token), as_json)
    elif as_json:
        click.echo(json.dumps({"name": name, "token": token}, indent=2))
    else:
        click.echo(token)
    click.echo(f"this is the token of box {name}; {_ONCE}", err=True)


def _of_settings(box: "BoxSettings") -> dict[str, Any]:
    return {"name": box.name, "from": "settings", "endpoints": sorted(box.endpoints), "tunnels": box.tunnels}


def _of_database(box: "StoredBox") -> dict[str, Any]:
    return {
        "name": box.name,
        "from": "database",
        "endpoints": sorted(box.endpoints),
        "tunnels": box.tunnels,
        "created": shown(box.created),
        "rotated": shown(box.rotated),
        "previousTokenUntil": shown(box.previous_until),
        "removed": shown(box.removed),
    }


def _row(row: dict[str, Any]) -> list[str]:
    names = ",".join(row["endpoints"]) or "-"
    tunnels = "yes" if row["tunnels"] else "no"
    return [row["name"], row["from"], names, tunnels, row["reported"] or "never", row.get("removed") or "-"]
