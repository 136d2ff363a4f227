"""Tasks that are not lost: a reference is kept until they end, and what they raise is reported by its type."""

import asyncio
import logging
from collections.abc import Coroutine

log = logging.getLogger(__name__)
_running: set[asyncio.Task[None]] = set()


def spawn(work: Coroutine[object, None, None], name: str) -> asyncio.Task[None]:
    """Run `work` beside the caller."""
    task = asyncio.create_task(work, name=name)  # noqa: TID251 - the one place
    _running.add(task)
    task.add_done_callback(_ended)
    return task


def _ended(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended with %s", task.get_name(), type(error).__name__)
