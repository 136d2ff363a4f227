"""The end of the program: what runs is finished, or cut with a record; then the log is closed."""

import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Certificates
from support.client import Client, NoAnswer
from support.proxyproc import Proxy
from support.relays import ENVIRONMENT, Front, relay
from support.upstream import HANG, Upstream, answer
from support.waits import wait_for

FRONTS = pytest.mark.parametrize("front", ["base", "proxy"])
JSON_13 = ("Content-Type: application/json", "Content-Length: 13")


def terminate(proxy: Proxy) -> None:
    """Send SIGTERM, and wait until nobody is accepted any more."""
    assert proxy.process is not None
    proxy.process.send_signal(signal.SIGTERM)

    def refused() -> bool:
        try:
            socket.create_connection(proxy.proxy, timeout=1).close()
        except ConnectionError:
            return True
        return False

    wait_for(refused)


def ended(proxy: Proxy, seconds: float = 25) -> int:
    """The exit code; before the grace is over, which is 30 seconds where nothing is said of it."""
    assert proxy.process is not None
    return proxy.process.wait(seconds)


@FRONTS
def test_a_running_request_is_finished(make_stack: Any, front: str) -> None:
    """SIGTERM waits for what runs, and for nothing else: a connection that does nothing is closed at once."""
    stack = make_stack()
    release = threading.Event()
    stack.upstream.handler = lambda _request: [release, answer(200, b'{"id":1}')]
    with stack.open(front) as idle, stack.open(front) as client:
        client.send(stack.get(front))
        wait_for(lambda: len(stack.upstream.requests) == 1)
        terminate(stack.proxy)
        assert idle.closed()
        time.sleep(0.3)
        assert stack.proxy.process.poll() is None
        release.set()
        assert client.read().status == 200
        assert client.closed()
        assert ended(stack.proxy) == 0
    assert [record["verdict"] for record in stack.proxy.decisions()] == ["allow"]
    stopping, stopped = (stack.proxy.folder / "stderr").read_text().splitlines()
    assert stopping.startswith("stopping: what runs has 30 seconds ")
    assert stopped == "stopped"


def test_an_end_with_nothing_to_finish_is_quick(make_stack: Any) -> None:
    """Nobody who stops it waits, so nothing is said."""
    stack = make_stack()
    began = time.monotonic()
    assert stack.proxy.process is not None
    stack.proxy.process.send_signal(signal.SIGTERM)
    assert ended(stack.proxy) == 0
    if time.monotonic() - began < 1:
        assert (stack.proxy.folder / "stderr").read_text() == ""


@FRONTS
def test_requests_sent_ahead_are_not_begun(make_stack: Any, front: str) -> None:
    """Of pipelined requests only the one that runs is answered; none is sent and then cut."""
    stack = make_stack()
    release = threading.Event()
    stack.upstream.handler = lambda _request: [release, answer(200, b'{"id":1}')]
    with stack.open(front) as client:
        client.send(stack.get(front) * 3)
        wait_for(lambda: len(stack.upstream.requests) == 1)
        terminate(stack.proxy)
        client.send(stack.get(front))
        release.set()
        assert client.read().status == 200
        assert client.closed()
    assert ended(stack.proxy) == 0
    assert len(stack.upstream.requests) == 1
    assert len(stack.proxy.decisions(count=2, wait=0.1)) == 1


@FRONTS
def test_many_pipelined_requests_while_it_ends(make_stack: Any, front: str) -> None:
    """Whatever moment the signal comes at: every request that reached the upstream is recorded and answered."""
    stack = make_stack()
    stack.upstream.handler = lambda _request: answer(200, b'{"id":1}')
    answered = []

    def drive() -> None:
        with contextlib.suppress(OSError, NoAnswer), stack.open(front) as client:
            while True:
                client.send(stack.get(front) * 10)
                for _ in range(10):
                    assert client.read().status == 200
                    answered.append(1)

    threads = [threading.Thread(target=drive) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(answered) > 200)
    stack.proxy.process.send_signal(signal.SIGTERM)
    assert ended(stack.proxy) == 0
    for thread in threads:
        thread.join(10)
    reached = len(stack.upstream.requests)
    records = stack.proxy.decisions(count=reached)
    assert [record["verdict"] for record in records] == ["allow"] * reached
    assert len(answered) == reached


