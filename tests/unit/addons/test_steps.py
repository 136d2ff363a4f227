"""The steps of the chain one by one, where the fronts cannot put them."""

import asyncio
import gzip
import json
import threading
from base64 import b64encode
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

import pytest
from support.running import DEFAULT, SECRET, FixedVault, MemoryLog, operation

from addons.audit import Audit
from addons.authorize import Authorize
from addons.boxes import Box
from addons.exchange import Arrival, Exchange
from addons.front.layer import FrontLayer
from addons.front.pick import Front
from addons.front.wire import Plain
from addons.gate import Gate
from addons.guard import fail_closed
from addons.policy import Judged, Policy, Service
from addons.ports import UpstreamFailed
from addons.record import Mode, Signal, TlsCause
from addons.refusal import refusal
from addons.reply import reply_bytes
from addons.send import Send, deny_failed
from addons.where import Where
from addons.who import Who
from grants.canonical import authority_bytes
from grants.decision import Deny, Reason, Rule
from grants.endpoint import Endpoint
from grants.load import load_grant
from grants.message import Authority, Origin, Outgoing, Relay, RequestHead, Response

UPSTREAM = Origin(scheme="https", host="api.example", port=443)
FURTHER = Origin(scheme="https", host="files.example", port=443)


@dataclass
class Scripted:
    """An upstream that answers from a list, and keeps what it was sent."""

    answers: list[Response | UpstreamFailed]
    sent: list[Outgoing]

    async def send(self, request: Outgoing, *, max_body: int, timeout: float) -> Response:  # noqa: ASYNC109 - the port's
        self.sent.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, UpstreamFailed):
            raise answer
        return answer


def response(status: int = 200, body: bytes = b"{}", **fields: str) -> Response:
    """An answer of JSON."""
    lines = [(b"Content-Type", b"application/json")] + [(k.encode(), v.encode()) for k, v in fields.items()]
    return Response(status=status, reason=b"OK", fields=tuple(lines), body=body)


def service(grant: object = None, *answers: Response | UpstreamFailed) -> Service:
    """The endpoint `api`, whose upstream answers by the script."""
    endpoint = Endpoint.of(
        name="api",
        upstream=UPSTREAM,
        grant=load_grant(json.dumps(grant or DEFAULT), file="grant.yaml"),
        secrets=frozenset({"api"}),
    )
    return Service(
        name="api",
        upstream=UPSTREAM,
        base=(),
        secrets=endpoint.secrets,
        vault=FixedVault(api=SECRET),
        timeout=5,
        way=Judged(endpoint=endpoint, upstream=Scripted(list(answers), []), body_limit=1024),
    )


def exchange(
    of: Service | None = None, *, mode: Mode = Mode.PROXY, peer: str | None = "127.0.0.1", target: bytes = b"/things/1"
) -> Exchange:
    """A request inside of a tunnel to the service."""
    made = of or service()
    head = RequestHead(
        method=b"GET", target=target, fields=((b"Host", b"api.example"), (b"Authorization", b"Bearer @secret:api"))
    )
    arrival = Arrival(
        mode=mode,
        peer=peer,
        service="api",
        authority=Authority(host="api.example", port=443),
        server_name="api.example",
        encrypted=True,
    )
    return Exchange(arrival=arrival, policy=Policy.of([made]), head=head)


def through(made: Exchange, *, key: bytes = b"k" * 32, log: MemoryLog | None = None, terse: bool = False) -> Exchange:
    """Walk the chain."""
    audit = Audit(log or MemoryLog(), key, terse)

    async def walk() -> None:
        for step in (Who(), Where(), Authorize(), Send(audit), audit):
            waits = step.broker_request(made)  # type: ignore[attr-defined]
            if waits is not None:
                await waits

    asyncio.run(walk())
    return made


@pytest.mark.parametrize(
    ("peer", "served"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), (None, True), ("192.0.2.1", False), ("fe80::1", False)],
)
def test_without_boxes_only_this_machine_is_served(peer: str | None, served: bool) -> None:
    """Loopback clients use every endpoint. None is a Unix socket."""
    made = through(exchange(service(None, response()), peer=peer))
    assert (made.denial is None) == served
    if made.denial is not None:
        assert (made.denial.reason, made.denial.status) == (Reason.BOX_UNKNOWN, 407)
        assert b"Proxy-Authenticate" in (made.reply or b"")


