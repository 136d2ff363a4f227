"""Requests a second through each front, beside plain mitmdump and nginx, on one machine in one run.

Progress goes to stderr, the table to stdout. Only ratios within one run mean something: load, proxy and upstream share
the machine. docs/performance.md says how to read it.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from bench.cast import Cast
from bench.facts import facts
from bench.goals import verdicts
from bench.plan import plan
from bench.processes import Failed
from bench.report import report
from bench.results import Results
from bench.rounds import Pace, run_section
from bench.upstream import start_upstream


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of less: about a minute, and rough")
    parser.add_argument("--rounds", type=int, help="rounds after the warm-up (3)")
    parser.add_argument("--seconds", type=float, help="of a round (1.5)")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="sections, or parts of targets' names")
    parser.add_argument("--load", choices=["python", "wrk"], default="python", help="wrk: where it can, a cross-check")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured here")
    given = parser.parse_args()
    try:
        sections = plan(given.only, quick=given.quick)
    except ValueError as error:
        parser.error(str(error))
    rounds, seconds, warm = (1, 0.7, 0.3) if given.quick else (3, 1.5, 0.7)
    pace = Pace(given.rounds or rounds, given.seconds or seconds, warm, wrk=given.load == "wrk")
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: ended by SIGTERM"))  # through what ends the processes
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
            upstream = start_upstream(stack, Path(folder))
            results = Results(facts(upstream))
            cast = stack.enter_context(Cast(sections, upstream))
            results.skipped = cast.skipped
            for section in list(sections):
                run_section(section, cast, pace, results)
    except Failed as failed:
        sys.exit(f"error: {failed}")
    plural, took = "s" * (pace.rounds > 1), time.monotonic() - begun
    results.facts["run"] = f"median of {pace.rounds} round{plural} of {pace.seconds:g} s, {took:.0f} s in all"
    if given.json:
        goals = [{"text": one.goal.text, "value": one.value, "word": one.word} for one in verdicts(results)]
        given.json.write_text(json.dumps(results.document() | {"pace": asdict(pace), "goals": goals}, indent=1) + "\n")
    print("\n".join(report(results)))


if __name__ == "__main__":
    main()
