"""A broker in memory, for the suite's own test: the smallest that passes, and the same with one rule broken.

It keeps nothing, checks no ownership and holds whole bodies. What it decides with is the core's; its faults are the
ways in which a broker most easily goes wrong. Never to be used for anything else.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any

from aiohttp import ClientSession, DummyCookieJar, web
from yarl import URL

from grants.broker import decide, swap
from grants.broker.capabilities import MethodNotAllowed, Needs, NotFound, Route, Served, feedback_words, find
from grants.broker.declaration import MAX_REPORT_BYTES, Report, ReportInvalid, kept_answer, read_report
from grants.broker.fountain import Holding, Kind, foreign, read_body, read_head, read_path
from grants.broker.payer import Payer, PayerKind
from grants.broker.refusals import refusal_body
from grants.broker.rule import refused
from grants.jsontext import JsonInvalid, parse_json
from grants.message import Fields

from .target import BOX_A, BOX_B, SECRET, Environment

TOKENS = {BOX_A: "gpx_reference_a_0f1e2d3c4b5a69788796a5b4", BOX_B: "gpx_reference_b_94b5a6978879a6b5c4d3e2f1"}
PAYER = Payer(kind=PayerKind.SHARED)
_HOLDINGS = [Holding(box="", kind=Kind.CONVERSATION, id="conformance")]
_NOT_FORWARDED = {
    *(b"host", b"content-length", b"transfer-encoding", b"connection", b"accept-encoding", b"chant-grant"),
    *(b"set-cookie", b"server", b"date"),
}
_TOKENS_STAND_IN = {b"authorization", b"x-api-key"}


class Fault(Enum):
    """One rule that is broken."""

    GRANTS_EVERY_SCOPE = auto()
    PASSES_TOKEN_ON = auto()
    ASKS_BEFORE_REFUSING = auto()
    REPEATS_VALUE = auto()


class Refused(Exception):
    """The request is refused."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ReferenceBroker:
    """Answers requests. One fault at most."""

    def __init__(self, environment: Environment, session: ClientSession, fault: Fault | None) -> None:
        self.environment = environment
        self.session = session
        self.fault = fault
        self.reports: dict[str, Report] = {}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self.answer(request)
        except Refused as refusal:
            body = refusal_body(refusal.status, str(refusal))
            return web.Response(status=refusal.status, body=body, content_type="application/json")

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, mark, query = request.raw_path.encode().partition(b"?")
        found = _found(request.method.encode(), path)
        if not found.token:
            return web.Response()
        fields = tuple((name.lower(), value) for name, value in request.raw_headers)
        box = self.box(found, fields, query)
        body = await request.read()
        if found.route is Route.DECLARATION:
            return self.report(box, body)
        words = found.words if found.words is not None else feedback_words(_json(body))
        if not words:
            raise Refused(400, "a batch has `entries` or `counts`")
        report = self.reports.get(box)
        denial = refused(report.declaration if report else None, self.environment.word, found.capability or "", words)
        if denial is not None and self.fault is not Fault.GRANTS_EVERY_SCOPE:
            if self.fault is Fault.ASKS_BEFORE_REFUSING and found.route is Route.INFERENCE:
                await (await self.inference(request, found, fields, query, body)).write_eof()
            raise Refused(403, denial[1])
        match found.route:
            case Route.INFERENCE:
                return await self.inference(request, found, fields, query, body)
            case Route.DECIDE:
                return await self.questions(body)
            case Route.EGRESS:
                return await self.egress(request, found, fields, query if mark else None, body, TOKENS[box].encode())
            case Route.FOUNTAIN:
                path = read_path(found.upstream)
                assert path is not None
                names = read_head(path, query).names + read_body(path, _json(body) if body else None).names
                if foreign(names, (), "", _HOLDINGS):
                    raise Refused(404, "this box has no such thing at Fountain")
                credential = (b"authorization", f"Bearer {self.environment.fountain}".encode())
                return await self.relay(request, "fountain", found.upstream, query, (credential,), body)
            case _:
                return web.json_response({"taken": True}, status=202)

    def box(self, found: Needs, fields: Fields, query: bytes) -> str:
        """The box whose token the request shows: in its field, or for egress in any field or the query."""
        shown = [value for name, value in fields if name in _TOKENS_STAND_IN]
        if found.route is Route.EGRESS:
            shown = [query, *(value for _, value in fields)]
        for box, token in TOKENS.items():
            if any(swap.holds(value, token.encode()) for value in shown):
                return box
        raise Refused(401 if found.route in {Route.DECLARATION, Route.DECIDE} else 403, "no token of a box is shown")

    def report(self, box: str, body: bytes) -> web.Response:
        if len(body) > MAX_REPORT_BYTES:
            raise Refused(413, "a report has at most 32 KiB")
        report = read_report(body, word=self.environment.word)
        if isinstance(report, ReportInvalid):
            raise Refused(400, report.detail)
        self.reports[box] = report
        at = datetime.now(UTC).isoformat()
        return web.json_response(kept_answer(report.declaration, at, report.listing, report.spend, PAYER))

    async def inference(
        self, request: web.BaseRequest, found: Needs, fields: Fields, query: bytes, body: bytes
    ) -> web.StreamResponse:
        kept = [(name, value) for name, value in fields if name not in _TOKENS_STAND_IN]
        if self.fault is Fault.PASSES_TOKEN_ON:
            kept += [(b"x-box", value) for name, value in fields if name in _TOKENS_STAND_IN]
        kept.append((b"x-api-key", self.environment.anthropic.encode()))
        payer = ((b"chant-payer", PAYER.header()),)
        return await self.relay(request, "anthropic", found.upstream, query, tuple(kept), body, more=payer)

    async def questions(self, body: bytes) -> web.Response:
        asked = decide.read_request(body)
        if isinstance(asked, decide.DecideInvalid):
            raise Refused(422, asked.detail)
        answers = [await self.ask(asked, each) if each.supported else decide.UNSUPPORTED for each in asked.questions]
        document = decide.decide_response(asked, answers)
        return web.json_response(document, headers={"chant-payer": PAYER.header().decode()})

    async def ask(self, asked: decide.DecideRequest, question: decide.Question) -> decide.Answered:
        url = f"{self.environment.upstreams['anthropic']}/v1/messages"
        headers = {"x-api-key": self.environment.anthropic, "content-type": "application/json"}
        async with self.session.post(url, data=decide.messages_request(asked, question), headers=headers) as response:
            answer = decide.read_answer(question, await response.read())
        if isinstance(answer, decide.AnswerInvalid):
            raise Refused(502, answer.detail)
        return answer

    async def egress(
        self, request: web.BaseRequest, found: Needs, fields: Fields, query: bytes | None, body: bytes, token: bytes
    ) -> web.StreamResponse:
        if found.name != SECRET:
            raise Refused(403, f"this broker holds no value for `{found.name}`")
        swapped = swap.swap(fields, query, token=token, value=self.environment.secret.encode())
        left = swap.leftover(token, path=found.upstream, query=swapped.query, fields=swapped.fields)
        if left is not None or token in body:
            raise Refused(403, f"the {left or 'body'} holds this box's token where it cannot be swapped")
        pairs = () if self.fault is Fault.REPEATS_VALUE else swapped.pairs
        return await self.relay(
            request, "egress", found.upstream, swapped.query or b"", swapped.fields, body, pairs=pairs
        )

    async def relay(
        self,
        request: web.BaseRequest,
        upstream: str,
        path: bytes,
        query: bytes,
        fields: Fields,
        body: bytes,
        *,
        more: Fields = (),
        pairs: tuple[tuple[bytes, bytes], ...] = (),
    ) -> web.StreamResponse:
        target = (path + (b"?" + query if query else b"")).decode()
        url = URL(self.environment.upstreams[upstream] + target, encoded=True)
        headers = [(name.decode(), value.decode()) for name, value in fields if name not in _NOT_FORWARDED]
        async with self.session.request(
            request.method, url, headers=headers, data=body or None, allow_redirects=False
        ) as answer:
            kept = tuple((name.lower(), value) for name, value in answer.raw_headers)
            kept = swap.restore(tuple(each for each in kept if each[0] not in _NOT_FORWARDED), pairs) + more
            response = web.StreamResponse(status=answer.status)
            for name, value in kept:
                response.headers.add(name.decode(), value.decode())
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


def _found(method: bytes, path: bytes) -> Needs:
    found = find(method, path, Served())
    if isinstance(found, NotFound):
        raise Refused(404, "no route answers this path")
    if isinstance(found, MethodNotAllowed):
        raise Refused(405, "this path is for POST")
    return found


def _json(body: bytes) -> Any:
    try:
        return parse_json(body)
    except JsonInvalid as invalid:
        raise Refused(400, f"the body is not strict JSON: {invalid}") from None


@asynccontextmanager
async def _serving(environment: Environment, fault: Fault | None) -> AsyncIterator[str]:
    async with ClientSession(cookie_jar=DummyCookieJar(), auto_decompress=False) as session:
        runner = web.ServerRunner(web.Server(ReferenceBroker(environment, session, fault).handle))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()


@contextmanager
def reference_broker(environment: Environment, fault: Fault | None = None) -> Iterator[str]:
    """Run one in a thread; gives its URL. The tokens of its boxes are `TOKENS`."""
    started: list[str] = []
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with _serving(environment, fault) as url:
            started.append(url)
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(10), "the reference broker did not start"
        yield started[0]
    finally:
        stop.set()
        thread.join(10)
