"""Every route of the broker, over real sockets, against an upstream that records what reaches it."""

import asyncio
import base64
import errno
import gzip
import json
import os
import re
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.brokers import (
    ENVIRONMENT,
    FOUNTAIN,
    HOUSE,
    OTHER,
    OWNER,
    SEARCH,
    TOKEN,
    VALUE,
    VISITOR,
    Answer,
    Got,
    Running,
    brokers,
    reply,
)

from addons.broker.decide import DecidePart
from addons.broker.parts import Credential
from addons.ports import StateUnavailable
from addons.record import EndedBy, Event, Mode
from grants.broker.capabilities import Route
from grants.broker.fountain import Kind
from grants.decision import Reason, Rule
from grants.message import Response

MESSAGES = "/llm/anthropic/v1/messages"
DECIDE = "/decide/v1/systemone"
QUESTION = {"type": "noul", "instructions": "Ship it?", "criteria": {"true": "yes", "false": "no"}}
EVERYTHING = {
    "inference": ["agent", "decide"],
    "egress": ["API", "MINE", "NONE"],
    "feedback": ["agent", "passive"],
    "fountain": ["agent", "conversations", "sandboxes", "vault"],
    "search": ["read"],
}

type Work = Callable[[Running], Coroutine[Any, Any, None]]
type Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    def go(work: Work, **options: Any) -> None:
        async def main() -> None:
            async with asyncio.timeout(50), brokers(tmp_path, **options) as broker:
                await work(broker)
                for record in broker.log.records:
                    assert record.mode is Mode.BROKER
                    for value in ENVIRONMENT.values():
                        assert value not in repr(record)

        asyncio.run(main())

    return go


REFUSED = [
    pytest.param("GET", "/", {}, 404, Reason.BROKER_ROUTE, id="no route"),
    pytest.param("GET", "http://broker.example/api/feedback", {}, 404, Reason.BROKER_ROUTE, id="absolute form"),
    pytest.param("GET", "/api/box/declaration", {}, 405, Reason.BROKER_METHOD, id="report: method"),
    pytest.param("PUT", "/api/feedback", {"body": {}}, 405, Reason.BROKER_METHOD, id="feedback: method"),
    pytest.param("GET", DECIDE, {}, 405, Reason.BROKER_METHOD, id="decide: method"),
    pytest.param("POST", "/llm/anthropic/v1/complete", {"body": {}}, 404, Reason.BROKER_ROUTE, id="inference: path"),
    pytest.param("POST", "/llm/anthropic/api/hello", {"body": {}}, 404, Reason.BROKER_ROUTE, id="hello: method"),
    pytest.param("GET", "/llm/anthropic/api/hello", {"body": {}}, 413, Reason.BODY_TOO_LARGE, id="hello: body"),
    pytest.param("POST", MESSAGES, {"body": {}, "token": None}, 403, Reason.BOX_UNKNOWN, id="inference: no token"),
    pytest.param("POST", MESSAGES, {"body": {}, "token": "x" * 20}, 403, Reason.BOX_UNKNOWN, id="inference: unknown"),
    pytest.param(
        "POST", MESSAGES, {"body": {}, "fields": {"x-api-key": OTHER}}, 403, Reason.BOX_UNKNOWN,
        id="two boxes",
    ),
    pytest.param("POST", DECIDE, {"body": {}, "token": None}, 401, Reason.BOX_UNKNOWN, id="decide: no token"),
    pytest.param(
        "POST", "/api/box/declaration", {"body": {}, "token": "gpx_" + "x" * 43}, 401, Reason.BOX_UNKNOWN,
        id="report: unknown",
    ),
    pytest.param("POST", MESSAGES, {"body": {}, "token": OTHER}, 403, Reason.SCOPE, id="never reported"),
    pytest.param("POST", f"{MESSAGES}?a={TOKEN}", {"body": {}}, 403, Reason.BOX_TOKEN_LEAK, id="inference: in query"),
    pytest.param(
        "POST", MESSAGES, {"body": {}, "fields": {"Cookie": f"a={TOKEN}"}}, 403, Reason.BOX_TOKEN_LEAK, id="in a header"
    ),
    pytest.param("GET", "/egress/api/x", {}, 404, Reason.BROKER_ROUTE, id="egress: no name"),
    pytest.param("GET", "/egress/UNDECLARED/x", {}, 403, Reason.SCOPE, id="egress: undeclared"),
    pytest.param("GET", "/egress/NONE/x", {}, 403, Reason.SECRET_UNHELD, id="egress: not held"),
    pytest.param("GET", "/egress/MINE/x", {}, 403, Reason.SECRET_UNHELD, id="egress: another box's"),
    pytest.param("GET", f"/egress/API/{TOKEN}", {}, 403, Reason.BOX_TOKEN_LEAK, id="egress: in path"),
    pytest.param("GET", f"/egress/API/%{ord('t'):x}{TOKEN[1:]}", {}, 403, Reason.BOX_TOKEN_LEAK, id="egress: encoded"),
    pytest.param("POST", "/egress/API/x", {"body": {"key": TOKEN}}, 403, Reason.BOX_TOKEN_LEAK, id="egress: in body"),
    pytest.param("POST", "/api/feedback", {"body": b"{"}, 400, Reason.FEEDBACK_INVALID, id="feedback: no JSON"),
    pytest.param("POST", "/api/feedback", {"body": {}}, 400, Reason.FEEDBACK_INVALID, id="feedback: empty"),
    pytest.param(
        "POST", "/api/feedback", {"body": {"entries": [TOKEN]}}, 403, Reason.BOX_TOKEN_LEAK,
        id="feedback: token",
    ),
    pytest.param("POST", DECIDE, {"body": {"model": "m"}}, 422, Reason.DECIDE_INVALID, id="decide: not in the format"),
    pytest.param(
        "POST",
        DECIDE,
        {"body": {"model": "m", "state": TOKEN, "questions": {"q": QUESTION}}},
        403,
        Reason.BOX_TOKEN_LEAK,
        id="decide: token",
    ),
    pytest.param("POST", "/api/box/declaration", {"body": b"["}, 400, Reason.REPORT_INVALID, id="report: malformed"),
    pytest.param(
        "POST", "/api/box/declaration", {"body": b" " * 32769}, 413, Reason.BODY_TOO_LARGE,
        id="report: large",
    ),
    pytest.param("GET", "/fountain/api/other", {}, 404, Reason.BROKER_ROUTE, id="fountain: path"),
    pytest.param("GET", "/fountain/api/conversations/c-2", {}, 404, Reason.NOT_OWN, id="fountain: another's, path"),
    pytest.param(
        "GET", "/fountain/api/conversations?sandbox=s-2", {}, 404, Reason.NOT_OWN,
        id="fountain: another's, query",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations", {"body": {"agent": "a-2"}}, 404, Reason.NOT_OWN,
        id="fountain: another's agent",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations", {"body": {"in": [{"vaultId": 1}]}}, 404, Reason.NOT_OWN,
        id="fountain: deep",
    ),
    pytest.param("GET", "/fountain/api/vaults/v%2D1", {}, 404, Reason.BROKER_ROUTE, id="fountain: encoded"),
    pytest.param("QUERY", "/fountain/api/vaults/v-1", {}, 404, Reason.BROKER_ROUTE, id="fountain: method"),
    pytest.param("DELETE", "/fountain/api/vaults", {}, 404, Reason.BROKER_ROUTE, id="fountain: of a collection"),
    pytest.param(
        "POST", "/fountain/api/conversations?_method=GET", {"body": {}}, 400, Reason.METHOD,
        id="fountain: override in the query",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations", {"body": {"_method": "GET"}}, 400, Reason.METHOD,
        id="fountain: override in the body",
    ),
    pytest.param(
        "POST", "/fountain/api/vaults", {"body": {"id": "v-9"}}, 404, Reason.NOT_OWN, id="fountain: chosen id"
    ),
    pytest.param(
        "POST", "/fountain/api/conversations/c-1/messages", {"body": {"x": ["v-2"]}}, 404, Reason.NOT_OWN,
        id="fountain: another's by value",
    ),
    pytest.param(
        "GET", "/fountain/api/vaults/v-1", {"fields": {"If-Match": '"v-2"'}}, 404, Reason.NOT_OWN,
        id="fountain: another's in a field",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations", {"body": [str(each) for each in range(10_001)]}, 413,
        Reason.BODY_TOO_LARGE, id="fountain: too many texts",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations", {"body": b"a=1", "fields": {"Content-Type": "application/json"}}, 400,
        Reason.BODY_JSON, id="fountain: no JSON",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations", {"body": "&vault_id=v-9&x="}, 400, Reason.BODY_JSON,
        id="fountain: a JSON text",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations",
        {"body": b'"&vault_id=v-9&x="', "fields": {"Content-Type": "application/x-www-form-urlencoded"}}, 415,
        Reason.BODY_MEDIA_TYPE, id="fountain: a form",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations", {"body": b"{}"}, 415, Reason.BODY_MEDIA_TYPE,
        id="fountain: no media type",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations",
        {"body": {}, "fields": {"Content-Type": "application/json; charset=utf-7"}}, 415, Reason.BODY_MEDIA_TYPE,
        id="fountain: UTF-7",
    ),
    pytest.param(
        "GET", "/fountain/api/vaults?f=%7B%22vault%22:%22v-9%22,%7D", {}, 400, Reason.QUERY_MALFORMED,
        id="fountain: lenient JSON in the query",
    ),
    pytest.param(
        "GET", "/fountain/api/vaults/v-1", {"fields": {"User-Agent": "{vault:v-9}"}}, 400, Reason.QUERY_MALFORMED,
        id="fountain: lenient JSON in a field",
    ),
    pytest.param(
        "GET", "/fountain/api/vaults?%s_vault=v-9" % ("x" * 1024), {}, 400, Reason.QUERY_TOO_LONG,
        id="fountain: long parameter",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations", {"body": {"x" * 1024 + "_vault": "v-9"}}, 400, Reason.BODY_SCHEMA,
        id="fountain: long member",
    ),
    pytest.param(
        "POST", "/fountain/api/conversations", {"body": {"t": TOKEN}}, 403, Reason.BOX_TOKEN_LEAK, id="fountain: token"
    ),
    pytest.param(
        "POST",
        "/fountain/api/conversations",
        {"body": b"x", "fields": {"Content-Encoding": "gzip"}},
        400,
        Reason.BODY_CODING,
        id="fountain: coded",
    ),
    pytest.param("GET", "/search/else", {}, 404, Reason.BROKER_ROUTE, id="further: path"),
    pytest.param("POST", "/search/query", {"body": {}}, 404, Reason.BROKER_ROUTE, id="further: method"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "sent", "status", "reason"), REFUSED)
