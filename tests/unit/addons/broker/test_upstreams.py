"""How each of the broker's upstreams is called: whom it trusts, how long it waits, how many requests at one time."""

import asyncio
import json
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.brokers import ENVIRONMENT, Answer, Got, Running, brokers, reply
from support.certificates import make_certificates
from support.waits import until

from addons.broker.inference import InferencePart
from addons.record import TlsCause
from grants.broker.capabilities import Route
from grants.decision import Reason

QUESTION = {"type": "noul", "instructions": "Ship it?", "criteria": {"true": "yes", "false": "no"}}
SCOPES = {
    "inference": ["agent", "decide"],
    "egress": ["API"],
    "fountain": ["agent", "conversations", "sandboxes", "vault"],
    "search": ["read"],
}
RELAYS = [
    pytest.param("POST", "/llm/anthropic/v1/messages", id="inference"),
    pytest.param("GET", "/fountain/api/vaults/v-1", id="fountain"),
    pytest.param("GET", "/egress/API/x", id="egress"),
    pytest.param("GET", "/search/query", id="capability"),
]
LIST = pytest.param("GET", "/fountain/api/conversations", id="fountain's list")
DECIDE = pytest.param("POST", "/decide/v1/systemone", id="decision")

type Work = Callable[[Running], Coroutine[Any, Any, None]]
type Run = Callable[..., None]


def every(**terms: Any) -> Callable[[dict[str, Any]], None]:
    """Put these keys at each upstream."""

    def change(settings: dict[str, Any]) -> None:
        broker = settings["broker"]
        upstreams = (*broker["secrets"], *(capability["upstream"] for capability in broker["capabilities"]))
        for upstream in (broker["anthropic"], broker["fountain"], *upstreams):
            upstream.update(terms)

    return change


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    def go(work: Work, change: Callable[[dict[str, Any]], None]) -> None:
        async def main() -> None:
            async with asyncio.timeout(40), brokers(tmp_path, change) as broker:
                await broker.report(**SCOPES)
                await work(broker)

        asyncio.run(main())

    return go


async def ask(broker: Running, method: str, path: str, questions: int = 1) -> Answer:
    body: Any = {"model": "m", "state": 1, "questions": {f"q{number}": QUESTION for number in range(questions)}}
    return await broker.ask(method, path, body=body if method == "POST" else None)


def answer(got: Got) -> list[Any]:
    """What its caller expects."""
    if got.target.startswith("/v1/messages"):
        content = [{"type": "text", "text": json.dumps({"noul": 0.5, "reason": ""})}]
        message = {"stop_reason": "end_turn", "content": content, "usage": {"input_tokens": 1, "output_tokens": 1}}
        return reply(json.dumps(message).encode())
    return reply(b"[]")


@pytest.mark.parametrize(("method", "path"), [*RELAYS, LIST])
def test_one_more_than_may_be_in_flight_is_refused(run: Run, method: str, path: str) -> None:
    """503 with `Retry-After`, and it reaches nothing; when there is room again it is served."""

    async def work(broker: Running) -> None:
        free = asyncio.Event()
        broker.api.script = lambda got: [free, *answer(got)]
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ask(broker, method, path))
            await until(lambda: len(broker.api.got) == 1)
            second = await ask(broker, method, path)
            assert (second.status, second.all("retry-after")) == (503, ["1"])
            assert broker.reasons()[-1] is Reason.CAPACITY
            free.set()
        assert first.result().status == 200
        assert len(broker.api.got) == 1
        assert (await ask(broker, method, path)).status == 200

    run(work, every(concurrent=1))


