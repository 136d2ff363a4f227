"""Reload over the program: all or nothing, nothing dropped, nothing left behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.client import Client
from support.upstream import Received, answer
from support.waits import wait_for

RELOADS = int(os.environ.get("SOAK_RELOADS", "10000"))


def readyz(stack: Any) -> dict[str, Any]:
    host, port = stack.proxy.admin
    with Client((host, port)) as client:
        shown = client.exchange(f"GET /readyz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    document: dict[str, Any] = json.loads(shown.body)
    return document


def outcomes(stack: Any) -> int:
    """How many reloads the program has told of."""
    text = (stack.proxy.folder / "stderr").read_text()
    return len(re.findall(r"^(?:not )?reloaded", text, re.MULTILINE))


def write(stack: Any, change: Callable[[dict[str, Any]], None] = lambda _settings: None) -> None:
    """Write the settings, changed; the addresses that were any free one are what they are now."""
    settings = json.loads(json.dumps(stack.proxy.settings))
    change(settings)
    (stack.proxy.folder / "grantproxy.yaml").write_text(json.dumps(settings, indent=1))


def reload(stack: Any, change: Callable[[dict[str, Any]], None] = lambda _settings: None) -> dict[str, Any]:
    """Change the settings, send SIGHUP, wait for the outcome, and give what `/readyz` says of it."""
    write(stack, change)
    before = outcomes(stack)
    stack.proxy.process.send_signal(signal.SIGHUP)
    wait_for(lambda: outcomes(stack) > before)
    stack.proxy.ready = json.loads((stack.proxy.folder / "ready.json").read_text())
    told: dict[str, Any] = readyz(stack)["reload"]
    return told


def narrower(stack: Any) -> None:
    """Take the operation of `/info` out of the grant."""
    path = stack.proxy.folder / "main.grant.yaml"
    path.write_text(path.read_text().replace("route: /info\n", "route: /info-no-more\n"))


@pytest.fixture
def narrow(make_stack: Any) -> Any:
    stack = make_stack()
    text = (stack.proxy.folder / "main.grant.yaml").read_text()
    assert "route: /info\n" in text
    return stack


def test_a_kept_alive_connection_sees_the_new_grant_at_its_next_request(narrow: Any) -> None:
    """A request that runs finishes under the grant that it began with."""
    stack = narrow
    release = threading.Event()
    stack.upstream.handler = lambda _request: [release, answer(200, b'{"id":1}')]
    with stack.open("base") as base, stack.open("proxy") as proxied:
        for client, front in ((base, "base"), (proxied, "proxy")):
            client.send(stack.get(front))
        wait_for(lambda: len(stack.upstream.requests) == 2)
        narrower(stack)
        assert reload(stack)["outcome"] == "applied"
        release.set()
        for client, front in ((base, "base"), (proxied, "proxy")):
            assert client.read().status == 200
            assert client.exchange(stack.get(front)).status == 403
    digests = {(record["verdict"], record["grant_digest"]) for record in stack.proxy.decisions(count=4)}
    assert len(digests) == 2


def test_a_bad_file_changes_nothing_and_every_problem_is_told(narrow: Any) -> None:
    """All or nothing: the endpoint that is right is not reloaded either."""
    stack = narrow
    narrower(stack)

    def spoil(settings: dict[str, Any]) -> None:
        settings["endpoints"][1]["assurance"] = "perhaps"
        settings["limits"] = {"clients": -1}

    told = reload(stack, spoil)
    assert told["outcome"] == "refused"
    assert len(told["problems"]) == 2
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", told["at"])
    text = (stack.proxy.folder / "stderr").read_text()
    assert all(f"error: {problem}" in text for problem in told["problems"])
    assert "Traceback" not in text
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 200
    assert reload(stack)["outcome"] == "applied"
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 403


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        pytest.param(lambda s: s["endpoints"][0]["secrets"].update(api="env:NOT_SET"), "NOT_SET", id="secret"),
        pytest.param(lambda s: s.update(state="/tmp/elsewhere"), "state", id="state"),
        pytest.param(lambda s: s.update(admin="127.0.0.1:1"), "admin", id="admin"),
        pytest.param(lambda s: s["audit"].update(sync="always"), "audit.sync", id="sync"),
    ],
)
def test_what_cannot_take_over_is_refused(narrow: Any, spoil: Callable[[Any], None], says: str) -> None:
    """A secret that cannot be read, and what the running program holds open, stop a reload by name."""
    stack = narrow
    narrower(stack)
    told = reload(stack, spoil)
    assert told["outcome"] == "refused"
    assert any(says in problem for problem in told["problems"])
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 200


def test_an_address_in_use_stops_the_reload(narrow: Any) -> None:
    """New listeners are bound before anything changes, so one that cannot be leaves all the others alone."""
    stack = narrow
    before = stack.proxy.ready
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"

        def move(settings: dict[str, Any]) -> None:
            settings["endpoints"][0]["listen"] = place
            del settings["endpoints"][1]["listen"]

        told = reload(stack, move)
    assert told["outcome"] == "refused"
    assert place in told["problems"][0]
    assert stack.proxy.ready == before
    for name in ("api", "dark"):
        stack.proxy.base(name).close()


def test_listeners_come_and_go(narrow: Any) -> None:
    """A removed endpoint's listener closes, a new one opens, and an unchanged one keeps its socket."""
    stack = narrow
    kept, gone = stack.proxy.endpoint("api"), stack.proxy.endpoint("dark")
    path = stack.proxy.folder / "new.sock"
    with stack.open("base") as client, stack.proxy.base("dark") as orphan:

        def change(settings: dict[str, Any]) -> None:
            settings["endpoints"][1:2] = []
            settings["endpoints"][1]["listen"] = f"unix:{path}"

        assert reload(stack, change)["outcome"] == "applied"
        assert client.exchange(stack.get("base")).status == 200
        host = f"{gone[0]}:{gone[1]}"
        assert orphan.exchange(f"GET /info HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).status == 403
    assert stack.proxy.endpoint("api") == kept
    assert set(stack.proxy.ready["endpoints"]) == {"api", "named"}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(gone, timeout=2)
    with socket.socket(socket.AF_UNIX) as unix:
        unix.connect(str(path))
    assert reload(stack)["outcome"] == "applied"
    assert not path.exists()
    stack.proxy.base("dark").close()


def test_limits_and_boxes_take_over(narrow: Any) -> None:
    """Limits hold for new connections, boxes for the next request."""
    stack = narrow
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 200

        def change(settings: dict[str, Any]) -> None:
            settings["limits"] = {"headerBytes": "1KiB"}
            settings["boxes"] = [{"name": "one", "token": "env:BOX_ONE", "endpoints": ["api"]}]

        assert reload(stack, change)["outcome"] == "refused"
        (stack.proxy.folder / "token").write_text("box-token-0123456789")

        def change_again(settings: dict[str, Any]) -> None:
            change(settings)
            settings["boxes"][0]["token"] = f"file:{stack.proxy.folder}/token"

        assert reload(stack, change_again)["outcome"] == "applied"
        assert client.exchange(stack.get("base")).status == 407
        token = "Proxy-Authorization: Bearer box-token-0123456789"
        assert client.exchange(stack.get("base", "/info", token)).status == 200
    with stack.open("base") as client:
        assert client.exchange(stack.get("base", "/info", f"X-Pad: {'x' * 2000}")).status == 431


def test_a_rotated_log(make_stack: Any) -> None:
    """SIGHUP opens the log anew, also where the settings are refused; the chain goes on."""
    stack = make_stack(check_log=False)
    files = [stack.proxy.log]
    for number, spoil in enumerate((lambda _settings: None, lambda settings: settings.update(endpoints=[]))):
        with stack.open("base") as client:
            assert client.exchange(stack.get("base")).status == 200
        rotated = stack.proxy.log.with_name(f"decisions.jsonl.{number}")
        stack.proxy.log.rename(rotated)
        files.insert(-1, rotated)
        reload(stack, spoil)
        assert stack.proxy.log.exists()
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 200
    command = [sys.executable, "-m", "proxy.cli", "audit", "verify", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(file.read_text().count("\n") == 1 for file in files)


def test_watch(make_stack: Any) -> None:
    """With `--watch` a changed grant or settings file is a reload, also when it is replaced by another one."""
    stack = make_stack(arguments=("--watch",))
    narrower(stack)
    wait_for(lambda: outcomes(stack) == 1)
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 403
    write(stack, lambda settings: settings["endpoints"][0].update(grant="other.grant.yaml"))
    wait_for(lambda: outcomes(stack) == 2)
    assert readyz(stack)["reload"]["outcome"] == "refused"
    text = (stack.proxy.folder / "main.grant.yaml").read_text()
    fresh = stack.proxy.folder / "fresh"
    fresh.write_text(text.replace("route: /info-no-more\n", "route: /info\n"))
    fresh.rename(stack.proxy.folder / "other.grant.yaml")
    wait_for(lambda: outcomes(stack) == 3)
    assert readyz(stack)["reload"]["outcome"] == "applied"
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 200
    time.sleep(1.5)
    assert outcomes(stack) == 3


def test_a_slow_secret_holds_no_request(make_stack: Any, tmp_path: Path) -> None:
    """Secrets are read beside the loop, and requests that come meanwhile are answered; a second SIGHUP is kept."""
    stack = make_stack()
    script = tmp_path / "slow.sh"
    script.write_text(f"#!/bin/sh\nuntil [ -e {tmp_path}/gate ]; do sleep 0.1; done\necho slow-secret-0123456789\n")
    script.chmod(0o700)
    write(stack, lambda settings: settings["endpoints"][0]["secrets"].update(other=f"exec:{script}"))
    stack.proxy.process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    stack.proxy.process.send_signal(signal.SIGHUP)
    with stack.open("base") as client:
        for _ in range(20):
            assert client.exchange(stack.get("base")).status == 200
    assert outcomes(stack) == 0
    (tmp_path / "gate").touch()
    wait_for(lambda: outcomes(stack) == 2)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "count", [pytest.param(200, id="200"), pytest.param(RELOADS, id="soak", marks=pytest.mark.soak)]
)
@pytest.mark.timeout(3600)
def test_reloads_under_load(make_stack: Any, count: int) -> None:
    """Reloads under load drop no request, and leave memory and descriptors where they were."""
    stack = make_stack(check_log=False)
    stack.upstream.requests = _Nothing()
    stack.upstream.handler = _quick
    stop = threading.Event()
    failures: list[str] = []
    served = [0, 0]

    def drive(number: int, front: str) -> None:
        kept = 0
        client = stack.open(front, timeout=60)
        try:
            while not stop.is_set():
                if kept == 50:
                    client.close()
                    client = stack.open(front, timeout=60)
                    kept = 0
                kept += 1
                status = client.exchange(stack.get(front)).status
                served[number] += 1
                if status != 200:
                    failures.append(f"{front}: {status}")
        except Exception as error:
            failures.append(f"{front}: {error!r}")
        finally:
            client.close()

    threads = [threading.Thread(target=drive, args=(number, front)) for number, front in enumerate(("base", "proxy"))]
    for thread in threads:
        thread.start()
    extra = stack.proxy.folder / "extra.sock"

    def toggle(settings: dict[str, Any]) -> None:
        settings["endpoints"][2]["listen"] = f"unix:{extra}"

    memory, descriptors = 0, 0
    began = time.monotonic()
    warm = max(count // 10, 50)
    try:
        for done in range(count + warm):
            if done == warm:
                memory, descriptors = stack.proxy.resident(), _settled(stack)
            write(stack, toggle if done % 2 else lambda _settings: None)
            before = outcomes_quick(stack)
            stack.proxy.process.send_signal(signal.SIGHUP)
            while outcomes_quick(stack) == before:
                time.sleep(0.001)
            assert not failures
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    grown, left = stack.proxy.resident() - memory, _settled(stack) - descriptors
    print(
        f"{count} reloads in {time.monotonic() - began:.0f} s, {sum(served)} requests, "
        f"memory {memory / 1e6:.1f} MB, grown by {grown / 1e6:.2f} MB, descriptors {descriptors}, {left:+d}"
    )
    assert not failures, failures[:5]
    assert readyz(stack)["reload"]["outcome"] == "applied"
    assert grown < 10 * 1024 * 1024
    assert left <= 2


def outcomes_quick(stack: Any) -> int:
    """The size of what the program has told: it grows with each outcome."""
    size: int = (stack.proxy.folder / "stderr").stat().st_size
    return size


def _settled(stack: Any) -> int:
    """The fewest descriptors within two seconds: connections come and go, an old log is closed later."""
    counts = []
    for _ in range(100):
        counts.append(stack.proxy.descriptors())
        time.sleep(0.02)
    return min(counts)


def _quick(_request: Received) -> bytes:
    return answer(200, b'{"id":1}')


class _Nothing(list):  # type: ignore[type-arg]
    def append(self, item: object) -> None:
        """Keep nothing: the test would measure itself."""