def test_refusals_reach_nothing(
    run: Run, method: str, path: str, sent: dict[str, Any], status: int, reason: Reason
) -> None:
    """Each refusal has its status, its document and its record, and nothing reaches an upstream."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        broker.log.records.clear()
        answer = await broker.ask(method, path, **sent)
        assert answer.status == status, answer
        assert broker.reasons() == [reason]
        assert answer.message
        assert answer.all("allow") == (["POST"] if status == 405 else [])
        assert len(broker.log.records) == 1
        assert not broker.api.got

    run(work)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", MESSAGES), ("GET", "/egress/API/x"), ("GET", "/search/query"), ("GET", "/fountain/api/vaults/v-1")],
)
def test_no_relay_changes_the_protocol(run: Run, method: str, path: str) -> None:
    """An upgrade is left out of account on every route, but for WebSocket, which is refused."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        fields = f"Host: b\r\nAuthorization: Bearer {TOKEN}\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n"
        assert b"HTTP/1.1 403" in await broker.raw(f"{method} {path} HTTP/1.1\r\n{fields}\r\n".encode())
        assert broker.reasons()[-1] is Reason.UPGRADE
        assert not broker.api.got

    run(work)


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("POST", MESSAGES, 502, Reason.REFERENCE_EMPTY),
        ("POST", DECIDE, 502, Reason.REFERENCE_EMPTY),
        ("GET", "/search/query", 502, Reason.REFERENCE_EMPTY),
        ("GET", "/fountain/api/vaults/v-1", 502, Reason.REFERENCE_EMPTY),
        ("GET", "/egress/API/x", 403, Reason.SECRET_UNHELD),
    ],
)
def test_a_credential_that_cannot_be_read(
    run: Run, monkeypatch: pytest.MonkeyPatch, method: str, path: str, status: int, reason: Reason
) -> None:
    """Nothing goes upstream without the credential, and nobody else pays."""

    async def unreadable(_credential: Credential) -> None:
        return None

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        monkeypatch.setattr(Credential, "open", unreadable)
        body = {"model": "m", "state": 1, "questions": {"q": QUESTION}} if method == "POST" else None
        assert (await broker.ask(method, path, body=body)).status == status
        assert broker.reasons()[-1] is reason
        assert not broker.api.got

    run(work)


