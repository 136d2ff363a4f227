"""Reading the files that settings name, bounded, and only real files."""

from pathlib import Path

from grants.document import MAX_BYTES


class Unreadable(Exception):
    """A file cannot be read. The message says why, without its path."""


def read_bounded(path: Path) -> bytes:
    """The bytes of a regular file, at most one more than a loader takes.

    Raises:
        Unreadable: it is not there, not a file, or may not be read.
    """
    try:
        if not path.is_file():
            raise Unreadable("is a directory or a device" if path.exists() else "does not exist")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "the path cannot be used"
        raise Unreadable(f"cannot be read: {reason.lower()}") from None
