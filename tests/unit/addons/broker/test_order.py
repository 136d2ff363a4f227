"""What is asked before any part does anything: the log, the size of a body, and once it has come, who asks and may.

Every refusal here reaches no upstream, stores nothing and leaves one record.
"""

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.brokers import ENVIRONMENT, Answer, Running, brokers, parse, reply
from support.running import MemoryLog

from addons.audit import Audit
from addons.broker.route import BrokerRoute
from addons.exchange import Arrival, Exchange
from addons.policy import Policy
from addons.ports import StateUnavailable
from addons.record import Mode
from grants.broker.bounded import MOST_VALUES
from grants.broker.fountain import Kind
from grants.decision import Reason
from proxy.store import Store

GRANT = """
operations:
  - name: write
    effect: write
    method: POST
    route: /items
    headers:
      - {name: Authorization, pattern: "Bearer @secret:GRANTED", maxBytes: 64, required: true}
      - {name: Content-Type, values: [application/json], required: true}
    body: {maxBytes: 64, contentTypes: [application/json], json: {type: object, additionalProperties: true}}
    response:
      statuses: [200]
      contentTypes: [application/json]
      maxBytes: 1024
      credentialDisclosure: deny-exact
      json: {type: object, additionalProperties: true}
"""
SCOPES = {
    "inference": ["agent", "decide"],
    "egress": ["API", "GRANTED"],
    "feedback": ["agent"],
    "fountain": ["agent", "conversations", "sandboxes", "vault"],
    "search": ["read"],
}
QUESTION = {"type": "noul", "instructions": "Ship it?", "criteria": {"true": "yes", "false": "no"}}
DECISION = {"model": "m", "state": 1, "questions": {"q": QUESTION}}
REPORT = {"capabilities": [{"name": "inference", "broker": "lobby", "scope": ["agent"]}]}
HELD = [
    pytest.param("/api/feedback", {"entries": [1]}, id="feedback"),
    pytest.param("/decide/v1/systemone", DECISION, id="decision"),
    pytest.param("/fountain/api/conversations", {"title": "x"}, id="fountain: creation"),
    pytest.param("/fountain/api/vaults/v-9/items", {"text": "x"}, id="fountain: relayed"),
    pytest.param("/egress/API/x", {"a": 1}, id="egress"),
    pytest.param("/egress/GRANTED/items", {"a": 1}, id="egress under a grant"),
]
DECLARATION = pytest.param("/api/box/declaration", REPORT, id="report")
STREAMED = [
    pytest.param("/llm/anthropic/v1/messages", {"model": "m"}, id="inference"),
    pytest.param("/search/query", None, id="capability"),
    pytest.param("/fountain/api/vaults", None, id="fountain: list"),
    pytest.param("/egress/API/x", None, id="egress without a body"),
]

type Work = Callable[[Running, str], Coroutine[Any, Any, None]]
type Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `work` with a broker and the token of a box that was added, has reported, and owns the vault `v-9`."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    def change(settings: dict[str, Any]) -> None:
        (tmp_path / "granted.grant.yaml").write_text(GRANT)
        (api,) = [secret for secret in settings["broker"]["secrets"] if secret["name"] == "API"]
        host = api["host"].replace("http:", "https:")
        settings["broker"]["secrets"].append({**api, "name": "GRANTED", "host": host, "grant": "granted.grant.yaml"})

    def go(work: Work) -> None:
        async def main() -> None:
            async with asyncio.timeout(50), brokers(tmp_path, change) as broker:
                token = await store(broker).add_box("three", now=time.time(), owned=[(Kind.VAULT, "v-9")])
                await broker.report(token=token, **SCOPES)
                broker.log.records.clear()
                await work(broker, token)

        asyncio.run(main())

    return go


def store(broker: Running) -> Store:
    assert broker.state.store is not None
    return broker.state.store


async def ask(broker: Running, path: str, body: Any, token: str) -> Answer:
    fields = {"Content-Type": "application/json"} if body is not None else {}
    return await broker.ask("GET" if body is None else "POST", path, body=body, token=token, fields=fields)


