"""`grantproxy ca`: the CA that clients of the forward proxy must trust."""

import json
from pathlib import Path

import click

from proxy.cli import examples, fail
from proxy.cli.files import FILE
from proxy.cli.place import CONFIG, found, installation


@click.command("ca", epilog=examples("grantproxy ca --pem > ca.pem"))
@click.option("-c", "--config", type=FILE, metavar="FILE", help="Settings (grantproxy.yaml).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
@click.option("--pem", is_flag=True, help="Print the certificate itself.")
def command(config: Path | None, as_json: bool, pem: bool) -> None:
    """Show the CA's certificate file and its SHA-256 fingerprint.

    The file holds no key. A CA that is not there yet is made, as at the first start, and that is told.
    """
    if as_json and pem:
        raise click.UsageError("--json and --pem are two forms of the same; use one of them")
    from proxy.state import StartRefused, private_directory
    from proxy.tls.ca import CA_KEY, load_ca

    state = installation(config).state
    new = not (state / CA_KEY).exists()
    try:
        ca = load_ca(private_directory(state))
    except StartRefused as refused:
        fail(str(refused))
    if new:
        _tell_new(state, config)
    if pem:
        click.echo(ca.pem, nl=False)
    elif as_json:
        document = {
            "path": str(ca.path.absolute()),
            "name": ca.name,
            "sha256": ca.fingerprint,
            "notAfter": ca.certificate.not_valid_after_utc.isoformat().replace("+00:00", "Z"),
        }
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(ca.path.absolute())
        click.echo(f"sha256 {ca.fingerprint}")


def _tell_new(state: Path, config: Path | None) -> None:
    """Say that nobody knows this CA yet, and whose it is: another installation's would be read with `-c`."""
    if config is None and not found():
        whose = f"the user's own, as there is no `{CONFIG}` here; name settings with `-c` for the CA of those"
    else:
        whose = f"that of `{config or CONFIG}`"
    click.echo(f"notice: a new CA was made in the state directory `{state.absolute()}`, {whose}", err=True)
