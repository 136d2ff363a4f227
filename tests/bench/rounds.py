"""Runs a section: its targets take turns, so that a busy machine is busy for all."""

from dataclasses import asdict, dataclass

from bench import wrk
from bench.cast import Cast, say
from bench.plan import Section
from bench.processes import CORES, Failed, Family, ask, busy
from bench.results import Results, Round, Row
from bench.targets import Target

PATIENCE = 90
"""Seconds that a load may take beyond what it was told."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long: `rounds` of `seconds` a row after one of `warm`. `wrk`: let it load what it can."""

    rounds: int
    seconds: float
    warm: float
    wrk: bool = False


def run_section(section: Section, cast: Cast, pace: Pace, results: Results) -> None:
    """Measure a section, and add its rows to `results`.

    Raises:
        Failed: a target did not start, or an answer was not what was asked for.
    """
    targets = cast.of(section)
    for shape in section.shapes:
        rows = [
            Row(section.name, one.name, section.targets[one.name], shape, cast.memory.get(one.name, 0))
            for one in targets
        ]
        results.rows += rows
        pairs = list(zip(targets, rows, strict=True))
        for number in range(pace.rounds + 1):
            turn = number % max(1, len(pairs))
            for target, row in pairs[turn:] + pairs[:turn]:
                say(f"{section.name}: {target.name}, {shape}, {f'round {number}' if number else 'warm-up'}")
                taken = _measure(target, row, pace, pace.seconds if number else pace.warm, cast.upstream.family)
                if number:
                    row.rounds.append(taken)
        for target, row in pairs:
            row.after = target.family.memory() if target.family else 0
    cast.leave(section)


def _measure(target: Target, row: Row, pace: Pace, seconds: float, upstream: Family) -> Round:
    """One turn of one target."""
    job = target.shaped(row.shape.size, row.shape.connections, seconds, fresh=row.shape.fresh)
    spent: list[tuple[float, float, float]] = []

    def look() -> None:
        spent.append((target.family.cpu() if target.family else 0.0, upstream.cpu(), busy()))

    module = "bench.wrk" if pace.wrk and wrk.can(job) else "bench.load"
    try:
        found = ask(module, asdict(job), look, seconds + PATIENCE)
    except Failed as failed:
        raise Failed(f"{target.name}, {row.shape}: {failed}") from None
    look()
    cpu, behind, everyone = (after - before for before, after in zip(*spent, strict=True))
    count, took = found["count"], found["seconds"]
    return Round(
        rate=count / took,
        p50=found["p50"] * 1e3,
        p99=found["p99"] * 1e3,
        cpu=cpu / count * 1e6 if target.family else None,
        load=found["cpu"] / took,
        others=max(0.0, everyone - cpu - behind - found["cpu"]) / took / CORES,
    )
