"""Long runs: memory and descriptors are where they were. `make soak`; SOAK_REQUESTS sets how long."""

import os
import sys
import threading
import time
from typing import Any

import pytest
from support.upstream import answer

REQUESTS = int(os.environ.get("SOAK_REQUESTS", "200000"))
CLIENTS = 8
PIPELINED = 20
ALLOWED_GROWTH = 10 * 1024 * 1024

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def drive(stack: Any, front: str, count: int, *, connections: int = 1) -> None:
    """Send `count` requests from several threads, one in ten of them refused, and read every answer."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            share = count // CLIENTS
            each = max(PIPELINED, share // connections)
            while share > 0:
                with stack.open(front, timeout=60) as client:
                    for _ in range(0, each, PIPELINED):
                        targets = ["/info"] * (PIPELINED - 2) + ["/private", "/info?x=1"]
                        client.send(b"".join(stack.get(front, target) for target in targets))
                        for target in targets:
                            assert client.read().status == (200 if target == "/info" else 403)
                share -= each
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


@pytest.mark.parametrize("front", ["base", "proxy"])
def test_memory_and_descriptors(make_stack: Any, front: str) -> None:
    """200,000 requests leave the memory within 10 MB of where it was, and no descriptor behind."""
    stack = make_stack(check_log=False)
    stack.upstream.requests = _Forgetful()  # type: ignore[assignment]
    stack.upstream.raw = _ForgetfulMap()
    stack.upstream.handler = lambda request: answer(200, b'{"id":1}')
    warm = max(REQUESTS // 10, 2000)
    drive(stack, front, warm, connections=10)
    time.sleep(2)
    memory, descriptors = stack.proxy.resident(), stack.proxy.descriptors()
    drive(stack, front, REQUESTS, connections=50)
    time.sleep(2)
    grown = stack.proxy.resident() - memory
    print(f"{front}: {REQUESTS} requests, memory {memory / 1e6:.1f} MB, grown by {grown / 1e6:.2f} MB")
    assert grown < ALLOWED_GROWTH
    assert stack.proxy.descriptors() <= descriptors + 2


class _Forgetful(list):  # type: ignore[type-arg]
    def append(self, item: object) -> None:
        """Keep nothing: the test would measure itself."""


class _ForgetfulMap(dict):  # type: ignore[type-arg]
    def __setitem__(self, key: object, value: object) -> None:
        super().clear()
        super().__setitem__(key, value)