async def ask_slowly(
    broker: Running, path: str, body: Any, token: str, between: Callable[[], Awaitable[object]]
) -> Answer:
    """Something happens after the head was taken and before the body has come."""
    reader, writer = await asyncio.open_connection(*broker.address)
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{broker.address[1]}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\nExpect: 100-continue\r\n"
        "Connection: close\r\n\r\n"
    )
    try:
        writer.write(head.encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await between()
        writer.write(data)
        return parse("POST", await reader.read())
    finally:
        writer.close()


async def nothing_done(broker: Running, tmp_path: Path, reason: Reason, *, reported: bool = True) -> None:
    """Nothing went upstream, nothing is stored, and there is the one record."""
    assert not broker.api.got
    assert broker.reasons() == [reason]
    assert not (tmp_path / "state" / "feedback.jsonl").exists()
    assert await store(broker).owned("three#1", Kind.CONVERSATION) == frozenset()
    if reported:
        report = await broker.state.report_of("three#1")
        assert report is not None
        assert report.declaration.scope("search") == ("read",)


# --- the log ---


async def _fail(broker: Running) -> None:
    """The log fails on another request."""
    broker.log.failing = lambda _record: True
    assert (await broker.ask("GET", "/", token=None)).status == 503
    broker.log.failing = lambda _record: False
    assert not broker.log.writable


@pytest.mark.parametrize(("path", "body"), [*HELD, DECLARATION, *STREAMED])
def test_nothing_is_done_after_the_log_has_failed(run: Run, tmp_path: Path, path: str, body: Any) -> None:
    """Not even what would be answered with a refusal only because its own record cannot be written."""

    async def work(broker: Running, token: str) -> None:
        await _fail(broker)
        answer = await ask(broker, path, body, token)
        assert (answer.status, answer.all("retry-after")) == (503, ["1"])
        await nothing_done(broker, tmp_path, Reason.LOG)
        assert broker.log.records[0].box == "three"

    run(work)


@pytest.mark.parametrize(("path", "body"), [*HELD, DECLARATION])
def test_nothing_is_done_if_the_log_fails_while_the_body_comes(run: Run, tmp_path: Path, path: str, body: Any) -> None:
    """It is asked again when the part is to act."""

    async def work(broker: Running, token: str) -> None:
        answer = await ask_slowly(broker, path, body, token, lambda: _fail(broker))
        assert answer.status == 503
        await nothing_done(broker, tmp_path, Reason.LOG)

    run(work)


# --- who asks, and may ---


@pytest.mark.parametrize("gone", ["removed", "rotated", "another's"])
@pytest.mark.parametrize(("path", "body"), [*HELD, DECLARATION])
def test_a_box_that_goes_while_its_body_comes_does_nothing(
    run: Run, tmp_path: Path, path: str, body: Any, gone: str
) -> None:
    """It is asked for again by its token, once the body has come."""

    async def work(broker: Running, token: str) -> None:
        async def go() -> None:
            if gone == "removed":
                await store(broker).remove_box("three", now=time.time())
            elif gone == "rotated":
                await store(broker).rotate_box("three", now=time.time(), grace=0)
            else:
                served = broker.policies.current.broker
                assert served is not None
                find, other = served.boxes.find, await served.boxes.find(ENVIRONMENT["TOKEN"].encode())
                served.boxes.find = lambda shown: _value(other) if shown == token.encode() else find(shown)  # type: ignore[method-assign]

        answer = await ask_slowly(broker, path, body, token, go)
        assert answer.status == (401 if path.startswith(("/api/box", "/decide")) else 403)
        await nothing_done(broker, tmp_path, Reason.BOX_UNKNOWN, reported=gone != "removed")

    run(work)


async def _value[T](value: T) -> T:
    return value


@pytest.mark.parametrize(("path", "body"), HELD)
def test_a_report_of_less_counts_while_a_body_comes(run: Run, tmp_path: Path, path: str, body: Any) -> None:
    """What was allowed at the head is no longer when the body is there."""

    async def work(broker: Running, token: str) -> None:
        async def less() -> None:
            await broker.report(token=token, search=["read"])
            broker.log.records.clear()

        answer = await ask_slowly(broker, path, body, token, less)
        assert answer.status == 403
        await nothing_done(broker, tmp_path, Reason.SCOPE)

    run(work)


@pytest.mark.parametrize(("path", "body"), [*HELD, DECLARATION])
def test_a_state_that_goes_while_a_body_comes_does_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: Any
) -> None:
    """What cannot be asked again is not taken from before."""

    async def work(broker: Running, token: str) -> None:
        async def fails(*_: object, **__: object) -> None:
            raise StateUnavailable

        async def go() -> None:
            monkeypatch.setattr(broker.state.__class__, "find", fails)

        assert (await ask_slowly(broker, path, body, token, go)).status == 503
        await nothing_done(broker, tmp_path, Reason.STATE)

    run(work)


@pytest.mark.parametrize("mode", [Mode.TERMINATE, Mode.CONNECT, Mode.PROXY])
def test_other_fronts_pass(mode: Mode) -> None:
    """What does not come to the broker's address is none of its business, whatever the log does."""
    log = MemoryLog()
    log._failed = True
    route = BrokerRoute(Audit(log, b"k" * 32))
    made = Exchange(arrival=Arrival(mode=mode, peer=None), policy=Policy.of([]))
    asyncio.run(route.broker_head(made))
    asyncio.run(route.broker_request(made))
    assert (made.denial, made.relay, made.own) == (None, None, False)


