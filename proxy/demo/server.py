"""The proxy of the demo: the same `serve` that a person runs, as a process of its own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final

from .client import Fronts

GRANT: Final = Path(__file__).with_name("demo.grant.yaml")
VARIABLE: Final = "DEMO_API_TOKEN"
_PATIENCE = 20.0
_SETTINGS = """\
proxy: 127.0.0.1:0
admin: 127.0.0.1:0
state: {state}
endpoints:
  - name: tracker
    upstream: https://{api}
    assurance: semantic
    grant: {grant}
    secrets: {{api: env:{variable}}}
    listen: 127.0.0.1:0
    ca: {authority}
"""


class NotReady(Exception):
    """The proxy did not start; the text is what it said."""


@final
class DemoProxy:
    """Runs while the `with` block does."""

    def __init__(self, folder: Path, *, api: str, authority: Path, token: str) -> None:
        self._folder = folder
        self._api = api
        self._token = token
        self.state = folder / "state"
        self.settings = folder / "grantproxy.yaml"
        self.settings.write_text(
            _SETTINGS.format(
                state=json.dumps(str(self.state)),
                api=api,
                grant=json.dumps(str(GRANT)),
                variable=VARIABLE,
                authority=json.dumps(str(authority)),
            )
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        ready, said = self._folder / "ready.json", self._folder / "proxy.log"
        command = [sys.executable, "-m", "proxy.cli", "serve", "-c", str(self.settings), "--ready-file", str(ready)]
        with said.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603  our own interpreter and module
                command,
                env={**os.environ, VARIABLE: self._token},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _PATIENCE
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._stop()
                raise NotReady(said.read_text(errors="replace").strip())
            time.sleep(0.02)
        where = json.loads(ready.read_text())
        self.fronts = Fronts(
            base=where["endpoints"]["tracker"], proxy=f"http://{where['proxy']}", ca=Path(where["ca"]), api=self._api
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def log(self) -> Path:
        """The decision log."""
        return self.state / "decisions.jsonl"

    def audit(self, command: str) -> subprocess.CompletedProcess[str]:
        """What `grantproxy audit COMMAND` prints of the log."""
        return subprocess.run(  # noqa: S603  our own interpreter and module
            [sys.executable, "-m", "proxy.cli", "audit", command, "--config", str(self.settings)],
            capture_output=True,
            text=True,
            check=False,
        )

    def _stop(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
