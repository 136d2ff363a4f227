"""`grantproxy serve`: run the proxy."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from proxy.program import Program
    from proxy.settings.model import Settings

DEFAULT_CONFIG = Path("grantproxy.yaml")
DEFAULT_PROXY = "127.0.0.1:8080"


@click.command("serve")
@click.option("-c", "--config", type=click.Path(path_type=Path, dir_okay=False), help="Settings (grantproxy.yaml).")
@click.option("--endpoint", "endpoints", multiple=True, metavar="SPEC", help="An endpoint, in place of a file.")
@click.option("--proxy", metavar="ADDRESS", help="With --endpoint: the forward proxy (127.0.0.1:8080).")
@click.option("--admin", metavar="ADDRESS", help="With --endpoint: the admin listener (none).")
@click.option("--state", metavar="DIRECTORY", help="With --endpoint: the state directory.")
@click.option("--ready-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the addresses here as JSON.")
@click.option("--terse-denials", is_flag=True, help="Leave the detail out of refusals.")
@click.option("-v", "--verbose", is_flag=True, help="More messages on stderr.")
def command(
    config: Path | None,
    endpoints: tuple[str, ...],
    proxy: str | None,
    admin: str | None,
    state: str | None,
    ready_file: Path | None,
    terse_denials: bool,
    verbose: bool,
) -> None:
    """Run the proxy until SIGTERM. Prints where each front listens.

    \b
    grantproxy serve --config grantproxy.yaml
    grantproxy serve --endpoint \\
      "upstream=https://api.example.com;secret=api=env:API_TOKEN;assurance=semantic;grant=./api.grant.yaml"
    """
    from proxy import logs
    from proxy.listeners import ListenFailed
    from proxy.program import Program
    from proxy.state import StartRefused

    logs.configure(verbose=verbose)
    fronts = {"proxy": proxy, "admin": admin, "state": state}
    settings = _settings(config, endpoints, {key: value for key, value in fronts.items() if value is not None})
    try:
        program = Program(settings, terse=terse_denials)
    except (StartRefused, ListenFailed) as refused:
        for line in str(refused).splitlines():
            click.echo(f"error: {line}", err=True)
        raise SystemExit(1) from None
    _run(program.run(lambda running: _announce(running, ready_file)))


def _settings(config: Path | None, endpoints: tuple[str, ...], fronts: dict[str, str]) -> "Settings":
    from grants.problems import Invalid
    from proxy.settings import load_settings, settings_from_endpoints

    if config is not None and endpoints:
        raise click.UsageError("--config and --endpoint are two ways to say the same; use one of them")
    if fronts and not endpoints:
        named = ", ".join(f"--{key}" for key in fronts)
        raise click.UsageError(f"{named} goes with --endpoint; a settings file says it itself")
    try:
        if endpoints:
            return settings_from_endpoints(
                endpoints,
                proxy=fronts.get("proxy", DEFAULT_PROXY),
                admin=fronts.get("admin"),
                state=fronts.get("state"),
            )
        return load_settings(config or DEFAULT_CONFIG)
    except Invalid as invalid:
        for problem in invalid.problems:
            click.echo(f"{problem}", err=True)
        raise SystemExit(1) from None


def _run(work: Coroutine[None, None, None]) -> None:
    """On uvloop where it is installed: it is faster and changes nothing else."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        pass
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)


def _announce(program: "Program", ready_file: Path | None) -> None:
    """Say where everything listens, and in the ready file too. Where stdout takes the records, stderr is told."""
    err = program.settings.audit.path is None
    fronts = program.fronts
    urls = {str(listener.endpoint): _url(str(listener.address)) for listener in fronts.endpoints}
    if fronts.proxy is not None:
        click.echo(f"proxy on {fronts.proxy.address}", err=err)
    for endpoint in program.settings.endpoints:
        where = f" on {urls[endpoint.name]}" if endpoint.name in urls else ""
        click.echo(f"endpoint {endpoint.name} ({endpoint.assurance}){where} -> {endpoint.upstream}", err=err)
    if fronts.admin is not None:
        click.echo(f"admin on {_url(str(fronts.admin.address))}", err=err)
    click.echo(f"ca {program.ca.path}", err=err)
    click.echo("ready", err=err)
    if ready_file is not None:
        document = {
            "proxy": None if fronts.proxy is None else str(fronts.proxy.address),
            "admin": None if fronts.admin is None else _url(str(fronts.admin.address)),
            "endpoints": urls,
            "ca": str(program.ca.path),
        }
        temporary = ready_file.with_name(f".{ready_file.name}.new")
        temporary.write_text(json.dumps(document) + "\n")
        temporary.rename(ready_file)


def _url(address: str) -> str:
    return address if address.startswith("unix:") else f"http://{address}"