def test_the_questions_of_one_decision_wait_for_each_other(run: Run) -> None:
    """None refuses another, and no more are under way than may be, whatever else asks the same upstream."""

    async def work(broker: Running) -> None:
        now, most = 0, 0

        def script(got: Got) -> list[Any]:
            nonlocal now, most
            now += 1
            most = max(most, now)
            asyncio.get_running_loop().call_later(0.05, leave)
            return [0.06, *answer(got)]

        def leave() -> None:
            nonlocal now
            now -= 1

        broker.api.script = script
        decided = await ask(broker, *DECIDE.values, questions=7)  # type: ignore[arg-type]
        assert decided.status == 200, decided
        assert len(decided.json["answers"]) == len(broker.api.got) == 7
        assert most <= 2

    run(work, every(concurrent=2))


def test_a_decision_that_finds_no_room_in_time_is_a_504(run: Run) -> None:
    """It waits for its own time, and no longer."""

    async def work(broker: Running) -> None:
        served = broker.policies.current.broker
        assert served is not None
        inference = served.parts[Route.INFERENCE]
        assert isinstance(inference, InferencePart)
        assert inference.service.gate.enter()
        assert (await ask(broker, *DECIDE.values)).status == 504  # type: ignore[arg-type]
        assert not broker.api.got
        inference.service.gate.leave()
        broker.api.script = answer
        assert (await ask(broker, *DECIDE.values)).status == 200  # type: ignore[arg-type]

    run(work, every(concurrent=1, timeout={"total": "1s"}))


@pytest.mark.parametrize(("method", "path"), [*RELAYS, LIST, DECIDE])
def test_an_upstream_that_takes_too_long_is_a_504(run: Run, method: str, path: str) -> None:
    """`timeout.total` bounds what is relayed and what is read whole."""

    async def work(broker: Running) -> None:
        broker.api.script = lambda got: [20.0, *answer(got)]
        assert (await ask(broker, method, path)).status == 504

    run(work, every(timeout={"total": "300ms"}))


@pytest.mark.parametrize(("method", "path"), RELAYS)
def test_a_stream_that_says_nothing_is_cut(run: Run, method: str, path: str) -> None:
    """`timeout.idle` bounds the time between two pieces."""

    async def work(broker: Running) -> None:
        (whole,) = reply(b"[]" * 10)
        broker.api.script = lambda _got: [whole[:-5], 20.0]  # type: ignore[index,list-item]
        async with asyncio.timeout(10):
            assert (await ask(broker, method, path)).cut

    run(work, every(timeout={"idle": "300ms"}))


@pytest.mark.parametrize("trusted", [True, False], ids=["the bundle", "the system"])
@pytest.mark.parametrize(("method", "path"), [*RELAYS, LIST, DECIDE])
def test_an_upstream_is_trusted_as_its_bundle_says(
    run: Run, tmp_path: Path, method: str, path: str, *, trusted: bool
) -> None:
    """With `ca` only by those authorities, without it only by the system's: the credential goes to nobody else."""
    certificates = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.chain)
    others: list[socket.socket] = []

    def change(settings: dict[str, Any]) -> None:
        text = json.dumps(settings["broker"]).replace("http://127.0.0.1:", "https://127.0.0.1:")
        settings["broker"] = json.loads(text)
        if trusted:
            every(ca=str(certificates.ca))(settings)

    async def work(broker: Running) -> None:
        server = await asyncio.start_server(broker.api.serve, sock=others[0], ssl=context)
        broker.api.script = answer
        status = (await ask(broker, method, path)).status
        assert (status, len(broker.api.got)) == ((200, 1) if trusted else (502, 0))
        if not trusted:
            record = broker.log.records[-1]
            assert (record.reason, record.upstream_status) == (Reason.TLS, None)
            assert record.labels[-1] == f"upstream-tls:{TlsCause.UNKNOWN_CA}"
            assert record.labels[0].startswith("capability:")
        server.close()

    def at_another_port(settings: dict[str, Any]) -> None:
        change(settings)
        others.append(socket.create_server(("127.0.0.1", 0)))
        other = others[0].getsockname()[1]
        port = settings["broker"]["anthropic"]["url"].rpartition(":")[2]
        settings["broker"] = json.loads(json.dumps(settings["broker"]).replace(f":{port}", f":{other}"))

    run(work, at_another_port)
