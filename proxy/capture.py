"""Capture files: one JSON line a request, in a file of its own for each endpoint, for its owner alone."""

import contextlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, final

from proxy.state import StartRefused, private_directory, reason, require_private

FOLDER: Final = "captures"
_WHAT: Final = "capture file"


@final
class CaptureFile:
    """Appends to `captures/NAME.jsonl` in the state directory; implements `addons.ports.CaptureSink`.

    Raises:
        StartRefused: the file cannot be opened, or is not owner-only.
    """

    def __init__(self, state: Path, endpoint: str) -> None:
        folder = private_directory(state / FOLDER)
        self.path = folder / f"{endpoint[:200].replace('/', '_')}.jsonl"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._fd = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise StartRefused(f"{_WHAT} `{self.path}` cannot be opened: {reason(error)}; move it away") from None
        try:
            require_private(self.path, os.fstat(self._fd), _WHAT)
        except BaseException:
            os.close(self._fd)
            raise

    def write(self, request: Mapping[str, object]) -> None:
        """Append one request with the time. A line that cannot be written whole is ended, and is no JSON."""
        document = {"ts": datetime.now(UTC).isoformat(timespec="milliseconds"), **request}
        line = json.dumps(document, separators=(",", ":")).encode() + b"\n"
        if os.write(self._fd, line) != len(line):
            os.write(self._fd, b"\n")

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def __del__(self) -> None:
        """A file of a policy that is no longer in force is closed when its last request has ended."""
        if hasattr(self, "_fd"):
            self.close()