@FRONTS
def test_a_body_that_is_on_its_way_is_waited_for(make_stack: Any, front: str) -> None:
    """A request has begun when its head was granted."""
    stack = make_stack()
    stack.upstream.handler = lambda _request: answer(201, b'{"id":1}')
    with stack.open(front) as client:
        client.send(stack.get(front, "/repos/acme/widgets/issues", *JSON_13, method="POST") + b'{"title"')
        time.sleep(0.3)
        terminate(stack.proxy)
        time.sleep(0.2)
        client.send(b':"x"}')
        assert client.read("POST").status == 201
    assert ended(stack.proxy) == 0
    assert [record["verdict"] for record in stack.proxy.decisions()] == ["allow"]


@FRONTS
def test_the_grace_is_bounded(make_stack: Any, front: str) -> None:
    """After `--grace` what still runs is cut: a 503 for its client, and a record that says why. The exit is 0."""
    stack = make_stack(arguments=("--grace", "0.5"))
    stack.upstream.handler = lambda _request: [HANG]
    with stack.open(front) as client, stack.open(front) as half:
        client.send(stack.get(front, "/repos/acme/widgets/issues", *JSON_13, method="POST") + b'{"title":"x"}')
        half.send(stack.get(front, "/repos/acme/widgets/issues", *JSON_13, method="POST") + b'{"title"')
        wait_for(lambda: len(stack.upstream.requests) == 1)
        began = time.monotonic()
        terminate(stack.proxy)
        assert client.read("POST").status == 503
        assert half.read("POST").status == 503
    assert ended(stack.proxy) == 0
    assert time.monotonic() - began > 0.4
    records = stack.proxy.records()
    assert sorted((record["event"], record["reason"] or "") for record in records) == [
        ("broker_request_deny", "shutdown"),
        ("broker_request_deny", "shutdown"),
        ("broker_request_intent", ""),
    ]


@FRONTS
def test_a_second_signal_leaves_records(make_stack: Any, front: str) -> None:
    """A second signal ends at once, with a record for what was cut, and exit 1."""
    stack = make_stack(check_log=False)
    stack.upstream.handler = lambda _request: [HANG]
    with ExitStack() as exits:
        clients = [exits.enter_context(stack.open(front)) for _ in range(5)]
        for client in clients:
            client.send(stack.get(front, "/repos/acme/widgets/issues", *JSON_13, method="POST") + b'{"title":"x"}')
        gone = stack.open(front)
        gone.send(stack.get(front))
        wait_for(lambda: len(stack.upstream.requests) == 6)
        gone.close()
        terminate(stack.proxy)
        stack.proxy.process.send_signal(signal.SIGTERM)
        assert ended(stack.proxy) == 1
    stack.proxy.verify()
    records = stack.proxy.records()
    assert sum(record["event"] == "broker_request_intent" for record in records) == 5
    cut = [record for record in records if record["event"] == "broker_request_deny"]
    assert [record["reason"] for record in cut] == ["shutdown"] * 6
    assert "Traceback" not in stack.proxy.output()
    stack.proxy.start()


@pytest.fixture
def relays(tmp_path: Path, certificates: Certificates) -> Iterator[Callable[..., tuple[Proxy, Upstream, Any]]]:
    """Starts a proxy with a relay, and tunnels to its upstream's second name."""
    with ExitStack() as exits:

        def start(*arguments: str) -> tuple[Proxy, Upstream, Any]:
            upstream = exits.enter_context(Upstream(None))
            endpoint = relay("events", upstream, None)
            tunnels = {"allow": [f"localhost:{upstream.port}"]}
            proxy = Proxy(tmp_path, {"endpoints": [endpoint], "tunnels": tunnels}, ENVIRONMENT, arguments)
            return exits.enter_context(proxy), upstream, endpoint

        yield start


