"""Every hook fails closed: mitmproxy logs an exception and goes on, so each of ours is wrapped before it gets there."""

import logging
from collections.abc import Awaitable, Callable
from functools import wraps

from .exchange import Exchange

log = logging.getLogger(__name__)


def fail_closed[A](step: Callable[[A, Exchange], Awaitable[None]]) -> Callable[[A, Exchange], Awaitable[None]]:
    """Skip a refused exchange, and turn whatever `step` raises into a refusal.

    CancelledError is one of the things that it may raise: the record is still to be written. Only the type of an
    exception is logged, since its text may hold what a client or an upstream sent.
    """

    @wraps(step)
    async def guarded(self: A, exchange: Exchange) -> None:
        if exchange.settled:
            return
        try:
            await step(self, exchange)
        except BaseException as error:
            exchange.fault()
            log.error("%s: %s in a hook; the request is refused", exchange.id, type(error).__name__)  # noqa: TRY400 - the traceback's values may be secret
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise

    return guarded
