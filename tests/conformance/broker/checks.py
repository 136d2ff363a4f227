"""The specification's checks, each a function on a broker that raises AssertionError where the broker does not hold it.

A check reports what it needs first, so that each runs alone and in any order. Every one that expects a refusal also
asserts that nothing reached an upstream. Source: "Testing a broker" in the specification, by check id.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .standins import FIRST_EVENT, LAST_EVENT, Received
from .target import BOX_A, BOX_B, SECRET, UNHELD, UNKNOWN_TOKEN, Answer, Broker, spellings

type Check = Callable[[Broker], None]

CHECKS: dict[str, Check] = {}
"""Every check by its id, in the order of the specification."""

MESSAGE = {"model": "claude-conformance", "max_tokens": 16, "messages": [{"role": "user", "content": "conformance"}]}
DECIDE = {
    "model": "claude-conformance",
    "state": {"change": "conformance"},
    "questions": {
        "tier": {
            "type": "choice",
            "instructions": "Pick.",
            "criteria": {"small": "a small one", "large": "a large one"},
        },
        "ship": {"type": "noul", "instructions": "Ship it?", "criteria": {"true": "ship", "false": "hold"}},
        "mood": {"type": "score", "instructions": "How bad?", "criteria": ["fine", "bad", "awful"]},
    },
}
LISTING = {"published": False, "title": "Conformance", "line": "A box that reports."}
ROW = {"usd": 1.25, "runs": 3, "unpriced": 1}
SPEND = {
    "month": "2026-10",
    **ROW,
    "byPrincipal": [{"principal": "github:ada", **ROW}, {"principal": None, "usd": 0, "runs": 0, "unpriced": 0}],
}
MESSAGES = "/llm/anthropic/v1/messages"
DECLARATION = "/api/box/declaration"
SYSTEM_ONE = "/decide/v1/systemone"
ECHO = f"/egress/{SECRET}/v1/echo"
_PAYER = re.compile(r"(shared|owner|visitor)(?: (\S{1,200}))?")


def check(identity: str, capability: str | None) -> Callable[[Check], Check]:
    """Enter a check under its id; it is skipped where the broker does not serve `capability`."""

    def enter(function: Check) -> Check:
        def run(broker: Broker) -> None:
            if capability is not None:
                broker.needs(capability)
            function(broker)

        CHECKS[identity] = run
        return run

    return enter


@contextmanager
def nothing_reached(broker: Broker) -> Iterator[None]:
    """Nothing may reach an upstream meanwhile."""
    before = len(broker.received)
    yield
    reached = broker.received[before:]
    assert not reached, f"reached an upstream: {', '.join(map(str, reached))}"


def refused(answer: Answer, *names: str, status: tuple[int, ...] = (403,)) -> None:
    """A refusal has the status, is a document with a message, and names what it is about."""
    assert answer.status in status, f"expected {status}, got {answer}"
    error = answer.json.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    assert isinstance(message, str), f"not a refusal: {answer}"
    assert message, f"an empty refusal: {answer}"
    for name in names:
        assert name in message, f"the refusal does not name {name}: {message}"


def one(broker: Broker, before: int, upstream: str) -> Received:
    """The one request that reached an upstream since then."""
    reached = broker.received[before:]
    assert [each.upstream for each in reached] == [upstream], f"reached: {', '.join(map(str, reached)) or 'nothing'}"
    return reached[0]


def paid(broker: Broker, request: Received) -> None:
    """A request to the Anthropic API carries the credential and no token."""
    credential = broker.environment.anthropic
    carried = {request.field("x-api-key"), request.field("authorization")} - {None}
    assert carried in ({credential}, {f"Bearer {credential}"}), f"without the credential alone: {request}"


@check("declaration-kept", None)
def check_declaration_kept(broker: Broker) -> None:
    """A report is answered 200 with the entries naming this broker, and none naming another broker or none."""
    word = broker.environment.word
    entries = [
        {"name": "inference", "broker": word, "scope": ["agent"]},
        {"name": "elsewhere", "broker": f"not-{word}", "scope": ["x"]},
        {"name": "unbrokered", "broker": None, "scope": ["x"]},
        {"name": "bare"},
        {"name": "inference", "broker": word, "scope": ["decide", "agent"]},
    ]
    answer = broker.call("POST", DECLARATION, body={"capabilities": entries})
    assert answer.status == 200, str(answer)
    kept = answer.json["capabilities"]
    assert [(each["name"], each["broker"]) for each in kept] == [("inference", word)], kept
    assert sorted(kept[0]["scope"]) == ["agent", "decide"], kept
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d", answer.json["at"]), answer.json["at"]
    assert broker.report(("feedback", ["agent"])).json["capabilities"] == [
        {"name": "feedback", "broker": word, "scope": ["agent"]}
    ], "a report does not replace the last"


@check("declaration-unknown-token", None)
def check_declaration_unknown_token(broker: Broker) -> None:
    """A report with no token, or one that is no box's, is a 401 or 403."""
    with nothing_reached(broker):
        body = {"capabilities": []}
        refused(broker.call("POST", DECLARATION, box=None, body=body), status=(401, 403))
        refused(broker.call("POST", DECLARATION, token=UNKNOWN_TOKEN, body=body), status=(401, 403))


