"""What the project wants to reach, and whether a run did. Told, never a test: timing decides nothing."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.plan import Shape
from bench.results import Results, paired, ratio
from bench.targets import BASE, CHECKS, DIRECT, FORWARD, MITM_BASE, MITM_FORWARD, NGINX


@dataclass(frozen=True, slots=True)
class Goal:
    """`value` is None where it was not measured. `least`: the bound is the least that will do, else the most."""

    text: str
    value: Callable[[Results], float | None]
    bound: float
    least: bool = True
    unit: str = "x"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`value`: what was measured, or None. `word`: `met`, `missed` or `not measured`."""

    goal: Goal
    value: float | None

    @property
    def word(self) -> str:
        if self.value is None:
            return "not measured"
        met = self.value >= self.goal.bound if self.goal.least else self.value <= self.goal.bound
        return "met" if met else "missed"

    def __str__(self) -> str:
        sign = "at least" if self.goal.least else "at most"
        found = "-" if self.value is None else f"{self.value:.2f} {self.goal.unit}"
        return f"{self.goal.text:58} {sign:>8} {self.goal.bound:5.2f} {self.goal.unit:3} {found:>10}  {self.word}"


def _rates(section: str, target: str, other: str, shape: Shape) -> Callable[[Results], float | None]:
    return lambda results: ratio(results.find(section, target, shape), results.find(section, other, shape))


def _added(results: Results) -> float | None:
    one, direct = (results.find("latency", name, Shape(connections=1)) for name in (BASE, DIRECT))
    return paired(one, direct, lambda a, b: a.p50 - b.p50)


def _workers(results: Results) -> float | None:
    two, one = (results.find("workers", name, Shape()) for name in ("2 workers", "1 worker"))
    return paired(two, one, lambda a, b: a.cpu / b.cpu if a.cpu and b.cpu else None)


_KEPT, _LARGE, _NEW = Shape(), Shape("64k"), Shape(fresh=True)

GOALS = (
    Goal("base URL, 1 KB, to plain mitmdump", _rates("fronts", BASE, MITM_BASE, _KEPT), 12),
    Goal("base URL, 1 KB, to nginx as a proxy", _rates("fronts", BASE, NGINX, _KEPT), 0.25),
    Goal("forward proxy, 1 KB, to plain mitmdump", _rates("fronts", FORWARD, MITM_FORWARD, _KEPT), 10),
    Goal("forward proxy, new connections, to plain mitmdump", _rates("new", FORWARD, MITM_FORWARD, _NEW), 5),
    Goal("64 KB with all checks, to plain mitmdump", _rates("sizes", CHECKS, MITM_BASE, _LARGE), 4),
    Goal("2,000 operations, to 10", _rates("grants", "2,000 operations", "10 operations", _KEPT), 0.95),
    Goal("CPU a request of two workers, to one", _workers, 1.1, least=False),
    Goal("p50 that the base URL adds at one connection", _added, 0.6, least=False, unit="ms"),
)


def verdicts(results: Results) -> list[Verdict]:
    """All goals, in their order."""
    return [Verdict(goal, goal.value(results)) for goal in GOALS]
