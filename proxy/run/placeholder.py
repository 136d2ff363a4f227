"""The settings that are found by their name in the working directory, where there are none: an isolated program makes
none there, which the next command would take for its operator's.

A mount protects only what is there, so a file that says why holds the name while the program runs. It goes with the
last of those who hold it. What a SIGKILL left behind counts as no settings, and goes at the next end of a run there.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from proxy.run.refused import IsolationRefused

NAME: Final = "grantproxy.yaml"
"""The settings that commands read where none are named."""
MARK: Final = (
    b"# No settings: while `grantproxy run --isolate` runs here, the program is to make none. This goes with it.\n"
)
_SECONDS: Final = 2.0
_EMPTY_SECONDS: Final = 0.2
"""How long one that another run is just making may be empty."""
_STEP: Final = 0.02


def is_placeholder(path: Path) -> bool:
    """Whether it only holds the name."""
    return _content(path) == MARK


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the name, where nothing has it, while this is used. What is there already is a matter of mounts.

    Raises:
        IsolationRefused: it cannot be held, and the program could still take it.
    """
    descriptor = _take(path)
    try:
        yield
    finally:
        if descriptor is not None:
            _leave(path, descriptor)


def _take(path: Path) -> int | None:
    """The file, with a lock that others share. None: the operator has something there, or nobody can make anything."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < _SECONDS:
        content = _content(path)
        if content not in (None, MARK) and (content != b"" or waited > _EMPTY_SECONDS):
            return None
        try:
            if (descriptor := _open(path, new=content is None)) is not None:
                return descriptor
        except OSError as error:
            if _nobody_can(path, error):
                return None
            raise _refusal(path, (error.strerror or type(error).__name__).lower()) from None
        time.sleep(_STEP)
    raise _refusal(path, "another program has it locked")


def _open(path: Path, *, new: bool) -> int | None:
    """None: others are making or removing it."""
    how = os.O_RDWR | os.O_CREAT | os.O_EXCL if new else os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, how | os.O_CLOEXEC, 0o644)
    except (FileExistsError, FileNotFoundError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if new:
            os.write(descriptor, MARK)
        if _same(path, descriptor) and is_placeholder(path):
            return descriptor
    except BlockingIOError:
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _leave(path: Path, descriptor: int) -> None:
    """Remove it, unless others hold it or somebody has written settings to it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _same(path, descriptor) and is_placeholder(path):
            path.unlink()
    except OSError:  # others hold it, or it stays and says what it is
        pass
    finally:
        os.close(descriptor)


def _content(path: Path) -> bytes | None:
    """The beginning of a file; None where there is nothing, and what no file begins with where it is no file."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return b"\0"
        with path.open("rb") as file:
            return file.read(len(MARK) + 1)
    except FileNotFoundError:
        return None
    except OSError:
        return b"\0"


def _same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False


def _nobody_can(path: Path, error: OSError) -> bool:
    """Whether the program, which is the same user, can make it no more than we can. Its owner opens a directory."""
    if error.errno == errno.EROFS:
        return True
    return error.errno == errno.EACCES and path.parent.stat().st_uid != os.geteuid()


def _refusal(path: Path, cause: str) -> IsolationRefused:
    return IsolationRefused(
        f"the program could make settings at `{path}`, which the next command here would use, and that name cannot be "
        f"held: {cause}; make the directory writable for you, or change into another"
    )