def test_a_model_that_is_slow_is_a_504(run: Run) -> None:
    """All questions share one bound of time, whichever side notices it."""

    async def work(broker: Running) -> None:
        await broker.report(inference=["decide"])
        parts = broker.policies.current.broker.parts  # type: ignore[union-attr]
        part = parts[Route.DECIDE]
        assert isinstance(part, DecidePart)
        parts[Route.DECIDE] = replace(part, timeout=0.2)  # type: ignore[index]
        broker.api.script = lambda _got: [1.0]
        body = {"model": "m", "state": 1, "questions": {"q": QUESTION}}
        assert (await broker.ask("POST", DECIDE, body=body)).status == 504

        class Slow:
            async def send(self, *_: object, **__: object) -> None:
                await asyncio.sleep(5)

        parts[Route.DECIDE] = replace(part, timeout=0.2, upstream=Slow())  # type: ignore[index]
        assert (await broker.ask("POST", DECIDE, body=body)).status == 504

    run(work)


class AtOnce:
    """An upstream whose answers come in one step of the loop, each with its own status."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)
        self._all = asyncio.Event()

    async def send(self, *_: object, **__: object) -> Response:
        status = self._statuses.pop(0)
        if not self._statuses:
            self._all.set()
        await self._all.wait()
        return Response(status=status, reason=b"", fields=(), body=message('{"noul": 0.5, "reason": ""}'))


async def decided(broker: Running, *statuses: int) -> Answer:
    """A question for each status, all of them answered in the same moment."""
    await broker.report(inference=["decide"])
    parts = broker.policies.current.broker.parts  # type: ignore[union-attr]
    parts[Route.DECIDE] = replace(parts[Route.DECIDE], upstream=AtOnce(*statuses))  # type: ignore[index,type-var]
    questions = {f"q{number}": QUESTION for number in range(len(statuses))}
    return await broker.ask("POST", DECIDE, body={"model": "m", "state": 1, "questions": questions})


@pytest.mark.parametrize("statuses", [(529, 200), (200, 529), (200, 529, 200)], ids=str)
def test_the_record_of_a_decision_has_the_status_that_refused_it(run: Run, statuses: tuple[int, ...]) -> None:
    """Not that of another question, answered in the same moment."""

    async def work(broker: Running) -> None:
        answer = await decided(broker, *statuses)
        assert (answer.status, broker.log.records[-1].upstream_status) == (502, 529)

    run(work)


@pytest.mark.parametrize("statuses", [(200,), (200, 529)], ids=str)
def test_an_error_of_our_own_in_a_decision_is_a_fault(
    run: Run, monkeypatch: pytest.MonkeyPatch, statuses: tuple[int, ...]
) -> None:
    """Whatever another question has met in the same moment."""

    def fail(*_: object) -> None:
        raise KeyError(VALUE)

    async def work(broker: Running) -> None:
        monkeypatch.setattr("addons.broker.decide.read_answer", fail)
        answer = await decided(broker, *statuses)
        assert answer.status == 500
        assert VALUE.encode() not in answer.body
        assert broker.reasons() == [None, Reason.FAULT]

    run(work)


def test_feedback_is_held_to_its_words(run: Run) -> None:
    """What a batch needs, its body says: counts need `passive`."""

    async def work(broker: Running) -> None:
        await broker.report(feedback=["agent"])
        answer = await broker.ask("POST", "/api/feedback", body={"entries": [1], "counts": {"a": 1}})
        assert answer.status == 403
        assert "passive" in answer.message
        assert broker.log.records[-1].labels[-1] == "word:passive"

    run(work)


def test_only_what_the_settings_have_is_served(run: Run) -> None:
    """A part that is left out is a 404; feedback may be off (501) or withheld (403), which says so."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        for path in ("/egress/API/x", "/search/query", "/fountain/api/vaults", "/llm/anthropic/api/hello"):
            assert (await broker.ask("GET", path)).status == 404
        assert (await broker.ask("POST", DECIDE, body={})).status == 404
        answer = await broker.ask("POST", "/api/feedback", body={"entries": [1]})
        assert answer.status == broker.policies.current.broker.parts["feedback"].sink.status  # type: ignore
        assert answer.message

    def bare(settings: dict[str, Any]) -> None:
        for key in ("anthropic", "fountain", "secrets", "capabilities"):
            del settings["broker"][key]
        settings["boxes"] = [{"name": "one", "token": "env:TOKEN"}]

    run(work, change=bare, feedback="off")
    run(work, change=bare, feedback={"consent": False})


def test_inference_puts_the_credential_where_the_token_was(run: Run) -> None:
    """Path, query and body are unchanged; both fields of the token are replaced; `chant-grant` is not forwarded."""

    async def work(broker: Running) -> None:
        await broker.report(inference=["agent"])
        fields = {"x-api-key": TOKEN, "chant-grant": "g", "anthropic-beta": "b-1", "Accept-Encoding": "gzip"}
        answer = await broker.ask("POST", f"{MESSAGES}?beta=true&q=a%20b", body=b'{"a" : 1}', fields=fields)
        assert (answer.status, answer.body, answer.all("chant-payer")) == (200, b"{}", ["shared"])
        got = broker.api.got[0]
        assert (got.method, got.target, got.body) == ("POST", "/v1/messages?beta=true&q=a%20b", b'{"a" : 1}')
        assert (got.all("x-api-key"), got.all("authorization"), got.all("chant-grant")) == ([HOUSE], [], [])
        assert (got.all("anthropic-beta"), got.all("accept-encoding")) == (["b-1"], ["identity"])
        assert TOKEN not in repr(got)
        await asyncio.sleep(0.05)
        allow, end = broker.log.records[1:]
        assert (allow.event, allow.endpoint, allow.box, allow.assurance) == (
            Event.ALLOW, "inference", "one", "trusted-upstream"
        )  # fmt: skip
        assert allow.labels == ("capability:inference", "word:agent")
        assert (end.event, end.secret_refs, end.labels[0]) == (Event.END, ("anthropic",), EndedBy.UPSTREAM)

    run(work)