@check("declaration-malformed", None)
def check_declaration_malformed(broker: Broker) -> None:
    """A body that is not a report is a 400, and the last report stays."""
    word = broker.environment.word
    broker.report(("feedback", ["agent"]))
    entry = {"name": "inference", "broker": word, "scope": ["agent"]}
    bodies: list[Any] = [
        {"capability": []},
        {"capabilities": {}},
        [],
        b"{",
        b"",
        {"capabilities": [{**entry, "name": "No Name"}]},
        {"capabilities": [{**entry, "name": f"c{i}"} for i in range(21)]},
        {"capabilities": [{**entry, "scope": ["w"] * 51}]},
        {"capabilities": [{**entry, "scope": [""]}]},
        {"capabilities": [{**entry, "scope": ["w" * 65]}]},
    ]
    with nothing_reached(broker):
        for body in bodies:
            refused(broker.call("POST", DECLARATION, body=body), status=(400,))
        if "inference" in broker.served:
            refused(broker.call("POST", MESSAGES, body=MESSAGE), "inference", "agent")


@check("declaration-listing-spend", None)
def check_declaration_listing_spend(broker: Broker) -> None:
    """A report with a listing and a spend is answered 200, and an answer that echoes them echoes them unchanged.

    A broker that keeps them refuses malformed ones with a 400.
    """
    answer = broker.report(("inference", ["agent"]), listing=LISTING, spend=SPEND)
    for key, sent in (("listing", LISTING), ("spend", SPEND)):
        kept = answer.json.get(key)
        assert kept in (None, sent), f"{key} came back as {kept}"
        if kept is not None:
            wrong = {"listing": {**LISTING, "title": "t" * 61}, "spend": {**SPEND, "month": "2026-13"}}[key]
            with nothing_reached(broker):
                refused(broker.call("POST", DECLARATION, body={"capabilities": [], key: wrong}), status=(400,))


@check("unreported-refused", None)
def check_unreported_refused(broker: Broker) -> None:
    """A box that never reported is refused every served capability, and nothing reaches an upstream."""
    probes = [
        ("inference", "agent", "POST", MESSAGES, MESSAGE),
        ("inference", "decide", "POST", SYSTEM_ONE, DECIDE),
        ("egress", SECRET, "GET", ECHO, None),
        ("feedback", "agent", "POST", "/api/feedback", {"entries": [{"note": "x"}]}),
        ("fountain", "conversations", "GET", "/fountain/api/conversations", None),
        ("fountain", "agent", "POST", "/fountain/api/conversations", {}),
    ]
    with nothing_reached(broker):
        for capability, word, method, path, body in probes:
            if capability in broker.served:
                refused(broker.call(method, path, box=BOX_B, body=body), capability, word)


@check("inference-hello", "inference")
def check_inference_hello(broker: Broker) -> None:
    """HEAD /llm/anthropic/api/hello is 200 with no token."""
    with nothing_reached(broker):
        for method in ("HEAD", "GET"):
            answer = broker.call(method, "/llm/anthropic/api/hello", box=None)
            assert answer.status == 200, str(answer)


