"""Everything of ours is made to fail, one thing at a time.

Before the request is sent nothing reaches the upstream; after it nothing of the answer is shown. The client gets a
5xx, and there is one decision record; only when the log itself fails there is none, and nothing more goes upstream.
"""

from typing import Any

import pytest
from support.client import Answer
from support.proxyproc import ConnectRefused
from support.upstream import CLOSE, HANG, answer

FRONTS = pytest.mark.parametrize("front", ["base", "proxy"])
MARK = b"only-in-the-answer"


def broken(target: str, *, when: str = "", asynchronous: bool = False) -> str:
    """Python that makes `module:Name.attribute` raise, `BaseException` cases included."""
    module, _, path = target.partition(":")
    word = "async def" if asynchronous else "def"
    return (
        f"import asyncio, {module}\n"
        f"{word} fail(*arguments, **options):\n"
        f"    raise {when or 'RuntimeError'}('sk-api/0123456789 must not show')\n"
        f"{module}.{path} = fail"
    )


def unguarded(module: str, name: str) -> str:
    """Python that makes both hooks of an addon raise past the guard, as mitmproxy would see it."""
    return (
        f"import {module}\n"
        "async def fail(*arguments, **options):\n"
        "    raise RuntimeError('sk-api/0123456789 must not show')\n"
        f"{module}.{name}.broker_head = {module}.{name}.broker_request = fail"
    )


BEFORE = [
    pytest.param(broken("addons.who:Who._local"), id="who"),
    pytest.param(broken("addons.where:parse_authority"), id="where"),
    pytest.param(broken("addons.where:Where._find"), id="where-host"),
    pytest.param(broken("addons.authorize:authorize_head"), id="authorize-head"),
    pytest.param(broken("addons.authorize:authorize_body"), id="authorize-body"),
    pytest.param(broken("addons.authorize:authorize_head", when="asyncio.CancelledError"), id="authorize-cancelled"),
    pytest.param(broken("proxy.secrets.vault:EndpointVault.open", asynchronous=True), id="vault"),
    pytest.param(broken("addons.send:seal"), id="seal"),
    pytest.param(broken("addons.send:start"), id="chain-start"),
]
AFTER = [
    pytest.param(broken("addons.send:next_hop"), id="next-hop"),
    pytest.param(broken("addons.send:check_response"), id="check-response"),
    pytest.param(broken("addons.audit:resource_digest"), id="record"),
    pytest.param(broken("addons.audit:reply_bytes"), id="reply"),
]


@pytest.mark.parametrize("preamble", BEFORE)
@FRONTS
def test_before_sending(make_stack: Any, preamble: str, front: str) -> None:
    """A failure before the request is sent: a 5xx, one record, no connection to the upstream."""
    stack = make_stack(preamble=preamble)
    wire = stack.get(front, "/repos/acme/widgets", "Authorization: Bearer @secret:api", endpoint="dark")
    shown = _ask(stack, front, wire)
    assert 500 <= shown.status <= 599
    assert b"0123456789" not in shown.raw
    assert b"Traceback" not in shown.raw
    (record,) = stack.proxy.decisions()
    assert record["verdict"] == "deny"
    assert record["rule"] == "fault"
    assert stack.dark.connections == 0
    assert "0123456789" not in stack.proxy.output()


@pytest.mark.parametrize("step", ["who:Who", "where:Where", "authorize:Authorize", "send:Send"])
@FRONTS
def test_past_the_guard(make_stack: Any, step: str, front: str) -> None:
    """Even a hook that raises past its guard, where mitmproxy would log it and go on, lets nothing through."""
    module, _, name = step.partition(":")
    stack = make_stack(preamble=unguarded(f"addons.{module}", name))
    shown = _ask(stack, front, stack.get(front, "/repos/acme/widgets", endpoint="dark"))
    assert 500 <= shown.status <= 599
    assert stack.dark.connections == 0
    (record,) = stack.proxy.decisions()
    assert record["rule"] == "fault"


def _ask(stack: Any, front: str, wire: bytes) -> Answer:
    """The answer to the request, or to the CONNECT where that was refused already."""
    try:
        client = stack.open(front, "dark")
    except ConnectRefused as refused:
        return refused.answer
    with client:
        return client.exchange(wire)


