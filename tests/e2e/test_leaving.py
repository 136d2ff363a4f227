"""Clients that leave, or come too slowly: exactly one record each, and nothing is left behind."""

import time
from typing import Any

import pytest
from support.upstream import answer

FRONTS = pytest.mark.parametrize("front", ["base", "proxy"])


@FRONTS
def test_in_the_head(stack: Any, front: str) -> None:
    """A client that leaves within the head leaves one record, and nothing was sent."""
    with stack.open(front, "dark") as client:
        client.send(stack.get(front, endpoint="dark")[:-4])
    (record,) = stack.proxy.decisions()
    assert record["verdict"] == "deny"
    assert stack.dark.connections == 0


@FRONTS
def test_in_the_body(stack: Any, front: str) -> None:
    """A body that ends early is not sent in part."""
    wire = stack.get(
        front,
        "/repos/acme/widgets/issues",
        *("Content-Type: application/json", "Content-Length: 13"),
        method="POST",
        endpoint="dark",
    )
    with stack.open(front, "dark") as client:
        client.send(wire + b'{"title":')
        time.sleep(0.1)
    (record,) = stack.proxy.decisions()
    assert record["verdict"] == "deny"
    assert stack.dark.connections == 0


@FRONTS
def test_while_the_upstream_answers(stack: Any, front: str) -> None:
    """A client that leaves before the answer leaves one record."""
    stack.upstream.handler = lambda request: [0.5, answer(200, b'{"id":1}')]
    with stack.open(front) as client:
        client.send(stack.get(front))
        time.sleep(0.15)
    (record,) = stack.proxy.decisions()
    time.sleep(0.3)
    assert not stack.proxy.decisions(wait=0)
    assert record["endpoint"] == "api"


@FRONTS
def test_without_a_word(stack: Any, front: str) -> None:
    """A connection on which nothing was asked leaves no record."""
    with stack.open(front):
        pass
    assert not stack.proxy.decisions(wait=0.3)


@FRONTS
def test_slow_head(stack: Any, front: str) -> None:
    """A head that does not come to its end is a 408."""
    with stack.open(front, "dark", timeout=30) as client:
        client.send(stack.get(front, endpoint="dark")[:-2])
        shown = client.read()
        assert shown.status == 408
        assert client.closed()
    (record,) = stack.proxy.decisions()
    assert record["reason"] == "head-too-slow"
    assert stack.dark.connections == 0


def test_idle_connection(make_stack: Any) -> None:
    """A connection that does nothing is closed, without a word and without a record."""
    stack = make_stack(limits={"clientIdle": "1s"})
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 200
        time.sleep(1.2)
        assert client.closed()
    assert len(stack.proxy.decisions()) == 1
