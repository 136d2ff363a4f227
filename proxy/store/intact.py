"""Whether an SQLite database is still the one that was opened, and whole: its file, its write-ahead log, its index.

SQLite looks at its files less often than one would think: what it has in memory or mapped it does not read again. So it
goes on, and says that all is well, in files that have lost their names or were overwritten, while other processes go on
in others: neither sees what the other does, and the next start finds the work of one of them. What is looked at here
costs microseconds and is looked at around everything that is done, questions too.

The index (`-shm`) tells how many frames the log (`-wal`) has, and its salt. A checkpoint that truncates the log says so
in the index first.

Source: "Database File Format" (sqlite.org/fileformat2.html), 1.3 and 4.1, and "WAL-mode File Format"
(sqlite.org/walformat.html), 2.1.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final, final

from .held import HeldFile

_MAGIC: Final = b"SQLite format 3\x00"
_HEADER: Final = 100
_INDEX_HEADER: Final = 48
"""It stands in the index twice, the same but while it is being written."""
_LOG_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_TRIES: Final = 40
_PAUSE: Final = 0.025
"""A checkpoint writes the first page before the file has grown to what that page says: then it is looked at again."""

_REMEDY: Final = "stop every process that uses it, restore it, and start again"
_LOG: Final = "its write-ahead log was removed or overwritten"
_INDEX: Final = "the index of its write-ahead log (`-shm`) was removed or cut short"


@final
class Intact:
    """Watches over one database. Make it before SQLite opens the file, and close it after SQLite has closed it.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = HeldFile(path)
        self._log: HeldFile | None = None
        self._index: HeldFile | None = None

    def close(self) -> None:
        """Let go of the files."""
        for file in (self._file, self._log, self._index):
            if file is not None:
                file.close()

    async def check(self, *, written: bool = False) -> None:
        """Look at the files. From the first time with `written` on, at the log and its index too: they are there then,
        and the same ones for as long as SQLite has the file open.

        Raises:
            OSError: one is another, or damaged, with what is wrong and the remedy.
        """
        if written:
            self._begin()
        tries = 0
        while (wrong := self._wrong()) is not None:
            tries += 1
            if tries == _TRIES:
                raise _damaged(wrong)
            await asyncio.sleep(_PAUSE)

    @property
    def whole(self) -> bool:
        """What one look says. SQLite may tidy up behind itself only where nothing is wrong."""
        try:
            return self._wrong() is None
        except OSError:
            return False

    @property
    def version(self) -> bytes | None:
        """What changes with every commit of any process; None where that is not known.

        Raises:
            OSError: it cannot be read.
        """
        return None if self._index is None else _settled(self._index.read(2 * _INDEX_HEADER))

    def _begin(self) -> None:
        if self._index is not None:
            return
        try:
            self._log = self._log or HeldFile(self._beside("-wal"))
            self._index = HeldFile(self._beside("-shm"))
        except FileNotFoundError:
            raise _damaged(_LOG) from None

    def _beside(self, end: str) -> Path:
        return self._path.with_name(self._path.name + end)

    def _wrong(self) -> str | None:
        """What is wrong, where that may be because somebody is writing. OSError: what is wrong for certain."""
        for file, text in ((self._file, "its file was replaced"), (self._log, _LOG), (self._index, _INDEX)):
            if file is not None and not file.named:
                raise _damaged(text)
        if self._too_short():
            return "its file was cut short"
        return None if self._log is None or self._index is None else _beyond(self._log, self._index)

    def _too_short(self) -> bool:
        """Whether the file has fewer pages than its first page says. OSError: that is no first page of a database."""
        size, header = self._file.size, self._file.read(_HEADER)
        page = int.from_bytes(header[16:18], "big")
        page = 65536 if page == 1 else page
        if len(header) < _HEADER or not header.startswith(_MAGIC) or page < 512 or page & (page - 1):
            raise _damaged("its file was overwritten")
        counted = header[24:28] == header[92:96]  # else the number of pages is not kept there
        return size < page or (counted and size < page * int.from_bytes(header[28:32], "big"))


def _settled(headers: bytes) -> bytes | None:
    """The index's header by its two copies; None where it is cut short, being written, or was never filled.

    Where the two are not the same, or it was never filled, SQLite itself reads the log anew.
    """
    header = headers[:_INDEX_HEADER]
    whole = len(headers) == 2 * _INDEX_HEADER and headers[_INDEX_HEADER:] == header
    return header if whole and header[12] else None


def _beyond(log: HeldFile, index: HeldFile) -> str | None:
    """What is wrong with a log that does not have what its index says."""
    headers = index.read(2 * _INDEX_HEADER)
    if len(headers) < 2 * _INDEX_HEADER:
        return _INDEX
    header = _settled(headers)
    if header is None:
        return None
    frames = int.from_bytes(header[16:20], sys.byteorder)
    page = int.from_bytes(header[14:16], sys.byteorder)
    page = (page & 0xFE00) + ((page & 1) << 16)
    if not frames:
        return None
    whole = log.size >= _LOG_HEADER + frames * (_FRAME_HEADER + page)
    return None if whole and log.read(8, 16) == header[32:40] else _LOG


def _damaged(what: str) -> OSError:
    return OSError(None, f"{what}; {_REMEDY}")