def test_a_setup_token_is_a_bearer_with_its_beta(run: Run) -> None:
    """An owner's own credential pays before the house's; a setup token goes as a bearer, what the client sent stays."""

    async def work(broker: Running) -> None:
        kept = await broker.report(token=OTHER, inference=["agent"])
        assert kept.json["payer"] == {"kind": "owner", "principal": "github:owner"}
        answer = await broker.ask(
            "POST", MESSAGES, body={}, token=OTHER, key="x-api-key", fields={"anthropic-beta": "b-1"}
        )
        assert answer.all("chant-payer") == ["owner github:owner"]
        got = broker.api.got[0]
        assert (got.all("authorization"), got.all("x-api-key")) == ([f"Bearer {OWNER}"], [])
        assert got.all("anthropic-beta") == ["b-1,oauth-2025-04-20"]
        fields = {"anthropic-beta": "oauth-2025-04-20"}
        await broker.ask("POST", MESSAGES, body={}, token=OTHER, fields=fields)
        assert broker.api.got[1].all("anthropic-beta") == ["oauth-2025-04-20"]

    run(work)


def test_a_visitors_grant_makes_the_visitor_pay(run: Run) -> None:
    """A live grant for this box makes its credential pay; one of another box, expired or revoked is ignored."""

    async def work(broker: Running) -> None:
        store = broker.state.store
        assert store is not None
        await broker.report(inference=["agent"])
        import time

        now = time.time()

        async def grant(box: str, credential: str = "env:VISITOR", ttl: float = 60) -> str:
            issued = await store.issue_grant(box, principal="github:ada", credential=credential, ttl=ttl, now=now)
            return issued.value

        revoked = await grant("one")
        await store.revoke(now=now, box="one")
        wanted = {
            await grant("one"): ("visitor github:ada", VISITOR),
            await grant("two"): ("shared", HOUSE),
            await grant("one", ttl=-1): ("shared", HOUSE),
            await grant("one", "env:NOT_SET"): ("shared", HOUSE),
            revoked: ("shared", HOUSE),
            "unknown": ("shared", HOUSE),
        }
        for value, (payer, credential) in wanted.items():
            answer = await broker.ask("POST", MESSAGES, body={}, fields={"chant-grant": value})
            assert answer.all("chant-payer") == [payer]
            got = broker.api.got[-1]
            assert (got.all("x-api-key"), got.all("chant-grant")) == ([credential], [])

    run(work)


def test_an_event_reaches_the_box_before_the_next_is_sent(run: Run) -> None:
    """A server-sent event arrives as it is sent, and a credential in a later one cuts the stream before it."""

    async def work(broker: Running) -> None:
        await broker.report(inference=["agent"])
        gate = asyncio.Event()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        broker.api.script = lambda _got: [
            head, b"9\r\ndata: 1\n\n\r\n", gate, b"5\r\n%b\r\n" % HOUSE[:5].encode(),
            b"%x\r\n%b\r\n0\r\n\r\n" % (len(HOUSE) - 5, HOUSE[5:].encode()),
        ]  # fmt: skip
        reader, writer = await asyncio.open_connection(*broker.address)
        writer.write(f"POST {MESSAGES} HTTP/1.1\r\nHost: b\r\nx-api-key: {TOKEN}\r\nContent-Length: 0\r\n\r\n".encode())
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(14) == b"9\r\ndata: 1\n\n\r\n"
        gate.set()
        assert await reader.read() == b""
        writer.close()
        await asyncio.sleep(0.05)
        end = broker.log.records[-1]
        assert (end.event, end.reason, end.labels[0]) == (Event.END, Reason.CREDENTIAL, EndedBy.PROXY)

    run(work)


BASIC = base64.b64encode(f"user:{TOKEN}".encode()).decode()
SWAPS = [
    pytest.param({}, "/x?q=1", ("authorization", f"Bearer {VALUE}"), "/x?q=1", id="bearer"),
    pytest.param({"key": "X-Key"}, "/x", ("x-key", VALUE), "/x", id="any field"),
    pytest.param(
        {"token": None, "fields": {"Authorization": f"Basic {BASIC}"}},
        "/x",
        ("authorization", "Basic " + base64.b64encode(f"user:{VALUE}".encode()).decode()),
        "/x",
        id="basic",
    ),
    pytest.param(
        {"token": None}, f"/x?key={TOKEN}&b=1", None, "/x?key=value%2Fof%2Bthe%3Dsecret-0123456789&b=1", id="query"
    ),
]


@pytest.mark.parametrize(("sent", "path", "field", "target"), SWAPS)
def test_egress_swaps_wherever_the_token_stands(
    run: Run, sent: dict[str, Any], path: str, field: tuple[str, str] | None, target: str
) -> None:
    """The value goes where the token was, and comes back as what the box sent, in headers and `Location`."""

    async def work(broker: Running) -> None:
        await broker.report(egress=["API"])
        echo = field[1] if field else VALUE
        location = f"Location: http://127.0.0.1:{broker.api.port}/next?a=1"
        broker.api.script = lambda _got: reply(b"{}", 302, f"X-Echo: {echo}", "Set-Cookie: a=b", location)
        answer = await broker.ask("GET", f"/egress/API{path}", **sent)
        got = broker.api.got[0]
        assert got.target == target
        assert field is None or field in got.fields
        assert TOKEN not in repr(got)
        assert answer.status == 302
        assert answer.all("set-cookie") == []
        assert answer.all("location") == [f"http://127.0.0.1:{broker.address[1]}/egress/API/next?a=1"]
        assert VALUE not in repr(answer)
        assert answer.all("x-echo")[0].removeprefix("Bearer ") in (TOKEN, f"Basic {BASIC}")
        await asyncio.sleep(0.05)
        record = broker.log.records[-1]
        assert (record.endpoint, record.secret_refs) == ("egress:api", ("API",))

    run(work)


