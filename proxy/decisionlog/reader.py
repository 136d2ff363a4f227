"""Reading a log: its lines, rotated files beside it, and new lines as they come."""

import errno
import glob
import gzip
import os
import stat
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from .chain import as_record
from .torn import is_torn

LONGEST_LINE = 1024 * 1024
"""Bytes of a line that are read: far more than a record has, so that no file is read into memory whole."""
UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading raises where a file cannot be read, or is packed and damaged."""
_POLL_SECONDS = 0.2


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, each with its line end but perhaps the last. A `.gz` file is unpacked.

    Raises:
        OSError: it cannot be read, is a device, or has a line of over 1 MiB.
    """
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise OSError(errno.EFBIG, "it has a line of over 1 MiB, so it is no decision log", str(path))
            yield line


@final
@dataclass(slots=True)
class Unread:
    """How many lines could not be read, and the first of them, as `FILE:LINE`."""

    count: int = 0
    first: str = ""

    def add(self, path: Path, number: int, raw: bytes) -> None:
        """Count a line that is no record, unless it is empty or may be a last one that is being written."""
        if raw != b"\n" and (raw.endswith(b"\n") or not is_torn(raw)):
            self.count += 1
            self.first = self.first or f"{path}:{number}"


def records(path: Path, unread: Unread | None = None) -> Iterator[tuple[bytes, dict[str, object]]]:
    """Each whole record of a file: its line without the line end, and what it says. Other lines count as `unread`.

    Raises:
        OSError: it cannot be read.
    """
    for number, raw in enumerate(read_lines(path), 1):
        record = as_record(raw[:-1]) if raw.endswith(b"\n") else None
        if record is not None:
            yield raw[:-1], record
        elif unread is not None:
            unread.add(path, number, raw)


def with_rotated(path: Path) -> tuple[Path, ...]:
    """The log and the files that it was rotated into (`NAME.1`, `NAME-20260101.gz`), oldest first by first record."""
    found: list[tuple[str, Path]] = []
    for other in path.parent.glob(f"{glob.escape(path.name)}[.-]*"):
        try:
            first = next(records(other), None) if other.is_file() else None
        except UNREADABLE:
            first = None
        if first is not None:
            found.append((str(first[1].get("ts")), other))
    return (*(other for _, other in sorted(found)), path)


def follow(path: Path, *, start: int = 0) -> Iterator[bytes]:
    """Whole lines from byte `start` on, as they come, without their line ends; over a rotation too. Never ends.

    An empty line is yielded when nothing came, so that the caller can stop.
    """
    file, rest = None, b""
    try:
        while True:
            if file is None:
                try:
                    file = path.open("rb")
                    file.seek(start)
                except OSError:
                    file = None
                start, rest = 0, b""
            chunk = b"" if file is None else file.read(65536)
            if chunk:
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line for line in lines if line)
                continue
            if file is not None and _rotated(path, file.fileno(), file.tell()):
                yield from (line for line in (rest + file.read()).split(b"\n")[:-1] if line)
                file.close()
                file = None
                continue
            yield b""
            time.sleep(_POLL_SECONDS)
    finally:
        if file is not None:
            file.close()


def _rotated(path: Path, descriptor: int, position: int) -> bool:
    """Whether `path` was cut to before `position`, or is another file that is written to."""
    here = os.fstat(descriptor)
    try:
        there = path.stat()
    except OSError:
        return False
    if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
        return there.st_size < position
    return there.st_size > 0  # until then the writer may still have the old one