@check("inference-forwards", "inference")
def check_inference_forwards(broker: Broker) -> None:
    """With agent, a call reaches the upstream with the credential for the token; the answer comes back, or streams."""
    broker.report(("inference", ["agent"]))
    for key in ("x-api-key", "authorization"):
        before = len(broker.received)
        fields = {"anthropic-version": "2023-06-01", "anthropic-beta": "conformance-beta"}
        answer = broker.call("POST", f"{MESSAGES}?beta=true&q=a%20b", body=MESSAGE, key=key, fields=fields)
        assert answer.status == 200, str(answer)
        assert answer.json["id"] == "msg_conformance"
        request = one(broker, before, "anthropic")
        assert (request.method, request.target) == ("POST", "/v1/messages?beta=true&q=a%20b")
        assert request.body == _json(MESSAGE), "the body was changed"
        assert request.field("anthropic-version") == "2023-06-01"
        assert "conformance-beta" in (request.field("anthropic-beta") or "")
        paid(broker, request)
    for method, path, body in (("POST", "/v1/messages/count_tokens", MESSAGE), ("GET", "/v1/models?limit=1", None)):
        before = len(broker.received)
        answer = broker.call(method, f"/llm/anthropic{path}", body=body, key="x-api-key")
        assert answer.status == 200, str(answer)
        request = one(broker, before, "anthropic")
        assert (request.method, request.target) == (method, path)
        paid(broker, request)
    _streams(broker)


def _streams(broker: Broker) -> None:
    standins = broker.standins
    standins.first_event_seen.clear()
    connection, response = broker.open("POST", MESSAGES, body={**MESSAGE, "stream": True}, key="x-api-key")
    try:
        assert response.status == 200, response.status
        got = b""
        while len(got) < len(FIRST_EVENT) and (piece := response.read1(65536)):
            got += piece
        standins.first_event_seen.set()
        got += response.read()
    finally:
        standins.first_event_seen.set()
        connection.close()
    broker.keep(response, got)
    assert got == FIRST_EVENT + LAST_EVENT, "the stream came back changed"
    assert standins.held_back_until_seen, "the first event came only after the second was sent"


@check("inference-unknown-route", "inference")
def check_inference_unknown_route(broker: Broker) -> None:
    """A path the proxy does not forward is a 404."""
    broker.report(("inference", ["agent"]))
    with nothing_reached(broker):
        for method, path in (
            ("POST", "/v1/complete"),
            ("GET", "/v1/messages"),
            ("GET", "/v1/models/a/b"),
            ("POST", "/v1/messages/batches"),
            ("GET", "/v1/models/../messages"),
        ):
            answer = broker.call(method, f"/llm/anthropic{path}", key="x-api-key")
            assert answer.status == 404, f"{method} {path}: {answer}"


@check("inference-unknown-token", "inference")
def check_inference_unknown_token(broker: Broker) -> None:
    """An unknown token is a 403, not a 401."""
    with nothing_reached(broker):
        refused(broker.call("POST", MESSAGES, body=MESSAGE, token=UNKNOWN_TOKEN, key="x-api-key"))
        refused(broker.call("POST", MESSAGES, body=MESSAGE, token=UNKNOWN_TOKEN))
        refused(broker.call("POST", MESSAGES, body=MESSAGE, box=None))


@check("inference-agent-refused", "inference")
def check_inference_agent_refused(broker: Broker) -> None:
    """Without agent, a 403 naming inference and agent."""
    broker.report(("inference", ["decide"]), ("feedback", ["agent"]))
    with nothing_reached(broker):
        refused(broker.call("POST", MESSAGES, body=MESSAGE, key="x-api-key"), "inference", "agent")


@check("decide-answers", "inference")
def check_decide_answers(broker: Broker) -> None:
    """With decide, an answer per question in the format, naming the model asked, asked upstream on the credential."""
    broker.report(("inference", ["decide"]))
    before = len(broker.received)
    answer = broker.call("POST", SYSTEM_ONE, body=DECIDE)
    assert answer.status == 200, str(answer)
    document = answer.json
    assert document["model"] == DECIDE["model"]
    questions: Any = DECIDE["questions"]
    assert set(document["answers"]) == set(questions)
    for name, question in questions.items():
        _is_answer(question, document["answers"][name])
    for request in broker.received[before:]:
        assert request.upstream == "anthropic", str(request)
        paid(broker, request)


def _is_answer(question: Any, answer: Any) -> None:
    kind = answer["type"]
    assert kind in (question["type"], "unsupported"), answer
    assert isinstance(answer.get("reason", ""), str)
    if kind == "noul":
        assert 0 <= answer["noul"] <= 1, answer
    elif kind == "choice":
        assert answer["choice"] in question["criteria"], answer
        shares = answer.get("probabilities")
        if shares is not None:
            assert all(0 <= share <= 1 for share in shares.values()), answer
            assert abs(sum(shares.values()) - 1) < 0.001, answer
        assert 0 <= answer.get("confidence", 0) <= 1, answer
    elif kind == "score":
        assert isinstance(answer["score"], int | float), answer


