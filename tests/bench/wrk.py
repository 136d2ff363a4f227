"""wrk in place of our own load, as a cross-check: plain connections that are kept alive, which is what it can.

It holds answers to their status; what our load sees in addition is their length.
"""

import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.load import Job

BINARY = shutil.which("wrk")
_SCRIPT = """\
local turn = 0
request = function()
  turn = turn % {ids} + 1
  return wrk.format("GET", "{path}" .. turn)
end
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format("\\nDONE %d %d %d %d %d\\n", summary.requests, summary.duration, latency:percentile(50),
    latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def can(job: Job) -> bool:
    """Whether wrk is there and can do the job: the same fields each time, on plain connections that are kept."""
    return BINARY is not None and not (job.tls or job.tunnel or job.fresh or job.changing)


def script(job: Job) -> str:
    """wrk's own, for ids that go round and a summary that can be read."""
    from bench.payload import IDS

    return _SCRIPT.format(ids=IDS, path=job.path)


def parse(output: str) -> dict[str, float]:
    """The outcome of a run, as `load` gives it.

    Raises:
        SystemExit: there were errors, or no summary.
    """
    match = re.search(r"^DONE (\d+) (\d+) (\d+) (\d+) (\d+)$", output, re.MULTILINE)
    if match is None or int(match[5]) or not int(match[1]):
        raise SystemExit(f"wrk: {output.strip()[-1500:]}")
    count, micros, p50, p99 = (int(match[number]) for number in range(1, 5))
    return {"count": count, "seconds": micros / 1e6, "p50": p50 / 1e6, "p99": p99 / 1e6}


def main() -> None:
    """As `load`: a job in, the outcome out."""
    job = Job(**json.loads(sys.stdin.readline()))
    print("ready", flush=True)
    sys.stdin.readline()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ids.lua"
        file.write_text(script(job))
        command = [BINARY or "wrk", "-t1", f"-c{job.connections}", f"-d{max(1, round(job.seconds))}s", "-s", str(file)]
        for name, value in (("Host", job.authority), *job.fields):
            command += ["-H", f"{name}: {value}"]
        done = subprocess.run(
            [*command, f"http://{job.host}:{job.port}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=job.seconds + 60,
        )
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = parse(done.stdout + done.stderr)
    print(json.dumps(outcome | {"cpu": spent.ru_utime + spent.ru_stime}), flush=True)


if __name__ == "__main__":
    main()
