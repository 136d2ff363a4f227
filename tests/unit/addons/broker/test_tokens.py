"""No live token goes on, over real sockets: of whatever box, on every route, in every place and spelling."""

import asyncio
import base64
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support.brokers import ENVIRONMENT, OTHER, TOKEN, VISITOR, Running, brokers
from support.upstream import DarkPort

from grants.decision import Reason

SECOND = 3600.0
GRANT = """
operations:
  - name: any
    effect: write
    method: POST
    route: /{rest}
    pathParameters: {rest: {pattern: ".*", maxBytes: 512}}
    query: [{name: q, pattern: ".*", maxBytes: 512}]
    headers:
      - {name: Authorization, pattern: ".*", maxBytes: 256, required: true}
      - {name: X-Any, pattern: ".*", maxBytes: 512}
    body:
      maxBytes: 65536
      contentTypes: [application/json]
      json: {type: object, additionalProperties: true}
    response:
      statuses: [200]
      contentTypes: [application/json]
      maxBytes: 1024
      credentialDisclosure: deny-exact
      json: {type: object, additionalProperties: true}
undeclaredHeaders: strip
"""
EVERYTHING = {
    "inference": ["agent", "decide"],
    "egress": ["API", "GRANTED"],
    "feedback": ["agent", "passive"],
    "fountain": ["agent", "conversations", "sandboxes", "vault"],
    "search": ["read"],
}
SCOPES = [
    {"method": "GET", "path": "/search/query", "words": ["read"]},
    {"method": "GET", "path": "/search/query/**", "words": ["read"]},
    {"method": "POST", "path": "/search/query", "words": ["read"]},
]

type Work = Callable[[Running, DarkPort], Coroutine[Any, Any, None]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Work], None]]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "any.grant.yaml").write_text(GRANT)

    with DarkPort() as dark:

        def change(settings: dict[str, Any]) -> None:
            host = f"https://localhost:{dark.port}"
            granted = {"name": "GRANTED", "host": host, "value": "env:VALUE", "grant": "any.grant.yaml"}
            settings["broker"]["secrets"].append(granted)
            settings["broker"]["capabilities"][0]["scopes"] = SCOPES

        def go(work: Work) -> None:
            async def main() -> None:
                async with asyncio.timeout(100), brokers(tmp_path, change) as broker:
                    await work(broker, dark)

            asyncio.run(main())

        yield go


async def live(broker: Running) -> dict[str, tuple[str, str]]:
    """By case: the token with which is asked, and the one that may not go on."""
    store, now = broker.state.store, time.time()
    assert store is not None
    added = await store.add_box("added", now=now)
    previous = await store.add_box("mine", now=now)
    mine = await store.rotate_box("mine", now=now, grace=SECOND)
    for token in (TOKEN, mine):
        await broker.report(token=token, **EVERYTHING)
    broker.log.records.clear()
    return {
        "of the settings": (TOKEN, OTHER),
        "issued": (TOKEN, added),
        "its own, before": (mine, previous),
        "of the settings, asked by an added": (mine, OTHER),
    }


