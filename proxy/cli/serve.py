"""`grantproxy serve`: run the proxy."""

import contextlib
import gc
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from proxy.cli import examples, fail
from proxy.cli.files import FILE, NAME_ANY

if TYPE_CHECKING:
    from proxy.fronts import Fronts
    from proxy.program import Running
    from proxy.settings.model import Settings

DEFAULT_CONFIG = Path("grantproxy.yaml")
DEFAULT_PROXY = "127.0.0.1:8080"
_LAST_STANDARD = 2


class Serving(Protocol):
    """What there is to say of a program, in one process or in several."""

    @property
    def settings(self) -> "Settings":
        """Those in force."""
        ...

    @property
    def fronts(self) -> "Fronts":
        """Where it listens."""
        ...

    @property
    def ca_file(self) -> Path:
        """What clients are to trust."""
        ...


@click.command(
    "serve",
    epilog=examples(
        "grantproxy serve --config grantproxy.yaml",
        'grantproxy serve --endpoint "upstream=https://api.example.com; \\\n'
        '  secret=api=env:API_TOKEN; assurance=semantic; grant=./api.grant.yaml"',
    ),
)
@click.option("-c", "--config", type=FILE, metavar="FILE", help="Settings (grantproxy.yaml).")
@click.option("--endpoint", "endpoints", multiple=True, metavar="SPEC", help="An endpoint, in place of a file.")
@click.option("--proxy", metavar="ADDRESS", help="With --endpoint: the forward proxy (127.0.0.1:8080).")
@click.option("--admin", metavar="ADDRESS", help="With --endpoint: the admin listener (none).")
@click.option("--state", metavar="DIRECTORY", help="With --endpoint: the state directory.")
@click.option("--ready-file", type=FILE, metavar="FILE", help="Write the addresses here as JSON.")
@click.option("--watch", is_flag=True, help="Reload when the settings or a file that they name change.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long SIGTERM waits for running requests.",
)
@click.option("--terse-denials", is_flag=True, help="Leave the detail out of refusals.")
@click.option("-v", "--verbose", is_flag=True, help="More messages on stderr.")
def command(
    config: Path | None,
    endpoints: tuple[str, ...],
    proxy: str | None,
    admin: str | None,
    state: str | None,
    ready_file: Path | None,
    watch: bool,
    grace: float,
    terse_denials: bool,
    verbose: bool,
) -> None:
    """Run the proxy until SIGTERM. Prints where each front listens.

    SIGHUP, or with --watch a changed file, reloads settings, grants and secrets: all of them, or none. SIGTERM finishes
    what runs; a second one ends at once.
    """
    from proxy.state import StartRefused
    from proxy.undumpable import close_to_others

    try:
        close_to_others()
    except StartRefused as refused:
        fail(str(refused))

    from proxy import logs
    from proxy.loop import run_on_loop
    from proxy.program import Program, Running
    from proxy.sockets import ListenFailed

    logs.configure(verbose=verbose)
    fronts = {"proxy": proxy, "admin": admin, "state": state}
    load = _loader(config, endpoints, {key: value for key, value in fronts.items() if value is not None})
    settings = _settings(load)
    _hold_standard_streams(settings)
    running = Running(
        load=load,
        files=(() if endpoints else (config or DEFAULT_CONFIG,)) if watch else None,
        grace=grace,
        say=lambda line: _say(line, err=True),
        ending=lambda line: _say(line, err=True),
        changed=lambda program: _tell_again(program, ready_file),
    )
    try:
        if settings.workers > 1:
            _supervise(settings, running, terse=terse_denials, ready_file=ready_file)
        else:
            program = Program(settings, terse=terse_denials, running=running)
            run_on_loop(program.run(lambda running: _announce(running, ready_file)))
            # Else the interpreter looks through all of it before it ends: a second and more on a busy machine.
            gc.freeze()
    except (StartRefused, ListenFailed) as refused:
        for line in str(refused).splitlines():
            click.echo(f"error: {line}", err=True)
        raise SystemExit(1) from None


def _supervise(settings: "Settings", running: "Running", *, terse: bool, ready_file: Path | None) -> None:
    """Run the program in several processes.

    Raises:
        SystemExit: with the exit code, where that is not 0.
        ListenFailed: an address cannot be listened on.
    """
    from dataclasses import replace

    from proxy.loop import run_on_loop
    from proxy.part import part
    from proxy.program import Program
    from proxy.seat import part_of
    from proxy.sockets import ListenFailed
    from proxy.state import StartRefused
    from proxy.upstream.pool import PoolLimits
    from proxy.workers.supervised import Supervised
    from proxy.workers.supervisor import Supervisor
    from proxy.workers.worker import WorkerSeat

    # What a worker has to say goes through the supervisor, once for all.
    own = replace(running, say=_nothing, ending=_nothing, changed=lambda _program: None)
    load = running.load or (lambda: settings)

    def work(seat: WorkerSeat, settings: "Settings") -> int:
        try:
            program = Program(part_of(settings, seat.of), terse=terse, running=own, seat=seat)
            run_on_loop(program.run(seat.ready))
        except (StartRefused, ListenFailed) as refused:
            seat.failed(tuple(str(refused).splitlines()))
            return 1
        return 0

    supervisor = Supervisor(
        settings,
        Supervised(
            load=load,
            work=work,
            ready=lambda supervisor: _announce(supervisor, ready_file),
            changed=lambda supervisor: _tell_again(supervisor, ready_file),
            say=running.say,
            watch=running.files is not None,
            grace=running.grace,
            upstreams=part(PoolLimits().total, settings.workers),
        ),
    )
    if code := supervisor.run():
        raise SystemExit(code)


