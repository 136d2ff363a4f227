"""Real clients, unmodified but for their address, through both fronts."""

import http.client
import json
import shutil
import ssl
import subprocess
from typing import Any

import pytest
from support.client import NoAnswer
from support.upstream import Received, answer

FRONTS = pytest.mark.parametrize("front", ["base", "proxy"])
curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
AUTHORIZATION = ("Authorization", "Bearer @secret:api")


def run_curl(stack: Any, front: str, path: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """curl as a person runs it, less the headers that the grant does not declare."""
    plain = ["curl", "-sS", "--max-time", "20", "-i", "-A", "", "-H", "Accept:", "-H", "Content-Type:"]
    if front == "base":
        url = f"http://{stack.host('base')}{path}"
    else:
        host, port = stack.proxy.proxy
        url = f"https://{stack.host('proxy')}{path}"
        plain += ["--noproxy", "", "--proxy", f"http://{host}:{port}", "--cacert", str(stack.proxy.ca)]
        plain += ["--suppress-connect-headers"]
    return subprocess.run([*plain, *arguments, url], capture_output=True, check=False)


@curl
@FRONTS
def test_curl_gets(stack: Any, front: str) -> None:
    """An allowed request arrives with the credential in place of the reference, and its answer is shown."""
    done = run_curl(stack, front, "/info", "-H", "Authorization: Bearer @secret:api")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(b'{"id":1}')
    (request,) = stack.upstream.requests
    assert request.get("authorization") == b"Bearer sk-api/0123456789"
    assert request.get("host") == f"localhost:{stack.upstream.port}".encode()
    (record,) = stack.proxy.decisions()
    assert record["verdict"] == "allow"
    assert record["secret_refs"] == ["api"]


@curl
@FRONTS
def test_curl_posts_with_expect(stack: Any, front: str) -> None:
    """A client that waits for 100 gets it once the head is authorized; the upstream sees no Expect."""
    body = json.dumps({"title": "x" * 200})
    done = run_curl(
        stack,
        front,
        "/repos/acme/widgets/issues",
        *("-H", "Content-Type: application/json", "-H", "Expect: 100-continue", "--data-binary", body),
    )
    assert done.returncode == 0, done.stderr
    assert b"HTTP/1.1 201" in done.stdout
    (request,) = stack.upstream.requests
    assert request.body == body.encode()
    assert request.get("expect") is None


@curl
@FRONTS
def test_curl_is_told_why(stack: Any, front: str) -> None:
    """A refusal names the record and what the grant declares."""
    done = run_curl(stack, front, "/repos/acme/widgets/issues?state=open&page=2")
    problem = json.loads(done.stdout.partition(b"\r\n\r\n")[2])
    assert problem["reason"] == "query-undeclared"
    assert "page" in problem["detail"]
    assert "state" in problem["detail"]
    assert not stack.upstream.requests


@curl
@FRONTS
def test_curl_head(stack: Any, front: str) -> None:
    """HEAD is answered with the upstream's Content-Length and no body, and the connection stays in step."""
    stack.upstream.answers.append(b"HTTP/1.1 200 OK\r\nContent-Length: 812\r\n\r\n")
    done = run_curl(stack, front, "/status", "--head")
    assert done.returncode == 0, done.stderr
    assert b"Content-Length: 812" in done.stdout


@FRONTS
def test_http_client_keeps_the_connection(stack: Any, front: str) -> None:
    """One client connection serves many requests, refused ones among them; so does one upstream connection."""
    if front == "base":
        connection = http.client.HTTPConnection(*stack.proxy.endpoint("api"), timeout=15)
    else:
        host, port = stack.proxy.proxy
        context = ssl.create_default_context(cafile=stack.proxy.ca)
        connection = http.client.HTTPSConnection(host, port, timeout=15, context=context)
        connection.set_tunnel("localhost", stack.upstream.port)
    before = stack.upstream.connections
    for target, expected in (("/info", 200), ("/private", 403), ("/info", 200), ("/info?x=1", 403), ("/info", 200)):
        connection.putrequest("GET", target, skip_accept_encoding=True)
        connection.putheader(*AUTHORIZATION)
        connection.endheaders()
        found = connection.getresponse()
        assert found.status == expected
        found.read()
    connection.close()
    assert len(stack.upstream.requests) == 3
    assert stack.upstream.connections - before <= 1
    assert len(stack.proxy.decisions(count=5)) == 5


@FRONTS
def test_pipelined_requests_are_answered_in_order(stack: Any, front: str) -> None:
    """Requests sent ahead are answered one after the other (RFC 9112, 9.3.2)."""
    stack.upstream.handler = lambda request: answer(200, b'{"id":%d}' % int(request.target[-1:]))
    wire = b"".join(stack.get(front, target) for target in ("/search?a=1", "/private", "/search?a=2", "/search?a=3"))
    with stack.open(front) as client:
        client.send(wire)
        assert [client.read().body for _ in range(1)] == [b'{"id":1}']
        assert client.read().status == 403
        assert client.read().body == b'{"id":2}'
        assert client.read().body == b'{"id":3}'
    assert len(stack.proxy.decisions(count=4)) == 4


@FRONTS
@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_content_leave_the_connection_in_step(stack: Any, front: str, status: int) -> None:
    """A 204 or 304 has no body and no chunked framing; the next request on the connection is answered."""
    stack.upstream.answers.append(b'HTTP/1.1 %d Whatever\r\nETag: "1"\r\n\r\n' % status)
    with stack.open(front) as client:
        first = client.exchange(stack.get(front, "/status"))
        assert first.status == status
        assert first.get("transfer-encoding") is None
        assert client.exchange(stack.get(front, "/info")).status == 200


@FRONTS
def test_connection_close_is_honoured(stack: Any, front: str) -> None:
    """`Connection: close` ends the connection after the answer (RFC 9112, 9.6)."""
    with stack.open(front) as client:
        shown = client.exchange(stack.get(front, "/info", "Connection: close"))
        assert shown.status == 200
        assert shown.get("connection") == b"close"
        assert client.closed()


@FRONTS
def test_a_refused_expect_gets_no_100(stack: Any, front: str) -> None:
    """The body of a request whose head is refused is never asked for."""
    with stack.open(front) as client:
        shown = client.exchange(
            stack.get(front, "/private", "Expect: 100-continue", "Content-Length: 2", method="POST"), "POST"
        )
        assert shown.status == 403
        assert shown.informational == ()


@FRONTS
def test_an_upstream_that_drops_kept_connections(stack: Any, front: str) -> None:
    """A kept upstream connection that has gone is replaced; no request is lost or sent twice."""
    for _ in range(5):
        with stack.open(front) as client:
            assert client.exchange(stack.get(front)).status == 200
        stack.upstream.drop()
    assert len(stack.upstream.requests) == 5


def test_many_connections_at_once(stack: Any) -> None:
    """Answers go to whoever asked."""
    stack.upstream.handler = _echo_number
    clients = [stack.open("base") for _ in range(40)]
    for number, client in enumerate(clients):
        client.send(stack.get("base", f"/search?a={number}"))
    for number, client in enumerate(clients):
        assert client.read().body == b'{"id":%d}' % number
        client.close()


def _echo_number(request: Received) -> bytes:
    return answer(200, b'{"id":%d}' % int(request.target.rpartition(b"=")[2]))


def test_base_url_by_localhost(stack: Any) -> None:
    """`localhost` with the listener's port is the listener, too."""
    port = stack.proxy.endpoint("api")[1]
    with stack.open("base") as client:
        assert client.exchange(f"GET /info HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode()).status == 200


def test_nothing_is_shown_twice(stack: Any) -> None:
    """After the answer nothing more comes."""
    with stack.open("base", timeout=0.3) as client:
        assert client.exchange(stack.get("base")).status == 200
        with pytest.raises(NoAnswer, match="TimeoutError"):
            client.read()
