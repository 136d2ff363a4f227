"""No log, no answers: a record that cannot be written is a 503, and nothing more goes upstream until it can be."""

import json
import resource
import signal
import sys
from typing import Any

import pytest
from support.client import Client
from support.upstream import answer

JSON_13 = ("Content-Type: application/json", "Content-Length: 13")
linux = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process are Linux's")


@linux
def test_full_disk(make_stack: Any) -> None:
    """With the log failing: 503, `/readyz` fails, the upstream sees nothing more; then it goes on by itself."""
    stack = make_stack()
    stack.upstream.handler = lambda request: answer(200, b'{"id":1,"name":"shown-too-early"}')
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 200
    assert _readyz(stack)[0] == 200
    size = stack.proxy.log.stat().st_size
    _limit(stack, size)
    for _ in range(2):
        with stack.open("base") as client:
            shown = client.exchange(stack.get("base"))
            assert shown.status == 503
            assert shown.get("retry-after") is not None
            assert b"shown-too-early" not in shown.raw
            assert json.loads(shown.body)["reason"] == "log-unavailable"
    reached = len(stack.upstream.requests)
    assert reached <= 2, "the first failure may be found after sending, later ones must not"
    status, document = _readyz(stack)
    assert status == 503
    why = f"decision log `{stack.proxy.log}` cannot be written: file too large; rotate it, or raise the limit"
    assert [problem.startswith(why) for problem in document["problems"]] == [True]
    assert (stack.proxy.folder / "stderr").read_text().count(why) == 1, "once, not with each request"
    for _ in range(3):
        with stack.open("base") as client:
            assert client.exchange(stack.get("base")).status == 503
    assert len(stack.upstream.requests) == reached
    _limit(stack, resource.RLIM_INFINITY)
    statuses = []
    for _ in range(3):
        with stack.open("base") as client:
            statuses.append(client.exchange(stack.get("base")).status)
    assert statuses[-1] == 200
    assert _readyz(stack)[0] == 200


@linux
def test_a_write_is_not_sent_without_its_intent(make_stack: Any) -> None:
    """An operation with `effect: write` is recorded before it is sent, or not sent."""
    stack = make_stack()
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 200
    _limit(stack, stack.proxy.log.stat().st_size)
    wire = stack.get(
        "base", "/repos/acme/widgets/issues", "Content-Type: application/json", "Content-Length: 13", method="POST"
    )
    with stack.open("base") as client:
        assert client.exchange(wire + b'{"title":"x"}', "POST").status == 503
    assert len(stack.upstream.requests) == 1
    _limit(stack, resource.RLIM_INFINITY)


def test_a_write_leaves_an_intent(make_stack: Any) -> None:
    """The intent stands before the decision, under the same id."""
    stack = make_stack()
    stack.upstream.handler = lambda request: answer(201, b'{"id":1}')
    wire = stack.get(
        "base", "/repos/acme/widgets/issues", "Content-Type: application/json", "Content-Length: 13", method="POST"
    )
    with stack.open("base") as client:
        assert client.exchange(wire + b'{"title":"x"}', "POST").status == 201
    intent, decision = stack.proxy.new_records()
    assert intent["event"] == "broker_request_intent"
    assert decision["event"] == "broker_request_allow"
    assert intent["id"] == decision["id"]
    assert decision["bytes_out"] == 13


def test_records_hold_no_content(make_stack: Any) -> None:
    """No path, query, header, body or secret of a request or answer is in the log."""
    stack = make_stack()
    stack.upstream.handler = lambda request: answer(200, b'{"id":1,"name":"answer-content"}')
    with stack.open("base") as client:
        fields = ("Authorization: Bearer @secret:api", "X-Secret-Header: header-content")
        for target in ("/info", "/info/path-content", "/search?q=query-content", "/search?query-name=1"):
            client.exchange(stack.get("base", target, fields[0]))
            client.exchange(stack.get("base", target, *fields))
    log = stack.proxy.log.read_text()
    for text in ("content", "query-name", "X-Secret", "0123456789"):
        assert text not in log
    assert stack.proxy.log.stat().st_mode & 0o077 == 0


def test_rotation(make_stack: Any) -> None:
    """SIGHUP opens the path anew, and the chain goes on in the new file."""
    stack = make_stack(check_log=False)
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 200
        rotated = stack.proxy.log.with_name("decisions.jsonl.1")
        stack.proxy.log.rename(rotated)
        stack.proxy.process.send_signal(signal.SIGHUP)
        for _ in range(200):
            if stack.proxy.log.exists():
                break
            signal.sigtimedwait([], 0.02)
        assert client.exchange(stack.get("base")).status == 200
    import subprocess

    command = [sys.executable, "-m", "proxy.cli", "audit", "verify", str(rotated), str(stack.proxy.log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _limit(stack: Any, size: int) -> None:
    resource.prlimit(stack.proxy.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _readyz(stack: Any) -> tuple[int, Any]:
    host, port = stack.proxy.admin
    with Client((host, port)) as client:
        shown = client.exchange(f"GET /readyz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return shown.status, json.loads(shown.body)