def _loader(config: Path | None, endpoints: tuple[str, ...], fronts: dict[str, str]) -> "Callable[[], Settings]":
    """What reads the settings, now and at each reload."""
    from proxy.settings import load_settings, settings_from_endpoints

    if config is not None and endpoints:
        raise click.UsageError("--config and --endpoint are two ways to say the same; use one of them")
    if fronts and not endpoints:
        named = ", ".join(f"--{key}" for key in fronts)
        raise click.UsageError(f"{named} goes with --endpoint; a settings file says it itself")
    if endpoints:
        return lambda: settings_from_endpoints(
            endpoints,
            proxy=fronts.get("proxy", DEFAULT_PROXY),
            admin=fronts.get("admin"),
            state=fronts.get("state"),
        )
    return lambda: load_settings(config or DEFAULT_CONFIG, remedy=NAME_ANY)


def _settings(load: "Callable[[], Settings]") -> "Settings":
    from grants.problems import Invalid

    try:
        return load()
    except Invalid as invalid:
        for problem in invalid.problems:
            click.echo(f"{problem}", err=True)
        raise SystemExit(1) from None


def _hold_standard_streams(settings: "Settings") -> None:
    """Fill the places of closed standard streams: the next file opened would have one, and our messages in it."""
    if settings.audit.path is None and sys.stdout is None:
        fail("`audit.path` is `stdout`, which is closed; open it, or set a file")
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        pass
    os.close(descriptor)


def _announce(program: "Serving", ready_file: Path | None) -> None:
    """Say where everything listens, then write the ready file, then say `ready`.

    So whoever waits for the file finds the lines there, and whoever waits for the last line the file; where the file
    cannot be written, nobody was told `ready`. Where stdout takes the records, stderr is told.
    """
    _renew_trust(program)
    err = program.settings.audit.path is None
    _say("\n".join(_places(program)), err=err)
    if ready_file is not None:
        _write_ready(program, ready_file)
    _say("ready", err=err)


def _renew_trust(program: "Serving") -> None:
    """Clients are told once, by `env`, which files hold the CA: a new one has to be in them too."""
    from proxy.client_env.trust import renew_trust
    from proxy.state import StartRefused

    try:
        renewed = renew_trust(program.settings.state, program.ca_file.read_bytes())
    except (StartRefused, OSError) as refused:
        _say(f"warning: clients may not trust the CA, as files for them are old: {refused}", err=True)
        return
    if renewed is not None:
        _say(
            f"notice: the files in `{renewed}` now hold the CA; start clients anew that have read the old ones",
            err=True,
        )


def _places(program: "Serving") -> Iterator[str]:
    fronts, urls = program.fronts, _urls(program)
    if fronts.proxy is not None:
        yield f"proxy on {fronts.proxy.address}"
    for endpoint in program.settings.endpoints:
        where = f" on {urls[endpoint.name]}" if endpoint.name in urls else ""
        yield f"endpoint {endpoint.name} ({endpoint.assurance}){where} -> {endpoint.upstream}"
    if allow := program.settings.tunnels.allow:
        yield f"tunnels to {len(allow)} {'destination' if len(allow) == 1 else 'destinations'}"
    if boxes := program.settings.boxes:
        yield f"{len(boxes)} {'box' if len(boxes) == 1 else 'boxes'}"
    if fronts.broker is not None:
        yield f"broker on {_url(str(fronts.broker.address))}"
    if fronts.admin is not None:
        yield f"admin on {_url(str(fronts.admin.address))}"
    yield f"ca {program.ca_file}"


def _write_ready(program: "Serving", path: Path) -> None:
    """Write where everything listens, for a program that waits for it.

    Raises:
        StartRefused: it cannot be written, or something that is no file has its name.
    """
    from proxy.state import StartRefused, write_whole

    fronts = program.fronts
    document = {
        "proxy": None if fronts.proxy is None else str(fronts.proxy.address),
        "admin": None if fronts.admin is None else _url(str(fronts.admin.address)),
        "broker": None if fronts.broker is None else _url(str(fronts.broker.address)),
        "endpoints": _urls(program),
        "ca": str(program.ca_file),
    }
    with contextlib.suppress(OSError):  # missing, or said better by the write
        if not stat.S_ISREG(path.lstat().st_mode):
            raise StartRefused(f"ready file `{path}` is not a regular file; set `--ready-file` to another path")
    write_whole(path, json.dumps(document).encode() + b"\n", remedy="set `--ready-file` to another path")


def _say(text: str, *, err: bool) -> None:
    """Print, or go on without: a program that serves does not end because nobody hears where."""
    try:
        click.echo(text, err=err)
    except OSError as error:
        # What is still in the buffer would fail once more at the end.
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, 2 if err else 1)
        os.close(nowhere)
        if not err:
            cause = (error.strerror or type(error).__name__).lower()
            _say(f"warning: standard output cannot be written: {cause}; `--ready-file` tells the addresses", err=True)


def _tell_again(program: "Serving", ready_file: Path | None) -> None:
    """After a reload, which may have changed the addresses."""
    from proxy.state import StartRefused

    if ready_file is not None:
        try:
            _write_ready(program, ready_file)
        except StartRefused as refused:
            _say(f"error: {refused}", err=True)


def _nothing(_line: str) -> None:
    """Nobody is told."""


def _urls(program: "Serving") -> dict[str, str]:
    return {str(listener.endpoint): _url(str(listener.address)) for listener in program.fronts.endpoints}


def _url(address: str) -> str:
    return address if address.startswith("unix:") else f"http://{address}"
