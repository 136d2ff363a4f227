"""The command line: `grantproxy COMMAND`.

A command's module is imported when that command runs and not before, so that `check` starts without the proxy's
libraries, and `--help` lists every command without importing one. Each module has its click command as `command`.
Exit codes: 0 done, 1 refused or problems found, 2 wrong usage.
"""

import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, final

import click
from click.exceptions import NoArgsIsHelpError, NoSuchOption

from grants.problems import nearest

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("proxy.cli.serve", "Run the proxy with a settings file or endpoints."),
    "run": ("proxy.cli.run", "Run a program beside a proxy that holds its credentials."),
    "check": ("proxy.cli.check", "Check grant and settings files, with every problem."),
    "explain": ("proxy.cli.explain", "Say what a grant decides about a request."),
    "audit": ("proxy.cli.audit", "Read the decision log and check its chain."),
    "box": ("proxy.cli.box", "Add, list, rotate and remove the broker's boxes."),
    "visitor": ("proxy.cli.visitor", "Issue, revoke and list visitors' grants for boxes."),
    "ca": ("proxy.cli.ca", "Show the CA that clients of the proxy must trust."),
    "env": ("proxy.cli.env", "Print the variables by which clients use the proxy."),
    "demo": ("proxy.cli.demo", "Try it out against a sample API."),
}
"""By name: the module that holds the command, and what `--help` says about it."""


_QUOTED = re.compile(r"`[^`]*`|(?<!\w)'([^']*)'(?!\w)")
"""What click puts into quotes; between backticks a quote is what it stands for."""


class Group(click.Group):
    """A group that says which of its commands could have been meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one could have been meant."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            near = nearest(args[0], names)
            remedy = f"did you mean `{near}`?" if near else f"the commands are {', '.join(names)}"
            raise click.UsageError(f"`{args[0]}` is no command; {remedy}", ctx)
        return super().resolve_command(ctx, args)


@final
class LazyGroup(Group):
    """A group that imports a command when it is called."""

    def main(  # type: ignore[override]  # click's overloads say the same
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run and end the program. What click would tell in three lines is one line here."""
        if not extra.pop("standalone_mode", True):
            return super().main(args, prog_name, standalone_mode=False, **extra)
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.ClickException as error:
            click.echo(_one_line(error), err=True)
            code = error.exit_code
        except click.Abort:
            code = 130
        except BrokenPipeError:
            # Whoever read our output has seen enough. Python would complain about the rest at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = 1
        sys.exit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which people need them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None when there is no such one."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)  # noqa: S101 - each module of the table has one
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _one_line(error: click.ClickException) -> str:
    """`error: what is wrong (where help is)`, lower case and without a full stop."""
    told = _of_option(error) if isinstance(error, NoSuchOption) else error.format_message()
    text = _QUOTED.sub(lambda found: found[0] if found[1] is None else f"`{found[1]}`", " ".join(told.split()))
    text = text.replace(". Did", "; did").rstrip(".")
    text = text[:1].lower() + text[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"error: {text} (see `{context.command_path} --help`)" if context else f"error: {text}"


def _of_option(error: NoSuchOption) -> str:
    """An option that there is not, with the one that was surely meant: dashes alone make none alike."""
    names = {name.lstrip("-"): name for name in error.possibilities or ()}
    near = nearest(error.option_name.lstrip("-"), names)
    return f"{error.message.rstrip('.')}; did you mean `{names[near]}`?" if near else error.message


def examples(*commands: str) -> str:
    """The end of a help: each command as it is typed. None of its lines is ever wrapped, as half of one does harm.

    A long command is given with `\\` at the end of a line, as a shell continues it.
    """
    head = "Example:" if len(commands) == 1 else "Examples:"
    lines = [head, *(f"  {line}" for command in commands for line in command.splitlines())]
    return "\n".join(["\b", *lines])  # what click leaves as it is


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import PackageNotFoundError, version

        try:
            known = version("grantproxy")
        except PackageNotFoundError:
            known = "not installed"
        click.echo(f"grantproxy {known}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples("grantproxy check grantproxy.yaml", "grantproxy serve -c grantproxy.yaml"),
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version."
)
def main() -> None:
    """A forward proxy that holds the credentials and lets sandboxed agents do only what a grant says."""


def fail(message: str) -> NoReturn:
    """End with exit code 1 and one line on standard error."""
    click.echo(f"error: {message}", err=True)
    raise SystemExit(1)
