"""`grantproxy serve`: what is said at the start, where it is written, and what happens when it cannot be."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).parents[3]
STARTING_SECONDS = 30


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the program with one endpoint that nobody calls, in a directory of its own."""
    (tmp_path / "grantproxy.yaml").write_text(
        "proxy: 127.0.0.1:0\nstate: ./state\naudit: {path: decisions.jsonl}\n"
        "endpoints: [{name: llm, upstream: 'https://192.0.2.1', assurance: trusted-upstream}]\n"
    )
    started: list[subprocess.Popen[str]] = []
    timers: list[threading.Timer] = []

    def start(
        *arguments: str, shell: str = "", stdout: int | IO[str] = subprocess.PIPE, program: str = ""
    ) -> subprocess.Popen[str]:
        way = ["-c", program] if program else ["-m", "proxy.cli"]
        command = [sys.executable, *way, "serve", *arguments]
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" {shell}', "sh", *command],
            stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        started.append(process)
        timers.append(threading.Timer(STARTING_SECONDS, process.kill))
        timers[-1].start()
        return process

    yield start
    for timer in timers:
        timer.cancel()
    for process in started:
        process.kill()
        process.communicate()


type Serve = Callable[..., subprocess.Popen[str]]


def _until_ready(stream: IO[str] | None) -> list[str]:
    assert stream is not None
    lines = []
    for line in stream:
        lines.append(line.rstrip("\n"))
        if line == "ready\n":
            return lines
    pytest.fail(f"it ended: {lines}")


def _end(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=STARTING_SECONDS)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    return err


