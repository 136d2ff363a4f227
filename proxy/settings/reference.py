"""Where a secret is: `env:NAME`, `file:PATH` or `exec:COMMAND`, as a settings file says it."""

import re
import shlex
from pathlib import Path

from proxy.settings.values import ValueInvalid, parse_path

_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_UNKNOWN = "does not say where the secret is; write `env:NAME`, `file:PATH` or `exec:COMMAND`"


def parse_reference(text: str, *, directory: Path) -> str:
    """The reference, a relative file made relative to `directory`, and `~` the user's home.

    Raises:
        ValueInvalid: it is none. The message holds nothing of `text`, which may be the secret itself.
    """
    kind, _, rest = text.partition(":")
    rest = rest.strip()
    if kind == "file" and rest and "\0" not in rest:
        return f"file:{parse_path(rest, directory=directory)}"
    if kind == "exec" and rest and "\0" not in rest:
        try:
            words = shlex.split(rest)
        except ValueError:
            raise ValueInvalid("has a command with an open quote; close it") from None
        if words and words[0]:
            return text
    elif _VARIABLE.fullmatch(text):
        return text
    raise ValueInvalid(_UNKNOWN)
