"""`grantproxy env`: the variables by which clients use the proxy."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proxy.cli import examples, fail
from proxy.cli.files import FILE, NAME_ANY
from proxy.cli.place import CONFIG

if TYPE_CHECKING:
    from proxy.client_env.addresses import Client, Listening
    from proxy.settings.model import Settings

DEFAULT_PROXY = "127.0.0.1:8080"


@click.command(
    "env",
    epilog=examples(
        'eval "$(grantproxy env)"',
        "grantproxy env --format docker --host host.docker.internal \\\n  --files /grantproxy > proxy.env",
        'docker run --env-file proxy.env \\\n  -v "$PWD/state/trust:/grantproxy:ro" debian',
    ),
)
@click.option("-c", "--config", type=FILE, metavar="FILE", help="Settings (grantproxy.yaml).")
@click.option("--endpoint", "endpoints", multiple=True, metavar="SPEC", help="An endpoint, in place of a file.")
@click.option("--proxy", metavar="ADDRESS", help="With --endpoint: the forward proxy (127.0.0.1:8080).")
@click.option("--state", metavar="DIRECTORY", help="With --endpoint: the state directory.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["shell", "dotenv", "docker", "json"]),
    default="shell",
    show_default=True,
    help="How they are written.",
)
@click.option("--box", metavar="NAME", help="For this box. Its token is printed, in the URLs.")
@click.option("--host", metavar="NAME", help="What the client calls this machine, such as host.docker.internal.")
@click.option(
    "--files",
    type=FILE,
    metavar="DIRECTORY",
    help="Where the client has the state directory's `trust` folder, such as a container's mount.",
)
@click.option(
    "--ready-file",
    type=FILE,
    metavar="FILE",
    help="Take the addresses from the ready file of a running `serve`.",
)
def command(
    config: Path | None,
    endpoints: tuple[str, ...],
    proxy: str | None,
    state: str | None,
    form: str,
    box: str | None,
    host: str | None,
    files: Path | None,
    ready_file: Path | None,
) -> None:
    """Print the variables by which unmodified clients use the proxy and trust its CA.

    The CA is made where it is not there yet, and files that hold it are written into `trust` in the state directory.
    """
    from proxy.client_env.addresses import AddressRefused, addresses
    from proxy.client_env.formats import Format, FormatRefused, written
    from proxy.client_env.trust import write_trust
    from proxy.client_env.variables import variables
    from proxy.state import StartRefused, private_directory
    from proxy.tls.ca import load_ca

    if files is not None and not files.is_absolute():
        raise click.BadParameter(f"`{files}` is relative; write it from the root, as clients run anywhere")
    settings = _settings(config, endpoints, {"proxy": proxy, "state": state})
    try:
        found = addresses(settings, _listening(settings, ready_file), _client(settings, box, host))
        directory = private_directory(settings.state)
        trust = write_trust(directory, load_ca(directory).pem.encode(), seen=files)
        told = variables(
            proxy_url=found.proxy_url,
            files=trust,
            base_urls=found.base_urls,
            git_urls=found.git_urls,
            # A container's own Java and git settings are not those of this shell.
            environment={} if files else os.environ,
        )
        text = written(told, Format(form))
    except (AddressRefused, StartRefused, FormatRefused) as refused:
        fail(str(refused))
    click.echo(text, nl=False)
    if config is None and not endpoints:
        click.echo(f"# the settings are those of {str(CONFIG.absolute())!r}", err=True)
    _tell_direct(settings, box, told.get("NO_PROXY", ""))
    if found.proxy_url is not None and form in ("shell", "dotenv"):
        # Last, so that an `eval` that joins the lines loses nothing by it.
        click.echo(f"# the system's authorities are those of {str(trust.system)!r}")


def _tell_direct(settings: "Settings", box: str | None, no_proxy: str) -> None:
    """Say which endpoints the forward proxy is never asked for, as a comment: standard error may be evaluated too."""
    from proxy.settings.usable import direct

    around = no_proxy.split(",")
    usable = next((one.endpoints for one in settings.boxes if one.name == box), None)
    for endpoint in settings.endpoints:
        if endpoint.upstream.host in around and not endpoint.env and (usable is None or endpoint.name in usable):
            click.echo(f"# endpoint `{endpoint.name}` {direct(endpoint)}", err=True)


def _settings(config: Path | None, endpoints: tuple[str, ...], fronts: dict[str, str | None]) -> "Settings":
    from grants.problems import Invalid
    from proxy.settings import load_settings, settings_from_endpoints

    if config is not None and endpoints:
        raise click.UsageError("--config and --endpoint are two ways to say the same; use one of them")
    given = {key: value for key, value in fronts.items() if value is not None}
    if given and not endpoints:
        raise click.UsageError(
            f"{', '.join(f'--{key}' for key in given)} goes with --endpoint; a settings file says it itself"
        )
    try:
        if endpoints:
            return settings_from_endpoints(endpoints, proxy=given.get("proxy", DEFAULT_PROXY), state=given.get("state"))
        return load_settings(config or CONFIG, remedy=NAME_ANY)
    except Invalid as invalid:
        for problem in invalid.problems:
            click.echo(f"{problem}", err=True)
        raise SystemExit(1) from None


def _listening(settings: "Settings", ready_file: Path | None) -> "Listening":
    """Where the fronts listen: as the settings say, or as the running program wrote."""
    from proxy.client_env.addresses import Listening
    from proxy.settings.values import ValueInvalid, parse_listen

    if ready_file is None:
        return Listening.of(settings)
    try:
        document: Any = json.loads(ready_file.read_text())
        proxy, urls = document["proxy"], document["endpoints"]
        return Listening(
            proxy=None if proxy is None else parse_listen(proxy, directory=Path()),
            endpoints={name: parse_listen(url.removeprefix("http://"), directory=Path()) for name, url in urls.items()},
        )
    except OSError as error:
        cause = (error.strerror or type(error).__name__).lower()
        fail(f"ready file `{ready_file}` cannot be read: {cause}; start `grantproxy serve --ready-file` first")
    except (ValueError, KeyError, TypeError, AttributeError, ValueInvalid):
        fail(f"`{ready_file}` is no ready file; name the one that `grantproxy serve --ready-file` writes")


def _client(settings: "Settings", name: str | None, host: str | None) -> "Client":
    """Who is told. A box's token is read only when the box is asked for by name."""
    from proxy.client_env.addresses import Client
    from proxy.secrets import parse_source
    from proxy.secrets.source import SecretUnreadable
    from proxy.settings.values import named

    if name is None:
        return Client(host=host)
    box = next((box for box in settings.boxes if box.name == name), None)
    if box is None:
        known = named([box.name for box in settings.boxes])
        what = f"its boxes are {known}" if known else "it has none"
        fail(f"`{name}` is no box of the settings; {what}, and one that was added knows its variables by `box env`")
    try:
        token = parse_source(box.token, settings.directory).read().reveal().decode("ascii")
    except SecretUnreadable as unreadable:
        fail(f"the token of box `{name}` cannot be read: {unreadable}")
    return Client(host=host, box=box, token=token)