@check("decide-refused", "inference")
def check_decide_refused(broker: Broker) -> None:
    """Without decide, a 403 naming inference and decide."""
    broker.report(("inference", ["agent"]))
    with nothing_reached(broker):
        refused(broker.call("POST", SYSTEM_ONE, body=DECIDE), "inference", "decide")


@check("decide-invalid", "inference")
def check_decide_invalid(broker: Broker) -> None:
    """A request with no question, or that is otherwise not in the format, is a 422 and asks no model."""
    broker.report(("inference", ["decide"]))
    question = DECIDE["questions"]["ship"]  # type: ignore[index]
    with nothing_reached(broker):
        for change in (
            {"questions": {}},
            {"questions": []},
            {"model": ""},
            {"questions": {"q": {**question, "type": "essay"}}},
            {"questions": {"q": {**question, "criteria": None}}},
        ):
            refused(broker.call("POST", SYSTEM_ONE, body={**DECIDE, **change}), status=(422,))


@check("decide-unknown-token", "inference")
def check_decide_unknown_token(broker: Broker) -> None:
    """An unknown token is a 401 or 403."""
    with nothing_reached(broker):
        refused(broker.call("POST", SYSTEM_ONE, body=DECIDE, token=UNKNOWN_TOKEN), status=(401, 403))


@check("egress-forwards", "egress")
def check_egress_forwards(broker: Broker) -> None:
    """With the secret declared, only its host is reached, with the value for the token, and the token comes back."""
    broker.report(("egress", [SECRET]))
    before = len(broker.received)
    answer = broker.call("GET", f"{ECHO}?q=1")
    assert answer.status == 200, str(answer)
    request = one(broker, before, "egress")
    assert (request.method, request.target) == ("GET", "/v1/echo?q=1")
    assert request.field("authorization") == f"Bearer {broker.environment.secret}"
    assert answer.field("x-conformance-echo") == f"Bearer {broker.tokens[BOX_A]}"
    before = len(broker.received)
    answer = broker.call("POST", f"{ECHO}?key={broker.tokens[BOX_A]}", body={"a": 1}, box=None)
    assert answer.status == 200, str(answer)
    request = one(broker, before, "egress")
    assert request.target == f"/v1/echo?key={broker.environment.secret}"
    assert request.body == _json({"a": 1})


@check("egress-refused", "egress")
def check_egress_refused(broker: Broker) -> None:
    """An undeclared secret is a 403 naming egress and the secret."""
    broker.report(("egress", ["CONFORMANCE_OTHER"]))
    with nothing_reached(broker):
        refused(broker.call("GET", ECHO), "egress", SECRET)


@check("egress-unheld", "egress")
def check_egress_unheld(broker: Broker) -> None:
    """A declared secret the broker holds no value for is a 403."""
    broker.report(("egress", [SECRET, UNHELD]))
    with nothing_reached(broker):
        refused(broker.call("GET", f"/egress/{UNHELD}/v1/echo"), UNHELD)


@check("egress-bad-name", "egress")
def check_egress_bad_name(broker: Broker) -> None:
    """A path whose name is not a secret's name is a 404."""
    broker.report(("egress", [SECRET]))
    with nothing_reached(broker):
        for name in ("conformance", "9A", "A" * 41, "A-B", ""):
            answer = broker.call("GET", f"/egress/{name}/v1/echo")
            assert answer.status == 404, f"{name}: {answer}"


@check("feedback-taken", "feedback")
def check_feedback_taken(broker: Broker) -> None:
    """With agent, a batch of entries is not refused by the declaration."""
    broker.report(("feedback", ["agent"]))
    answer = broker.call("POST", "/api/feedback", body={"entries": [{"note": "conformance"}]})
    assert answer.status not in {401, 403}, str(answer)


@check("feedback-refused", "feedback")
def check_feedback_refused(broker: Broker) -> None:
    """Counts without passive are a 403 naming feedback and passive."""
    broker.report(("feedback", ["agent"]))
    with nothing_reached(broker):
        for batch in ({"counts": {"refusals": 1}}, {"counts": {"refusals": 1}, "entries": [{"note": "x"}]}):
            refused(broker.call("POST", "/api/feedback", body=batch), "feedback", "passive")


@check("feedback-empty", "feedback")
def check_feedback_empty(broker: Broker) -> None:
    """A batch with neither is a 400."""
    broker.report(("feedback", ["agent", "passive"]))
    with nothing_reached(broker):
        for batch in ({}, {"entries": [], "counts": {}}):
            refused(broker.call("POST", "/api/feedback", body=batch), status=(400,))


