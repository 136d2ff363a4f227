"""Both fronts in this process: what a client sees, what reaches the upstream, what is recorded, what fails closed."""

import asyncio
import base64
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.certificates import Certificates, make_certificates
from support.running import SECRET, WRITE, Running, operation, running
from support.talk import FrontFactory, Talk, base, both, raw, tunnel
from support.upstream import CLOSE, Answer, Upstream, answer

from addons.audit import Audit
from addons.exchange import Exchange
from addons.front.layer import Limits
from addons.front.reader import RequestReader
from addons.hooks import Hook
from addons.policy import Policy
from addons.ports import LogUnavailable
from addons.record import Event, Mode
from grants.decision import Reason, Rule
from grants.message import Authority

pytestmark = pytest.mark.usefixtures("freed")

GET = b"GET /things/1 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer @secret:api\r\n\r\n"
POST = b"POST /things/1 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer @secret:api\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("upstream"))


@pytest.fixture
def upstream(certificates: Certificates) -> Iterator[Upstream]:
    with Upstream(certificates) as server:
        yield server


@pytest.fixture
def run(tmp_path: Path, upstream: Upstream, certificates: Certificates) -> Callable[..., None]:
    """Run a test's coroutine against a proxy of its own."""

    def go(work: Callable[[Running], Coroutine[None, None, None]], **options: object) -> None:
        async def main() -> None:
            async with asyncio.timeout(60), running(tmp_path, upstream, certificates, **options) as proxy:  # type: ignore[arg-type]
                await work(proxy)

        asyncio.run(main())

    return go


@both
def test_an_allowed_request_carries_the_credential_and_its_answer_comes_back(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """The broker resolves and injects its credential on the host."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            for _ in range(3):
                assert (await talk.ask(GET % talk.host))[0::2] == (200, b"{}")
        assert [request.get("Authorization") for request in upstream.requests] == [b"Bearer " + SECRET.encode()] * 3
        assert upstream.connections == 1
        records = proxy.log.records
        assert [(r.event, r.operation, r.status, r.secret_refs) for r in records] == [
            (Event.ALLOW, "read-thing", 200, ("api",))
        ] * 3
        assert len({r.id for r in records}) == 3
        assert all(r.resource_digest and SECRET not in repr(r) for r in records)

    run(work)


@both
def test_a_refused_request_reaches_nothing_and_the_connection_goes_on(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """A refusal of a readable request is an answer like another."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            status, head, body = await talk.ask((GET % talk.host).replace(b"/1 ", b"/3 "))
            assert status == 403
            assert b"application/problem+json" in head
            assert proxy.log.records[0].id.encode() in body
            assert upstream.connections == 0
            assert (await talk.ask(GET % talk.host))[0] == 200
        assert [r.verdict for r in proxy.log.records] == ["deny", "allow"]

    run(work)


@both
def test_a_write_leaves_its_intent_before_it_is_sent(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """An operation with `effect: write` has an intent record before it is sent."""

    async def work(proxy: Running) -> None:
        seen: list[list[Event]] = []
        upstream.handler = lambda _request: (seen.append([r.event for r in proxy.log.records]), answer())[1]
        async with front(proxy) as talk:
            assert (await talk.ask(POST % talk.host + b'Content-Length: 7\r\n\r\n{"a":1}'))[0] == 200
        assert seen == [[Event.INTENT]]
        assert [r.event for r in proxy.log.records] == [Event.INTENT, Event.ALLOW]
        assert proxy.log.records[0].id == proxy.log.records[1].id
        assert upstream.requests[0].body == b'{"a":1}'

    run(work)


@both
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'Content-Length: 7\r\n\r\n{"a":1}', id="Content-Length"),
        pytest.param(b'Transfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n', id="chunked"),
    ],
)
def test_a_body_goes_upstream_with_its_length(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory, body: bytes
) -> None:
    """Framing comes from the bounded body, not from the client's headers; the bytes are sent as they came."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            assert (await talk.ask(POST % talk.host + body))[0] == 200
            assert (await talk.ask(GET % talk.host))[0] == 200
        sent = upstream.requests[0]
        assert (sent.body, sent.get("Content-Length"), sent.get("Transfer-Encoding")) == (b'{"a":1}', b"7", None)

    run(work)


@both
def test_a_continue_goes_out_only_for_an_authorized_head(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """`Expect: 100-continue` is answered after the head is authorized (RFC 9110, 10.1.1)."""

    async def work(proxy: Running) -> None:
        expecting = POST + b"Expect: 100-continue\r\nContent-Length: 7\r\n\r\n"
        async with front(proxy) as talk:
            assert (await talk.ask(expecting % talk.host))[0] == 100
            assert (await talk.ask(b'{"a":1}'))[0] == 200
        async with front(proxy) as talk:
            status, head, _ = await talk.ask((expecting % talk.host).replace(b"Content-Type", b"X-Other"))
            assert status == 403
            assert b"Connection: close" in head
            assert await talk.rest() == b""

    run(work)


@both
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"Content-Length: 65\r\n\r\n" + b"x" * 65, id="Content-Length"),
        pytest.param(b"Content-Length: 65\r\n\r\n", id="Content-Length, nothing sent"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n41\r\n" + b"x" * 65 + b"\r\n0\r\n\r\n", id="chunked"),
    ],
)
def test_a_body_over_its_limit_is_refused(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory, body: bytes
) -> None:
    """Over the limit by one byte: a 413, and the connection ends, since the rest is not read."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            status, head, _ = await talk.ask(POST % talk.host + body)
            assert status == 413
            assert b"Connection: close" in head
            assert await talk.rest() == b""
        assert upstream.connections == 0
        assert [(r.status, r.reason) for r in proxy.log.records] == [(413, Reason.BODY_TOO_LARGE)]

    run(work)