@pytest.mark.parametrize("length", [True, False], ids=["known", "unknown"])
def test_an_egress_answer_that_echoes_the_credential_is_cut(run: Run, length: bool) -> None:
    """A small one of a known length too: the box has its head, and a body that does not come to its end."""

    async def work(broker: Running) -> None:
        await broker.report(egress=["API"])
        body = b'{"key":"%b"}' % VALUE.encode()
        framing = b"Content-Length: %d\r\n\r\n" % len(body) if length else b"Transfer-Encoding: chunked\r\n\r\n"
        sent = body if length else b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        broker.api.script = lambda _got: [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + framing + sent]
        reader, writer = await asyncio.open_connection(*broker.address)
        writer.write(f"GET /egress/API/x HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 200 ")
        assert (b"content-length: %d" % len(body) in head.lower()) is length
        assert len(rest) < len(body)
        assert not rest.endswith(b"0\r\n\r\n")
        await asyncio.sleep(0.05)
        end = broker.log.records[-1]
        assert (end.event, end.rule, end.reason) == (Event.END, Rule.RESPONSE_CREDENTIAL, Reason.CREDENTIAL)

    run(work)


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "streamed"])
def test_an_egress_body_goes_on_unless_it_holds_the_token(run: Run, chunked: bool) -> None:
    """The body is searched and not changed, also where it is streamed: no upstream receives the token."""

    async def work(broker: Running) -> None:
        await broker.report(egress=["API"])
        answer = await broker.ask("POST", "/egress/API/x", body={"a": 1}, chunked=chunked)
        assert answer.status == 200
        assert broker.api.got[0].body == b'{"a": 1}'
        answer = await broker.ask("POST", "/egress/API/x", body=TOKEN[:9].encode(), chunked=chunked)
        assert broker.api.got.pop().body == TOKEN[:9].encode()
        answer = await broker.ask("POST", "/egress/API/x", body={"a": TOKEN}, chunked=chunked)
        assert answer.status == 403
        assert answer.message
        assert len(broker.api.got) == 1

    run(work)


HEADS = [
    pytest.param("X-Other: " + base64.b64encode(b"ab:" + VALUE.encode()).decode(), Reason.CREDENTIAL, id="base64"),
    pytest.param("Content-Encoding: unknown", Reason.RESPONSE_CODING, id="unknown coding"),
]


@pytest.mark.parametrize(("line", "reason"), HEADS)
def test_a_head_that_cannot_be_shown(run: Run, line: str, reason: Reason) -> None:
    """What cannot become the token again, or cannot be searched, is a 502."""

    async def work(broker: Running) -> None:
        await broker.report(egress=["API"])
        broker.api.script = lambda _got: reply(b"{}", 200, line)
        assert (await broker.ask("GET", "/egress/API/x")).status == 502
        assert broker.reasons()[-1] is reason

    run(work)


@pytest.mark.parametrize("coding", ["gzip", "aws-chunked", "gzip, br, gzip"])
@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_a_coding_without_a_body(run: Run, method: str, status: int, coding: str) -> None:
    """There is nothing to search, so whatever a head says of its coding it is shown (RFC 9110, 8.4 and 9.3.2)."""

    async def work(broker: Running) -> None:
        await broker.report(egress=["API"])
        broker.api.script = lambda _got: [b"HTTP/1.1 %d X\r\nContent-Encoding: %b\r\n\r\n" % (status, coding.encode())]
        answer = await broker.ask(method, "/egress/API/x")
        assert (answer.status, answer.cut) == (status, False)
        assert [record.reason for record in broker.log.records[-2:]] == [None, None]

    run(work)


def message(text: str) -> bytes:
    content = [{"type": "text", "text": text}]
    usage = {"input_tokens": 3, "output_tokens": 2}
    return json.dumps({"content": content, "stop_reason": "end_turn", "usage": usage}).encode()


DECISIONS = [
    pytest.param(reply(message('{"noul": 0.5, "reason": "r"}')), 200, None, 200, id="answer"),
    pytest.param(reply(message('{"noul": 2}')), 502, Reason.ANSWER_UNUSABLE, 200, id="unusable"),
    pytest.param(reply(b"{}", 529), 502, Reason.ANSWER_UNUSABLE, 529, id="status"),
    pytest.param(reply(b"x", 200, "Content-Encoding: gzip"), 502, Reason.ANSWER_UNUSABLE, 200, id="coding"),
    pytest.param([b"nothing of HTTP\r\n\r\n"], 502, Reason.MALFORMED, None, id="malformed"),
    pytest.param(
        reply(message(json.dumps({"noul": 1, "reason": f"key {HOUSE}"}))), 502, Reason.CREDENTIAL, 200, id="credential"
    ),
]


@pytest.mark.parametrize(("script", "status", "reason", "answered"), DECISIONS)
def test_decisions(run: Run, script: list[bytes], status: int, reason: Reason | None, answered: int | None) -> None:
    """One call a question; an upstream failure, and an answer that cannot be used, is a 502."""

    async def work(broker: Running) -> None:
        await broker.report(inference=["decide"])
        broker.api.script = lambda _got: list(script)
        many = {"type": "choice", "instructions": "?", "criteria": []}
        questions = {"a": QUESTION, "b": QUESTION, "c": many}
        answer = await broker.ask("POST", DECIDE, body={"model": "m", "state": 1, "questions": questions})
        assert answer.status == status
        assert broker.reasons()[-1] is reason
        assert broker.log.records[-1].upstream_status == answered
        if reason is None:
            assert answer.all("chant-payer") == ["shared"]
            assert answer.json["answers"]["c"] == {"type": "unsupported"}
            assert answer.json["usage"] == {"input_tokens": 6, "output_tokens": 4}
            assert len(broker.api.got) == 2
            got: Got = broker.api.got[0]
            assert (got.target, got.all("x-api-key"), got.all("anthropic-version")) == (
                "/v1/messages", [HOUSE], ["2023-06-01"]
            )  # fmt: skip

    run(work)


def full(does: Callable[..., Any]) -> Callable[..., Any]:
    """A call of the system that does its work and then finds that the disk is full, in the feedback's thread alone."""

    def fails(*arguments: Any) -> Any:
        done = does(*arguments)
        if threading.current_thread() is not threading.main_thread():
            raise OSError(errno.ENOSPC, "full")
        return done

    return fails