@check("fountain-forwards", "fountain")
def check_fountain_forwards(broker: Broker) -> None:
    """With conversations, a request reaches Fountain with the operator's key as the bearer."""
    broker.report(("fountain", ["conversations"]))
    before = len(broker.received)
    answer = broker.call("GET", "/fountain/api/conversations/conformance?after=1")
    assert answer.status == 200, str(answer)
    request = one(broker, before, "fountain")
    assert (request.method, request.target) == ("GET", "/api/conversations/conformance?after=1")
    assert request.field("authorization") == f"Bearer {broker.environment.fountain}"


@check("fountain-refused", "fountain")
def check_fountain_refused(broker: Broker) -> None:
    """Without sandboxes, a 403 naming fountain and sandboxes; so with the other words, and by no detour."""
    broker.report(("fountain", ["conversations"]))
    with nothing_reached(broker):
        refused(broker.call("GET", "/fountain/api/sandboxes"), "fountain", "sandboxes")
        refused(broker.call("GET", "/fountain/api/vaults/v"), "fountain", "vault")
        refused(broker.call("POST", "/fountain/api/conversations", body={}), "fountain", "agent")
        for path in ("conversations/../sandboxes", "conversations/%2e%2e/sandboxes"):
            answer = broker.call("GET", f"/fountain/api/{path}")
            assert answer.status in {400, 403, 404}, f"{path}: {answer}"


@check("payer-consistent", "inference")
def check_payer_consistent(broker: Broker) -> None:
    """A payer is well formed, said on the report's answer and on a Messages answer, and the same on both."""
    said = broker.report(("inference", ["agent", "decide"])).json.get("payer")
    answers = [
        broker.call("POST", MESSAGES, body=MESSAGE, key="x-api-key"),
        broker.call("POST", SYSTEM_ONE, body=DECIDE),
    ]
    for answer in answers:
        assert answer.status == 200, str(answer)
        header = answer.field("chant-payer")
        assert (said is None) == (header is None), f"said in one place only: {said}, {header}"
        if said is not None and header is not None:
            match = _PAYER.fullmatch(header)
            assert match is not None, f"chant-payer: {header}"
            assert (said["kind"], said.get("principal")) == match.groups(), f"{said} is not {header}"


@check("token-isolation", None)
def check_token_isolation(broker: Broker) -> None:
    """Over the whole run, no upstream received a box's token, and no answer carried a credential or a secret's value.

    The check asks for everything once more itself, with the token in every place that a box could put it.
    """
    token = broker.tokens[BOX_A]
    broker.report(*((name, _WORDS[name]) for name in broker.served))
    if "inference" in broker.served:
        broker.call("POST", MESSAGES, body=MESSAGE, key="x-api-key", fields={"authorization": f"Bearer {token}"})
        broker.call("POST", SYSTEM_ONE, body=DECIDE, fields={"x-api-key": token})
    if "fountain" in broker.served:
        broker.call("GET", "/fountain/api/conversations/conformance", fields={"x-api-key": token})
    if "egress" in broker.served:
        for method, path in (
            ("GET", f"{ECHO}/{token}"),
            ("GET", f"{ECHO}/%{ord(token[0]):02x}{token[1:]}"),
            ("GET", f"{ECHO}?q=%{ord(token[0]):02x}{token[1:]}"),
            ("POST", ECHO),
        ):
            broker.call(method, path, body={"key": token} if method == "POST" else None)
    for request in broker.received:
        seen = [request.target, request.body.decode("latin-1"), *(value for _, value in request.fields)]
        what = f"an upstream received a box's token: {request.method} to {request.upstream}"
        _holds_none(what, seen, broker.tokens.values())
    for answer in broker.answers:
        seen = [answer.body.decode("latin-1"), *(value for _, value in answer.fields)]
        _holds_none(f"an answer with status {answer.status} carried a credential", seen, broker.environment.values)


_WORDS = {
    "inference": ["agent", "decide"],
    "egress": [SECRET],
    "feedback": ["agent", "passive"],
    "fountain": ["agent", "conversations", "sandboxes", "vault"],
}


def _holds_none(what: str, texts: list[str], values: Iterable[str]) -> None:
    found = [spelling for text in texts for spelling in spellings(text)]
    assert not any(value in spelling for value in values for spelling in found), what


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()
