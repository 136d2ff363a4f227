"""Where feedback is kept: a file for its owner alone, one JSON line a batch, or a URL that it is posted on to."""

import asyncio
import fcntl
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from addons.ports import StateUnavailable, Upstream
from grants.message import Origin, Outgoing
from grants.target import encode_path
from proxy.state import PRIVATE_FILE

_SECONDS: Final = 30.0
_ANSWER_BYTES: Final = 64 * 1024


@final
class FeedbackFileSink:
    """Appends to a file. It may be moved away while the program runs: the next batch makes it anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._one = asyncio.Lock()

    async def take(self, *, box: str, at: str, batch: bytes) -> None:
        """See `FeedbackSink`: the line is on the disk when this returns."""
        document = {"at": at, "box": box, "batch": json.loads(batch)}
        line = json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        async with self._one:
            try:
                await asyncio.to_thread(self._append, line)
            except OSError:
                raise StateUnavailable from None

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, PRIVATE_FILE)
        try:
            # Other workers append too, and what is taken back must be our own alone.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            before = os.fstat(descriptor).st_size
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
                os.fsync(descriptor)
            except OSError:
                # Half a line would spoil the next one, and one that is refused is sent again.
                os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackForwardSink:
    """Posts each batch on as it came; the box's name is in `chant-box`."""

    origin: Origin
    base: tuple[str, ...]
    upstream: Upstream = field(repr=False)

    async def take(self, *, box: str, at: str, batch: bytes) -> int:
        """See `FeedbackSink`."""
        request = Outgoing(
            origin=self.origin,
            method=b"POST",
            target=encode_path(self.base) if self.base else b"/",
            fields=(
                (b"Content-Type", b"application/json"),
                (b"Accept-Encoding", b"identity"),
                (b"chant-box", box.encode()),
            ),
            body=batch,
        )
        response = await self.upstream.send(request, max_body=_ANSWER_BYTES, timeout=_SECONDS)
        return response.status
