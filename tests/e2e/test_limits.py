"""Limits over the program: places, time and memory are bounded whatever clients do."""

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Certificates
from support.client import Client, NoAnswer
from support.proxyproc import Proxy
from support.relays import ENVIRONMENT, relay
from support.upstream import Upstream, answer
from support.waits import wait_for

FRONTS = pytest.mark.parametrize("front", ["base", "proxy"])
LARGE = 16 * 1024 * 1024
IMPATIENT = "from proxy.unsent import Unsent\nUnsent.__init__.__kwdefaults__.update(patience=1.0)"


def served(stack: Any) -> bool:
    """Whether a new client has a place."""
    try:
        with stack.open("base") as client:
            return bool(client.exchange(stack.get("base")).status == 200)
    except (NoAnswer, OSError):
        return False


@FRONTS
def test_a_place_for_each_request_that_runs(make_stack: Any, front: str) -> None:
    """`limits.clients` counts a client that has left for as long as its request is still answered."""
    stack = make_stack(limits={"clients": 2})
    release = threading.Event()
    stack.upstream.handler = lambda _request: [release, answer(200, b'{"id":1}')]
    for number in (1, 2):
        with stack.open(front) as client:
            client.send(stack.get(front))
            wait_for(lambda wanted=number: len(stack.upstream.requests) == wanted)
    time.sleep(0.2)
    assert not served(stack)
    release.set()
    stack.upstream.handler = lambda _request: answer(200, b'{"id":1}')
    wait_for(lambda: served(stack))


@FRONTS
def test_requests_in_flight_of_an_endpoint(make_stack: Any, front: str) -> None:
    """Over `concurrent` the answer is a 503 with `Retry-After`."""
    stack = make_stack(endpoint={"concurrent": 1})
    release = threading.Event()
    stack.upstream.handler = lambda _request: [release, answer(200, b'{"id":1}')]
    with stack.open(front) as first, stack.open(front) as second:
        first.send(stack.get(front))
        wait_for(lambda: len(stack.upstream.requests) == 1)
        shown = second.exchange(stack.get(front))
        assert shown.status == 503
        assert shown.get("retry-after") is not None
        release.set()
        assert first.read().status == 200
        assert second.exchange(stack.get(front)).status == 200
    assert "concurrent" in json.dumps(stack.proxy.settings)


@FRONTS
def test_header_bytes(make_stack: Any, front: str) -> None:
    """A head over `headerBytes` is a 431."""
    stack = make_stack(limits={"headerBytes": "2KiB"})
    with stack.open(front) as client:
        assert client.exchange(stack.get(front, "/info", f"X-Pad: {'x' * 3000}")).status == 431
        assert client.closed()


@FRONTS
def test_one_byte_a_second_buys_no_time(make_stack: Any, front: str) -> None:
    """A slow writer's head has its seconds in all, not with each byte."""
    stack = make_stack()
    began = time.monotonic()
    with stack.open(front, timeout=30) as client:
        for byte in stack.get(front, "/info", f"X-Pad: {'x' * 1000}"):
            client.send(bytes([byte]))
            client.socket.settimeout(1)
            with contextlib.suppress(TimeoutError):
                client.pending += client.socket.recv(1)
                break
        client.socket.settimeout(30)
        assert client.read().status == 408
    assert time.monotonic() - began > 9


def test_silent_admin_connections(make_stack: Any) -> None:
    """They are few, and none is kept that asks nothing."""
    preamble = "from proxy import admin\nadmin.Admin.__init__.__kwdefaults__.update(silent=1.0)"
    stack = make_stack(preamble=preamble)
    with ExitStack() as exits:
        silent = [exits.enter_context(Client(stack.proxy.admin)) for _ in range(64)]
        time.sleep(0.2)
        assert exits.enter_context(Client(stack.proxy.admin)).closed()
        time.sleep(1)
        assert all(client.closed() for client in silent)
    host, port = stack.proxy.admin
    with Client((host, port)) as client:
        for _ in range(5):
            shown = client.exchange(f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            assert shown.status == 200
            time.sleep(0.3)


@pytest.fixture
def exits() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def relaying(tmp_path: Path, certificates: Certificates) -> Iterator[tuple[Proxy, Upstream]]:
    """An impatient proxy with a relay to an upstream whose answers are large."""
    body = b"x" * LARGE
    with Upstream(None, handler=lambda _request: answer(200, body, content_type="text/plain")) as upstream:
        settings = {"endpoints": [relay("big", upstream, None)], "limits": {"clients": 40}}
        with Proxy(tmp_path, settings, ENVIRONMENT, preamble=IMPATIENT) as proxy:
            yield proxy, upstream


def slow(proxy: Proxy) -> socket.socket:
    """A client that asks for a large answer and holds little of it."""
    host, port = proxy.endpoint("big")
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(10)
    sock.connect((host, port))
    sock.sendall(f"GET /a HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return sock


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_slow_readers_hold_neither_memory_nor_a_place(relaying: tuple[Proxy, Upstream], exits: ExitStack) -> None:
    """Clients that read one byte a second are cut off, and leave nothing behind."""
    proxy, _ = relaying
    with proxy.base("big") as client:
        host, port = proxy.endpoint("big")
        wire = f"GET /a HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
        assert len(client.exchange(wire).body) == LARGE
        memory, descriptors = proxy.resident(), proxy.descriptors()
    socks = [exits.enter_context(slow(proxy)) for _ in range(40)]
    wait_for(lambda: proxy.descriptors() >= descriptors + 60)
    most = 0
    for _ in range(3):
        time.sleep(1)
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.recv(1)
        most = max(most, proxy.resident() - memory)
    wait_for(lambda: proxy.descriptors() <= descriptors + 2)
    # Of each what the buffers of both sides hold, and not its answer.
    assert most < 40 * LARGE / 8
    with proxy.base("big") as client:
        assert len(client.exchange(wire).body) == LARGE
    exits.close()
    ends = [record for record in proxy.records() if record["event"] == "broker_request_end"]
    assert sum(record["labels"] == ["ended-by-client"] for record in ends) == 40


def test_a_steady_reader_is_not_cut(relaying: tuple[Proxy, Upstream]) -> None:
    """A stream may last as long as its client takes of it."""
    proxy, _ = relaying
    with slow(proxy) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        began, total = time.monotonic(), 0
        while total < LARGE:
            piece = sock.recv(65536)
            assert piece
            total += len(piece)
            time.sleep(0.008)
        assert time.monotonic() - began > 2
