"""Several workers over the program: they share the listeners, the log and every change, and none is missed for long."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.certificates import Certificates
from support.client import Client, NoAnswer
from support.proxyproc import Proxy, StartFailed
from support.relays import ENVIRONMENT, Front, relay
from support.upstream import HANG, Upstream, answer
from support.waits import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

DENY, ALLOW, END = "broker_request_deny", "broker_request_allow", "broker_request_end"


def workers(proxy: Proxy) -> list[int]:
    """The processes that serve."""
    assert proxy.process is not None
    return sorted(child.pid for child in psutil.Process(proxy.process.pid).children())


def readyz(proxy: Proxy) -> dict[str, Any]:
    host, port = proxy.admin
    with Client((host, port)) as client:
        shown = client.exchange(f"GET /readyz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    document: dict[str, Any] = json.loads(shown.body)
    return document


def told(proxy: Proxy) -> int:
    """How many reloads the program has told of."""
    text = (proxy.folder / "stderr").read_text()
    return len(re.findall(r"^(?:not )?reloaded", text, re.MULTILINE))


def reload(proxy: Proxy, change: Callable[[dict[str, Any]], None] = lambda _settings: None) -> dict[str, Any]:
    """Change the settings, send SIGHUP, wait for the outcome, and give it as every worker shows it."""
    settings = json.loads(json.dumps(proxy.settings))
    change(settings)
    (proxy.folder / "grantproxy.yaml").write_text(json.dumps(settings, indent=1))
    before = told(proxy)
    assert proxy.process is not None
    proxy.process.send_signal(signal.SIGHUP)
    wait_for(lambda: told(proxy) > before)
    proxy.ready = json.loads((proxy.folder / "ready.json").read_text())
    shown = [readyz(proxy)["reload"] for _ in range(6)]
    assert all(outcome == shown[0] for outcome in shown)
    outcome: dict[str, Any] = shown[0]
    return outcome


def chains(proxy: Proxy) -> set[str]:
    return {record["chain"] for record in proxy.records()}


@pytest.fixture
def make(make_stack: Any) -> Callable[..., Any]:
    """Starts a stack with two workers."""

    def start(**changes: Any) -> Any:
        return make_stack(workers=2, **changes)

    return start


def ask_all(stack: Any, count: int = 16) -> list[int]:
    """Ask on so many connections that were opened at once."""
    with ExitStack() as exits:
        clients = [exits.enter_context(stack.open("base")) for _ in range(count)]
        for client in clients:
            client.send(stack.get("base"))
        return [client.read().status for client in clients]


def test_they_share_listeners_and_log(make: Any) -> None:
    """All serve, each in a chain of its own in one log; the supervisor has one thread and serves nobody."""
    stack = make()
    assert stack.proxy.process is not None
    assert len(os.listdir(f"/proc/{stack.proxy.process.pid}/task")) == 1
    assert len(workers(stack.proxy)) == 2
    assert set(ask_all(stack, 64)) == {200}
    for front in ("base", "proxy"):
        with stack.open(front) as client:
            assert client.exchange(stack.get(front)).status == 200
    assert len(chains(stack.proxy)) == 2
    assert readyz(stack.proxy)["workers"] == {"wanted": 2, "up": 2}


def test_one_that_is_killed_is_replaced_and_every_request_is_recorded(make: Any) -> None:
    """Kill -9 under load: others go on, another takes its place, and what was cut has its record."""
    stack = make()
    started, stop = Counter[str](), threading.Event()
    stack.upstream.handler = lambda _request: [0.002, answer(200, b'{"id":1}')]

    def drive() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError, NoAnswer), stack.open("base") as client:
                while not stop.is_set():
                    started["sent"] += 1
                    client.send(stack.get("base"))
                    assert client.read().status == 200
                    started["answered"] += 1

    threads = [threading.Thread(target=drive) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        time.sleep(0.5)
        victim = workers(stack.proxy)[0]
        before = started["answered"]
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda before=before: started["answered"] > before + 20)
        wait_for(lambda victim=victim: victim not in workers(stack.proxy) and readyz(stack.proxy)["workers"]["up"] == 2)
    stop.set()
    for thread in threads:
        thread.join(20)
    reached = len(stack.upstream.requests)
    records = [record for record in stack.proxy.records() if record["event"] in (ALLOW, DENY)]
    assert len({record["id"] for record in records}) == len(records)
    allowed = sum(record["verdict"] == "allow" for record in records)
    cut = [record for record in records if record["verdict"] == "deny"]
    assert {(record["rule"], record["reason"], record["status"]) for record in cut} <= {("fault", "worker-lost", 500)}
    assert {record["endpoint"] for record in cut} <= {"api"}
    # Whatever reached the upstream or a client is recorded; what was sent to a process that never read it is not.
    assert reached <= len(records) <= started["sent"]
    assert started["answered"] <= allowed
    assert "Traceback" not in stack.proxy.output()


def test_what_was_in_flight_is_recorded_once(make: Any) -> None:
    """A request that a killed worker had begun is refused in the log, by its id, and no other is."""
    stack = make()
    assert set(ask_all(stack)) == {200}
    decided = len(stack.proxy.decisions(count=16))
    stack.upstream.handler = lambda _request: [HANG]
    with ExitStack() as exits:
        clients = [exits.enter_context(stack.open("base")) for _ in range(8)]
        for client in clients:
            client.send(stack.get("base"))
        wait_for(lambda: len(stack.upstream.requests) == 16 + 8)
        victims = workers(stack.proxy)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        records = stack.proxy.decisions(count=8)
    assert decided == 16
    assert [(record["event"], record["reason"], record["status"]) for record in records] == [
        (DENY, "worker-lost", 500)
    ] * 8
    assert {(record["mode"], record["method"], record["endpoint"]) for record in records} == {
        ("terminate", "GET", "api")
    }
    wait_for(lambda: not set(victims) & set(workers(stack.proxy)))
    wait_for(lambda: readyz_or_none(stack.proxy) == {"wanted": 2, "up": 2})
    time.sleep(0.3)
    assert stack.proxy.decisions(wait=0.1, count=1) == []


def readyz_or_none(proxy: Proxy) -> object:
    try:
        return readyz(proxy)["workers"]
    except (NoAnswer, OSError):
        return None


@pytest.fixture
def relayed(tmp_path: Path, certificates: Certificates) -> Iterator[tuple[Proxy, Upstream, Any]]:
    with Upstream(None) as upstream:
        endpoint = relay("events", upstream, None)
        tunnels = {"allow": [f"localhost:{upstream.port}"]}
        with Proxy(tmp_path, {"workers": 2, "endpoints": [endpoint], "tunnels": tunnels}, ENVIRONMENT) as proxy:
            yield proxy, upstream, endpoint


@pytest.mark.parametrize("kind", ["relay", "tunnel"])
def test_a_stream_of_a_killed_worker_has_its_end(relayed: Any, kind: str) -> None:
    """Opened, recorded, cut: its end record says that the proxy ended it."""
    proxy, upstream, endpoint = relayed
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"
    )
    upstream.handler = lambda _request: [head, HANG]
    with ExitStack() as exits:
        if kind == "relay":
            wire = exits.enter_context(Front(proxy, "base", endpoint))
            wire.client.send(wire.request("/events"))
            wire.until(b"data: 1\n\n\r\n")
        else:
            client = exits.enter_context(Client(proxy.proxy))
            assert client.connect(f"localhost:{upstream.port}").status == 200
        opened = proxy.decisions()
        victims = workers(proxy)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not set(victims) & set(workers(proxy)))
        wait_for(lambda: any(record["event"] == END for record in proxy.records()))
    end = proxy.records()[-1]
    assert [record["verdict"] for record in opened] == ["allow"]
    same = ("id", "mode", "endpoint", "host", "assurance", "verdict", "status")
    assert {name: end[name] for name in same} == {name: opened[0][name] for name in same}
    assert end["labels"] == ["ended-by-proxy"]
    wait_for(lambda: readyz_or_none(proxy) == {"wanted": 2, "up": 2})


def test_reload_is_all_or_none(make: Any) -> None:
    """A bad grant changes nothing in any worker; a good one holds in all of them once it is said to."""
    stack = make()
    grant = stack.proxy.folder / "main.grant.yaml"
    good = grant.read_text()
    grant.write_text(good.replace("route: /info\n", "route: info\n"))
    assert reload(stack.proxy)["outcome"] == "refused"
    assert set(ask_all(stack, 32)) == {200}
    grant.write_text(good.replace("route: /info\n", "route: /info-no-more\n"))
    assert reload(stack.proxy)["outcome"] == "applied"
    assert set(ask_all(stack, 32)) == {403}
    grant.write_text(good)
    assert reload(stack.proxy)["outcome"] == "applied"
    assert set(ask_all(stack, 32)) == {200}


def test_a_secret_that_cannot_be_read_changes_nothing(make: Any) -> None:
    """What only the workers see is refused by them, and told once."""
    stack = make()

    def spoil(settings: dict[str, Any]) -> None:
        settings["endpoints"][0]["secrets"]["api"] = "env:NOT_SET"
        settings["endpoints"][1]["listen"] = f"unix:{stack.proxy.folder}/new.sock"

    shown = reload(stack.proxy, spoil)
    assert shown["outcome"] == "refused"
    assert any("NOT_SET" in problem for problem in shown["problems"])
    assert (stack.proxy.folder / "stderr").read_text().count("NOT_SET") == 1
    assert not (stack.proxy.folder / "new.sock").exists()
    assert set(ask_all(stack)) == {200}


def test_listeners_come_and_go(make: Any) -> None:
    """A new listener is bound once and served by all; one that is gone is closed in all."""
    stack = make()
    path = stack.proxy.folder / "new.sock"
    gone = stack.proxy.endpoint("dark")

    def change(settings: dict[str, Any]) -> None:
        settings["endpoints"][1:2] = []
        settings["endpoints"][1]["listen"] = f"unix:{path}"
        settings["endpoints"][0]["listen"] = "127.0.0.1:0"

    assert reload(stack.proxy, change)["outcome"] == "applied"
    assert path.exists()
    assert set(ask_all(stack, 32)) == {200}
    with pytest.raises(ConnectionRefusedError):
        Client(gone)
    assert reload(stack.proxy)["outcome"] == "applied"
    assert not path.exists()
    stack.proxy.base("dark").close()


def test_reloads_under_load(make: Any) -> None:
    """Fifty reloads, with listeners that come and go, drop no request of any worker."""
    stack = make(check_log=False)
    stop, failures, served = threading.Event(), [], Counter[str]()
    extra = stack.proxy.folder / "extra.sock"

    def drive(front: str) -> None:
        try:
            while not stop.is_set():
                with stack.open(front, timeout=60) as client:
                    for _ in range(20):
                        status = client.exchange(stack.get(front)).status
                        served[front] += 1
                        if status != 200:
                            failures.append(f"{front}: {status}")
        except Exception as error:
            failures.append(f"{front}: {error!r}")

    threads = [threading.Thread(target=drive, args=(front,)) for front in ("base", "proxy", "base")]
    for thread in threads:
        thread.start()

    def toggle(settings: dict[str, Any]) -> None:
        settings["endpoints"][2]["listen"] = f"unix:{extra}"

    processes = [stack.proxy.process.pid, *workers(stack.proxy)]
    descriptors: list[int] = []
    try:
        for number in range(50):
            if number == 10:
                descriptors = [fewest(pid) for pid in processes]
            before = told(stack.proxy)
            settings = json.loads(json.dumps(stack.proxy.settings))
            if number % 2:
                toggle(settings)
            (stack.proxy.folder / "grantproxy.yaml").write_text(json.dumps(settings))
            stack.proxy.process.send_signal(signal.SIGHUP)
            wait_for(lambda before=before: told(stack.proxy) > before)
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert failures == []
    assert min(served.values()) > 50
    assert processes == [stack.proxy.process.pid, *workers(stack.proxy)]
    left = [fewest(pid) - before for pid, before in zip(processes, descriptors, strict=True)]
    assert max(left) <= 1, left
    assert "not reloaded" not in stack.proxy.output()
    stack.proxy.verify()


def fewest(pid: int) -> int:
    """The descriptors that a process has open when little runs: connections come and go."""
    counts = []
    for _ in range(30):
        counts.append(len(os.listdir(f"/proc/{pid}/fd")))
        time.sleep(0.02)
    return min(counts)


def test_a_changed_file_reloads_all(make: Any) -> None:
    """One worker watches; another goes on when that one is gone."""
    stack = make(arguments=("--watch",))
    grant = stack.proxy.folder / "main.grant.yaml"
    good = grant.read_text()
    for number, text in enumerate((good.replace("route: /info\n", "route: /info-no-more\n"), good), 1):
        grant.write_text(text)
        wait_for(lambda number=number: told(stack.proxy) == number)
        assert set(ask_all(stack, 32)) == {200 if text is good else 403}
        victim = workers(stack.proxy)[0]
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda victim=victim: victim not in workers(stack.proxy))
        wait_for(lambda: readyz_or_none(stack.proxy) == {"wanted": 2, "up": 2})


def test_a_rotated_log(make: Any) -> None:
    """SIGHUP opens the log anew in every worker; the chains go on."""
    stack = make(check_log=False)
    assert set(ask_all(stack, 32)) == {200}
    rotated = stack.proxy.log.with_name("decisions.jsonl.1")
    stack.proxy.log.rename(rotated)
    reload(stack.proxy)
    assert set(ask_all(stack, 32)) == {200}
    lines = [file.read_text().count("\n") for file in (rotated, stack.proxy.log)]
    assert lines == [32, 32]
    command = [sys.executable, "-m", "proxy.cli", "audit", "verify", str(rotated), str(stack.proxy.log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("count", [1, 2], ids=["once", "twice"])
def test_the_end(make: Any, count: int) -> None:
    """SIGTERM finishes what runs in every worker and exits 0; a second one cuts it, with its records, and exits 1."""
    stack = make(check_log=False)
    release = threading.Event()
    stack.upstream.handler = lambda _request: [release, answer(200, b'{"id":1}')]
    with ExitStack() as exits:
        clients = [exits.enter_context(stack.open("base")) for _ in range(8)]
        for client in clients:
            client.send(stack.get("base"))
        wait_for(lambda: len(stack.upstream.requests) == 8)
        for _ in range(count):
            stack.proxy.process.send_signal(signal.SIGTERM)
            wait_for(lambda: refused(stack))
        if count == 1:
            release.set()
        statuses = {client.read().status for client in clients}
        assert stack.proxy.process.wait(15) == count - 1
        release.set()
    assert statuses == {200 if count == 1 else 503}
    verdicts = Counter(record["verdict"] for record in stack.proxy.records())
    assert verdicts == {"allow" if count == 1 else "deny": 8}
    stack.proxy.verify()
    stack.proxy.start()


def refused(stack: Any) -> bool:
    try:
        Client(stack.proxy.proxy).close()
    except ConnectionError:
        return True
    return False


def test_the_signals_of_a_terminal_count_once(make: Any) -> None:
    """SIGINT goes to the whole group, and is one signal; so is SIGHUP."""
    stack = make()
    release = threading.Event()
    stack.upstream.handler = lambda _request: [release, answer(200, b'{"id":1}')]
    group = [stack.proxy.process.pid, *workers(stack.proxy)]
    for pid in group:
        os.kill(pid, signal.SIGHUP)
    wait_for(lambda: told(stack.proxy) == 1)
    with stack.open("base") as client:
        client.send(stack.get("base"))
        wait_for(lambda: len(stack.upstream.requests) == 1)
        for pid in group:
            os.kill(pid, signal.SIGINT)
        wait_for(lambda: refused(stack))
        time.sleep(0.2)
        assert stack.proxy.process.poll() is None
        release.set()
        assert client.read().status == 200
    assert stack.proxy.process.wait(15) == 0
    assert told(stack.proxy) == 1


def test_workers_do_not_outlive_their_supervisor(make: Any) -> None:
    """Kill -9 of the supervisor: its workers take nobody any more, finish what runs, and end."""
    stack = make(check_log=False)
    release = threading.Event()
    stack.upstream.handler = lambda _request: [release, answer(200, b'{"id":1}')]
    pids = workers(stack.proxy)
    with stack.open("base") as client:
        client.send(stack.get("base"))
        wait_for(lambda: len(stack.upstream.requests) == 1)
        stack.proxy.process.kill()
        wait_for(lambda: refused(stack))
        release.set()
        assert client.read().status == 200
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    assert [record["verdict"] for record in stack.proxy.decisions()] == ["allow"]
    stack.proxy.verify()
    stack.proxy.process.wait()
    stack.proxy.start()
    assert stack.proxy.stop() == 0


def test_a_start_that_fails_is_told_once(make: Any) -> None:
    """What the workers cannot do at the start ends the program, and leaves none of them."""
    with pytest.raises(StartFailed) as failed:
        make(endpoint={"secrets": {"api": "env:NOT_SET_ANYWHERE"}})
    assert str(failed.value).count("NOT_SET_ANYWHERE") == 3
    assert "Traceback" not in str(failed.value)


def test_workers_that_end_at_once_end_the_program(make: Any) -> None:
    """Not for ever: after a few times in a row it says so, and exits 1."""
    stack = make(check_log=False)

    def kill() -> bool:
        for pid in workers(stack.proxy):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return stack.proxy.process.poll() is not None

    wait_for(kill)
    assert stack.proxy.process.returncode == 1
    assert "as soon as it began; the program ends" in stack.proxy.output()
    stack.proxy.start()
