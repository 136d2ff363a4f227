"""The load: a process of its own that keeps connections busy, as lean as Python allows.

    python -m bench.load    a job as JSON on stdin; `ready`, then after a line on stdin the outcome as JSON on stdout

Each connection sends its next request when the answer before is complete. Every answer is held to its status and
length, and whatever is wrong ends the run with what was seen. It tells its own CPU share: near a whole core it is
itself the limit.
"""

import array
import asyncio
import gc
import json
import ssl
import sys
import time
from dataclasses import dataclass
from typing import Any

from bench.answers import Answers
from bench.line import Line
from bench.payload import FIELDS, IDS

PATIENCE = 60
"""Seconds that the last answers may take."""

try:
    from uvloop import run
except ImportError:
    run = asyncio.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to do.

    Attributes:
        path: what stands before the id. fields: of each request, beside Host. changing: and one that is never the same
        twice in a row, as the id of a request or a trace is.
        tunnel: `host:port` to CONNECT to, or "". tls: the server's name, or "" for none. ca: who vouches for it.
        length: bytes of each answer's body. fresh: a new connection for each request.
    """

    host: str
    port: int
    path: str
    length: int
    authority: str
    connections: int
    seconds: float
    fresh: bool = False
    tunnel: str = ""
    tls: str = ""
    ca: str = ""
    fields: tuple[tuple[str, str], ...] = FIELDS
    changing: bool = False

    def requests(self) -> list[bytes]:
        """One request an id, ready to send."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.fields)
        tail = f" HTTP/1.1\r\nHost: {self.authority}\r\n{lines}"
        ids = [f"X-Request-Id: {number}\r\n" if self.changing else "" for number in range(1, IDS + 1)]
        return [f"GET {self.path}{number}{tail}{ids[number - 1]}\r\n".encode() for number in range(1, IDS + 1)]


class Failed(Exception):
    """The run is over. The message says what was seen."""


class Load:
    """Runs a job."""

    def __init__(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self._job, self._loop = job, loop
        self._requests = job.requests()
        self._tunnel = f"CONNECT {job.tunnel} HTTP/1.1\r\nHost: {job.tunnel}\r\n\r\n".encode() if job.tunnel else b""
        self._tls = (ssl.create_default_context(cafile=job.ca or None), job.tls) if job.tls else None
        self._times = array.array("d")
        self._end = 0.0
        self._busy = 0
        self._turn = 0
        self._done: asyncio.Future[None] = loop.create_future()
        self._opening: set[asyncio.Task[Any]] = set()

    async def run(self) -> dict[str, float]:
        """Open, wait for the word, measure.

        Everything that was asked counts, over the time to the last answer: a slow proxy works on all connections at
        once, and may have finished none when the time is up.

        Returns:
            `count` of answers, `seconds`, latencies `p50` and `p99` in seconds, and `cpu` seconds of its own.
        """
        lines: list[Line] = []
        if not self._job.fresh:
            opened: list[asyncio.Future[Line]] = [self._loop.create_future() for _ in range(self._job.connections)]
            for found in opened:
                self._connect(found)
            lines = await asyncio.wait_for(asyncio.gather(*opened), PATIENCE)
        print("ready", flush=True)
        sys.stdin.readline()  # the loop has nothing else to do
        gc.disable()
        cpu, begun = time.process_time(), time.perf_counter()
        self._end = begun + self._job.seconds
        self._busy = self._job.connections
        for number, line in enumerate(lines):
            line.turn = number * 61
            self._next(line, begun)
        if self._job.fresh:
            for _ in range(self._job.connections):
                self._connect(None)
        await asyncio.wait_for(self._done, self._job.seconds + PATIENCE)
        cpu = time.process_time() - cpu
        times = sorted(self._times)
        return {
            "count": len(times),
            "seconds": time.perf_counter() - begun,
            "p50": times[len(times) // 2],
            "p99": times[len(times) * 99 // 100],
            "cpu": cpu,
        }

    def _connect(self, found: "asyncio.Future[Line] | None") -> None:
        """Open a connection; for `found`, or to send one request at once."""
        begun = time.perf_counter()

        def ready(line: Line) -> None:
            if found is not None:
                found.set_result(line)
                return
            self._turn += 1
            line.begun = begun  # with the connection's own time
            line.send(self._requests[self._turn % IDS])

        def fail(text: str) -> None:
            line.over = True
            future = self._done if found is None or found.done() else found
            if not future.done():
                future.set_exception(Failed(text))

        complete = self._complete_fresh if self._job.fresh else self._complete
        line = Line(
            Answers(self._job.length), tunnel=self._tunnel, tls=self._tls, ready=ready, complete=complete, fail=fail
        )
        opening = self._loop.create_task(
            self._loop.create_connection(lambda: line, self._job.host, self._job.port)  # type: ignore[arg-type]
        )
        self._opening.add(opening)

        def opened(task: "asyncio.Task[Any]") -> None:
            self._opening.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                fail(f"no connection: {error}")

        opening.add_done_callback(opened)

    def _next(self, line: Line, now: float) -> None:
        line.begun = now
        line.turn += 1
        line.send(self._requests[line.turn % IDS])

    def _complete(self, line: Line) -> None:
        now = time.perf_counter()
        self._times.append(now - line.begun)
        if now < self._end:
            self._next(line, now)
        else:
            self._leave(line)

    def _complete_fresh(self, line: Line) -> None:
        now = time.perf_counter()
        self._times.append(now - line.begun)
        if now < self._end:
            line.close()
            self._connect(None)
        else:
            self._leave(line)

    def _leave(self, line: Line) -> None:
        line.close()
        self._busy -= 1
        if not self._busy and not self._done.done():
            self._done.set_result(None)


async def _main() -> None:
    job = Job(**json.loads(sys.stdin.readline()))
    try:
        print(json.dumps(await Load(job, asyncio.get_running_loop()).run()), flush=True)
    except TimeoutError:
        raise SystemExit(f"an answer took more than {PATIENCE} s") from None
    except Failed as failed:
        raise SystemExit(str(failed)) from None


if __name__ == "__main__":
    run(_main())