@both
def test_the_proxy_s_own_limit_binds_too(run: Callable[..., None], upstream: Upstream, front: FrontFactory) -> None:
    """`limits.bodyBytes` bounds what is held, whatever a grant allows."""

    async def work(proxy: Running) -> None:
        proxy.change(body_limit=6)
        async with front(proxy) as talk:
            assert (await talk.ask(POST % talk.host + b'Content-Length: 7\r\n\r\n{"a":1}'))[0] == 413
        assert upstream.connections == 0

    run(work)


@both
def test_pipelined_requests_are_answered_in_their_order(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """RFC 9112, 9.3.2."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda request: answer(body=b'{"id":"%s"}' % request.target[-1:])
        async with front(proxy) as talk:
            one = GET % talk.host
            await talk.send(one + one.replace(b"/1 ", b"/2 ") + one.replace(b"/1 ", b"/3 ") + one)
            bodies = [await talk.answer() for _ in range(4)]
        assert [status for status, _, _ in bodies] == [200, 200, 403, 200]
        assert [bodies[0][2], bodies[1][2], bodies[3][2]] == [b'{"id":"1"}', b'{"id":"2"}', b'{"id":"1"}']

    run(work)


def held(proxy: Running) -> int:
    """Bytes that are held of what clients sent ahead."""
    return sum(sum(map(len, connection.inbox._pieces)) for connection, _ in proxy.listeners._open.values())


AHEAD = 256 * 1024 + 256 * 1024
"""The bound, and one read of the event loop's."""


@both
def test_what_a_client_sends_ahead_is_held_back(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """A client that sends on and on while it waits for an answer is read no further; the answer is not lost."""

    async def work(proxy: Running) -> None:
        release = threading.Event()
        upstream.handler = lambda _request: [release, answer()]
        async with front(proxy) as talk:
            await talk.send(GET % talk.host)
            await asyncio.sleep(0.1)
            flood = asyncio.get_running_loop().create_task(talk.flood())
            await asyncio.sleep(0.3)
            assert not flood.done()
            assert 0 < held(proxy) <= AHEAD
            release.set()
            assert (await talk.answer())[0] == 200
            assert (await talk.answer())[0] == 400
            flood.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await flood
        assert [r.reason for r in proxy.log.records] == [None, Reason.NOT_HTTP]

    run(work)


@both
def test_requests_sent_ahead_are_held_back_while_they_are_answered(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """The bound counts what is held, also after some of it was answered."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [0.002, answer()]
        async with front(proxy) as talk:
            one = (GET % talk.host)[:-2] + b"X-Pad: " + b"x" * 8000 + b"\r\n\r\n"
            count, most = 400, 0

            async def send() -> None:
                for _ in range(count):
                    await talk.send(one)

            sending = asyncio.get_running_loop().create_task(send())
            for _ in range(count):
                assert (await talk.answer())[0] == 403
                most = max(most, held(proxy))
            await sending
        assert most <= AHEAD
        assert len(proxy.log.records) == count

    run(work)


@both
def test_a_granted_body_behind_a_running_request_is_answered_too(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """More than is held ahead waits in the client; every request has its answer and its record."""
    grant = {"operations": [operation("read-thing"), {**WRITE, "body": {**WRITE["body"], "maxBytes": 1000000}}]}  # type: ignore[dict-item]

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [0.2, answer()]
        async with front(proxy) as talk:
            body = b'{"a":"' + b"x" * 700_000 + b'"}'
            sent = GET % talk.host + POST % talk.host + b"Content-Length: %d\r\n\r\n" % len(body) + body
            sending = asyncio.get_running_loop().create_task(talk.send(sent))
            assert (await talk.answer())[0] == 200
            assert (await talk.answer())[0] == 200
            await sending
        assert [r.status for r in proxy.log.decisions()] == [200, 200]

    run(work, grant=grant)


@both
def test_while_the_program_ends_no_new_request_is_read(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """What runs is answered with `Connection: close`; what was sent behind it is not begun."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [0.2, answer()]
        async with front(proxy) as talk, front(proxy) as idle:
            assert (await idle.ask(GET % idle.host))[0] == 200
            await talk.send((GET % talk.host) * 3)
            await asyncio.sleep(0.1)
            proxy.policies.draining = True
            assert (await talk.answer())[0] == 200
            assert await talk.rest() == b""
            await idle.send(GET % idle.host)
            assert await idle.rest() == b""
        assert [r.status for r in proxy.log.records] == [200, 200]
        assert len(upstream.requests) == 2

    run(work)


@pytest.mark.parametrize("words", [b"close, keep-alive", b"keep-alive, close", b"Close"])
@both
def test_close_among_other_words_closes(run: Callable[..., None], front: FrontFactory, words: bytes) -> None:
    """RFC 9110, 7.6.1: `Connection` is a list."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            status, head, _ = await talk.ask((GET % talk.host)[:-2] + b"Connection: " + words + b"\r\n\r\n")
            assert status == 200
            assert b"Connection: close" in head
            assert await talk.rest() == b""

    run(work)


@pytest.mark.parametrize(("authority", "status"), [(b"127.0.0.1:%d", 200), (b"localhost:%d", 403), (b"127.0.0.1", 403)])
def test_a_base_url_takes_the_absolute_form_of_itself(run: Callable[..., None], authority: bytes, status: int) -> None:
    """RFC 9112, 3.2.2: what the target names is what the Host field names."""

    async def work(proxy: Running) -> None:
        async with base(proxy) as talk:
            named = authority % proxy.base[1] if b"%d" in authority else authority
            assert (await talk.ask((GET % talk.host).replace(b" /", b" http://" + named + b"/")))[0] == status

    run(work)


@both
def test_a_client_that_leaves_leaves_one_record(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """Exactly one decision record a request, also when the client leaves while its answer is waited for."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: [0.3, answer()]
        async with front(proxy) as talk:
            await talk.send(GET % talk.host)
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.6)
        assert [(r.event, r.status) for r in proxy.log.records] == [(Event.ALLOW, 200)]
        assert proxy.listeners.open == 0

    run(work)


@both
@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(b"GET /things/1 HT", id="within a head"),
        pytest.param(POST + b"Content-Length: 7\r\n\r\n{", id="within a body"),
    ],
)
def test_a_request_that_ends_early_is_recorded(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory, cut: bytes
) -> None:
    """A request that was begun has a record, and an answer where the client still reads."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            await talk.send(cut.replace(b"%s", talk.host))
            if talk.writer.can_write_eof():
                talk.writer.write_eof()
                assert (await talk.answer())[0] == 400
        await asyncio.sleep(0.2)
        assert [(r.reason, r.status) for r in proxy.log.records] == [(Reason.CLIENT_LEFT, 400)]
        assert upstream.connections == 0

    run(work)


@both
def test_a_client_that_only_connects_leaves_no_record(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """An intercepted CONNECT leaves a record only when it is refused; an idle connection asks for nothing."""

    async def work(proxy: Running) -> None:
        async with front(proxy):
            pass
        await asyncio.sleep(0.1)
        assert proxy.log.records == []

    run(work)


FAST = Limits(idle=0.2, head=0.2, body=0.2)


@both
@pytest.mark.parametrize(
    ("slow", "reason"),
    [
        pytest.param(b"GET /things/1 HT", Reason.HEAD_TOO_SLOW, id="head"),
        pytest.param(POST + b"Content-Length: 7\r\n\r\n{", Reason.BODY_TOO_SLOW, id="body"),
    ],
)
def test_a_slow_request_is_a_408(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory, slow: bytes, reason: Reason
) -> None:
    """RFC 9110, 15.5.9. A byte now and then buys no time."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            await talk.send(slow.replace(b"%s", talk.host))
            for _ in range(3):
                await asyncio.sleep(0.05)
                await talk.send(b" ")
            status, head, _ = await talk.answer()
            assert status == 408
            assert b"Connection: close" in head
            assert await talk.rest() == b""
        assert [r.reason for r in proxy.log.records] == [reason]
        assert upstream.connections == 0

    run(work, limits=FAST)