def test_feedback_is_kept_or_posted_on(run: Run, tmp_path: Path) -> None:
    """A batch is one line of the file before it is answered, or is posted on as it came."""

    async def work(broker: Running) -> None:
        await broker.report(feedback=["agent", "passive"])
        body = {"entries": [{"note": "x"}], "counts": {"a": 1}}
        answer = await broker.ask("POST", "/api/feedback", body=body)
        assert (answer.status, answer.json) == (202, {"taken": True})
        assert broker.log.records[-1].labels == ("capability:feedback", "word:agent", "word:passive")
        if broker.api.got:
            assert (broker.api.got[0].target, json.loads(broker.api.got[0].body)) == ("/in", body)
            assert broker.api.got[0].all("authorization") == []
            assert broker.log.records[-1].upstream_status == 200
            for status, shown in ((500, 502), (299, 202), (300, 502)):
                broker.api.script = lambda _got, status=status: reply(b"{}", status)  # type: ignore[misc]
                assert (await broker.ask("POST", "/api/feedback", body=body)).status == shown
                assert broker.log.records[-1].upstream_status == status
            broker.api.script = lambda _got: [b"no HTTP\r\n\r\n"]
            assert (await broker.ask("POST", "/api/feedback", body=body)).status == 502
            assert broker.reasons()[-3:] == [None, Reason.STATUS, Reason.MALFORMED]
            assert broker.log.records[-1].upstream_status is None
        else:
            file = tmp_path / "state" / "feedback.jsonl"
            assert json.loads(file.read_bytes())["batch"] == body
            assert file.stat().st_mode & 0o777 == 0o600
            kept = file.read_bytes()
            for name in ("write", "fsync"):
                # What is refused is sent again, so nothing of it may stay.
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(os, name, full(getattr(os, name)))
                    assert (await broker.ask("POST", "/api/feedback", body=body)).status == 503
                assert file.read_bytes() == kept
            file.unlink()
            file.mkdir()
            assert (await broker.ask("POST", "/api/feedback", body=body)).status == 503

    def forward(settings: dict[str, Any]) -> None:
        settings["broker"]["feedback"] = {"url": settings["broker"]["anthropic"]["url"] + "/in"}

    run(work)
    run(work, change=forward)


def test_fountain_learns_what_a_box_creates(run: Run) -> None:
    """A list is cut to the box's own; what a box creates is its own from then on, and no other box's."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        await broker.report(token=OTHER, **EVERYTHING)
        broker.api.script = lambda _got: reply(b'{"id": "c-9"}', 201)
        path = "/fountain/api/conversations"
        made = await broker.ask("POST", path, body={"agent": "a-1"})
        assert (made.status, made.json) == (201, {"id": "c-9"})
        got = broker.api.got[0]
        assert (got.target, got.all("authorization")) == ("/base/api/conversations", [f"Bearer {FOUNTAIN}"])
        listed = b'{"data": [{"id": "c-1"}, {"id": "c-2"}, {"id": "c-9"}], "next": 1}'
        broker.api.script = lambda _got: reply(listed)
        assert (await broker.ask("GET", path)).json == {"data": [{"id": "c-1"}, {"id": "c-9"}], "next": 1}
        assert (await broker.ask("GET", path, token=OTHER)).json == {"data": [], "next": 1}
        broker.api.script = lambda _got: reply(b'{"text": "x"}')
        assert (await broker.ask("GET", f"{path}/c-9")).body == b'{"text": "x"}'
        assert (await broker.ask("POST", f"{path}/c-9/messages", body={"text": "x"})).status == 200
        assert broker.api.got[-1].body == b'{"text": "x"}'
        assert broker.api.got[-1].all("content-type") == ["application/json"]
        assert (await broker.ask("GET", f"{path}/c-9", token=OTHER)).status == 404
        store = broker.state.store
        assert store is not None
        assert await store.owns("one", Kind.CONVERSATION, "c-9")

    run(work)


WHOLE = [
    pytest.param(reply(b"[[]]"), 502, Reason.ANSWER_UNUSABLE, id="no list"),
    pytest.param(reply(b'{"data": [{"id": "v-1"}], "byId": {}}'), 502, Reason.ANSWER_UNUSABLE, id="by id"),
    pytest.param(reply(b'{"data": [{"id": "v-1"}], "included": []}'), 502, Reason.ANSWER_UNUSABLE, id="included"),
    pytest.param(reply(b"x"), 502, Reason.ANSWER_UNUSABLE, id="no JSON"),
    pytest.param(reply(b"null"), 502, Reason.ANSWER_UNUSABLE, id="null"),
    pytest.param(reply(b'{"error": 1}'), 502, Reason.ANSWER_UNUSABLE, id="an error, as a success"),
    pytest.param(reply(b'{"data": [{"id": "v-1"}], "data": []}'), 502, Reason.ANSWER_UNUSABLE, id="a key twice"),
    pytest.param(reply(b'{"id": "v-2"}\n{"id": "v-1"}\n'), 502, Reason.ANSWER_UNUSABLE, id="lines"),
    pytest.param(reply(b""), 200, None, id="empty"),
    pytest.param(reply(b"", 404), 404, None, id="an error, empty"),
    pytest.param([b"HTTP/1.1 204 X\r\n\r\n"], 204, None, id="204"),
    pytest.param([b"HTTP/1.1 304 X\r\n\r\n"], 304, None, id="304"),
    pytest.param([b"HTTP/1.1 204 X\r\nContent-Encoding: unknown\r\n\r\n"], 204, None, id="204, unknown coding"),
    pytest.param(reply(b'{"error": 1}', 500), 500, None, id="an error"),
    pytest.param(reply(b'{"detail": [{"loc": ["query"], "msg": "x"}]}', 422), 422, None, id="an error of members"),
    pytest.param(reply(b'[{"id": "v-2"}]', 404), 502, Reason.ANSWER_UNUSABLE, id="an error with a list"),
    pytest.param(reply(b'{"a": {"data": [{"id": "v-2"}]}}', 409), 502, Reason.ANSWER_UNUSABLE, id="a list in an error"),
    pytest.param(reply(b"v-2", 500), 502, Reason.ANSWER_UNUSABLE, id="an error, no JSON"),
    pytest.param(reply(b'{"vaults": [{"id": "v-2"}]}', 303), 502, Reason.ANSWER_UNUSABLE, id="a redirect with a list"),
    pytest.param(reply(FOUNTAIN.encode()), 502, Reason.CREDENTIAL, id="credential"),
    pytest.param(reply(b"x", 200, "Content-Encoding: gzip"), 502, Reason.RESPONSE_CODING, id="coding"),
    pytest.param(reply(gzip.compress(b"[]"), 200, "Content-Encoding: gzip"), 200, None, id="coded"),
    pytest.param(reply(b"x", 200, "Content-Encoding: unknown"), 502, Reason.RESPONSE_CODING, id="unknown coding"),
    pytest.param([b"no HTTP\r\n\r\n"], 502, Reason.MALFORMED, id="malformed"),
    pytest.param(reply(b"", 307, "Location: /base/api/vaults?a=1"), 307, None, id="redirect"),
]


@pytest.mark.parametrize(("script", "status", "reason"), WHOLE)
def test_fountain_lists(run: Run, script: list[bytes], status: int, reason: Reason | None) -> None:
    """A list that cannot be recognised or searched is shown to nobody."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        broker.api.script = lambda _got: list(script)
        answer = await broker.ask("GET", "/fountain/api/vaults")
        assert answer.status == status
        assert b"v-2" not in answer.body
        assert broker.reasons()[-1] is reason
        match = re.match(rb"HTTP/1\.1 (\d+) ", script[0])
        assert broker.log.records[-1].upstream_status == (int(match[1]) if match else None)
        if status == 307:
            assert answer.all("location") == [f"http://127.0.0.1:{broker.address[1]}/fountain/api/vaults?a=1"]

    run(work)


