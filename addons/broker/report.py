"""`POST /api/box/declaration`: the report is kept before it is answered, so that what was acknowledged is enforced."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import final

from addons.exchange import Exchange
from grants.broker.declaration import MAX_REPORT_BYTES, ReportInvalid, kept_answer, read_report
from grants.decision import Reason

from .answers import json_answer
from .call import Call
from .denials import bad


def now() -> str:
    """The time as a report is answered with it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@final
@dataclass(frozen=True, slots=True)
class ReportPart:
    """Takes reports."""

    clock: Callable[[], str] = now

    async def begin(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        exchange.body_limit = MAX_REPORT_BYTES

    async def act(self, exchange: Exchange, call: Call) -> None:
        """See `Part`."""
        report = read_report(exchange.body, word=call.broker.word)
        if isinstance(report, ReportInvalid):
            exchange.deny(bad(Reason.REPORT_INVALID, report.detail))
            return
        at = self.clock()
        await call.broker.state.save_report(call.box.key, report, at=at)
        payer = call.broker.payer(call.box.name)
        exchange.relay = json_answer(kept_answer(report.declaration, at, report.listing, report.spend, payer))
