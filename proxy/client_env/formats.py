"""Variables as text: for a shell, a dotenv file, Docker's `--env-file`, or a program. Pure.

A value is told exactly or not at all: what a format cannot hold is refused by the variable's name. Values may hold a
box's token, so that no message repeats one.
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from enum import StrEnum

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]*")


class Format(StrEnum):
    """How variables are written."""

    SHELL = "shell"
    """`export NAME='value'`, for the `eval` of a POSIX shell."""
    DOTENV = "dotenv"
    """`NAME=value`, and `NAME='value'` where it holds anything that a reader could take for more than itself."""
    DOCKER = "docker"
    """`NAME=value` with nothing quoted, as `docker run --env-file` and the file of `$GITHUB_ENV` are read."""
    JSON = "json"
    """One object."""


class FormatRefused(ValueError):
    """A value that the format cannot hold. The message names the variable and what would do, never the value."""


def written(variables: Mapping[str, str], form: Format) -> str:
    """All of them, one a line, or one JSON document.

    Raises:
        FormatRefused: a value cannot be written in this form so that its readers see just that.
    """
    if form is Format.JSON:
        return json.dumps(dict(variables), indent=2) + "\n"
    line = _LINES[form]
    return "".join(line(name, value) + "\n" for name, value in variables.items())


def _shell(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"


def _dotenv(name: str, value: str) -> str:
    _single_line(name, value)
    if _PLAIN.fullmatch(value):
        return f"{name}={value}"
    # Readers differ in what a backslash or a quote means inside of quotes.
    if "'" in value or "\\" in value:
        raise FormatRefused(f"`{name}` holds a quote or a backslash, which dotenv readers differ about; use `json`")
    return f"{name}='{value}'"


def _docker(name: str, value: str) -> str:
    _single_line(name, value)
    return f"{name}={value}"


def _single_line(name: str, value: str) -> None:
    if not value.isprintable():
        raise FormatRefused(f"`{name}` holds a line end or a control character; use `shell` or `json`")


_LINES: Mapping[Format, Callable[[str, str], str]] = {
    Format.SHELL: _shell,
    Format.DOTENV: _dotenv,
    Format.DOCKER: _docker,
}
