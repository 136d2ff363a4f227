"""`/decide/v1/systemone`: every question is one Messages call on the payer's credential, all of them side by side.

One answer that cannot be had or used fails the whole request: a wrong answer is worse than none.
Source: "inference" in the specification.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final, final

from addons.causes import expected, first
from addons.exchange import Exchange
from addons.policy import Service
from addons.ports import Upstream, UpstreamFailed
from addons.send import deny_failed
from grants.broker.decide import (
    UNSUPPORTED,
    Answered,
    AnswerInvalid,
    DecideInvalid,
    DecideRequest,
    Question,
    decide_response,
    messages_request,
    read_answer,
    read_request,
)
from grants.broker.needles import Pattern
from grants.broker.search import holds
from grants.coding import CodingError, content_codings, decode
from grants.decision import Deny, Reason
from grants.message import Outgoing
from grants.target import encode_path

from .answers import json_answer
from .call import Call
from .denials import bad, disclosed, leak, multiplied, unusable
from .parts import HELD_BYTES
from .payers import Paid, Payers
from .token import streamed

_ANSWER_BYTES: Final = 1024 * 1024
_AT_ONCE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of requests that are under way at one time, and of all that one body asks for."""
_PATH: Final = b"/v1/messages"
_VERSION: Final = b"2023-06-01"


class _Unusable(Exception):
    """A question has no answer that can be used. `status`: of the one that came."""

    def __init__(self, status: int, denial: Deny) -> None:
        super().__init__(denial.reason.value)
        self.status = status
        self.denial = denial


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DecidePart:
    """Answers decision questions.

    Attributes:
        timeout: seconds for all of them.
    """

    service: Service
    payers: Payers
    upstream: Upstream = field(repr=False)
    timeout: float = 120.0

    async def begin(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        exchange.service = self.service
        exchange.body_limit = HELD_BYTES

    async def act(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        request = read_request(exchange.body)
        if isinstance(request, DecideInvalid):
            exchange.deny(bad(Reason.DECIDE_INVALID, request.detail, 422))
            return
        if len(exchange.body) * len(request.questions) > _AT_ONCE_BYTES:
            exchange.deny(multiplied(_AT_ONCE_BYTES))
            return
        if await _composes(request, await streamed(call)):
            exchange.deny(leak("body"))
            return
        paid = await self.payers.choose(call)
        if isinstance(paid, Deny):
            exchange.deny(paid)
            return
        exchange.secret_refs = (paid.name,)
        answers = await self._answers(exchange, request, paid)
        if answers is None:
            return
        relay = json_answer(decide_response(request, answers), fields=paid.header)
        if holds(relay.body, *[needle.reveal() for needle in paid.opened.needles]):
            exchange.deny(disclosed())
        else:
            exchange.relay = relay

    async def _answers(self, exchange: Exchange, request: DecideRequest, paid: Paid) -> list[Answered] | None:
        """One for each question; None: refused."""
        side_by_side = asyncio.Semaphore(max(1, _AT_ONCE_BYTES // (len(exchange.body) + 1)))

        async def ask(question: Question) -> Answered:
            if not question.supported:
                return UNSUPPORTED
            async with side_by_side:
                return await self._ask(exchange, request, question, paid)

        tasks: list[asyncio.Task[Answered]] = []
        try:
            async with asyncio.timeout(self.timeout), asyncio.TaskGroup() as group:
                tasks += [group.create_task(ask(question)) for question in request.questions]
        except (TimeoutError, BaseExceptionGroup) as error:
            _failed(exchange, expected(error, (TimeoutError, _Unusable, UpstreamFailed)))
        return None if exchange.settled else [task.result() for task in tasks]

    async def _ask(self, exchange: Exchange, request: DecideRequest, question: Question, paid: Paid) -> Answered:
        body = messages_request(request, question)
        outgoing = Outgoing(
            origin=self.service.upstream,
            method=b"POST",
            target=(encode_path(self.service.base) if self.service.base else b"") + _PATH,
            fields=(
                (b"Content-Type", b"application/json"),
                (b"Accept-Encoding", b"identity"),
                (b"anthropic-version", _VERSION),
                *paid.fields(()),
            ),
            body=body,
        )
        exchange.bytes_out += len(body)
        response = await self.upstream.send(outgoing, max_body=_ANSWER_BYTES, timeout=self.timeout)
        exchange.bytes_in += len(response.body)
        exchange.upstream_status = status = response.status
        if status != 200:
            raise _Unusable(status, unusable(f"the model's API answered with status {status}"))
        try:
            message = decode(content_codings(response.fields), response.body, limit=_ANSWER_BYTES)[-1]
        except CodingError:
            denial = unusable("the model's answer has a coding that cannot be taken off")
            raise _Unusable(status, denial) from None
        answer = read_answer(question, message)
        if isinstance(answer, AnswerInvalid):
            raise _Unusable(status, unusable(answer.detail))
        return answer


async def _composes(request: DecideRequest, unsent: Pattern) -> bool:
    """Whether a token stands in what is sent: that is composed, so one may come to stand there only then."""
    for question in request.questions:
        if unsent.found(messages_request(request, question)):
            return True
        await asyncio.sleep(0)
    return False


def _failed(exchange: Exchange, causes: list[BaseException]) -> None:
    """Refuse for what happened. The first refusal is the one that counts."""
    if first(causes, TimeoutError) is not None:
        exchange.deny(unusable("the model did not answer in time", 504))
    if (answer := first(causes, _Unusable)) is not None:
        # Another question may have had its answer since.
        exchange.upstream_status = answer.status
        exchange.deny(answer.denial)
    if (failed := first(causes, UpstreamFailed)) is not None:
        deny_failed(exchange, _as_gateway(failed), None)


def _as_gateway(failed: UpstreamFailed) -> UpstreamFailed:
    """An upstream's failure is the gateway's: 504 for a timeout, else 502."""
    return UpstreamFailed(failed.rule, failed.reason, 504 if failed.status == 504 else 502, tls=failed.tls)