@pytest.mark.parametrize("step", [Where(), Authorize()])
@pytest.mark.parametrize("hook", ["broker_connect", "broker_head", "broker_request"])
def test_a_step_without_a_head_fails_closed(step: object, hook: str) -> None:
    """What cannot be is refused, not passed on."""
    made = replace(exchange(), head=None)
    if not hasattr(step, hook):
        return
    getattr(step, hook)(made)
    assert made.denial is not None


def test_a_box_without_the_endpoint_is_refused_at_a_base_url() -> None:
    """Which endpoints each box may use."""
    made = exchange()
    made.arrival = replace(made.arrival, mode=Mode.TERMINATE)
    made.box = Box(name="two", endpoints=frozenset())
    Where().broker_request(made)
    assert made.denial is not None
    assert made.denial.reason is Reason.BOX_ENDPOINT


def test_sending_what_nobody_allowed_is_a_fault() -> None:
    """Send acts on an `Allow` alone."""
    made = exchange()
    asyncio.run(Send(Audit(MemoryLog(), b"k")).broker_request(made))
    assert made.denial is not None
    assert made.denial.rule is Rule.FAULT


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_program_is_passed_on_after_the_refusal(error: type[BaseException]) -> None:
    """Even then the exchange is refused."""

    class Step:
        @fail_closed
        async def broker_request(self, exchange: Exchange) -> None:
            raise error

        @fail_closed
        def broker_head(self, exchange: Exchange) -> None:
            raise error

    def waiting(made: Exchange) -> None:
        work: Coroutine[None, None, None] = Step().broker_request(made)  # type: ignore[assignment]
        work.send(None)

    for run in (waiting, Step().broker_head):
        made = exchange()
        with pytest.raises(error):
            run(made)
        assert made.denial is not None
        assert made.denial.rule is Rule.FAULT


def test_the_first_refusal_counts() -> None:
    """A step behind a refusal does not replace it."""
    made = exchange()
    first = Deny(rule=Rule.DENIED, reason=Reason.HOST_UNKNOWN, detail="first")
    made.deny(first)
    made.deny(Deny(rule=Rule.DENIED, reason=Reason.HOST_UNKNOWN, detail="second"))
    assert made.denial is first


REDIRECTS = {
    "operations": [
        operation("read-thing"),
        operation("read-file", route="/files/{id}", origins=[str(FURTHER)], headers=[]),
    ],
    "redirects": {"allow": True, "maxHops": 2, "allowedOrigins": [str(FURTHER)]},
}


def test_a_redirect_is_followed_and_recorded() -> None:
    """Allowed decisions report the final host and operation when a redirect occurs."""
    made = service(REDIRECTS, response(302, b"", Location="/things/2"), response(body=b'{"a":1}'))
    log = MemoryLog()
    done = through(exchange(made), log=log)
    assert done.denial is None
    record = log.records[0]
    assert (record.operation, record.redirect_hops) == ("read-thing", 1)
    assert (record.final_host, record.final_operation, record.final_route) == (
        "api.example",
        "read-thing",
        "/things/{id}",
    )
    assert record.final_resource_digest not in (None, record.resource_digest)
    assert record.bytes_in == 7
    assert isinstance(made.way, Judged)
    upstream = made.way.upstream
    assert isinstance(upstream, Scripted)
    assert [request.target for request in upstream.sent] == [b"/things/1", b"/things/2"]
    assert [dict(request.fields)[b"Authorization"] for request in upstream.sent] == [b"Bearer " + SECRET.encode()] * 2


