"""The state directory: what an installation keeps between starts, for its owner alone.

Everything in it is made once, under a lock, in a temporary file that is renamed when it is whole: two processes that
start at once agree, and a crash leaves either nothing or the whole file. What others could read or have written is
refused by name, never repaired behind the operator's back.
"""

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
DIGEST_KEY = "digest.key"
DIGEST_KEY_BYTES = 32
MAX_STATE_FILE_BYTES = 64 * 1024
_LOCK = ".lock"
_OTHERS = 0o077


class StartRefused(Exception):
    """The program cannot start. The message is one line that names the file and the remedy, and holds no secret."""


def private_directory(path: Path) -> Path:
    """Make `path` where it is missing, and return it as a directory that only its owner can enter.

    An empty directory, and one that already holds an installation's state, are closed to others (0700). Any other
    directory that others can enter is refused and not changed: it may be somebody's home, or `/tmp`.

    Raises:
        StartRefused: it cannot be made, is no directory, belongs to another user, or others can enter it.
    """
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        found = path.stat()
        if found.st_uid != os.geteuid():
            raise StartRefused(f"state directory `{path}` belongs to user {found.st_uid}; name one of your own")
        if found.st_mode & _OTHERS:
            if (path / DIGEST_KEY).exists() or not any(path.iterdir()):
                path.chmod(PRIVATE_DIRECTORY)
            else:
                mode = stat.S_IMODE(found.st_mode)
                raise StartRefused(
                    f"state directory `{path}` is open to others (mode {mode:04o}); run `chmod 700 {path}`"
                )
    except OSError as error:
        raise StartRefused(f"state directory `{path}` cannot be used: {reason(error)}; name another") from None
    return path


def reason(error: OSError) -> str:
    """The system's own words for an error, lower case, without the file's name."""
    return (error.strerror or type(error).__name__).lower()


def require_private(path: Path, found: os.stat_result, what: str) -> None:
    """Refuse a file that is not regular, belongs to another user, or can be read by others.

    Raises:
        StartRefused: with the file's name and the remedy.
    """
    if not stat.S_ISREG(found.st_mode):
        raise StartRefused(f"{what} `{path}` is not a regular file; name another or move it away")
    if found.st_uid != os.geteuid():
        raise StartRefused(f"{what} `{path}` belongs to user {found.st_uid}; give it to the user that runs this")
    if found.st_mode & _OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        raise StartRefused(f"{what} `{path}` can be read by others (mode {mode:04o}); run `chmod 600 {path}`")


def read_private(path: Path, what: str) -> bytes | None:
    """The bytes of an owner-only file; None where there is none. A symbolic link is not followed.

    Raises:
        StartRefused: it cannot be read, is over 64 KiB, or is not owner-only.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartRefused(f"{what} `{path}` cannot be read: {reason(error)}; restore it or move it away") from None
    try:
        require_private(path, os.fstat(descriptor), what)
        data = os.read(descriptor, MAX_STATE_FILE_BYTES + 1)
    except OSError as error:
        raise StartRefused(f"{what} `{path}` cannot be read: {reason(error)}; restore it or move it away") from None
    finally:
        os.close(descriptor)
    if len(data) > MAX_STATE_FILE_BYTES:
        raise StartRefused(f"{what} `{path}` is over 64 KiB; restore it or move it away")
    return data


def write_whole(
    path: Path, data: bytes, mode: int = PRIVATE_FILE, *, remedy: str = "make room or name another state"
) -> None:
    """Put `data` at `path` in one step, on disk before it has its name. `remedy` is what helps where it fails.

    Raises:
        StartRefused: it cannot be written; what was at `path` is still there.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)  # whatever the umask is
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)
            directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StartRefused(f"`{path}` cannot be written: {reason(error)}; {remedy}") from None


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the state directory's lock; another process waits for it.

    Raises:
        StartRefused: the directory's file system has no locks, or the lock file cannot be made.
    """
    path = directory / _LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            os.close(descriptor)
            raise
    except OSError as error:
        raise StartRefused(
            f"`{path}` cannot be locked: {reason(error)}; name a state directory on a local disk"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


def digest_key(directory: Path) -> bytes:
    """The installation's key for resource digests, 32 bytes, made at first use.

    Raises:
        StartRefused: it cannot be read or made, or is not what was written.
    """
    path = directory / DIGEST_KEY
    what = "key of the resource digests"
    with locked(directory):
        text = read_private(path, what)
        if text is None:
            key = secrets.token_bytes(DIGEST_KEY_BYTES)
            write_whole(path, key.hex().encode() + b"\n")
            return key
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != DIGEST_KEY_BYTES:
        raise StartRefused(f"{what} `{path}` is damaged; restore it, or remove it to have a new one made")
    return key
