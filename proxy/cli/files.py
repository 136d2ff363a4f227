"""Files that the command line names, and how one that cannot be read is told: `FILE: what is wrong; what to do`."""

import sys
from pathlib import Path
from typing import Final

import click

FILE: Final = click.Path(path_type=Path, readable=False)
"""A path as it was typed. Click does not look at it: whoever reads the file says what is wrong, with a remedy."""

NAME_SETTINGS: Final = "name settings with `-c FILE`"
NAME_ANY: Final = f"{NAME_SETTINGS}, or an endpoint with `--endpoint SPEC`"
"""What to do where there are no settings, and an endpoint may be given in their place."""


def read(path: Path, remedy: str, *, code: int = 1) -> bytes:
    """What is in the file, at most one byte more than a loader takes. Ends the program where it cannot be read."""
    from proxy.settings.files import Unreadable, read_bounded

    try:
        return read_bounded(path)
    except Unreadable as unreadable:
        click.echo(f"{path}: {unreadable}; {remedy}", err=True)
        raise SystemExit(code) from None


def read_token(path: Path, remedy: str) -> str:
    """The token that is all of a file; `-` is standard input. Ends the program where there is something else."""
    text = sys.stdin.buffer.read(_MOST + 1) if str(path) == "-" else read(path, remedy)[: _MOST + 1]
    words = text.decode("utf-8", "replace").split()
    if len(words) == 1 and len(text) <= _MOST:
        return words[0]
    name = "standard input" if str(path) == "-" else str(path)
    what = "holds more than a token" if words else "holds no token"
    click.echo(f"{name}: {what}; {remedy}", err=True)
    raise SystemExit(1)


_MOST: Final = 4096
"""Bytes of a token with what stands around it."""
