"""`exec:` secrets beside an isolated program: they run outside, so nothing of them may be its to change.

That is where they run, PATH, the program through every link, the interpreter that its first line names, and whatever an
argument names, also as a shell would read it. What a script of the operator's own names is not looked at. Variables
that lead into the working directory (PYTHONPATH, NODE_OPTIONS, GIT_CONFIG and the like) are taken out of their
environment.
"""

import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Final

from proxy.run.refused import IsolationRefused
from proxy.run.ways import leads_into
from proxy.run.words import directories_in, names_in, unclear
from proxy.secrets.source import ExecSource

_FIRST_LINE: Final = re.compile(rb"#!\s*([^\n]{1,1024})")
_PLACE_OF_ITS_OWN: Final = "put it outside of the working directory"


def hold_command(source: ExecSource, work: Path, environment: Mapping[str, str]) -> None:
    """Refuse a command of which something is in the working directory.

    Raises:
        IsolationRefused: with what it is; never with an argument, which may be a credential.
    """
    if leads_into(source.directory, work):
        raise IsolationRefused(
            f"`exec:` secrets run in `{source.directory}`, which the program may change; "
            "put the settings outside of the working directory"
        )
    path = environment.get("PATH", os.defpath)
    if any(name[:1] != "/" or leads_into(Path(name), work) for name in path.split(os.pathsep)):
        raise IsolationRefused(
            "`exec:` secrets are run by PATH, which leads into the working directory, where the program may change "
            "them; take that out of PATH"
        )
    name = source.arguments[0]
    for file in _programs(source, path):
        if leads_into(file, work):
            raise IsolationRefused(
                f"the `exec:` command `{name}` leads to `{file}` in the working directory, where the program may "
                f"change it; {_PLACE_OF_ITS_OWN}"
            )
    variables = {**environment, "PWD": str(source.directory)}  # as a shell sets it
    seen = [place for text in source.arguments for place in directories_in(text, source.directory, work, variables)]
    directories = dict.fromkeys((source.directory, *seen))
    for number, argument in enumerate(source.arguments):
        if names_in(argument, directories, work, variables):
            raise IsolationRefused(
                f"argument {number} of the `exec:` command `{name}` names something in the working directory, which "
                f"the program may change; {_PLACE_OF_ITS_OWN}"
            )
        if unclear(argument, variables):
            raise IsolationRefused(
                f"argument {number} of the `exec:` command `{name}` has a part that only a shell fills in (`$(…)`, "
                "`${…}`, a backtick, a variable in a path that is not set), so that it may lead to what the program "
                "may change; write it out, or put it into a script outside of the working directory"
            )


def clean(environment: MutableMapping[str, str], keep: Collection[str], directory: Path, work: Path) -> None:
    """Take out every variable that names something in the working directory, but for those in `keep`."""
    variables = {**environment, "PWD": str(directory)}
    for name, text in list(environment.items()):
        if name not in keep and names_in(text, (directory,), work, variables):
            del environment[name]


def _programs(source: ExecSource, path: str) -> Iterator[Path]:
    """The program's file, and that of each interpreter that runs it."""
    name: str | None = source.arguments[0]
    for _ in range(4):  # more than the kernel follows
        found = name if name is None or "/" in name else shutil.which(name, path=path)
        if found is None:
            return
        file = source.directory / os.path.expanduser(found)
        yield file
        words = interpreter(file)
        for word in words[1:]:
            if (other := shutil.which(word, path=path)) is not None:  # `#!/usr/bin/env node`
                yield Path(other)
        name = words[0] if words else None


def interpreter(file: Path) -> list[str]:
    """The words of a script's first line; none where it is no script, or cannot be read."""
    try:
        if not file.is_file():
            return []
        with file.open("rb") as opened:
            line = _FIRST_LINE.match(opened.read(1026))
    except OSError:
        return []
    return line[1].decode("utf-8", "surrogateescape").split() if line else []
