"""Every step of the chain fails closed: what one raises is a refusal, and the steps behind it still run."""

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, overload

from .causes import forget
from .exchange import Exchange

log = logging.getLogger(__name__)


@overload
def fail_closed[A](step: Callable[[A, Exchange], None]) -> Callable[[A, Exchange], None]: ...


@overload
def fail_closed[A](step: Callable[[A, Exchange], Awaitable[None]]) -> Callable[[A, Exchange], Awaitable[None]]: ...


def fail_closed(step: Callable[[Any, Exchange], Any]) -> Callable[[Any, Exchange], Any]:
    """Skip a refused exchange, and turn whatever `step` raises into a refusal. A step that waits is a coroutine.

    CancelledError is one of the things that it may raise: the record is still to be written. Only the type of an
    exception is logged, since its text may hold what a client or an upstream sent.
    """

    @wraps(step)
    def guarded(self: Any, exchange: Exchange) -> None:
        if exchange.denial is not None:
            return
        try:
            step(self, exchange)
        except BaseException as error:
            _refuse(exchange, error)

    @wraps(step)
    async def waiting(self: Any, exchange: Exchange) -> None:
        if exchange.denial is not None:
            return
        try:
            await step(self, exchange)
        except BaseException as error:
            _refuse(exchange, error)

    return waiting if iscoroutinefunction(step) else guarded


def _refuse(exchange: Exchange, error: BaseException) -> None:
    forget(error)
    exchange.fault()
    log.error("%s: %s in a hook; the request is refused", exchange.id, type(error).__name__)
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
