"""Where an installation keeps its things, for the commands that read them: by its settings, or the user's defaults."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

import click

CONFIG = Path("grantproxy.yaml")
LOG = "decisions.jsonl"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The state directory, and the decision log's file; None when the log goes to standard output."""

    state: Path
    log: Path | None


def installation(config: Path | None) -> Installation:
    """What `config` says, or `grantproxy.yaml` where there is one; else the user's state directory.

    Ends the program with every problem of a settings file that cannot be used.
    """
    from grants.problems import Invalid
    from proxy.settings import default_state, load_settings

    if config is None and not CONFIG.exists():
        state = default_state()
        return Installation(state=state, log=state / LOG)
    try:
        settings = load_settings(config or CONFIG)
    except Invalid as invalid:
        for problem in invalid.problems:
            click.echo(f"{problem}", err=True)
        raise SystemExit(1) from None
    path = settings.audit.path
    return Installation(state=settings.state, log=None if path is None else settings.state / path)
