"""`grantproxy demo`: see it work on an API of its own, without a network."""

import click

from proxy.cli import examples


@click.command("demo", epilog=examples("grantproxy demo"))
@click.option("--keep", is_flag=True, help="Stay up afterwards, and print curl lines to try.")
def command(*, keep: bool) -> None:
    """Start a sample API and a proxy in front of it, and make calls that are allowed and refused.

    Exits 0 when every call came out as it should, else 1.
    """
    from proxy.demo.tour import NotReady, run_demo

    try:
        good = run_demo(keep=keep)
    except NotReady as failed:
        click.echo(f"the proxy of the demo did not start: {failed}", err=True)
        raise SystemExit(1) from None
    if not good:
        raise SystemExit(1)