@pytest.mark.parametrize(
    ("answers", "rule", "reason"),
    [
        pytest.param(
            [response(302, SECRET.encode(), Location="/things/2")],
            Rule.RESPONSE_CREDENTIAL,
            Reason.CREDENTIAL,
            id="body",
        ),
        pytest.param(
            [response(302, b"", Location=f"https://evil.example/{SECRET}")],
            Rule.RESPONSE_CREDENTIAL,
            Reason.CREDENTIAL,
            id="Location",
        ),
        pytest.param(
            [response(302, b"", Location="https://evil.example/")], Rule.REDIRECT, Reason.REDIRECT_ORIGIN, id="origin"
        ),
        pytest.param(
            [response(302, b"", Location="/things/3")], Rule.REDIRECT, Reason.REDIRECT_REQUEST, id="no operation"
        ),
        pytest.param([response(302, b"", Location="/things/1")] * 3, Rule.REDIRECT, Reason.REDIRECT_HOPS, id="a loop"),
        pytest.param(
            [response(302, b"", Location="/things/2"), UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.TIMEOUT, 504)],
            Rule.UPSTREAM_ERROR,
            Reason.TIMEOUT,
            id="the hop fails",
        ),
    ],
)
def test_a_redirect_outside_of_the_grant_is_not_followed(
    answers: list[Response | UpstreamFailed], rule: Rule, reason: Reason
) -> None:
    """A credential in an answer outweighs whatever else is wrong with where it leads."""
    log = MemoryLog()
    done = through(exchange(service(REDIRECTS, *answers)), log=log)
    assert done.denial is not None
    assert (done.denial.rule, done.denial.reason) == (rule, reason)
    assert SECRET.encode() not in (done.reply or b"")


def test_a_reference_that_is_gone_at_a_hop_stops_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """References are resolved anew for each hop."""
    from addons import send

    whole, calls = send.seal, []

    def once(*args: object) -> object:
        calls.append(args)
        if len(calls) == 2:
            return Deny(rule=Rule.UNRESOLVED_SECRET, reason=Reason.REFERENCE_UNKNOWN, status=502, detail="gone")
        return whole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(send, "seal", once)
    done = through(exchange(service(REDIRECTS, response(302, b"", Location="/things/2"))))
    assert done.denial is not None
    assert done.denial.rule is Rule.UNRESOLVED_SECRET


@pytest.mark.parametrize(
    ("reason", "counted"),
    [
        pytest.param(Reason.CONNECT, 0, id="not connected"),
        pytest.param(Reason.RESOLVE, 0, id="no address"),
        pytest.param(Reason.TLS, 0, id="not trusted"),
        pytest.param(Reason.CAPACITY, 0, id="no connection free"),
        pytest.param(Reason.INSIDE_ADDRESS, 0, id="inside address"),
        pytest.param(Reason.SHUTDOWN, 0, id="stopping"),
        pytest.param(Reason.TIMEOUT, 7, id="no answer in time"),
        pytest.param(Reason.INCOMPLETE, 7, id="half an answer"),
        pytest.param(Reason.MALFORMED, 7, id="no answer that can be read"),
    ],
)
def test_only_bytes_that_may_have_been_sent_are_counted(reason: Reason, counted: int) -> None:
    """`bytes_out` counts a body from the moment on that a byte of the request may have been written."""
    made = exchange(service(None, UpstreamFailed(Rule.UPSTREAM_ERROR, reason)))
    assert made.head is not None
    fields = (*made.head.fields, (b"Content-Type", b"application/json"), (b"Content-Length", b"7"))
    made.head = replace(made.head, method=b"POST", fields=fields)
    made.body = b'{"a":1}'
    log = MemoryLog()
    done = through(made, log=log)
    assert done.denial is not None
    assert done.denial.reason is reason
    assert log.records[-1].bytes_out == counted


BASE = operation("read-thing")["response"]
assert isinstance(BASE, dict)
LARGE = b'{"a":"' + b"x" * (64 * 1024 - 100) + b'"'


