"""The commands of the program, as click has them."""

from collections.abc import Iterator

import click


def walk(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, each with its name behind the program's."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from walk(found, f"{name} {each}".strip())
