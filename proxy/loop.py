"""Running the program's work: on uvloop where it is installed, as it is faster and changes nothing else."""

import asyncio
from collections.abc import Callable, Coroutine


def run_on_loop(work: Coroutine[None, None, None]) -> None:
    """Run `work` to its end on a loop of its own."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        pass
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)