@both
def test_an_idle_connection_is_closed(run: Callable[..., None], front: FrontFactory) -> None:
    """`limits.clientIdle`: no record, since nothing was asked."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 200
            assert await talk.rest() == b""
        assert len(proxy.log.records) == 1

    run(work, limits=FAST)


def test_an_idle_tunnel_is_closed_before_its_handshake(run: Callable[..., None]) -> None:
    """A tunnel in which nothing is said holds no place for ever."""

    async def work(proxy: Running) -> None:
        reader, writer = await asyncio.open_connection(*proxy.proxy)
        talk = Talk(reader, writer, b"localhost:%d" % proxy.service.upstream.port)
        assert (await talk.ask(b"CONNECT %s HTTP/1.1\r\n\r\n" % talk.host))[0] == 200
        assert await talk.rest() == b""
        writer.close()
        reader, writer = await asyncio.open_connection(*proxy.proxy)
        assert await Talk(reader, writer, b"").rest() == b""
        writer.close()
        assert proxy.log.records == []

    run(work, limits=FAST)


@both
@pytest.mark.parametrize(
    ("scripted", "rule", "reason", "status"),
    [
        pytest.param(answer(status=201), Rule.RESPONSE_STATUS, Reason.STATUS, 502, id="status"),
        pytest.param(answer(content_type="text/html"), Rule.RESPONSE_SCHEMA, Reason.MEDIA_TYPE, 502, id="type"),
        pytest.param(
            answer(body=b'{"a":"%s"}' % SECRET.encode()),
            Rule.RESPONSE_CREDENTIAL,
            Reason.CREDENTIAL,
            502,
            id="credential",
        ),
        pytest.param(
            answer(body=b'{"a":"another-secret-0123456789"}'),
            Rule.RESPONSE_CREDENTIAL,
            Reason.CREDENTIAL,
            502,
            id="a credential that this request did not carry",
        ),
        pytest.param(
            answer(body=b'{"a":"%s"}' % (b"x" * 65536)), Rule.RESPONSE_SIZE, Reason.RESPONSE_TOO_LARGE, 502, id="size"
        ),
        pytest.param(answer(body=b"[]"), Rule.RESPONSE_SCHEMA, Reason.RESPONSE_SCHEMA, 502, id="schema"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\n{}\r\n0\r\nX-Last: " + SECRET.encode() + b"\r\n\r\n",
            Rule.RESPONSE_CREDENTIAL,
            Reason.CREDENTIAL,
            502,
            id="credential in a trailer",
        ),
        pytest.param(CLOSE, Rule.UPSTREAM_ERROR, Reason.INCOMPLETE, 502, id="no answer"),
        pytest.param(b"rubbish\r\n\r\n", Rule.UPSTREAM_ERROR, Reason.MALFORMED, 502, id="rubbish"),
        pytest.param(
            answer(302, b"", ("Location", "/things/2")), Rule.REDIRECT, Reason.REDIRECT_NOT_ALLOWED, 403, id="redirect"
        ),
    ],
)
def test_an_answer_outside_of_its_contract_is_shown_in_no_part(
    run: Callable[..., None],
    upstream: Upstream,
    front: FrontFactory,
    scripted: Answer,
    rule: Rule,
    reason: Reason,
    status: int,
) -> None:
    """A mismatch returns a broker error without streaming the rejected upstream response."""

    async def work(proxy: Running) -> None:
        upstream.handler = lambda _request: scripted if isinstance(scripted, bytes) else [scripted]
        async with front(proxy) as talk:
            got, head, body = await talk.ask(GET % talk.host)
            assert got == status
            assert b"text/html" not in head
            assert SECRET.encode() not in head + body
            assert b"rubbish" not in body
        assert [(r.rule, r.reason, r.status, r.verdict) for r in proxy.log.records] == [(rule, reason, status, "deny")]

    run(work)


@both
@pytest.mark.parametrize(
    ("reference", "status"), [pytest.param(b"missing", 502, id="unknown"), pytest.param(b"other", 200, id="another")]
)
def test_only_references_that_the_endpoint_holds_are_resolved(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory, reference: bytes, status: int
) -> None:
    """A name that the endpoint does not hold is a 502, and nothing goes upstream."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            got, _, _ = await talk.ask((GET % talk.host).replace(b"secret:api", b"secret:" + reference))
        assert got == status
        assert len(upstream.requests) == (status == 200)

    run(work)