# --- how much ---

MANY = MOST_VALUES + 1
CROWDED = [
    pytest.param(b"[" + b",".join([b"1"] * MANY) + b"]", id="numbers"),
    pytest.param(b"[" + b",".join([b"[]"] * MANY) + b"]", id="arrays"),
    pytest.param(b"[" + b",".join([b"{}"] * MANY) + b"]", id="objects"),
    pytest.param(b"{" + b",".join(b'"k%d":1' % number for number in range(MANY)) + b"}", id="members"),
    pytest.param(b"[" + b",".join([b'"\\",\\\\"'] * (5 * MANY)) + b"]", id="texts"),
]


@pytest.mark.parametrize("body", CROWDED)
@pytest.mark.parametrize("path", ["/api/feedback", "/decide/v1/systemone", "/fountain/api/conversations"])
def test_a_body_of_very_many_values_is_not_read(run: Run, tmp_path: Path, path: str, body: bytes) -> None:
    """413 that says so, on every route that reads its body."""

    async def work(broker: Running, token: str) -> None:
        answer = await ask(broker, path, body, token)
        assert answer.status == 413
        assert f"{MOST_VALUES:,} values" in answer.message
        await nothing_done(broker, tmp_path, Reason.BODY_TOO_LARGE)

    run(work)


def test_prose_of_any_length_is_read(run: Run) -> None:
    """What stands in texts is not counted."""

    async def work(broker: Running, token: str) -> None:
        prose = 'Well, [he said], {again}, "no", and \\ went. ' * 120_000
        assert (await ask(broker, "/api/feedback", {"entries": [prose]}, token)).status == 202
        assert (await ask(broker, "/fountain/api/vaults/v-9/items", {"text": prose}, token)).status == 200

    run(work)


def test_a_decision_asks_for_no_more_than_its_bound(run: Run, tmp_path: Path) -> None:
    """The state is sent with each question, so both count; nothing is composed of more."""

    async def work(broker: Running, token: str) -> None:
        body = {**DECISION, "state": "x" * 2_000_000, "questions": {f"q{each}": QUESTION for each in range(64)}}
        answer = await ask(broker, "/decide/v1/systemone", body, token)
        assert answer.status == 413
        assert "its questions" in answer.message
        await nothing_done(broker, tmp_path, Reason.BODY_TOO_LARGE)

    run(work)


# --- a creation ---


@pytest.mark.parametrize("path", ["/fountain/api/conversations", "/fountain/api/sandboxes", "/fountain/api/vaults"])
def test_no_creation_is_sent_that_could_not_be_learned(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """While the database is locked it is a 503 to be tried again, since nothing was made. All else goes on."""
    monkeypatch.setattr("proxy.store.engine._WAIT_SECONDS", 0.3)

    async def work(broker: Running, token: str) -> None:
        other = sqlite3.connect(tmp_path / "state" / "broker.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answer = await ask(broker, path, {}, token)
        assert (answer.status, answer.all("retry-after")) == (503, ["1"])
        await nothing_done(broker, tmp_path, Reason.STATE)
        assert (await ask(broker, "/fountain/api/vaults/v-9", None, token)).status == 200
        other.execute("COMMIT")
        other.close()
        broker.api.script = lambda _got: reply(b'{"id": "new-thing-1"}', 201)
        assert (await ask(broker, path, {}, token)).status == 201

    run(work)


@pytest.mark.parametrize("method", ["owners", "learn"])
def test_a_creation_that_is_not_learned_is_told_as_made(run: Run, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """502 without an invitation to try again: it says that the thing is there, and who can help."""

    async def work(broker: Running, token: str) -> None:
        async def fails(*_: object, **__: object) -> None:
            raise StateUnavailable

        def script(_got: object) -> list[Any]:
            monkeypatch.setattr(broker.state.__class__, method, fails)
            return list(reply(b'{"id": "new-thing-1"}', 201))

        broker.api.script = script
        answer = await ask(broker, "/fountain/api/vaults", {}, token)
        assert (answer.status, answer.all("retry-after")) == (502, [])
        assert "Fountain made the vault" in answer.message
        assert "do not send this again" in answer.message
        assert broker.reasons() == [Reason.STATE]
        assert len(broker.api.got) == 1

    run(work)


def test_a_token_that_comes_about_by_composing_goes_nowhere(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent is put together, so it is searched too."""

    async def work(broker: Running, token: str) -> None:
        composed = b"..." + ENVIRONMENT["TOKEN"].encode()
        monkeypatch.setattr("addons.broker.decide.messages_request", lambda *_: composed)
        assert (await ask(broker, "/decide/v1/systemone", DECISION, token)).status == 403
        await nothing_done(broker, tmp_path, Reason.BOX_TOKEN_LEAK)

    run(work)
