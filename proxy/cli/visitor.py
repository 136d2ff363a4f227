"""`grantproxy visitor`: grants by which a visitor's own credential pays for the turns in one box."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from proxy.store import IssuedGrant, Store, VisitorGrant

_MAX_TTL: Final = 24 * 3600.0


_EXAMPLE = examples(
    "grantproxy visitor grant --box agent-1 --principal github:ada \\\n  --credential env:ADA_KEY --ttl 1h"
)


@click.group("visitor", cls=Group, epilog=_EXAMPLE)
def command() -> None:
    """Issue, revoke and list visitors' grants."""


@command.command("grant", epilog=_EXAMPLE)
@config_option
@click.option("--box", required=True, metavar="NAME", help="The box that it is for.")
@click.option("--principal", required=True, metavar="WHO", help="Who pays, such as github:login.")
@click.option("--credential", required=True, metavar="REFERENCE", help="Where their credential is: env: or file:.")
@click.option(
    "--ttl",
    default="1h",
    show_default=True,
    callback=duration,
    metavar="TIME",
    help="How long it is good; at most 24h.",
)
@json_option
def grant(config: Path | None, box: str, principal: str, credential: str, ttl: float, as_json: bool) -> None:
    """Issue a grant and print it: the value of the `chant-grant` header on this person's turns. It is shown once."""
    from grants.broker.payer import is_principal

    if not 0 < ttl <= _MAX_TTL:
        raise click.BadParameter("a grant is short; write a time up to 24h", param_hint="--ttl")
    if not (is_principal(principal) and principal.isascii()):
        raise click.BadParameter(
            "that names nobody; write 1 to 200 visible ASCII characters, such as github:login", param_hint="--principal"
        )
    broker = load(config)
    reference = _reference(broker, credential)
    in_settings = any(known.name == box for known in broker.settings.boxes)

    async def work(store: "Store") -> "IssuedGrant | None":
        added = None if in_settings else await store.box_by_name(box)
        if added is None and not in_settings:
            return None
        key = added.key if added is not None else box
        if await _shows_token(broker, store, reference):
            fail("the credential is, or holds, the token of a box, which goes nowhere; name the person's own")
        return await store.issue_grant(key, principal=principal, credential=reference, ttl=ttl, now=now())

    issued = broker.run(work)
    if issued is None:
        fail(f"there is no box `{box}`; `grantproxy box list` shows them")
    if as_json:
        click.echo(json.dumps({"id": issued.id, "grant": issued.value, "expires": shown(issued.expires)}, indent=2))
    else:
        click.echo(issued.value)
    click.echo(f"grant {issued.id} is good until {shown(issued.expires)}; keep it now, it is shown once", err=True)


@command.command("revoke", epilog=examples("grantproxy visitor revoke --box agent-1"))
@config_option
@click.argument("number", type=click.IntRange(min=1), required=False)
@click.option("--box", metavar="NAME", help="All of this box.")
@click.option("--principal", metavar="WHO", help="All of this person.")
@json_option
def revoke(config: Path | None, number: int | None, box: str | None, principal: str | None, as_json: bool) -> None:
    """End the grant NUMBER, or all of a box or a person, at the next request."""
    if number is None and box is None and principal is None:
        raise click.UsageError("say which: a number of `visitor list`, --box or --principal")
    broker = load(config)

    async def work(store: "Store") -> "tuple[VisitorGrant, ...]":
        return await store.revoke(now=now(), number=number, box=box, principal=principal)

    ended = broker.run(work)
    if not ended:
        fail("no live grant is that one; `grantproxy visitor list` shows them")
    if as_json:
        click.echo(json.dumps([found.id for found in ended]))
        return
    for found in ended:
        click.echo(f"grant {found.id} of {found.principal} for box {found.box} revoked")


@command.command("list", epilog=examples("grantproxy visitor list"))
@config_option
@click.option("--box", metavar="NAME", help="Of this box only.")
@click.option("--all", "everything", is_flag=True, help="Those too that have ended, for a month.")
@json_option
def list_command(config: Path | None, box: str | None, everything: bool, as_json: bool) -> None:
    """List the grants that are good now."""
    broker = load(config)
    time = now()

    async def work(store: "Store") -> "tuple[VisitorGrant, ...]":
        return await store.list_grants(box)

    found = [known for known in broker.run(work) if everything or known.live(time)]
    if as_json:
        click.echo(json.dumps([_document(known, time) for known in found], indent=2))
    elif not found:
        click.echo("there are no grants that are good now; `grantproxy visitor grant` issues one", err=True)
    else:
        rows = [["ID", "BOX", "PRINCIPAL", "CREDENTIAL", "EXPIRES", "STATE"]]
        for known in found:
            document = _document(known, time)
            rows.append([str(document[key]) for key in ("id", "box", "principal", "credential", "expires", "state")])
        echo_rows(rows)


def _reference(broker: Broker, credential: str) -> str:
    """The reference, with a path that means the same wherever the broker is started."""
    from proxy.settings.reference import parse_reference
    from proxy.settings.values import ValueInvalid

    if credential.startswith("exec:"):
        raise click.BadParameter(
            "a command is for the settings, not for the database; write env:NAME or file:PATH",
            param_hint="--credential",
        )
    try:
        return parse_reference(credential, directory=broker.settings.directory.absolute())
    except ValueInvalid:
        raise click.BadParameter(
            "does not say where the credential is; write env:NAME or file:PATH", param_hint="--credential"
        ) from None


async def _shows_token(broker: Broker, store: "Store", reference: str) -> bool:
    """Whether a box's token stands in what the reference names, as far as both can be read here.

    The proxy looks again when the grant is used: what an `env:` names may be there alone.
    """
    from addons.boxes import Box, Boxes
    from addons.broker.token import holds_token
    from proxy.broker.state import State
    from proxy.secrets import EndpointVault, parse_source
    from proxy.secrets.source import SecretUnreadable

    settings = broker.settings
    if any(box.token == reference for box in settings.boxes):
        return True
    try:
        value = parse_source(reference, settings.directory).read().reveal()
    except SecretUnreadable:
        return False
    state = State(settings.directory)
    state.store = store
    boxes = Boxes(
        [Box(name=box.name, endpoints=box.endpoints) for box in settings.boxes],
        EndpointVault("boxes", {box.name: parse_source(box.token, settings.directory) for box in settings.boxes}),
        state,
    )
    return await holds_token(boxes, value)


def _document(grant: "VisitorGrant", time: float) -> dict[str, Any]:
    state = "revoked" if grant.revoked is not None else "good" if grant.live(time) else "expired"
    return {
        "id": grant.id,
        "box": grant.box,
        "principal": grant.principal,
        "credential": grant.credential,
        "issued": shown(grant.issued),
        "expires": shown(grant.expires),
        "state": state,
    }
