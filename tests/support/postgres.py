"""A PostgreSQL server of the test session's own, from the programs that are installed; it ends with the session.

As root the server runs as the user `postgres`, since PostgreSQL refuses to run as root.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

USER = "broker"
SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server."""

    process: subprocess.Popen[bytes]
    bin: Path
    directory: Path
    port: int
    password: str
    prefix: tuple[str, ...]

    def url(self, database: str = "postgres", *, password: str | None = None) -> str:
        return f"postgresql://{USER}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    def create(self) -> str:
        """Make an empty database and return its URL."""
        name = f"t{secrets.token_hex(6)}"
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-T", "template0", name)
        return self.url(name)

    def run(self, program: str, *arguments: str) -> str:
        """Run one of PostgreSQL's programs against the server."""
        done = subprocess.run(
            [str(self.bin / program), *arguments],
            env={**os.environ, "PGPASSWORD": self.password},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


def installed() -> Path | None:
    """The directory of `initdb` and `postgres`; the newest where there are several."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


@contextmanager
def running() -> Iterator[Postgres]:
    """Start a server and stop it; skips the test where there is none to start."""
    programs = installed()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed: `apt-get install postgresql` gives one")
    prefix: tuple[str, ...] = ()
    directory = Path(tempfile.mkdtemp(prefix="grantproxy-pg-"))
    try:
        if os.geteuid() == 0:
            prefix = ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=QUIT")
            shutil.chown(directory, "postgres", "postgres")
        password = f"pw-{secrets.token_hex(8)}"
        secret = directory / "password"
        secret.write_text(password)
        secret.chmod(0o644)
        initdb = [*prefix, str(programs / "initdb"), "-D", str(directory / "data"), "-U", USER, "-A", "scram-sha-256"]
        subprocess.run(
            [*initdb, f"--pwfile={secret}", "--no-sync", "-E", "UTF8", "--locale=C"],
            check=True,
            cwd=directory,
            stdout=subprocess.DEVNULL,
        )
        yield from _serve(programs, directory, password, prefix)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _serve(programs: Path, directory: Path, password: str, prefix: tuple[str, ...]) -> Iterator[Postgres]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": directory,
        "fsync": "off",  # what is killed in tests is the client
        "max_connections": 100,
        "shared_buffers": "16MB",
    }
    settings = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*prefix, str(programs / "postgres"), "-D", str(directory / "data"), *settings],
            cwd=directory,
            stdout=log,
            stderr=log,
        )
    try:
        server = Postgres(process, programs, directory, port, password, prefix)
        _wait(server)
        yield server
    finally:
        process.send_signal(signal.SIGINT)  # a fast shutdown: clients are not waited for
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(server: Postgres) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if server.process.poll() is not None:
            break
        try:
            server.run(
                "psql", "-h", "127.0.0.1", "-p", str(server.port), "-U", USER, "-d", "postgres", "-c", "SELECT 1"
            )
        except subprocess.CalledProcessError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"PostgreSQL did not start: {(server.directory / 'log').read_text()[-2000:]}")