def percent(text: str) -> str:
    return "".join(f"%{ord(char):02x}" for char in text)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SPELLED: dict[str, Callable[[str], str]] = {
    "as it is": lambda token: token,
    "percent": lambda token: f"%{ord(token[0]):x}{token[1:]}",
    "percent, every byte": percent,
    "percent, twice": lambda token: quote(percent(token)),
    "base64": lambda token: encoded(f"user:{token}").rstrip("="),
    "base64 for URLs": lambda token: base64.urlsafe_b64encode(token.encode()).decode().rstrip("="),
    "base64, percent": lambda token: percent(encoded(f"ab{token}")),
    "escapes, percent": lambda token: quote("".join(f"\\u{ord(char):04x}" for char in token)),
}
HEADS: dict[str, Callable[[str], dict[str, Any]]] = {
    "path": lambda text: {"path": f"/{text}"},
    "a part of the path": lambda text: {"path": f"/a-{text}.b"},
    "query": lambda text: {"path": f"?{text}"},
    "name in the query": lambda text: {"path": f"?{text}=1"},
    "value in the query": lambda text: {"path": f"?q={text}"},
    "part of a value": lambda text: {"path": f"?q=x:{text}"},
    "field": lambda text: {"fields": {"X-Any": text}},
    "part of a field": lambda text: {"fields": {"X-Any": f"a:{text}"}},
    "between brackets": lambda text: {"fields": {"X-Any": f"<{text}>"}},
    "Referer": lambda text: {"fields": {"Referer": f"http://h/p?k={text}&z=1"}},
    "User-Agent": lambda text: {"fields": {"User-Agent": f"a ({text})"}},
}
AS_IT_IS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Basic": lambda text: {"fields": {"X-Any": f"Basic {encoded(f'u:{text}')}"}},
    "field name": lambda text: {"fields": {text: "1"}},
    "part of a field name": lambda text: {"fields": {f"X-{text}-Y": "1"}},
    "field name, folded": lambda text: {"fields": {text.lower(): "1"}},
    "field name, in capitals": lambda text: {"fields": {text.upper(): "1"}},
}
ROUTES = [
    pytest.param("POST", "/api/box/declaration", id="report"),
    pytest.param("POST", "/llm/anthropic/v1/messages", id="inference"),
    pytest.param("GET", "/llm/anthropic/v1/models", id="models"),
    pytest.param("POST", "/decide/v1/systemone", id="decide"),
    pytest.param("GET", "/egress/API/x", id="egress"),
    pytest.param("POST", "/egress/GRANTED", id="egress under a grant"),
    pytest.param("POST", "/api/feedback", id="feedback"),
    pytest.param("GET", "/fountain/api/vaults/v-1", id="fountain"),
    pytest.param("GET", "/search/query", id="further"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_head_takes_another_token_along(run: Callable[[Work], None], method: str, path: str) -> None:
    """A second live token is refused wherever it stands; a path that no route has is a 404."""

    async def work(broker: Running, dark: DarkPort) -> None:
        for case, (own, other) in (await live(broker)).items():
            rows = [(way, place, made(write(other))) for way, write in SPELLED.items() for place, made in HEADS.items()]
            rows += [("as it is", place, made(other)) for place, made in AS_IT_IS.items()]
            for spelling, place, made in rows:
                asked = path + made.get("path", "")
                broker.log.records.clear()
                answer = await broker.ask(
                    method, asked, token=own, fields=made.get("fields"), body={} if method == "POST" else None
                )
                seen = (case, spelling, place, answer)
                if answer.status == 404:
                    assert "path" in place, seen
                    assert broker.reasons() == [Reason.BROKER_ROUTE], seen
                else:
                    assert answer.status == 403, seen
                    assert broker.reasons() == [Reason.BOX_UNKNOWN], seen
                    assert "more than one" in answer.message, seen
                assert other not in repr((answer, broker.log.records)), seen
                assert not broker.api.got, seen
        assert dark.connections == 0

    run(work)


CHUNKS = [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
BODIES: dict[str, Callable[[str], str]] = {
    "as it is": lambda token: token,
    "a part": lambda token: f"a:{token}.b",
    "percent": percent,
    "percent, twice": lambda token: quote(percent(token)),
    "escapes": lambda token: "".join(f"\\u{ord(char):04x}" for char in token),
    "escapes, mixed": lambda token: "".join(f"\\u{ord(c):04x}" if n % 3 else c for n, c in enumerate(token)),
    "JSON in JSON": lambda token: "".join(f"\\\\u{ord(char):04x}" for char in token),
    "base64": lambda token: encoded(f"user:{token}"),
    "base64, percent": lambda token: percent(encoded(f"x{token}")),
}
DECISION = '{"model":"m","state":%s,"questions":{"q":{"type":"noul","instructions":"?","criteria":["a"]}}}'
TAKERS = [
    pytest.param("/decide/v1/systemone", DECISION, id="decide"),
    pytest.param("/egress/API/x", "%s", id="egress"),
    pytest.param("/egress/GRANTED/x", '{"k":%s}', id="egress under a grant"),
    pytest.param("/api/feedback", '{"entries":[%s]}', id="feedback"),
    pytest.param("/fountain/api/conversations", '{"agent":"a-1","text":%s}', id="fountain"),
    pytest.param("/search/query", '{"q":%s}', id="further"),
]


@pytest.mark.parametrize("chunked", CHUNKS)
@pytest.mark.parametrize(("path", "document"), TAKERS)
def test_no_body_takes_a_token_along(run: Callable[[Work], None], path: str, document: str, chunked: bool) -> None:
    """The box's own and every other, in a value and as a member's name. What streams is searched for those in clear."""
    streams = path.startswith("/search") or (chunked and path == "/egress/API/x")

    async def work(broker: Running, dark: DarkPort) -> None:
        for case, (own, other) in (await live(broker)).items():
            asked = TOKEN if own == TOKEN or "/fountain" not in path else own
            for token in (own, other):
                if streams and token.startswith("gpx_") and token != asked:
                    continue  # an issued one in a stream is a stated limit
                for spelling, write in BODIES.items():
                    for held in ('"%s"', '{"%s":1}'):
                        broker.log.records.clear()
                        body = document % (held % write(token))
                        answer = await broker.ask(
                            "POST",
                            path,
                            token=own,
                            body=body.encode(),
                            fields={"Content-Type": "application/json"},
                            chunked=chunked,
                        )
                        seen = (case, spelling, held, answer)
                        assert (answer.status, broker.reasons()) == (403, [Reason.BOX_TOKEN_LEAK]), seen
                        assert token not in repr((answer, broker.log.records)), seen
                        assert not broker.api.got, seen
        assert dark.connections == 0

    run(work)


def test_boxes_that_were_added_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the settings list none, those that were added are held to the same."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    async def main() -> None:
        async with asyncio.timeout(50), brokers(tmp_path, lambda settings: settings.pop("boxes"), secrets=[]) as broker:
            store = broker.state.store
            assert store is not None
            one, two = [await store.add_box(name, now=time.time()) for name in ("one", "two")]
            await broker.report(token=one, **EVERYTHING)
            assert (await broker.ask("GET", f"/search/query?q={two}", token=one)).status == 403
            assert (await broker.ask("POST", "/api/feedback", token=one, body={"entries": [two]})).status == 403
            assert broker.reasons()[-2:] == [Reason.BOX_UNKNOWN, Reason.BOX_TOKEN_LEAK]
            assert (await broker.ask("GET", "/search/query?q=1", token=one)).status == 200
            assert len(broker.api.got) == 1

    asyncio.run(main())


def test_a_body_with_too_many_that_could_be_one(run: Callable[[Work], None]) -> None:
    """More texts of the form than are asked for are refused, not passed on."""

    async def work(broker: Running, _dark: DarkPort) -> None:
        await live(broker)
        body = " ".join(f"gpx_{number:043}" for number in range(257)).encode()
        answer = await broker.ask("POST", "/egress/API/x", body=body)
        assert (answer.status, broker.reasons()) == (400, [Reason.BOX_UNKNOWN])
        assert not broker.api.got
        assert (await broker.ask("POST", "/egress/API/x", body=body[:-60])).status == 200

    run(work)


def test_no_visitor_pays_with_a_token(run: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A visitor's credential that is, or holds, a token of any box is not sent: the house pays, as for no grant."""

    async def work(broker: Running, _dark: DarkPort) -> None:
        store = broker.state.store
        assert store is not None
        for own, other in (await live(broker)).values():
            box = "one" if own == TOKEN else "mine#2"
            for number, value in enumerate((own, other, f"x:{other}", encoded(f"u:{other}"), VISITOR)):
                name = f"VISITOR_{number}"
                monkeypatch.setenv(name, value)
                broker.state._vaults.clear()
                grant = await store.issue_grant(
                    box, principal="github:v", credential=f"env:{name}", ttl=60, now=time.time()
                )
                broker.api.got.clear()
                fields = {"chant-grant": grant.value}
                answer = await broker.ask("POST", "/llm/anthropic/v1/messages", body={}, token=own, fields=fields)
                visiting = value == VISITOR
                assert answer.all("chant-payer") == ["visitor github:v" if visiting else "shared"], value
                assert [got.all("x-api-key") for got in broker.api.got] == [
                    [VISITOR if visiting else ENVIRONMENT["HOUSE"]]
                ]

    run(work)
