"""`/api/feedback`: what agents say of their work, kept in one place of the operator's, or refused by what it set.

Source: "feedback" in the specification.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, final

from addons.exchange import Exchange
from addons.ports import UpstreamFailed
from addons.send import failure
from grants.broker.capabilities import feedback_words
from grants.broker.rule import refused
from grants.broker.search import holds
from grants.decision import Deny, Reason
from grants.jsontext import JsonInvalid, parse_json

from .answers import json_answer
from .call import Call
from .denials import bad, denied, leak
from .parts import HELD_BYTES
from .report import now
from .route import labels


class FeedbackSink(Protocol):
    """Where feedback goes."""

    async def take(self, *, box: str, at: str, batch: bytes) -> None:
        """Keep one batch, which is strict JSON. It is kept when this returns.

        Raises:
            StateUnavailable: it cannot be kept now.
            UpstreamFailed: who should take it does not.
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
        elif holds(exchange.body, call.token):
            exchange.deny(leak("body"))
        else:
            await self._keep(exchange, call, self.sink)

    async def _keep(self, exchange: Exchange, call: Call, sink: FeedbackSink) -> None:
        try:
            await sink.take(box=call.box.name, at=self.clock(), batch=exchange.body)
        except UpstreamFailed as failed:
            exchange.deny(failure(failed, None))
            return
        exchange.relay = json_answer({"taken": True}, status=202)