def _stream(gates: list[threading.Event]) -> list[Any]:
    steps: list[Any] = [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"]
    for gate in gates:
        steps += [gate, b"9\r\ndata: 1\n\n\r\n"]
    return [*steps, b"0\r\n\r\n"]


@FRONTS
def test_a_stream_may_come_to_its_end(relays: Any, front: str) -> None:
    """Within the grace a stream goes on."""
    proxy, upstream, endpoint = relays()
    gates = [threading.Event(), threading.Event()]
    upstream.handler = lambda _request: _stream(gates)
    with Front(proxy, front, endpoint) as wire:
        wire.client.send(wire.request("/events"))
        gates[0].set()
        wire.until(b"data: 1\n\n\r\n")
        terminate(proxy)
        time.sleep(0.2)
        gates[1].set()
        assert wire.chunked() == b"data: 1\n\n"
    assert ended(proxy) == 0
    end = proxy.records()[-1]
    assert (end["event"], end["labels"], end["bytes_in"]) == ("broker_request_end", ["ended-by-upstream"], 18)


@FRONTS
def test_a_stream_is_ended_with_the_grace(relays: Any, front: str) -> None:
    """An endless stream ends by the proxy, with its end record, and does not look complete."""
    proxy, upstream, endpoint = relays("--grace", "0.5")
    gates = [threading.Event(), threading.Event()]
    upstream.handler = lambda _request: _stream(gates)
    with Front(proxy, front, endpoint) as wire:
        wire.client.send(wire.request("/events"))
        gates[0].set()
        wire.until(b"data: 1\n\n\r\n")
        terminate(proxy)
        assert wire.rest() == b""
    gates[1].set()
    assert ended(proxy) == 0
    end = proxy.records()[-1]
    assert (end["event"], end["verdict"], end["labels"]) == ("broker_request_end", "allow", ["ended-by-proxy"])
    assert end["bytes_in"] == 9


@pytest.mark.parametrize("signals", [1, 2])
def test_a_tunnel_is_ended_with_the_grace(relays: Any, signals: int) -> None:
    """A tunnel too; a second signal does not lose its end record."""
    proxy, upstream, _ = relays("--grace", "0.5" if signals == 1 else "30")
    proxy.check_log = False
    with Client(proxy.proxy) as client:
        assert client.connect(f"localhost:{upstream.port}").status == 200
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.read().status == 200
        terminate(proxy)
        if signals == 2:
            proxy.process.send_signal(signal.SIGTERM)
        assert ended(proxy) == signals - 1
    proxy.verify()
    opened, end = proxy.records()
    assert opened["id"] == end["id"]
    assert (end["event"], end["verdict"], end["labels"]) == ("broker_request_end", "allow", ["ended-by-proxy"])
    assert end["bytes_out"] == 27
    proxy.start()


def test_unix_sockets_are_removed(make_stack: Any, tmp_path: Path) -> None:
    """Also the admin's, and those that were bound before a later one failed."""
    admin, base = tmp_path / "admin.sock", tmp_path / "base.sock"
    stack = make_stack(admin=f"unix:{admin}", first={"listen": f"unix:{base}"})
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(admin))
        client.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = client.recv(65536).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert json.loads(body)["reload"] is None
    assert admin.exists()
    assert base.exists()
    stack.proxy.stop()
    assert not admin.exists()
    assert not base.exists()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        stack.proxy.settings["endpoints"][1]["listen"] = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(AssertionError, match="in use"):
            stack.proxy.start()
    assert not admin.exists()
    assert not base.exists()
    del stack.proxy.settings["endpoints"][1]["listen"]
    stack.proxy.start()
