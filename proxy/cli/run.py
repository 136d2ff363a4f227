"""`grantproxy run`: run a program beside a proxy that holds its credentials."""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from proxy.cli import examples, fail
from proxy.cli.files import FILE, NAME_ANY
from proxy.cli.place import CONFIG

if TYPE_CHECKING:
    from proxy.settings.model import Settings

_PROXY: Final = "127.0.0.1:0"
# By key of an endpoint: how the value is written (empty: a flag), whether it may be repeated, and what it is.
_OPTIONS: Final = (
    ("upstream", "URL", False, "Where requests go."),
    ("secret", "NAME=REFERENCE", True, "A secret: api=env:API_TOKEN, api=file:PATH or api=exec:COMMAND."),
    ("assurance", "WORD", False, "What is promised: semantic or trusted-upstream."),
    ("grant", "FILE", False, "The grant; semantic needs it."),
    ("env", "VARIABLE", True, "A variable that holds the base URL for the program."),
    ("name", "NAME", False, "What records call the endpoint."),
    ("inject", "HEADER=VALUE", True, "What is set on each request: 'Authorization=Bearer @secret:api'."),
    ("ca", "FILE", False, "The only CA bundle that is trusted for the upstream."),
    ("listen", "ADDRESS", False, "The base URL's; any is a free port."),
    ("host", "NAME:PORT", True, "A further name by which the base URL is called."),
    ("allow-inside", "", False, "The upstream's name may lead inside the network."),
    ("capture", "", False, "Write requests to a file, before secrets are put in."),
    ("websocket", "", False, "Relay WebSockets; trusted-upstream only."),
    ("concurrent", "NUMBER", False, "The most requests in flight."),
    ("connect", "DURATION", False, "How long connecting may take."),
    ("total", "DURATION", False, "How long an answer may take."),
    ("idle", "DURATION", False, "How long a stream may be still; trusted-upstream only."),
)


def _endpoint_options(function: Callable[..., None]) -> Callable[..., None]:
    """An option for each key of an endpoint."""
    for name, form, many, text in reversed(_OPTIONS):
        where = (f"--{name}", _parameter(name))
        if form:
            function = click.option(*where, metavar=form, multiple=many, help=text)(function)
        else:
            function = click.option(*where, is_flag=True, help=text)(function)
    return function


def _parameter(name: str) -> str:
    return f"key_{name.replace('-', '_')}"


@click.command(
    "run",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog=examples(
        "grantproxy run --upstream https://api.example.com \\\n"
        "  --secret api=env:API_TOKEN --assurance semantic \\\n"
        "  --grant ./api.grant.yaml --env API_BASE_URL -- ./agent",
        "grantproxy run -c grantproxy.yaml -- make test",
    ),
)
@click.option("-c", "--config", type=FILE, metavar="FILE", help="Settings (grantproxy.yaml).")
@_endpoint_options
@click.option("--endpoint", "endpoints", multiple=True, metavar="SPEC", help="A further endpoint, as for `serve`.")
@click.option("--state", metavar="DIRECTORY", help="Without a file: the state directory (the user's).")
@click.option("--box", metavar="NAME", help="Where the settings have boxes: the one that the program is.")
@click.option("--isolate", is_flag=True, help="COMMAND reaches the proxy and nothing else (Linux).")
@click.option(
    "--show",
    multiple=True,
    type=FILE,
    metavar="PATH",
    help="With --isolate: show this, read-only.",
)
@click.option("-q", "--quiet", is_flag=True, help="No line about the decisions at the end.")
@click.option("--terse-denials", is_flag=True, help="Leave the detail out of refusals.")
@click.option("-v", "--verbose", is_flag=True, help="More messages on stderr.")
@click.argument("command_line", metavar="-- COMMAND [ARGUMENTS]", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    config: Path | None,
    endpoints: tuple[str, ...],
    state: str | None,
    box: str | None,
    isolate: bool,
    show: tuple[Path, ...],
    quiet: bool,
    terse_denials: bool,
    verbose: bool,
    command_line: tuple[str, ...],
    **keys: Any,
) -> None:
    """Run COMMAND with a proxy of its own, whose credentials it does not get.

    COMMAND finds the proxy, its CA and the base URLs in its environment; the variables that secrets come from are taken
    out. Its exit code is ours. Without --isolate it runs as the same user, and nothing keeps it from going around.
    """
    from proxy.run.begin import begin
    from proxy.state import StartRefused

    try:
        begin()
    except StartRefused as refused:
        fail(str(refused))
    from proxy.run.beside import Wanted
    from proxy.run.isolated import plan
    from proxy.run.placeholder import held
    from proxy.run.program import NotStarted
    from proxy.run.refused import IsolationRefused
    from proxy.run.sockets import sockets
    from proxy.run.supervise import Command, run, say

    if show and not isolate:
        raise click.UsageError("--show goes with --isolate; without it everything is shown")
    given = _given(keys)
    load = _loader(config, endpoints, given, state)
    file = None if endpoints or given else (config or CONFIG)
    with ExitStack() as exits:
        try:
            isolation = plan(os.environ, show) if isolate else None
            if isolation is not None and file != CONFIG:
                exits.enter_context(held(isolation.work / CONFIG))
            wanted = Wanted(
                load=load,
                config=file,
                box=box,
                sockets=exits.enter_context(sockets()) if isolate else None,
                work=None if isolation is None else isolation.work,
                terse=terse_denials,
                verbose=verbose,
            )
            code = run(Command(arguments=command_line, isolation=isolation, quiet=quiet), wanted, os.environ)
        except (StartRefused, IsolationRefused) as refused:
            fail(str(refused))
        except NotStarted as refused:
            say(f"error: {refused}")
            code = refused.code
    sys.exit(code)


def _given(keys: dict[str, Any]) -> tuple[str, ...]:
    """The parts of the endpoint that the options say, each `KEY=VALUE`. A base URL with a variable has a listener."""
    parts = []
    for name, form, many, _ in _OPTIONS:
        value = keys[_parameter(name)]
        if not form:
            value = "true" if value else None
        key = "allowInside" if name == "allow-inside" else name
        parts += [f"{key}={text}" for text in (value if many else (value,)) if text is not None]
    return _with_listener(tuple(parts))


def _with_listener(parts: tuple[str, ...]) -> tuple[str, ...]:
    named = {part.partition("=")[0].strip() for part in parts}
    return (*parts, f"listen={_PROXY}") if "env" in named and "listen" not in named else parts


def _loader(
    config: Path | None, endpoints: tuple[str, ...], given: tuple[str, ...], state: str | None
) -> "Callable[[], Settings]":
    """What reads the settings. What is wrong with how we were called is told here, before anything is started."""
    from proxy.settings import load_settings, settings_from_endpoints

    if config is not None and (endpoints or given):
        named = "--endpoint" if endpoints else f"--{given[0].partition('=')[0]}"
        raise click.UsageError(f"--config and {named} are two ways to say the same; use one of them")
    if not endpoints and not given:
        if state is not None:
            raise click.UsageError("--state goes with --upstream or --endpoint; a settings file says it itself")
        return lambda: load_settings(config or CONFIG, remedy=NAME_ANY)
    specs = [";".join(_with_listener(tuple(spec.split(";")))) for spec in endpoints]
    return lambda: settings_from_endpoints(specs, proxy=_PROXY, state=state, options=given)
