"""What may not pass a broker, over real sockets: the token in a body, a second token, a credential in an answer."""

import asyncio
import base64
import gzip
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.brokers import ENVIRONMENT, OTHER, TOKEN, VALUE, Running, brokers, reply

from grants.broker.issued import MOST
from grants.decision import Reason

MESSAGES = "/llm/anthropic/v1/messages"
DECIDE = "/decide/v1/systemone"
EVERYTHING = {
    "inference": ["agent", "decide"],
    "egress": ["API"],
    "feedback": ["agent", "passive"],
    "fountain": ["agent", "conversations", "sandboxes", "vault"],
    "search": ["read"],
}

type Run = Callable[[Callable[[Running], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    def go(work: Callable[[Running], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(50), brokers(tmp_path) as broker:
                await work(broker)

        asyncio.run(main())

    return go


ROUTES = [
    pytest.param("POST", "/api/box/declaration", id="report"),
    pytest.param("POST", MESSAGES, id="inference"),
    pytest.param("POST", DECIDE, id="decide"),
    pytest.param("GET", "/egress/API/x", id="egress"),
    pytest.param("POST", "/api/feedback", id="feedback"),
    pytest.param("GET", "/fountain/api/vaults/v-1", id="fountain"),
    pytest.param("GET", "/search/query", id="further"),
]
BASIC_OTHER = "Basic " + base64.b64encode(f"user:{OTHER}".encode()).decode()
TWO = [
    pytest.param({"fields": {"x-api-key": OTHER}}, "", id="both fields"),
    pytest.param({"fields": {"authorization": f"Bearer {OTHER}"}}, "", id="one field twice"),
    pytest.param({"key": "x-api-key", "fields": {"X-Api-Key": OTHER}}, "", id="the other field twice"),
    pytest.param({"fields": {"X-Key": OTHER}}, "", id="another field"),
    pytest.param({"fields": {"Cookie": f"a=1; key={OTHER}"}}, "", id="a cookie"),
    pytest.param({"key": "x-api-key", "fields": {"Authorization": BASIC_OTHER}}, "", id="Basic"),
    pytest.param({}, f"?a=1&key={OTHER}", id="query"),
    pytest.param({}, f"?key=%{ord('t'):x}{OTHER[1:]}", id="query, percent"),
    pytest.param(
        {"fields": {"X-Key": ",".join(f"word-{n:04}" for n in range(200)) + f",{OTHER}"}}, "", id="behind many"
    ),
]


@pytest.mark.parametrize(("sent", "query"), TWO)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_request_shows_tokens_of_two_boxes(
    run: Run, method: str, path: str, sent: dict[str, Any], query: str
) -> None:
    """Wherever the second stands: from there it would go upstream, or be the one that counts."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        answer = await broker.ask(method, path + query, body={} if method == "POST" else None, **sent)
        assert answer.status == 403
        assert "more than one" in answer.message
        assert broker.reasons()[-1] is Reason.BOX_UNKNOWN
        assert not broker.api.got

    run(work)


MANY = [
    pytest.param({"Cookie": "; ".join(f"name-{n:04}=value-{n:04}" for n in range(140))}, "", id="140 cookies"),
    pytest.param({}, "?" + "&".join(f"key={n:08}" for n in range(128)), id="128 query values"),
    pytest.param({"X-Words": ",".join(f"word-{n:04}" for n in range(700))}, "", id="700 words"),
    pytest.param({"X-Old": f"gpx_{'x' * 43}"}, "", id="what is no token any more"),
]


@pytest.mark.parametrize(("fields", "query"), MANY)
def test_words_are_not_counted(run: Run, fields: dict[str, str], query: str) -> None:
    """What a browser or a long query sends goes on: of words only those that have the form of a token are asked for."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        assert (await broker.ask("GET", f"/egress/API/x{query}", fields=fields)).status == 200
        got = broker.api.got[0]
        assert got.target == f"/x{query}"
        assert all(got.all(name.lower()) == [value] for name, value in fields.items())

    run(work)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_more_texts_than_are_asked_for(run: Run, method: str, path: str) -> None:
    """A head in which a token could hide among what has its form is refused, and says so."""

    async def work(broker: Running) -> None:
        words = ",".join(f"gpx_{number:043}" for number in range(MOST + 1))
        answer = await broker.ask(method, path, body={} if method == "POST" else None, fields={"X-Words": words})
        assert answer.status == 400
        assert str(MOST) in answer.message
        assert broker.reasons() == [Reason.BOX_UNKNOWN]
        assert not broker.api.got

    run(work)


def test_who_shows_no_token_has_no_more_texts_looked_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """On egress a token may be anywhere in the head: more texts than are asked for cost no question."""

    async def work(broker: Running) -> None:
        find_all, asked = broker.state.find_all, []

        async def counted(tokens: Any) -> Any:
            asked.append(len(tokens))
            return await find_all(tokens)

        monkeypatch.setattr(broker.state, "find_all", counted)
        for count, status, reason in ((MOST, 403, Reason.BOX_UNKNOWN), (MOST + 1, 400, Reason.BOX_UNKNOWN)):
            words = ",".join(f"gpx_{number:043}" for number in range(count))
            answer = await broker.ask("GET", "/egress/API/x", token="", fields={"X-Words": words})
            assert (answer.status, broker.reasons()[-1]) == (status, reason)
        assert max(asked) <= MOST + 2
        assert len(asked) == 1

    run(work)


BOUNDS = [
    pytest.param(
        " ".join(f"gpx_{number:043}" for number in range(257)),
        "more than 256 different texts that have the form of a box's token",
        id="texts",
    ),
    pytest.param(
        "gpx_" * 4097 + "x" * 43,
        "more than 4,096 places where a box's token may begin, with `gpx_` or the base64 of that",
        id="beginnings",
    ),
    pytest.param(
        "Z3B4Xw" * 4200 + "x" * 60,
        "more than 4,096 places where a box's token may begin, with `gpx_` or the base64 of that",
        id="beginnings in base64",
    ),
]


@pytest.mark.parametrize("where", ["head", "body"])
@pytest.mark.parametrize(("text", "says"), BOUNDS)
def test_each_bound_has_its_own_words(run: Run, where: str, text: str, says: str) -> None:
    """The refusal names what was counted, and how many there may be."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        sent: dict[str, Any] = {"fields": {"X-Words": text}} if where == "head" else {"body": {"text": text}}
        answer = await broker.ask("POST", "/egress/API/x", **sent)
        assert (answer.status, answer.message) == (400, f"the {where} holds {says}; send fewer")
        assert broker.reasons()[-1] is Reason.BOX_UNKNOWN
        assert not broker.api.got

    run(work)


FOUNTAIN_BOUNDS = [
    pytest.param([str(number) for number in range(10_001)], "10,000 different texts that could be ids", id="texts"),
    pytest.param(
        {f"{number:05}" + "aB" * 300: 1 for number in range(400)},
        "200,000 values, parts of texts and characters of names, all counted together",
        id="values",
    ),
]


@pytest.mark.parametrize(("body", "says"), FOUNTAIN_BOUNDS)
def test_each_bound_of_fountain_has_its_own_words(run: Run, body: Any, says: str) -> None:
    """As for tokens."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        answer = await broker.ask("POST", "/fountain/api/conversations", body=body)
        assert (answer.status, answer.message) == (
            413,
            f"a request to Fountain holds at most {says}; send less at once",
        )
        assert not broker.api.got

    run(work)


def escaped(text: str) -> bytes:
    """In a JSON string, with every third character and the slashes escaped."""
    chars = [f"\\u{ord(char):04x}" if place % 3 == 0 else char for place, char in enumerate(text)]
    return b'{"k":"%b"}' % "".join(chars).replace("/", "\\/").encode()


ESCAPED = escaped(VALUE)
SPELLED = [
    pytest.param(b'{"k":"%b"}' % TOKEN.encode(), id="as it is"),
    pytest.param(escaped(TOKEN), id="some of it escaped"),
    pytest.param(json.dumps(escaped(TOKEN).decode()).encode(), id="JSON in JSON"),
    pytest.param(b'"%b"' % base64.b64encode(b"ab:" + TOKEN.encode()), id="base64"),
    pytest.param(b'"%b"' % base64.urlsafe_b64encode(TOKEN.encode()).replace(b"d", b"%64"), id="base64, percent"),
    pytest.param(b'"%b"' % TOKEN.replace("b", "%62").encode(), id="percent"),
]
TAKERS = [
    pytest.param("/egress/API/x", b"%b", False, id="egress"),
    pytest.param("/egress/API/x", b"%b", True, id="egress, streamed"),
    pytest.param("/api/feedback", b'{"entries": [%b]}', False, id="feedback"),
    pytest.param("/fountain/api/conversations", b'{"agent": "a-1", "text": %b}', False, id="fountain"),
    pytest.param(
        DECIDE,
        b'{"model": "m", "state": %b, "questions": {"q": {"type": "noul", "instructions": "?", "criteria": ["a"]}}}',
        False,
        id="decide",
    ),
]


@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize(("path", "body", "chunked"), TAKERS)
def test_no_body_takes_the_token_along(run: Run, path: str, body: bytes, chunked: bool, spelled: bytes) -> None:
    """Every body that is searched is searched in the same way, and the token reaches no upstream."""

    async def work(broker: Running) -> None:
        await broker.report(**EVERYTHING)
        answer = await broker.ask("POST", path, body=body % spelled, chunked=chunked)
        assert answer.status == 403, answer
        assert broker.reasons()[-1] is Reason.BOX_TOKEN_LEAK
        assert not broker.api.got

    run(work)


CODED = [
    pytest.param(gzip.compress(b"fine"), "gzip", b"fine", None, id="fine"),
    pytest.param(VALUE[:9].encode(), "identity", VALUE[:9].encode(), None, id="the beginning of the value"),
    pytest.param(gzip.compress(VALUE.encode()), "gzip", None, Reason.CREDENTIAL, id="coded value"),
    pytest.param(VALUE.encode(), "identity", None, Reason.CREDENTIAL, id="value"),
    pytest.param(ESCAPED, "identity", None, Reason.CREDENTIAL, id="value, some of it escaped"),
    pytest.param(gzip.compress(ESCAPED), "gzip", None, Reason.CREDENTIAL, id="coded value, some of it escaped"),
    pytest.param(gzip.compress(b"fine")[:-4], "gzip", None, Reason.RESPONSE_CODING, id="cut"),
    pytest.param(b"no gzip at all", "gzip", None, Reason.RESPONSE_CODING, id="malformed"),
]


@pytest.mark.parametrize(("body", "coding", "shown", "reason"), CODED)
def test_an_answer_never_holds_the_value(
    run: Run, body: bytes, coding: str, shown: bytes | None, reason: Reason | None
) -> None:
    """A body is searched under its coding, and goes on without it; one that holds the value is cut, and recorded."""

    async def work(broker: Running) -> None:
        await broker.report(egress=["API"])
        broker.api.script = lambda _got: reply(body, 200, f"Content-Encoding: {coding}")
        answer = await broker.ask("GET", "/egress/API/x")
        assert VALUE.encode() not in answer.body
        assert answer.cut == (shown is None)
        if shown is not None:
            assert answer.body == shown
            assert answer.all("content-encoding") == ([] if coding == "gzip" else [coding])
        await asyncio.sleep(0.05)
        assert broker.log.records[-1].reason is reason

    run(work)


@pytest.mark.parametrize(
    ("coding", "body", "held"),
    [
        pytest.param(b"gzip", gzip.compress(b"fine"), 10, id="the head of a coding"),
        pytest.param(b"identity", VALUE[:9].encode() + b"fine", 9, id="what may begin the value"),
    ],
)
def test_a_head_does_not_wait_for_what_is_held_back(run: Run, coding: bytes, body: bytes, held: int) -> None:
    """Nothing of the first piece may go on yet; the client learns at once that it has an answer."""
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (coding, len(body))

    async def work(broker: Running) -> None:
        await broker.report(egress=["API"])
        more = asyncio.Event()
        broker.api.script = lambda _got: [head + body[:held], more, body[held:]]
        reader, writer = await asyncio.open_connection(*broker.address)
        writer.write(b"GET /egress/API/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n\r\n" % TOKEN.encode())
        async with asyncio.timeout(10):
            shown = await reader.readuntil(b"\r\n\r\n")
            assert shown.startswith(b"HTTP/1.1 200 ")
            more.set()
            await reader.readuntil(b"fine")
        writer.close()

    run(work)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
NAME = st.sampled_from(["inference", "egress", "x", "X", ""]) | st.text(max_size=70)
ENTRY = st.fixed_dictionaries(
    {"name": NAME, "broker": st.sampled_from(["lobby", "other"])},
    optional={"scope": st.lists(st.sampled_from(["agent", "a b", ""]) | st.text(), max_size=3) | JSON},
)
REPORT = st.fixed_dictionaries({"capabilities": st.lists(ENTRY, max_size=4)}) | JSON


def test_a_report_is_taken_or_refused_whatever_it_is(run: Run) -> None:
    """200, 400 or 413; what is kept was reported, for this broker, and nothing of it is more than that."""

    async def work(broker: Running) -> None:
        bodies: list[bytes] = []

        @settings(max_examples=150, deadline=None, database=None)
        @given(REPORT.map(lambda document: json.dumps(document).encode()) | st.binary())
        def draw(body: bytes) -> None:
            bodies.append(body)

        draw()
        bodies.append(json.dumps({"capabilities": [{"name": "x", "broker": "lobby", "scope": ["y" * 32768]}]}).encode())
        statuses = set()
        for body in bodies:
            answer = await broker.ask("POST", "/api/box/declaration", body=body)
            statuses.add(answer.status)
            assert answer.status in (200, 400, 413), (body, answer)
            if answer.status != 200:
                assert answer.message
                continue
            reported: dict[str, set[str]] = {}
            for entry in json.loads(body)["capabilities"]:
                if entry.get("broker") == "lobby":
                    reported.setdefault(entry["name"], set()).update(entry.get("scope") or ())
            for kept in answer.json["capabilities"]:
                assert kept["broker"] == "lobby"
                assert set(kept["scope"]) <= reported[kept["name"]]
        assert statuses == {200, 400, 413}
        assert not broker.api.got

    run(work)
