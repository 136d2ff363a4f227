"""What of the settings cannot be kept from an isolated program is refused, before the program is started.

It is done in the proxy's process, which has the settings; what is only a matter of mounts is `proxy.run.view`'s.
"""

from collections.abc import Mapping
from pathlib import Path

from proxy.run.code import packages, trees
from proxy.run.commands import hold_command
from proxy.run.hardlinks import second_name
from proxy.run.placeholder import NAME
from proxy.run.refused import IsolationRefused
from proxy.run.served import Hidden, database_password, references, written
from proxy.run.ways import leads_into, real, under
from proxy.secrets.source import ExecSource, parse_source
from proxy.settings.model import Settings


def hold(settings: Settings, config: Path | None, secret: Hidden, work: Path, environment: Mapping[str, str]) -> None:
    """Hold the settings against the working directory.

    Raises:
        IsolationRefused: what is in there, or leads there, and where it should be.
    """
    for text in references(settings):
        if text.startswith("exec:") and isinstance(
            source := parse_source(text, settings.directory.absolute()), ExecSource
        ):
            hold_command(source, work, environment)
    for key, path in written(settings):
        if leads_into(path, work) and not under(real(path), real(settings.state)):
            raise IsolationRefused(
                f"`{key}` is `{path}`, in the working directory, where the program may read and erase it; "
                "put it outside, or leave it in the state directory"
            )
    if config is not None and database_password(settings) is not None and leads_into(config.absolute(), work):
        raise IsolationRefused(
            f"`{config}` is in the working directory and holds the password of `broker.database`; "
            "leave it out there (PGPASSWORD holds it as well), or put the settings outside"
        )
    # Commands find settings by their name there, used now or not.
    names = second_name((*secret.rules, *secret.files, work / NAME), work, (*trees(), *packages()))
    if names is not None:
        raise IsolationRefused(
            f"`{names[0]}` has a second name in the working directory, `{names[1]}` (a hard link), by which the "
            "program could read or change it; remove that name, or make it a copy"
        )