SPEAKING = {
    "X-HTTP-Method-Override": "DELETE",
    "X-Vault-Id": "v-2",
    "Idempotency-Key": "k-2",
    "Cookie": "vault=v-2",
    "X-Original-URL": "/api/vaults/v-2",
}
ABOUT_ALL = {"If-None-Match": '"t"', "If-Modified-Since": "Sat, 01 Jan 2028 00:00:00 GMT", "Range": "bytes=0-9"}


def test_fountain_is_sent_fields_of_a_list_alone(run: Run) -> None:
    """A field that names a thing, the method or another's request gets lost on the way; harmless ones do not."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        broker.api.script = lambda _got: reply(b"[]", 200, 'ETag: "all"', "Link: </api/vaults/v-2>", "X-Total-Count: 2")
        sent = {"Accept": "application/json", "X-Request-Id": "r-1", **SPEAKING, **ABOUT_ALL}
        for path, conditional in (("/fountain/api/vaults/v-1", True), ("/fountain/api/vaults", False)):
            answer = await broker.ask("GET", path, fields=sent)
            assert answer.status == 200
            names = {name for name, _ in broker.api.got[-1].fields}
            expected = {"host", "accept", "x-request-id", "accept-encoding", "authorization"}
            assert names == expected | ({name.lower() for name in ABOUT_ALL} if conditional else set())
            assert bool(answer.all("etag") + answer.all("link") + answer.all("x-total-count")) is conditional

    run(work)


CREATIONS = [
    pytest.param({}, b'{"id": "v-9"}', 201, id="new"),
    pytest.param({}, b'{"vault": {"id": 9}}', 201, id="new, below its kind"),
    pytest.param({"x": "v-1"}, b'{"id": "v-1"}', 201, id="own already, by the settings"),
    pytest.param({"name": "v-8"}, b'{"id": "v-8"}', 201, id="own already, learned"),
    pytest.param({}, b'{"id": "v-2"}', 502, id="another's, by the settings"),
    pytest.param({}, b'{"id": "v-7"}', 502, id="another's, learned"),
    pytest.param({"name": "mine"}, b'{"id": "mine"}', 502, id="chosen in the body"),
    pytest.param({"a": {"b": ["x/mine"]}}, b'{"id": "mine"}', 502, id="chosen, in a text"),
    pytest.param({}, b'{"id": "asked"}', 502, id="chosen in the query"),
    pytest.param({}, b'{"id": "c-2"}', 201, id="another kind's"),
    pytest.param({}, b'{"ok": true}', 201, id="no id"),
    pytest.param({}, b'[{"id": "v-9"}]', 502, id="a list"),
    pytest.param({}, b'{"vaults": [{"id": "v-2"}]}', 502, id="a list in an object"),
    pytest.param({}, b'{"data": {"items": [{"id": "v-2"}]}}', 502, id="a list below"),
    pytest.param({}, b'{"id": "v-9"}\n{"id": "v-2"}\n', 502, id="lines"),
    pytest.param({}, b'{"id": "v-9", "id": "v-2"}', 502, id="a key twice"),
    pytest.param({}, b"data: v-2", 502, id="no JSON"),
    pytest.param({}, b"null", 502, id="null"),
    pytest.param({}, b'"v-2"', 502, id="a text"),
    pytest.param({}, b'{"id": "v-9", "items": [{"id": "x"}]}', 201, id="new, whole"),
    pytest.param({"name": "MINE"}, b'{"id": "mine"}', 502, id="chosen, other letters"),
    pytest.param({"a": "This is mine " * 200}, b'{"id": "mine"}', 502, id="chosen, in a long text"),
    pytest.param({"name": "My Vault"}, b'{"id": "my-vault"}', 502, id="chosen, as a title"),
    *(
        pytest.param({}, b'{"id": "%b"}' % each, 502, id=f"no id: {each.decode()}")
        for each in (b"", b"vault", b"Agents", b"\\n")
    ),
    pytest.param({}, b'{"id": true}', 502, id="no id: a boolean"),
]


@pytest.mark.parametrize(("body", "answer", "status"), CREATIONS)
def test_fountain_creations(run: Run, body: dict[str, Any], answer: bytes, status: int) -> None:
    """An id is learned that is nobody's yet and was not the box's choice; any other answer is withheld."""

    def two(settings: dict[str, Any]) -> None:
        settings["boxes"][1]["fountain"]["conversations"] = ["c-2"]

    async def work(broker: Running) -> None:
        store = broker.state.store
        assert store is not None
        assert await store.learn("one", Kind.VAULT, "v-8")
        assert await store.learn("two", Kind.VAULT, "v-7")
        before = await store.owned("one", Kind.VAULT)
        await broker.report(**EVERYTHING)
        broker.api.script = lambda _got: reply(answer, 201)
        made = await broker.ask("POST", "/fountain/api/vaults?by=asked", body=body)
        assert made.status == status
        assert broker.reasons()[-1] is (None if status == 201 else Reason.ANSWER_UNUSABLE)
        new = {"9", "v-9", "c-2"} if status == 201 else set()
        assert await store.owned("one", Kind.VAULT) - before <= new
        if status == 201:
            assert made.body == answer
        else:
            assert answer not in made.body

    run(work, change=two)


def test_what_another_box_learned_between_is_withheld(run: Run) -> None:
    """Of two boxes that are given one id at the same time, one has it."""

    async def work(broker: Running) -> None:
        store = broker.state.store
        assert store is not None
        await broker.report(**EVERYTHING)
        await broker.report(token=OTHER, **EVERYTHING)
        broker.api.script = lambda _got: [0.2, *reply(b'{"id": "v-9"}', 201)]
        asked = (broker.ask("POST", "/fountain/api/vaults", token=token) for token in (TOKEN, OTHER) * 3)
        made = await asyncio.gather(*asked)
        owners = [box for box in ("one", "two") if await store.owns(box, Kind.VAULT, "v-9")]
        assert len(owners) == 1
        assert [answer.status for answer in made] == ([201, 502] if owners == ["one"] else [502, 201]) * 3

    run(work)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param(reply(b"", 201), 201, id="empty"),
        pytest.param(reply(b'{"error": "taken"}', 409), 409, id="an error"),
        pytest.param(reply(b'{"id": "s-9"}', 409), 409, id="an error with an id"),
        pytest.param(reply(b'{"all": [{"id": "s-9"}]}', 409), 502, id="an error with a list"),
        pytest.param(reply(b"no JSON", 500), 502, id="an error, no JSON"),
    ],
)
def test_a_creation_without_an_id_teaches_nothing(run: Run, answer: list[bytes], status: int) -> None:
    """The answer goes on, if it is understood; nothing is the box's by it."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        broker.api.script = lambda _got: list(answer)
        fields = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await broker.ask("POST", "/fountain/api/sandboxes", body=b"", fields=fields)).status == status
        assert (broker.api.got[0].body, broker.api.got[0].all("content-type")) == (b"", [])
        assert broker.state.store is not None
        assert await broker.state.store.owned("one", Kind.SANDBOX) == frozenset()


