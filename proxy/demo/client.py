"""One call through a front, with the standard library's client: nothing here knows that the proxy is ours."""

import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import final
from urllib.parse import urlsplit

from .calls import Call, Front

_TIMEOUT = 15.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fronts:
    """Where the proxy listens.

    Attributes:
        base: the endpoint's base URL.
        proxy: URL of the forward proxy.
        ca: the proxy's CA certificate.
        api: host and port by which the forward proxy is asked for the API.
    """

    base: str
    proxy: str
    ca: Path
    api: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the client got: the status, and of a refusal rule and detail."""

    status: int
    rule: str | None = None
    detail: str | None = None


def place(call: Call, fronts: Fronts) -> Outcome:
    """Make the call and read its whole answer.

    Raises:
        OSError: the proxy could not be reached, or ended the connection.
        http.client.HTTPException: its answer is no HTTP.
    """
    address = urlsplit(fronts.base if call.front is Front.BASE else fronts.proxy)
    with socket.create_connection((address.hostname, address.port), _TIMEOUT) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if call.front is Front.BASE:
            return _ask(call, plain, address.netloc)
        authority = call.authority or fronts.api
        plain.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode("ascii"))
        tunnel = http.client.HTTPResponse(plain, method="CONNECT")
        tunnel.begin()
        if tunnel.status != http.HTTPStatus.OK:
            return _outcome(tunnel)
        context = ssl.create_default_context(cafile=str(fronts.ca))
        with context.wrap_socket(plain, server_hostname=authority.rpartition(":")[0]) as encrypted:
            return _ask(call, encrypted, authority)


def _ask(call: Call, connection: socket.socket, host: str) -> Outcome:
    client = http.client.HTTPConnection(host, timeout=_TIMEOUT)
    client.sock = connection
    client.putrequest(call.method, call.path, skip_accept_encoding=True)
    for name, value in call.headers.items():
        client.putheader(name, value)
    if call.body is not None:
        client.putheader("Content-Length", str(len(call.body)))
    client.endheaders(call.body)
    return _outcome(client.getresponse())


def _outcome(answer: http.client.HTTPResponse) -> Outcome:
    body = answer.read()
    if answer.getheader("Content-Type") != "application/problem+json":
        return Outcome(status=answer.status)
    problem = json.loads(body)
    return Outcome(status=answer.status, rule=problem["rule"], detail=problem.get("detail"))