def test_where_it_listens_is_said_and_written(serve: Serve, tmp_path: Path) -> None:
    """The ready file is whole when `ready` is printed, owner-only, and leaves nothing beside it."""
    process = serve("--ready-file", "ready.json")
    lines = _until_ready(process.stdout)
    document = json.loads((tmp_path / "ready.json").read_text())
    assert lines[0] == f"proxy on {document['proxy']}"
    assert lines[1:] == [
        "endpoint llm (trusted-upstream) -> https://192.0.2.1",
        f"ca {document['ca']}",
        "ready",
    ]
    assert document["endpoints"] == {}
    assert stat.S_IMODE((tmp_path / "ready.json").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grantproxy.yaml", "ready.json", "state"]
    assert _end(process) == ""


_SLOW = """
import sys
from pathlib import Path
from proxy.cli import main, serve

def say(text, *, err, say=serve._say):
    Path("order").open("a").write(f"{text.splitlines()[-1].split()[0]} {Path('ready.json').exists()}\\n")
    say(text, err=err)

serve._say = say
main(sys.argv[1:])
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_whoever_waits_for_the_ready_file_finds_the_lines(serve: Serve, tmp_path: Path, workers: int) -> None:
    """The places are printed before the file is there, and `ready` after it, by one process and by several."""
    with (tmp_path / "grantproxy.yaml").open("a") as file:
        file.write(f"workers: {workers}\n")
    process = serve("--ready-file", "ready.json", program=_SLOW)
    _until_ready(process.stdout)
    assert (tmp_path / "order").read_text().splitlines()[:2] == ["ca False", "ready True"]
    _end(process)


def test_tunnels_and_boxes_are_counted(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no address of its own is told by its number."""
    monkeypatch.setenv("BOX", "token-of-the-box-0001")
    with (tmp_path / "grantproxy.yaml").open("a") as file:
        file.write("tunnels: {allow: ['a.example:443', '.b.example:443']}\nboxes: [{name: x, token: env:BOX}]\n")
    lines = _until_ready(serve().stdout)
    assert lines[2:4] == ["tunnels to 2 destinations", "1 box"]


def test_relative_paths_are_those_of_the_settings(serve: Serve, tmp_path: Path) -> None:
    """State and log are where the settings say, from wherever the program is started."""
    process = serve("--ready-file", "ready.json")
    _until_ready(process.stdout)
    assert (tmp_path / "state" / "decisions.jsonl").exists()
    assert json.loads((tmp_path / "ready.json").read_text())["ca"] == str(tmp_path / "state" / "ca.pem")
    _end(process)


def test_it_serves_where_files_for_clients_cannot_be_written(serve: Serve, tmp_path: Path) -> None:
    """Who trusts the CA otherwise is served; that the others may not is said."""
    (tmp_path / "state" / "trust" / "bundle.p12").mkdir(parents=True)
    (tmp_path / "state").chmod(0o700)
    (tmp_path / "state" / "trust" / "bundle.pem").write_text("of another CA")
    process = serve()
    assert _until_ready(process.stdout)[-1] == "ready"
    warning = _end(process)
    assert warning.startswith("warning: clients may not trust the CA, as files for them are old: ")
    assert "bundle.p12` cannot be written" in warning


def _foreseen(path: Path) -> None:
    """What a fixed name beside the ready file could be prepared for."""
    (path / ".ready.json.new").symlink_to(path / "victim")


def test_the_ready_file_takes_no_way_that_was_laid(serve: Serve, tmp_path: Path) -> None:
    """No name beside the ready file can be foreseen, so no link there leads elsewhere."""
    _foreseen(tmp_path)
    process = serve("--ready-file", "ready.json")
    _until_ready(process.stdout)
    assert not (tmp_path / "victim").exists()
    assert (tmp_path / ".ready.json.new").is_symlink()
    _end(process)


@pytest.mark.parametrize(
    ("ready", "says"),
    [
        pytest.param(
            "none/x",
            "error: `none/x` cannot be written: no such file or directory; set `--ready-file` to another path\n",
            id="no-directory",
        ),
        pytest.param(
            "link",
            "error: ready file `link` is not a regular file; set `--ready-file` to another path\n",
            id="link",
        ),
        pytest.param(
            "fifo",
            "error: ready file `fifo` is not a regular file; set `--ready-file` to another path\n",
            id="fifo",
        ),
    ],
)
def test_a_ready_file_that_cannot_be_written_ends_the_start(
    serve: Serve, tmp_path: Path, ready: str, says: str
) -> None:
    """Whoever waits for the file would wait for ever: exit 1, one line, and no `ready` before."""
    (tmp_path / "link").symlink_to("grantproxy.yaml")
    os.mkfifo(tmp_path / "fifo")
    process = serve("--ready-file", ready)
    out, err = process.communicate(timeout=STARTING_SECONDS)
    assert (process.returncode, err) == (1, says)
    assert "ready" not in out.splitlines()


@pytest.mark.parametrize(
    ("shell", "warns"),
    [
        pytest.param(">/dev/full", "warning: standard output cannot be written: no space left on device", id="full"),
        pytest.param(">&-", None, id="closed"),
        pytest.param(">&- <&-", None, id="input-closed-too"),
    ],
)
def test_it_serves_without_a_standard_output(serve: Serve, tmp_path: Path, shell: str, warns: str | None) -> None:
    """A program that serves does not end because nobody hears where, and nothing of it lands in another file."""
    process = serve("--ready-file", "ready.json", "-v", shell=shell)
    for _ in range(STARTING_SECONDS * 10):
        if (tmp_path / "ready.json").exists():
            break
        threading.Event().wait(0.1)
    err = _end(process)
    if warns is not None:
        assert f"{warns}; `--ready-file` tells the addresses" in err
    assert (tmp_path / "state" / "decisions.jsonl").read_bytes() == b""


def test_a_reader_that_left_changes_nothing(serve: Serve, tmp_path: Path) -> None:
    """`serve | head -1` goes on."""
    reader, end = os.pipe()
    os.close(reader)
    with os.fdopen(end, "w") as stream:
        process = serve("--ready-file", "ready.json", stdout=stream)
    for _ in range(STARTING_SECONDS * 10):
        if (tmp_path / "ready.json").exists():
            break
        threading.Event().wait(0.1)
    assert "standard output cannot be written: broken pipe" in _end(process)


def test_a_log_on_a_closed_output_is_refused(serve: Serve, tmp_path: Path) -> None:
    """Records that go nowhere are no log: exit 1, one line."""
    settings = tmp_path / "grantproxy.yaml"
    settings.write_text(settings.read_text().replace("decisions.jsonl", "stdout"))
    process = serve(shell=">&-")
    _, err = process.communicate(timeout=STARTING_SECONDS)
    assert process.returncode == 1
    assert err == "error: `audit.path` is `stdout`, which is closed; open it, or set a file\n"


def test_where_the_log_has_standard_output_places_are_said_on_the_other(serve: Serve, tmp_path: Path) -> None:
    """Standard output holds records and nothing else."""
    settings = tmp_path / "grantproxy.yaml"
    settings.write_text(settings.read_text().replace("decisions.jsonl", "stdout"))
    process = serve()
    assert _until_ready(process.stderr)[-1] == "ready"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=STARTING_SECONDS)
    assert (process.returncode, out) == (0, "")