def test_a_body_goes_on_as_json(run: Run) -> None:
    """Whatever the box called it, Fountain reads what the broker read."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        broker.api.script = lambda _got: reply(b"{}")
        for method, path in (("PATCH", "/fountain/api/vaults/v-1"), ("POST", "/fountain/api/vaults")):
            fields = {"Content-Type": "application/merge-patch+json; charset=UTF-8"}
            assert (await broker.ask(method, path, body={"a": 1}, fields=fields)).status == 200
            assert broker.api.got[-1].all("content-type") == ["application/json"]

    run(work)


def test_further_capabilities(run: Run) -> None:
    """What the settings add is held to the same rule, and goes out with its credential in its field."""

    async def work(broker: Running) -> None:
        assert (await broker.ask("GET", "/search/query")).status == 403
        await broker.report(search=["read"])
        answer = await broker.ask("GET", "/search/query?q=1", fields={"X-Search": "mine", "x_Search": "too"})
        assert answer.status == 200
        got = broker.api.got[0]
        assert got.all("x_search") == []
        assert (got.target, got.all("x-search"), got.all("authorization")) == ("/query?q=1", [SEARCH], [])
        await asyncio.sleep(0.05)
        assert broker.log.records[-1].labels[1:] == ("capability:search", "word:read")
        assert (await broker.ask("GET", "/search/open")).status == 200

    run(work)


def test_a_report_is_answered_with_what_was_kept(run: Run) -> None:
    """The report is stored before its 200, and read again at the next request."""

    async def work(broker: Running) -> None:
        answer = await broker.report(inference=["agent"])
        assert answer.json["capabilities"] == [{"name": "inference", "broker": "lobby", "scope": ["agent"]}]
        assert answer.json["payer"] == {"kind": "shared", "principal": None}
        store = broker.state.store
        assert store is not None
        stored = await store.report_of("one")
        assert stored is not None
        assert stored.at == answer.json["at"]
        assert (broker.log.records[-1].endpoint, broker.log.records[-1].assurance) == ("declaration", None)

    run(work)


def test_added_boxes_are_boxes(run: Run) -> None:
    """A box that was added with `box add` is known by its token; a name of the settings is that box's."""

    async def work(broker: Running) -> None:
        import time

        store = broker.state.store
        assert store is not None
        token = await store.add_box("three", now=time.time())
        taken = await store.add_box("one", now=time.time())
        await broker.report(token=token, inference=["agent"])
        assert (await broker.ask("POST", MESSAGES, body={}, token=token)).status == 200
        assert broker.log.records[-1].box == "three"
        assert (await broker.ask("POST", MESSAGES, body={}, token=taken)).status == 403
        await store.remove_box("three", now=time.time())
        assert (await broker.ask("POST", MESSAGES, body={}, token=token)).status == 403

    run(work)


def test_without_its_state_nothing_is_allowed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that cannot be asked is a 503 on every route, and nothing goes upstream."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)

        async def fails(*_: object, **__: object) -> None:
            raise StateUnavailable

        monkeypatch.setattr(State, "report_of", fails)
        monkeypatch.setattr(State, "save_report", fails)
        for method, path in (("POST", MESSAGES), ("GET", "/egress/API/x"), ("POST", "/api/box/declaration")):
            body = {"capabilities": []} if method == "POST" else None
            answer = await broker.ask(method, path, body=body)
            assert (answer.status, answer.all("retry-after")) == (503, ["1"])
            assert broker.reasons()[-1] is Reason.STATE
        assert not broker.api.got

    from proxy.broker.state import State

    run(work)


def test_a_removed_broker_serves_nothing(run: Run) -> None:
    """A connection that is still open finds no broker after a reload that removed it."""

    async def work(broker: Running) -> None:
        from addons.policy import Policy

        broker.policies.current = Policy.of([])
        assert (await broker.ask("GET", "/llm/anthropic/api/hello")).status == 404
        assert (await broker.raw(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")).startswith(b"HTTP/1.1 404")

    run(work)


def test_a_request_names_one_host(run: Run) -> None:
    """A request without a Host field, or with two, is a 400."""

    async def work(broker: Running) -> None:
        assert (await broker.raw(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")).startswith(b"HTTP/1.1 400")

    run(work)
