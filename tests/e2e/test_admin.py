"""The admin listener: alive, ready, and not for web pages."""

import json
from typing import Any

import pytest
from support.client import Client


def ask(stack: Any, path: str, *fields: str, host: str | None = None) -> tuple[int, Any]:
    address = stack.proxy.admin
    lines = [f"GET {path} HTTP/1.1", f"Host: {host or f'{address[0]}:{address[1]}'}", *fields]
    with Client(address) as client:
        shown = client.exchange("\r\n".join(lines).encode() + b"\r\n\r\n")
    return shown.status, json.loads(shown.body) if shown.body.startswith(b"{") else None


def test_alive(stack: Any) -> None:
    """`/healthz` answers while the program runs."""
    assert ask(stack, "/healthz")[0] == 200


def test_ready(stack: Any) -> None:
    """`/readyz` names the listeners, and each endpoint with its assurance and its grant's digest."""
    status, document = ask(stack, "/readyz")
    assert status == 200
    assert {endpoint["name"] for endpoint in document["endpoints"]} == {"api", "dark", "named"}
    assert all(endpoint["assurance"] == "semantic" for endpoint in document["endpoints"])
    assert all(endpoint["grant"].startswith("sha256:") for endpoint in document["endpoints"])


@pytest.mark.parametrize(
    ("fields", "host", "status"),
    [
        pytest.param([], "evil.example", 421, id="foreign-host"),
        pytest.param(["Origin: https://evil.example"], None, 403, id="foreign-origin"),
        pytest.param(["Sec-Fetch-Site: cross-site"], None, 403, id="cross-site"),
    ],
)
def test_web_pages_are_refused(stack: Any, fields: list[str], host: str | None, status: int) -> None:
    """No page of another site learns anything."""
    assert ask(stack, "/readyz", *fields, host=host)[0] == status