# -- fail closed -------------------------------------------------------------------------------------------------------


class Boom(Exception):
    """What a broken part raises. Its text must be shown nowhere."""


def broken_core(name: str) -> str:
    """What each step calls first."""
    return {
        "Who": "addons.who.Who._local",
        "Where": "addons.where.Where._find",
        "Authorize": "addons.authorize.Authorize._head",
        "authorize_body": "addons.authorize.authorize_body",
        "seal": "addons.send.seal",
        "start": "addons.send.start",
    }[name]


@both
@pytest.mark.parametrize("error", [Boom, asyncio.CancelledError, MemoryError])
@pytest.mark.parametrize("where", ["Who", "Where", "Authorize", "authorize_body", "seal", "start"])
def test_an_exception_before_sending_reaches_no_upstream(
    run: Callable[..., None],
    upstream: Upstream,
    front: FrontFactory,
    where: str,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An exception anywhere means 5xx, nothing upstream, one record."""

    def fail(*_args: object, **_options: object) -> None:
        raise error(SECRET)

    async def work(proxy: Running) -> None:
        for request in (GET, POST + b'Content-Length: 7\r\n\r\n{"a":1}'):
            proxy.log.records.clear()
            async with front(proxy) as talk:
                with monkeypatch.context() as patch:
                    patch.setattr(broken_core(where), fail)
                    status, head, body = await talk.ask(request % talk.host)
                assert status == 500
                assert SECRET.encode() not in head + body
                assert await talk.rest() == b""
            assert [(r.rule, r.status, r.verdict) for r in proxy.log.decisions()] == [(Rule.FAULT, 500, "deny")]
        assert upstream.connections == 0

    run(work)


@both
@pytest.mark.parametrize("where", ["next_hop", "check_response", "failure"])
def test_an_exception_after_sending_shows_nothing_of_the_answer(
    run: Callable[..., None],
    upstream: Upstream,
    front: FrontFactory,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After it was sent, nothing of the answer is shown; 5xx; one decision record."""

    def fail(*_args: object, **_options: object) -> None:
        raise Boom(SECRET)

    async def work(proxy: Running) -> None:
        monkeypatch.setattr(f"addons.send.{where}", fail)
        upstream.handler = lambda _request: [CLOSE] if where == "failure" else answer(body=b'{"shown":1}')
        async with front(proxy) as talk:
            status, head, body = await talk.ask(GET % talk.host)
            assert status == 500
            assert b"shown" not in head + body
        assert [(r.rule, r.status) for r in proxy.log.records] == [(Rule.FAULT, 500)]

    run(work)


@dataclass
class FailingPart:
    """An upstream client, or a vault, that raises."""

    error: BaseException

    async def send(self, *_args: object, **_options: object) -> None:
        raise self.error

    async def open(self) -> None:
        raise self.error


@both
@pytest.mark.parametrize("error", [Boom(SECRET), asyncio.CancelledError(), OSError(SECRET)])
@pytest.mark.parametrize("part", ["upstream", "vault"])
def test_a_part_that_raises_is_a_fault(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory, part: str, error: BaseException
) -> None:
    """An exception in the upstream client or in a secret source: 5xx, nothing shown, one record."""

    async def work(proxy: Running) -> None:
        proxy.change(**{part: FailingPart(error)})
        async with front(proxy) as talk:
            status, head, body = await talk.ask(GET % talk.host)
            assert status == 500
            assert SECRET.encode() not in head + body
        assert [(r.rule, r.status) for r in proxy.log.records] == [(Rule.FAULT, 500)]
        assert upstream.connections == 0

    run(work)


@both
@pytest.mark.parametrize("error", [LogUnavailable, Boom])
def test_without_a_record_there_is_no_answer_and_nothing_more_goes_upstream(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory, error: type[Exception]
) -> None:
    """When the log cannot be written the answer is a 503 that shows nothing, and nothing goes upstream until it can."""

    async def work(proxy: Running) -> None:
        proxy.log.error = error
        proxy.log.failing = lambda _record: True
        upstream.handler = lambda _request: answer(body=b'{"shown":1}')
        for sent in (1, 1):
            async with front(proxy) as talk:
                status, head, body = await talk.ask(GET % talk.host)
                assert status == 503
                assert b"shown" not in head + body
                assert b"Retry-After" in head
            assert len(upstream.requests) == sent
        assert proxy.log.records == []
        proxy.log.failing = lambda _record: False
        async with front(proxy) as talk:
            # The first refusal that can be recorded shows that the log works again.
            assert (await talk.ask(GET % talk.host))[0] == 503
            assert (await talk.ask(GET % talk.host))[0] == 200
        assert [r.reason for r in proxy.log.records] == [Reason.LOG, None]

    run(work)


@both
def test_a_write_without_its_intent_is_not_sent(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """A write that may have happened is never unrecorded."""

    async def work(proxy: Running) -> None:
        proxy.log.failing = lambda record: record.event is Event.INTENT
        async with front(proxy) as talk:
            assert (await talk.ask(POST % talk.host + b'Content-Length: 7\r\n\r\n{"a":1}'))[0] == 503
        assert upstream.connections == 0
        assert [r.reason for r in proxy.log.records] == [Reason.LOG]

    run(work)


@both
@pytest.mark.parametrize("where", ["record", "_render"])
def test_an_error_while_recording_is_recorded_as_a_fault(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that could not be made is replaced by one that says so."""
    whole = getattr(Audit, where)
    calls: list[None] = []

    def once(self: Audit, exchange: Exchange) -> object:
        calls.append(None)
        if len(calls) == 1:
            raise Boom(SECRET)
        return whole(self, exchange)

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            monkeypatch.setattr(Audit, where, once)
            status, head, body = await talk.ask(GET % talk.host)
            assert status == 500
            assert SECRET.encode() not in head + body
        assert [(r.rule, r.status) for r in proxy.log.records] == [(Rule.FAULT, 500)]

    run(work)


@both
def test_a_chain_that_does_not_get_to_its_end_shows_nothing(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """Where the hook sets no reply, it is a 500."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            for connection, _ in proxy.listeners._open.values():
                connection._steps = {Hook.REQUEST: ()}
            status, _, body = await talk.ask(GET % talk.host)
            assert (status, body) == (500, b"")
            assert await talk.rest() == b""
        assert upstream.connections == 0

    run(work)


@both
def test_a_step_that_escapes_its_guard_shows_nothing(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """Three layers fail closed; this is the one behind the steps' own guard."""

    async def escape(_exchange: Exchange) -> None:
        raise asyncio.CancelledError

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            for connection, _ in proxy.listeners._open.values():
                connection._steps = {Hook.REQUEST: (escape,)}
            assert (await talk.ask(GET % talk.host))[0] == 500

    run(work)


@both
def test_nobody_decided_is_a_fault(run: Callable[..., None], upstream: Upstream, front: FrontFactory) -> None:
    """The last addon refuses what nobody decided."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            for connection, _ in proxy.listeners._open.values():
                connection._steps = {Hook.REQUEST: connection._steps[Hook.REQUEST][-1:]}
            assert (await talk.ask(GET % talk.host))[0] == 500
        assert [(r.rule, r.status) for r in proxy.log.records] == [(Rule.FAULT, 500)]

    run(work)


@both
def test_an_upstream_of_an_unknown_authority_gets_nothing(
    tmp_path: Path, upstream: Upstream, front: FrontFactory
) -> None:
    """A 502, and a record that says why."""

    async def work() -> None:
        strangers = make_certificates(tmp_path / "strangers")
        async with asyncio.timeout(60), running(tmp_path, upstream, strangers) as proxy, front(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 502
            assert [record.reason for record in proxy.log.records] == [Reason.TLS]

    (tmp_path / "strangers").mkdir()
    asyncio.run(work())
    assert not upstream.requests


@both
@pytest.mark.parametrize("before", [0, 1])
def test_an_error_of_the_layer_itself_is_recorded(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """The request that it was reading is refused, whatever was answered before."""

    def fail(_self: object) -> None:
        raise Boom(SECRET)

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            for _ in range(before):
                assert (await talk.ask(GET % talk.host))[0] == 200
            monkeypatch.setattr(RequestReader, "next_event", fail)
            status, _, body = await talk.ask(GET % talk.host)
            assert status == 500
            assert SECRET.encode() not in body
        assert [(r.rule, r.status) for r in proxy.log.records] == [(None, 200)] * before + [(Rule.FAULT, 500)]
        assert len(upstream.requests) == before

    run(work)


# -- the forward proxy -------------------------------------------------------------------------------------------------


def test_an_error_in_a_tunnel_that_was_opened_is_recorded(
    run: Callable[..., None], upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CONNECT was answered and left no record, so what fails behind it leaves one."""

    def fail(_context: object) -> None:
        raise Boom(SECRET)

    async def work(proxy: Running) -> None:
        monkeypatch.setattr("addons.front.connect.Tls", fail)
        reader, writer = await asyncio.open_connection(*proxy.proxy)
        writer.write(b"CONNECT localhost:%d HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % (upstream.port, upstream.port))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.write(b"\x16\x03\x01")
        await reader.read()
        writer.close()
        assert [(r.rule, r.status) for r in proxy.log.records] == [(Rule.FAULT, 500)]
        assert upstream.connections == 0

    run(work)


@pytest.mark.parametrize(
    ("head", "status", "rule", "reason"),
    [
        pytest.param(b"CONNECT evil.example:443", 403, Rule.DENIED, Reason.HOST_UNKNOWN, id="unknown host"),
        pytest.param(b"CONNECT localhost:22", 403, Rule.DENIED, Reason.HOST_UNKNOWN, id="port 22"),
        pytest.param(b"CONNECT localhost:53", 403, Rule.DENIED, Reason.HOST_UNKNOWN, id="port 53"),
        pytest.param(b"CONNECT localhost", 421, Rule.MISDIRECTED, Reason.HOST_UNREADABLE, id="no port"),
        pytest.param(b"CONNECT u@localhost:%d", 421, Rule.MISDIRECTED, Reason.HOST_UNREADABLE, id="userinfo"),
        pytest.param(b"CONNECT 2130706433:%d", 421, Rule.MISDIRECTED, Reason.HOST_UNREADABLE, id="integer address"),
        pytest.param(b"CONNECT 0x7f.1:%d", 421, Rule.MISDIRECTED, Reason.HOST_UNREADABLE, id="hexadecimal address"),
        pytest.param(b"CONNECT 127.1:%d", 421, Rule.MISDIRECTED, Reason.HOST_UNREADABLE, id="short address"),
        pytest.param(b"CONNECT [::ffff:127.0.0.1]:%d", None, None, None, id="mapped address"),
        pytest.param(b"GET http://localhost:%d/things/1", 403, Rule.DENIED, Reason.PLAIN_HTTP, id="absolute form"),
        pytest.param(b"GET /things/1", 400, Rule.BAD_REQUEST, Reason.TARGET_UNREADABLE, id="origin form"),
        pytest.param(b"GET https://localhost:%d/", 400, Rule.BAD_REQUEST, Reason.TARGET_UNREADABLE, id="https form"),
    ],
)
def test_only_a_tunnel_to_an_endpoint_is_opened(
    run: Callable[..., None],
    upstream: Upstream,
    head: bytes,
    status: int | None,
    rule: Rule | None,
    reason: Reason | None,
) -> None:
    """Hosts that are no endpoint are refused at CONNECT, with a record; so is plain http."""

    async def work(proxy: Running) -> None:
        port = proxy.service.upstream.port
        async with raw(proxy.proxy) as talk:
            target = head % port if b"%d" in head else head
            got, shown, body = await talk.ask(target + b" HTTP/1.1\r\n\r\n")
            assert got == (status or got)
            assert got >= 400
            assert b"Connection: close" in shown
            assert proxy.log.records[0].id.encode() in body
            assert await talk.rest() == b""
        assert len(proxy.log.records) == 1
        record = proxy.log.records[0]
        assert record.mode is Mode.CONNECT
        if rule is not None:
            assert (record.rule, record.reason) == (rule, reason)
        assert upstream.connections == 0

    run(work)


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        pytest.param([], 200, id="none"),
        pytest.param([b"LOCALHOST:%d"], 200, id="other case"),
        pytest.param([b"other:%d"], 421, id="another"),
        pytest.param([b"localhost"], 421, id="another port"),
        pytest.param([b"localhost:%d", b"localhost:%d"], 421, id="two"),
    ],
)
def test_the_host_of_a_connect_is_its_target(
    run: Callable[..., None], upstream: Upstream, hosts: list[bytes], status: int
) -> None:
    """RFC 9112, 3.2.3; some clients send no Host field with CONNECT."""

    async def work(proxy: Running) -> None:
        port = proxy.service.upstream.port
        fields = b"".join(b"Host: " + (host % port if b"%d" in host else host) + b"\r\n" for host in hosts)
        async with raw(proxy.proxy) as talk:
            assert (await talk.ask(b"CONNECT localhost:%d HTTP/1.1\r\n" % port + fields + b"\r\n"))[0] == status

    run(work)


@pytest.mark.parametrize(
    ("first", "reason", "shown"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", Reason.PLAIN_HTTP, True, id="plain http"),
        pytest.param(b"SSH-2.0-x\r\n", Reason.NOT_HTTP, True, id="SSH"),
        pytest.param(b"\x16\x03\x01rubbish, not TLS", Reason.TLS_CLIENT, False, id="no TLS record"),
        pytest.param(b"\x00", Reason.NOT_HTTP, True, id="a zero byte"),
    ],
)
@pytest.mark.parametrize("together", [False, True], ids=["afterwards", "with the head"])
def test_a_tunnel_takes_nothing_but_tls(
    run: Callable[..., None], upstream: Upstream, first: bytes, reason: Reason, shown: bool, together: bool
) -> None:
    """Semantic assurance is https only, and never an opaque tunnel."""

    async def work(proxy: Running) -> None:
        connect = b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % proxy.service.upstream.port
        async with raw(proxy.proxy) as talk:
            if together:
                assert (await talk.ask(connect + first))[0] == 200
            else:
                assert (await talk.ask(connect))[0] == 200
                await talk.send(first)
            if shown:
                assert (await talk.answer())[0] == 400
            await talk.rest()
        assert [(r.reason, r.endpoint, r.status) for r in proxy.log.records] == [(reason, "api", 400)]
        assert upstream.connections == 0

    run(work)


@pytest.mark.parametrize(
    ("name", "trusts", "rule", "reason"),
    [
        pytest.param("other.example", True, Rule.MISDIRECTED, Reason.HOST_MISMATCH, id="another server name"),
        pytest.param("localhost", False, Rule.BAD_REQUEST, Reason.TLS_CLIENT, id="CA not trusted"),
    ],
)
def test_a_handshake_that_fails_leaves_a_record(
    run: Callable[..., None], upstream: Upstream, name: str, trusts: bool, rule: Rule, reason: Reason
) -> None:
    """The SNI is the CONNECT authority; a client that misses the CA gets a record that says so."""

    async def work(proxy: Running) -> None:
        async with raw(proxy.proxy) as talk:
            await talk.ask(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % proxy.service.upstream.port)
            context = ssl.create_default_context(cafile=str(proxy.ca) if trusts else None)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await talk.writer.start_tls(context, server_hostname=name)
        await asyncio.sleep(0.1)
        assert [(r.rule, r.reason, r.endpoint) for r in proxy.log.records] == [(rule, reason, "api")]
        assert upstream.connections == 0

    run(work)


def test_a_name_needs_a_server_name(run: Callable[..., None], upstream: Upstream) -> None:
    """No SNI for a name: the handshake is refused."""

    async def work(proxy: Running) -> None:
        async with raw(proxy.proxy) as talk:
            await talk.ask(b"CONNECT api.example:%d HTTP/1.1\r\n\r\n" % proxy.service.upstream.port)
            context = ssl.create_default_context(cafile=str(proxy.ca))
            context.check_hostname = False
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await talk.writer.start_tls(context)
        await asyncio.sleep(0.1)
        assert [(r.rule, r.reason) for r in proxy.log.records] == [(Rule.MISDIRECTED, Reason.HOST_MISMATCH)]
        assert upstream.connections == 0

    run(work, host="api.example")


def test_an_address_needs_no_server_name(run: Callable[..., None], upstream: Upstream) -> None:
    """A server name is never an address (RFC 6066, 3)."""

    async def work(proxy: Running) -> None:
        async with tunnel(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 200

    run(work, host="127.0.0.1")


def test_a_tls_end_inside_of_a_request_is_recorded(run: Callable[..., None], upstream: Upstream) -> None:
    """close_notify says that nothing more comes (RFC 8446, 6.1)."""

    async def work(proxy: Running) -> None:
        await asyncio.to_thread(_half_request, proxy)
        await asyncio.sleep(0.2)
        assert [r.reason for r in proxy.log.records] == [Reason.CLIENT_LEFT]

    def _half_request(proxy: Running) -> None:
        client = socket.create_connection(proxy.proxy)
        client.sendall(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % proxy.service.upstream.port)
        client.recv(1000)
        context = ssl.create_default_context(cafile=str(proxy.ca))
        secured = context.wrap_socket(client, server_hostname="localhost")
        secured.sendall(b"GET /thi")
        with contextlib.suppress(ssl.SSLError, OSError):
            secured.unwrap()
        secured.close()

    run(work)


@pytest.mark.parametrize(
    ("before", "reasons"),
    [
        pytest.param(b"", [], id="nothing before"),
        pytest.param(GET, [None], id="a request before"),
        pytest.param(b"GET /thi", [Reason.CLIENT_LEFT], id="part of a request before"),
    ],
)
def test_rubbish_inside_of_a_tunnel_ends_it(
    run: Callable[..., None], upstream: Upstream, before: bytes, reasons: list[Reason | None]
) -> None:
    """A TLS record that cannot be decrypted ends the connection; what was decrypted before it counts."""

    async def work(proxy: Running) -> None:
        async with raw(proxy.proxy) as talk:
            host = b"localhost:%d" % proxy.service.upstream.port
            await talk.ask(b"CONNECT %s HTTP/1.1\r\n\r\n" % host)
            came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = ssl.create_default_context(cafile=str(proxy.ca)).wrap_bio(came, goes, server_hostname="localhost")
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await talk.send(goes.read())
                    came.write(await talk.reader.read(65536))
            if before:
                client.write(before.replace(b"%s", host))
            await talk.send(goes.read() + b"\x17\x03\x03\x00\x10" + b"x" * 16)
            await talk.rest()
        await asyncio.sleep(0.1)
        assert [r.reason for r in proxy.log.records] == reasons

    run(work)


def test_a_handshake_that_takes_too_long_leaves_a_record(run: Callable[..., None]) -> None:
    """Given up or too slow is the same to a reader of the log."""

    async def work(proxy: Running) -> None:
        async with raw(proxy.proxy) as talk:
            await talk.ask(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % proxy.service.upstream.port)
            await talk.send(b"\x16\x03\x01\x02\x00\x01")
            await talk.rest()
        assert [r.reason for r in proxy.log.records] == [Reason.TLS_CLIENT]

    run(work, limits=FAST)


# -- the base URL ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "status", "rule"),
    [
        pytest.param(b"Host: localhost:%d\r\n", 200, None, id="localhost"),
        pytest.param(b"Host: LocalHost:%d\r\n", 200, None, id="in other case"),
        pytest.param(b"Host: api.internal:%d\r\n", 200, None, id="a name of the settings"),
        pytest.param(b"Host: evil.example:%d\r\n", 421, Rule.MISDIRECTED, id="foreign name"),
        pytest.param(b"Host: 127.0.0.1\r\n", 421, Rule.MISDIRECTED, id="another port"),
        pytest.param(b"Host: 127.1:%d\r\n", 421, Rule.MISDIRECTED, id="unreadable"),
        pytest.param(b"", 400, Rule.BAD_REQUEST, id="none"),
        pytest.param(b"Host: localhost:%d\r\nHost: localhost:%d\r\n", 400, Rule.BAD_REQUEST, id="two"),
        pytest.param(b"Host: localhost:%d\r\nOrigin: https://evil.example\r\n", 403, Rule.DENIED, id="foreign Origin"),
        pytest.param(b"Host: localhost:%d\r\nOrigin: null\r\n", 403, Rule.DENIED, id="opaque Origin"),
        pytest.param(b"Host: localhost:%d\r\nOrigin: https://localhost:%d\r\n", 403, Rule.DENIED, id="other scheme"),
        pytest.param(b"Host: localhost:%d\r\nSec-Fetch-Site: cross-site\r\n", 403, Rule.DENIED, id="cross-site"),
        pytest.param(b"Host: localhost:%d\r\nSec-Fetch-Site: same-site\r\n", 403, Rule.DENIED, id="same-site"),
        # its own origin passes here, and is then an undeclared header like another
        pytest.param(b"Host: localhost:%d\r\nOrigin: http://localhost:%d\r\n", 403, Rule.REQUEST, id="own Origin"),
    ],
)
def test_a_base_url_is_called_by_its_own_names(
    run: Callable[..., None], upstream: Upstream, fields: bytes, status: int, rule: Rule | None
) -> None:
    """No web page can act by a name that it points here."""

    async def work(proxy: Running) -> None:
        proxy.change(hosts=frozenset({Authority(host="api.internal", port=proxy.base[1])}))
        shown = fields.replace(b"%d", b"%d" % proxy.base[1])
        async with base(proxy) as talk:
            request = GET.replace(b"Host: %s\r\n", shown)
            assert (await talk.ask(request))[0] == status
        assert [r.rule for r in proxy.log.records] == [rule]
        assert len(upstream.requests) == (status == 200)

    run(work)


@both
def test_an_endpoint_that_is_gone_is_refused_at_the_next_request(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """Kept-alive connections see a new policy at their next request."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 200
            proxy.policies.current = Policy.of([])
            assert (await talk.ask(GET % talk.host))[0] == 403
        assert [r.reason for r in proxy.log.records] == [None, Reason.HOST_UNKNOWN]

    run(work)


def test_more_clients_than_the_limit_are_turned_away(run: Callable[..., None]) -> None:
    """`limits.clients` bounds the connections that are open at one time."""

    async def work(proxy: Running) -> None:
        async with base(proxy) as one:
            assert (await one.ask(GET % one.host))[0] == 200
            async with base(proxy) as two:
                assert await two.rest() == b""
            assert (await one.ask(GET % one.host))[0] == 200

    run(work, clients=1)


@both
def test_a_judged_request_is_captured_allowed_or_refused(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """The request as it came, its body too, also where the head alone was refused."""
    captured: list[dict[str, object]] = []

    class Sink:
        def write(self, request: dict[str, object]) -> None:
            captured.append(request)

    async def work(proxy: Running) -> None:
        proxy.change(capture=Sink())
        async with front(proxy) as talk:
            assert (await talk.ask(POST % talk.host + b'Content-Length: 7\r\n\r\n{"a":1}'))[0] == 200
            refused = (POST % talk.host).replace(b"/things/1", b"/things/9") + b"Content-Length: 7\r\n\r\n"
            assert (await talk.ask(refused))[0] == 403
        assert [request["target"] for request in captured] == ["/things/1", "/things/9"]
        assert base64.b64decode(str(captured[0]["body"])) == b'{"a":1}'
        assert SECRET not in repr(captured)

    run(work)


@both
def test_a_body_outside_of_its_schema_is_refused(
    run: Callable[..., None], upstream: Upstream, front: FrontFactory
) -> None:
    """The whole body is judged before a byte of it is sent."""

    async def work(proxy: Running) -> None:
        async with front(proxy) as talk:
            assert (await talk.ask(POST % talk.host + b"Content-Length: 2\r\n\r\n[]"))[0] == 403
            assert (await talk.ask(GET % talk.host))[0] == 200
        assert [r.reason for r in proxy.log.records] == [Reason.BODY_SCHEMA, None]

    run(work)


def test_a_client_that_does_not_end_is_ended(run: Callable[..., None]) -> None:
    """After a refusal that ends the connection the rest is dropped for a second, no longer."""

    async def work(proxy: Running) -> None:
        async with base(proxy) as talk:
            assert (await talk.ask(b"rubbish\r\n\r\n"))[0] == 400
            assert proxy.listeners.open == 1
            await asyncio.sleep(1.3)
            assert proxy.listeners.open == 0

    run(work)