@pytest.mark.parametrize("preamble", AFTER)
@FRONTS
def test_after_sending(make_stack: Any, preamble: str, front: str) -> None:
    """A failure after the request was sent: a 5xx, nothing of the answer, one record."""
    stack = make_stack(preamble=preamble)
    stack.upstream.handler = lambda request: answer(200, b'{"id":1,"name":"' + MARK + b'"}', ("X-Mark", MARK.decode()))
    with stack.open(front) as client:
        shown = client.exchange(stack.get(front, "/repos/acme/widgets", "Authorization: Bearer @secret:api"))
        assert 500 <= shown.status <= 599
        assert MARK not in shown.raw
    assert len(stack.upstream.requests) == 1
    (record,) = stack.proxy.decisions()
    assert record["rule"] == "fault"
    assert "0123456789" not in stack.proxy.output()


@FRONTS
def test_upstream_client_fails(make_stack: Any, front: str) -> None:
    """The upstream client itself raises."""
    preamble = broken("proxy.upstream.client:UpstreamClient.send", asynchronous=True)
    stack = make_stack(preamble=preamble)
    with stack.open(front, "dark") as client:
        shown = client.exchange(stack.get(front, endpoint="dark"))
    assert 500 <= shown.status <= 599
    (record,) = stack.proxy.decisions()
    assert record["rule"] == "fault"
    assert stack.dark.connections == 0


def test_a_hook_that_skips_its_work(make_stack: Any) -> None:
    """A step that decides nothing is as good as a refusal: what nobody allowed is not sent."""
    preamble = "import addons.authorize\nasync def skip(*_): pass\n"
    preamble += "addons.authorize.Authorize.broker_head = addons.authorize.Authorize.broker_request = skip"
    stack = make_stack(preamble=preamble)
    with stack.open("base", "dark") as client:
        shown = client.exchange(stack.get("base", endpoint="dark"))
    assert shown.status == 500
    assert stack.dark.connections == 0
    assert len(stack.proxy.decisions()) == 1


@FRONTS
def test_upstream_does_not_listen(make_stack: Any, front: str) -> None:
    """An upstream that cannot be reached is a 502 with a word, and none of the system's text."""
    stack = make_stack()
    stack.dark.__exit__(None, None, None)
    with stack.open(front, "dark") as client:
        shown = client.exchange(stack.get(front, endpoint="dark"))
    assert shown.status == 502
    assert b"refused" not in shown.body
    (record,) = stack.proxy.decisions()
    assert (record["rule"], record["reason"]) == ("upstream-error", "connect")


def test_upstream_without_verified_tls(make_stack: Any, tmp_path: Any) -> None:
    """A certificate of another authority is not accepted, and no request is sent."""
    from support.certificates import make_certificates

    folder = tmp_path / "other"
    folder.mkdir()
    other = make_certificates(folder)
    stack = make_stack(endpoint={"ca": str(other.ca)})
    with stack.open("base") as client:
        shown = client.exchange(stack.get("base"))
    assert shown.status == 502
    (record,) = stack.proxy.decisions()
    assert (record["rule"], record["reason"]) == ("semantic-transport", "tls")
    assert not stack.upstream.requests


def test_upstream_is_too_slow(make_stack: Any) -> None:
    """The whole exchange has a deadline."""
    stack = make_stack(endpoint={"timeout": {"connect": "1s", "total": "1s"}})
    stack.upstream.handler = lambda request: [b"HTTP/1.1 200 OK\r\n", HANG]
    with stack.open("base") as client:
        shown = client.exchange(stack.get("base"))
    assert shown.status == 504
    (record,) = stack.proxy.decisions()
    assert record["reason"] == "timeout"


def test_a_request_is_sent_at_most_once(make_stack: Any) -> None:
    """An upstream that reads a request and closes is not asked again."""
    stack = make_stack()
    stack.upstream.handler = lambda request: [CLOSE]
    with stack.open("base") as client:
        assert client.exchange(stack.get("base")).status == 502
    assert len(stack.upstream.requests) == 1
