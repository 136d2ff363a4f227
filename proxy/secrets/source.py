"""A secret's source: read when asked, bounded in size and time, and silent about what it read.

Every failure is one error whose text names the variable, file or program and the remedy. The value, the arguments of a
command and what it printed never stand in a text.
"""

import os
import re
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, final

from grants.secret import Secret, SecretInvalid

from .command import CommandFailed, run_bounded

MAX_VALUE_BYTES = 64 * 1024
FILE_CHECK_SECONDS = 1.0
EXEC_TTL_SECONDS = 60.0
RETRY_SECONDS = 5.0
EXEC_SECONDS = 10.0

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ReferenceInvalid(ValueError):
    """The text is no source of a secret. The message never repeats the text: it may be the secret itself."""


class SecretUnreadable(Exception):
    """A source gave no secret. The message names the cause and the remedy, never the value."""


class Source(Protocol):
    """Where one secret comes from."""

    @property
    def lasts(self) -> float | None:
        """Seconds for which a value that was read is used before it is read again; None: until the next start."""
        ...

    @property
    def grace(self) -> float:
        """Seconds for which an older value still serves while it is read again; 0: requests wait for the new one."""
        ...

    def read(self) -> Secret:
        """Read the value. Blocks; call it in a thread once the program serves.

        Raises:
            SecretUnreadable: there is no value, or it cannot serve as a secret.
        """
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSource:
    """`env:NAME`, read once per start."""

    grace: ClassVar[float] = 0.0

    name: str
    environment: Mapping[bytes, bytes] = field(default_factory=lambda: os.environb, repr=False)

    @property
    def lasts(self) -> float | None:
        """Until the next start: a process's environment does not change."""
        return None

    def read(self) -> Secret:
        """The variable's value."""
        value = self.environment.get(self.name.encode())
        if value is None:
            raise SecretUnreadable(f"environment variable `{self.name}` is not set; export it or name another source")
        return _secret(value, f"environment variable `{self.name}`")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """`file:PATH`, read again at most once a second, so that a rotated file is seen without a restart."""

    grace: ClassVar[float] = 0.0

    path: Path

    @property
    def lasts(self) -> float | None:
        """One second. The whole file is read again: a rewrite within the clock's tick shows in no time stamp."""
        return FILE_CHECK_SECONDS

    def read(self) -> Secret:
        """The file's bytes, less one final line end."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
            try:
                regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
                value = os.read(descriptor, MAX_VALUE_BYTES + 1) if regular else b""
            finally:
                os.close(descriptor)
        except OSError as error:
            cause = (error.strerror or type(error).__name__).lower()
            raise SecretUnreadable(
                f"file `{self.path}` cannot be read: {cause}; make it readable or name another source"
            ) from None
        if not regular:
            raise SecretUnreadable(f"`{self.path}` is not a regular file; name one, or use exec:")
        return _secret(_without_line_end(value), f"file `{self.path}`")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSource:
    """`exec:COMMAND ARGS`, split as a POSIX shell splits words but run without one; run again after a minute.

    The environment is the program's own, the working directory that of the settings file. Standard error is discarded.
    For another minute the value still serves while the command runs, so that a slow one holds no request.
    """

    grace: ClassVar[float] = EXEC_TTL_SECONDS

    arguments: tuple[str, ...] = field(repr=False)
    directory: Path
    seconds: float = EXEC_SECONDS

    @property
    def lasts(self) -> float | None:
        """One minute."""
        return EXEC_TTL_SECONDS

    def read(self) -> Secret:
        """What the command printed, less one final line end."""
        what = f"command `{self.arguments[0]}`"
        try:
            value = run_bounded(self.arguments, self.directory, self.seconds, MAX_VALUE_BYTES)
        except CommandFailed as failed:
            raise SecretUnreadable(f"{what} {failed}") from None
        return _secret(_without_line_end(value), what)


def parse_source(text: str, base: Path) -> EnvSource | FileSource | ExecSource:
    """Read `env:NAME`, `file:PATH` or `exec:COMMAND ARGS`.

    `base` is the settings file's directory: relative paths start there; `~` is the user's home.

    Raises:
        ReferenceInvalid: with what would be right.
    """
    kind, separator, rest = text.partition(":")
    rest = rest.strip()
    if not separator or kind not in ("env", "file", "exec"):
        raise ReferenceInvalid(
            "a secret is named by its source, its value is not written here; write env:NAME, file:PATH or exec:COMMAND"
        )
    if not rest or "\0" in rest:
        raise ReferenceInvalid(f"`{kind}:` names nothing that can be read; write env:NAME, file:PATH or exec:COMMAND")
    if kind == "env":
        if not _VARIABLE.fullmatch(rest):
            raise ReferenceInvalid("`env:` is followed by the name of a variable: letters, digits and underscores")
        return EnvSource(name=rest)
    if kind == "file":
        try:
            return FileSource(path=base / Path(rest).expanduser())
        except RuntimeError:
            raise ReferenceInvalid(
                "`file:` names the home of somebody who is not known here; write it in full"
            ) from None
    try:
        arguments = tuple(shlex.split(rest))
    except ValueError:
        raise ReferenceInvalid("the command after `exec:` has an open quote; close it") from None
    if not arguments or not arguments[0]:
        raise ReferenceInvalid("`exec:` names no command; write exec:COMMAND ARGS")
    return ExecSource(arguments=arguments, directory=base)


def _without_line_end(value: bytes) -> bytes:
    """Take off the one line end that editors and commands add."""
    if value.endswith(b"\n"):
        value = value[:-1]
        if value.endswith(b"\r"):
            value = value[:-1]
    return value


def _secret(value: bytes, what: str) -> Secret:
    if len(value) > MAX_VALUE_BYTES:
        raise SecretUnreadable(f"{what} gives more than {MAX_VALUE_BYTES // 1024} KiB; a secret is one short line")
    if not value:
        raise SecretUnreadable(f"{what} gives an empty value; put the credential there or name another source")
    try:
        return Secret(value)
    except SecretInvalid as invalid:
        raise SecretUnreadable(f"{what} gives no usable value: {invalid}; correct it or name another source") from None
