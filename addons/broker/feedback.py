"""`/api/feedback`: what agents say of their work, kept in one place of the operator's, or refused by what it set.

Source: "feedback" in the specification.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, final

from addons.exchange import Exchange
from addons.ports import UpstreamFailed
from addons.send import deny_failed
from grants.broker.capabilities import feedback_words
from grants.broker.rule import refused
from grants.decision import Deny, Reason, Rule
from grants.jsontext import JsonInvalid, parse_json

from .admit import labels
from .answers import json_answer
from .call import Call
from .denials import bad, denied
from .parts import HELD_BYTES
from .report import now


class FeedbackSink(Protocol):
    """Where feedback goes."""

    async def take(self, *, box: str, at: str, batch: bytes) -> int | None:
        """Keep one batch, which is strict JSON. It is kept when this returns None.

        Where it is posted on, this is the status of the answer, and any 2xx says that it was taken.

        Raises:
            StateUnavailable: it cannot be kept now.
            UpstreamFailed: who should take it gives no answer.
        """
        ...


OFF = denied(Reason.FEEDBACK_OFF, "this broker keeps no feedback; keep the batch to send it later", 501)
WITHHELD = denied(Reason.FEEDBACK_WITHHELD, "the owner has not consented to feedback, so this broker takes none")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackPart:
    """Takes batches, or says why not."""

    sink: FeedbackSink | Deny = field(repr=False)
    clock: Callable[[], str] = now

    async def begin(self, exchange: Exchange, call: Call) -> None:
        """See `Part`: which words it needs, the body says."""
        exchange.body_limit = HELD_BYTES

    async def act(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        try:
            batch = parse_json(exchange.body)
        except JsonInvalid as invalid:
            exchange.deny(bad(Reason.FEEDBACK_INVALID, f"the body is not strict JSON: {invalid}"))
            return
        words = feedback_words(batch)
        exchange.labels = labels(call.needs.capability, words)
        if not words:
            detail = "a batch has `entries`, an array with at least one, or `counts`, an object with at least one"
            exchange.deny(bad(Reason.FEEDBACK_INVALID, detail))
            return
        refusal = refused(call.declaration, call.broker.word, call.needs.capability or "", words)
        if refusal is not None:
            exchange.deny(denied(Reason.SCOPE, refusal[1]))
        elif isinstance(self.sink, Deny):
            exchange.deny(self.sink)
        else:
            await self._keep(exchange, call, self.sink)

    async def _keep(self, exchange: Exchange, call: Call, sink: FeedbackSink) -> None:
        try:
            exchange.upstream_status = status = await sink.take(box=call.box.name, at=self.clock(), batch=exchange.body)
            if status is not None and not 200 <= status < 300:
                raise UpstreamFailed(Rule.UPSTREAM_ERROR, Reason.STATUS)
        except UpstreamFailed as failed:
            deny_failed(exchange, failed, None)
            return
        exchange.relay = json_answer({"taken": True}, status=202)
