"""The proxy as a subprocess, as a person runs it: a settings file in, a ready file out.

Every record that a test made it write is held to the record schema, and the chain is verified when it stops.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
from jsonschema import Draft202012Validator
from support.client import Answer, Client
from support.waits import HANG_SECONDS

ROOT = Path(__file__).resolve().parents[2]
_SCHEMA = ROOT / "proxy" / "decisionlog" / "record.schema.json"


class StartFailed(AssertionError):
    """The proxy did not become ready."""


class ConnectRefused(AssertionError):
    """The tunnel was refused."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"CONNECT was answered with {answer.status}: {answer.body!r}")
        self.answer = answer


def address(text: str) -> tuple[str, int]:
    """Host and port of a URL or of `host:port`."""
    parts = urlsplit(text if "//" in text else f"//{text}")
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


@dataclass(slots=True)
class Proxy:
    """A running proxy. Use as a context manager.

    Attributes:
        folder: an empty folder for settings, state and output.
        settings: what goes into the settings file; listeners on port 0 unless given.
        environment: added to the environment (secrets).
        patience: seconds until it has to be ready.
        preamble: Python that is run in the process before the program, to make something of it fail.
    """

    folder: Path
    settings: dict[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    preamble: str = ""
    check_log: bool = True
    patience: float = 20
    process: subprocess.Popen[bytes] | None = None
    ready: dict[str, Any] = field(default_factory=dict)
    _offset: int = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code = self.stop()
        if kind is None:
            assert code == 0, f"the proxy ended with {code}:\n{self.output()}"
            if self.check_log:
                self.verify()

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def log(self) -> Path:
        return self.state / "decisions.jsonl"

    def start(self) -> None:
        """Write the settings, start the process, wait until it is ready."""
        self.settings = {
            "proxy": "127.0.0.1:0",
            "admin": "127.0.0.1:0",
            "state": str(self.state),
            "audit": {"path": "decisions.jsonl", "sync": "off"},
            **self.settings,
        }
        file, ready = self.folder / "grantproxy.yaml", self.folder / "ready.json"
        file.write_text(json.dumps(self.settings, indent=1))  # JSON is YAML, without anchors
        ready.unlink(missing_ok=True)
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            self.process = subprocess.Popen(
                [*self._program(), "serve", "-c", str(file), "--ready-file", str(ready), *self.arguments],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        deadline = time.monotonic() + self.patience
        while True:
            try:
                self.ready = json.loads(ready.read_text())
                return
            except (FileNotFoundError, json.JSONDecodeError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise StartFailed(self.output()) from None
                time.sleep(0.02)

    def _program(self) -> list[str]:
        if not self.preamble:
            return [sys.executable, "-m", "proxy.cli"]
        return [sys.executable, "-c", f"{self.preamble}\nfrom proxy.cli import main\nmain()"]

    def stop(self) -> int:
        """End it by SIGTERM and give its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                return -9
        return self.process.returncode

    def output(self) -> str:
        """What it printed, for a failure's text."""
        return "".join((self.folder / name).read_text(errors="replace")[-6000:] for name in ("stdout", "stderr"))

    # the fronts

    @property
    def ca(self) -> Path:
        return Path(self.ready["ca"])

    @property
    def proxy(self) -> tuple[str, int]:
        return address(self.ready["proxy"])

    @property
    def admin(self) -> tuple[str, int]:
        return address(self.ready["admin"])

    def endpoint(self, name: str) -> tuple[str, int]:
        """Where the base URL of the endpoint listens."""
        return address(self.ready["endpoints"][name])

    def base(self, name: str, **options: float) -> Client:
        """A connection to the endpoint's base URL."""
        return Client(self.endpoint(name), **options)

    def tunnel(self, authority: str, *, name: str | None = "", **options: float) -> Client:
        """A connection through the forward proxy, TLS done, trusting only the proxy's CA."""
        client = Client(self.proxy, **options)
        answer = client.connect(authority)
        if answer.status != 200:
            client.close()
            raise ConnectRefused(answer)
        client.start_tls(name=address(authority)[0] if name == "" else name, ca=self.ca)
        return client

    # the records

    def records(self) -> list[dict[str, Any]]:
        """Every record so far, each valid by the schema."""
        return self._parse(self.log.read_bytes())

    def new_records(self) -> list[dict[str, Any]]:
        """The records since the last call."""
        with self.log.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]  # a line that is just being written is seen in part
        self._offset += len(data)
        return self._parse(data)

    def decisions(self, *, wait: float = HANG_SECONDS, count: int = 1) -> list[dict[str, Any]]:
        """The decision records (allow or deny) since the last call, waiting for `count` of them."""
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + wait
        while True:
            found += [record for record in self.new_records() if record["event"] in _DECISIONS]
            if len(found) >= count or time.monotonic() > deadline:
                return found
            time.sleep(0.01)

    def verify(self) -> None:
        """The chain is whole, and every record valid."""
        self.records()
        done = subprocess.run(
            [sys.executable, "-m", "proxy.cli", "audit", "verify", str(self.log)],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done

    def _parse(self, data: bytes) -> list[dict[str, Any]]:
        records = [json.loads(line) for line in data.splitlines()]
        validator = Draft202012Validator(json.loads(_SCHEMA.read_text()))
        for record in records:
            validator.validate(record)
        return records

    def descriptors(self) -> int:
        """How many descriptors the process has open (Linux). The program lets nobody but root look."""
        assert self.process is not None
        try:
            return len(os.listdir(f"/proc/{self.process.pid}/fd"))
        except PermissionError:
            pytest.skip("only root can count the descriptors of a process that is not dumpable")

    def resident(self) -> int:
        """Resident memory of the process in bytes (Linux)."""
        assert self.process is not None
        match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert match is not None
        return int(match[1]) * 1024


_DECISIONS = {"broker_request_allow", "broker_request_deny"}
