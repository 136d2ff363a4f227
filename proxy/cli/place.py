"""Where an installation keeps its things, for the commands that read them: by its settings, or the user's defaults."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

import click

from proxy.cli.files import NAME_SETTINGS
from proxy.run.placeholder import NAME, is_placeholder

CONFIG = Path(NAME)
LOG = "decisions.jsonl"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The state directory, and the decision log's file; None when the log goes to standard output."""

    state: Path
    log: Path | None


def found() -> bool:
    """Whether there are settings in the current folder, by their name."""
    return CONFIG.exists() and not is_placeholder(CONFIG)


def installation(config: Path | None) -> Installation:
    """What `config` says, or `grantproxy.yaml` where there is one, which is told; else the user's state directory.

    Ends the program with every problem of a settings file that cannot be used.
    """
    from grants.problems import Invalid
    from proxy.settings import default_state, load_settings

    if config is None and not found():
        state = default_state()
        return Installation(state=state, log=state / LOG)
    try:
        settings = load_settings(config or CONFIG, remedy=NAME_SETTINGS)
    except Invalid as invalid:
        for problem in invalid.problems:
            click.echo(f"{problem}", err=True)
        raise SystemExit(1) from None
    if config is None:
        click.echo(f"notice: the settings are those of `{CONFIG.absolute()}`", err=True)
    path = settings.audit.path
    return Installation(state=settings.state, log=None if path is None else settings.state / path)