@pytest.mark.parametrize(
    ("answer", "thread"),
    [
        pytest.param(response(), False, id="small"),
        pytest.param(response(body=LARGE + b"}"), False, id="as large as is checked at once"),
        pytest.param(response(body=LARGE + b',"b":"' + b"x" * 200 + b'"}'), True, id="large"),
        pytest.param(
            Response(
                status=200,
                reason=b"OK",
                fields=((b"Content-Type", b"application/json"), (b"Content-Encoding", b"gzip")),
                body=gzip.compress(LARGE + b"}"),
            ),
            True,
            id="small, but could unfold",
        ),
    ],
)
def test_a_large_answer_is_checked_in_a_thread(answer: Response, thread: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop goes on meanwhile; what the check says is the same, and what it raises is a fault."""
    from addons import send

    grant = {"operations": [operation("read-thing", response={**BASE, "maxBytes": 1024 * 1024})]}
    check, where = send.check_response, []

    def noted(*args: Any, **named: Any) -> Relay | Deny:
        where.append(threading.current_thread() is not threading.main_thread())
        return check(*args, **named)

    monkeypatch.setattr(send, "check_response", noted)
    done = through(exchange(service(grant, answer)))
    assert done.denial is None
    assert done.relay is not None
    assert where == [thread]

    leak = replace(answer, reason=SECRET.encode())
    done = through(exchange(service(grant, leak)))
    assert done.denial is not None
    assert done.denial.reason is Reason.CREDENTIAL

    monkeypatch.setattr(send, "check_response", lambda *_args, **_named: 1 // 0)
    done = through(exchange(service(grant, answer)))
    assert done.denial is not None
    assert done.denial.rule is Rule.FAULT


def test_the_encoded_form_of_another_request_is_not_shown() -> None:
    """For Basic credentials the encoded form is searched for too, whether this request carried it or not."""
    shown = b64encode(b"somebody:" + SECRET.encode()).rstrip(b"=").decode()
    done = through(exchange(service(None, response(body=json.dumps({"a": shown}).encode()))))
    assert done.denial is not None
    assert (done.denial.rule, done.denial.reason) == (Rule.RESPONSE_CREDENTIAL, Reason.CREDENTIAL)


@pytest.mark.parametrize(
    ("denial", "signals"),
    [
        (Deny(rule=Rule.DENIED, reason=Reason.INSIDE_ADDRESS, detail=""), (Signal.DENIED, Signal.INSIDE_ADDRESS)),
        (Deny(rule=Rule.MISDIRECTED, reason=Reason.HOST_MISMATCH, detail=""), (Signal.DENIED, Signal.MISDIRECTED)),
        (
            Deny(rule=Rule.RESPONSE_CREDENTIAL, reason=Reason.CREDENTIAL, detail=""),
            (Signal.DENIED, Signal.CREDENTIAL_DISCLOSED),
        ),
        (
            Deny(rule=Rule.UNRESOLVED_SECRET, reason=Reason.REFERENCE_UNKNOWN, detail=""),
            (Signal.DENIED, Signal.UNRESOLVED_SECRET),
        ),
        (Deny(rule=Rule.REQUEST, reason=Reason.ROUTE, detail=""), (Signal.DENIED,)),
    ],
)
def test_a_refusal_has_its_signals(denial: Deny, signals: tuple[Signal, ...]) -> None:
    """What a reader of the log filters by."""
    made = exchange()
    made.deny(denial)
    assert Audit(MemoryLog(), b"k").record(made).signals == signals


def test_a_refusal_that_names_an_operation_records_what_it_would_have_done() -> None:
    """Operation, effect and route, when they are known."""
    log = MemoryLog()
    made = exchange(target=b"/things/1?undeclared=1")
    through(made, log=log)
    assert (log.records[0].operation, log.records[0].effect, log.records[0].route) == (
        "read-thing",
        "read",
        "/things/{id}",
    )
    made = exchange()
    made.service = service()
    made.deny(Deny(rule=Rule.REQUEST, reason=Reason.ROUTE, detail="", operation="no such operation"))
    assert Audit(MemoryLog(), b"k").record(made).operation is None


def test_an_operation_without_parameters_has_no_resource() -> None:
    """A resource digest is over the path parameters."""
    grant = {"operations": [operation("list", route="/things", pathParameters={})]}
    log = MemoryLog()
    through(exchange(service(grant, response()), target=b"/things"), log=log)
    assert (log.records[0].verdict, log.records[0].resource_digest) == ("allow", None)


def test_a_terse_refusal_has_no_detail() -> None:
    """`--terse-denials` leaves the detail out."""
    denial = Deny(rule=Rule.REQUEST, reason=Reason.QUERY_VALUE, detail="a detail", operation="list")
    whole = json.loads(refusal(denial, "id", terse=False).body)
    assert whole["detail"] == "a detail"
    assert whole["operation"] == "list"
    short = json.loads(refusal(denial, "id", terse=True).body)
    assert "detail" not in short
    assert (short["rule"], short["reason"], short["decision"]) == ("semantic-request-deny", "query-value", "id")


def test_a_refusal_of_an_unusual_status_has_a_title() -> None:
    """The standard phrase, where there is one."""
    shown = refusal(Deny(rule=Rule.FAULT, reason=Reason.FAULT, detail="", status=418), "id", terse=False)
    assert json.loads(shown.body)["title"] == "i'm a teapot"
    unknown = refusal(Deny(rule=Rule.FAULT, reason=Reason.FAULT, detail="", status=599), "id", terse=False)
    assert json.loads(unknown.body)["title"] == ""


@pytest.mark.parametrize(
    ("relay", "method", "close", "expected"),
    [
        pytest.param(
            Relay(status=200, fields=((b"X", b"y"),), body=b"ab", length=2),
            b"GET",
            False,
            b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\n\r\nab",
            id="body",
        ),
        pytest.param(
            Relay(status=200, fields=(), body=b"", length=7),
            b"HEAD",
            False,
            b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
            id="HEAD",
        ),
        pytest.param(
            Relay(status=204, fields=(), body=b"", length=None),
            b"GET",
            True,
            b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
            id="no length",
        ),
        pytest.param(
            Relay(status=599, fields=(), body=b"", length=0),
            b"GET",
            False,
            b"HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n",
            id="no phrase",
        ),
        pytest.param(
            Relay(status=403, fields=(), body=b"ab", length=2),
            b"HEAD",
            False,
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n",
            id="a refusal of HEAD",
        ),
    ],
)
def test_a_reply_is_framed_by_its_length(relay: Relay, method: bytes, close: bool, expected: bytes) -> None:
    """RFC 9112, 4 and 6."""
    assert reply_bytes(relay, method=method, close=close) == expected


@pytest.mark.parametrize(
    ("server_name", "host", "refused"),
    [
        ("api.example", "api.example", False),
        (None, "api.example", True),
        ("other.example", "api.example", True),
        (None, "localhost", False),
        (None, "192.0.2.1", False),
        (None, "2001:db8::1", False),
    ],
)
def test_a_server_name_is_the_authority_s(server_name: str | None, host: str, refused: bool) -> None:
    """CONNECT authority, TLS server name and Host are the same; an address and a bare name need no server name."""
    made = exchange()
    fields = ((b"Host", authority_bytes(Authority(host=host, port=443))),)
    made.head = RequestHead(method=b"GET", target=b"/things/1", fields=fields)
    made.arrival = replace(made.arrival, authority=Authority(host=host, port=443), server_name=server_name)
    Where().broker_request(made)
    assert (made.denial is not None) == refused


def test_plain_bytes_are_what_they_are() -> None:
    """The wire of a base URL changes nothing."""
    wire = Plain()
    assert (wire.receive(b"a"), wire.send(b"b"), wire.pending(), wire.finish(), wire.ended) == (
        b"a",
        b"b",
        b"",
        b"",
        False,
    )


def test_a_layer_that_was_chosen_is_kept() -> None:
    """`next_layer` sets what is not set."""

    class Chosen:
        layer = object()

    chosen = Chosen()
    Front(lambda _: None).next_layer(chosen)  # type: ignore[arg-type]
    assert chosen.layer is Chosen.layer


def test_the_layers_of_a_front_say_what_they_are_for() -> None:
    """The base of the layers leaves what a connection means to them."""
    layer = FrontLayer.__new__(FrontLayer)
    with pytest.raises(NotImplementedError):
        asyncio.run(layer.converse())


def test_nothing_to_show_is_a_fault() -> None:
    """A reply is a refusal or a checked answer."""
    with pytest.raises(ValueError, match="nothing to show"):
        Audit(MemoryLog(), b"k")._render(exchange())


def test_an_endpoint_at_its_limit_refuses() -> None:
    """Requests in flight an endpoint: a 503."""
    made = exchange(replace(service(), gate=Gate(0)))
    through(made)
    assert made.denial is not None
    assert (made.denial.reason, made.denial.status) == (Reason.CAPACITY, 503)


def test_a_unix_socket_takes_any_readable_host() -> None:
    """A Unix socket has no name, and no web page reaches it."""
    made = exchange(service(None, response()))
    made.arrival = Arrival(mode=Mode.TERMINATE, peer=None, service="api", authority=None)
    assert through(made).denial is None


def test_a_plain_request_within_a_tunnel_s_arrival_needs_an_authority() -> None:
    """What leads nowhere is refused."""
    made = exchange()
    made.arrival = replace(made.arrival, authority=None)
    through(made)
    assert made.denial is not None
    assert made.denial.reason is Reason.HOST_MISMATCH


INJECT = ((b"X-Api-Key", b"@secret:api"),)


def test_what_is_injected_goes_to_the_upstream_and_not_on_to_others() -> None:
    """Attach by host: to the upstream's own origin, and to one that the hop's operation names."""
    grant = {
        "operations": [
            operation("read-thing"),
            operation("read-file", route="/files/{id}", headers=[]),
        ],
        "redirects": {"allow": True, "maxHops": 2, "allowedOrigins": [str(FURTHER)]},
    }
    made = replace(service(grant, response(302, b"", Location=f"{FURTHER}/files/1"), response()), inject=INJECT)
    done = exchange(made)
    done.head = RequestHead(
        method=b"GET", target=b"/things/1", fields=((b"Host", b"api.example"), (b"x-api-key", b"mine"))
    )
    through(done)
    assert done.denial is None
    assert isinstance(made.way, Judged)
    assert isinstance(made.way.upstream, Scripted)
    first, second = made.way.upstream.sent
    assert first.fields == ((b"X-Api-Key", SECRET.encode()),)
    assert second.fields == ()


FOLLOWING = {"operations": [operation("read-thing")], "redirects": {"allow": True, "maxHops": 1}}
MOVED = response(302, b"", Location="/things/2")


@pytest.mark.parametrize(
    ("grant", "answers", "upstream", "shown"),
    [
        pytest.param(None, [response()], 200, 200, id="shown"),
        pytest.param(None, [response(401)], 401, 502, id="credential refused"),
        pytest.param(None, [response(403)], 403, 502, id="not allowed there"),
        pytest.param(None, [response(200, b"no JSON")], 200, 502, id="answer refused"),
        pytest.param(None, [MOVED], 302, 403, id="redirect refused"),
        pytest.param(FOLLOWING, [MOVED, response(401)], 401, 502, id="the last of a chain"),
        pytest.param(None, [UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.CONNECT)], None, 502, id="no answer"),
    ],
)
def test_the_record_has_what_the_upstream_answered(
    grant: object, answers: list[Response | UpstreamFailed], upstream: int | None, shown: int
) -> None:
    """Whoever runs the proxy sees the upstream's status; a client that is refused its answer does not."""
    log = MemoryLog()
    asked = exchange(service(grant, *answers))
    asked.id = "known"
    made = through(asked, log=log)
    [record] = log.records
    assert (record.upstream_status, record.status) == (upstream, shown)
    assert made.reply is not None
    if shown != upstream:
        assert str(upstream).encode() not in made.reply


@pytest.mark.parametrize(
    ("failed", "labels"),
    [
        *(
            pytest.param(UpstreamFailed(Rule.TRANSPORT, Reason.TLS, tls=cause), (f"upstream-tls:{cause}",), id=cause)
            for cause in TlsCause
        ),
        pytest.param(UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.CONNECT), (), id="no handshake"),
    ],
)
def test_the_record_says_why_a_handshake_failed(failed: UpstreamFailed, labels: tuple[str, ...]) -> None:
    """The cause is a label of the record; what the client is told is the same for each."""
    log = MemoryLog()
    made = through(exchange(service(None, failed)), log=log)
    assert [record.labels for record in log.records] == [labels]
    assert made.reply is not None
    assert b"upstream-tls" not in made.reply


def test_a_refusal_is_not_labelled_by_what_came_after_it() -> None:
    """The first refusal counts: a handshake that failed later says nothing about it."""
    made = exchange()
    made.deny(Deny(rule=Rule.DENIED, reason=Reason.SHUTDOWN, detail="the first"))
    deny_failed(made, UpstreamFailed(Rule.TRANSPORT, Reason.TLS, tls=TlsCause.EXPIRED), None)
    assert (made.labels, made.denial and made.denial.reason) == ((), Reason.SHUTDOWN)
