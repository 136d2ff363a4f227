"""Timing decides no test: a machine may be as slow as it likes.

That something takes long enough may be asserted, that it is quick may not: `support.waits` says what shows it instead.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CLOCKS = {"time.monotonic", "time.perf_counter", "time.process_time", "loop.time", "asyncio.get_running_loop().time"}
WAITS = TESTS / "support" / "waits.py"


def quick(source: str) -> Iterator[int]:
    """The lines that assert that less than some time has passed."""
    for statement in ast.walk(ast.parse(source)):
        if isinstance(statement, ast.Assert):
            for compared in ast.walk(statement.test):
                if isinstance(compared, ast.Compare):
                    sides = [compared.left, *compared.comparators]
                    for lower, how, upper in zip(sides, compared.ops, sides[1:], strict=False):
                        small = lower if isinstance(how, ast.Lt | ast.LtE) else upper
                        if isinstance(how, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and _reads_a_clock(small):
                            yield statement.lineno


def _reads_a_clock(expression: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) and ast.unparse(node.func) in CLOCKS for node in ast.walk(expression))


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_nothing_has_to_be_quick(path: Path) -> None:
    """Only a wait may say that something counts as never."""
    assert path == WAITS or not list(quick(path.read_text()))


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("assert time.monotonic() - began < 3", [1]),
        ("assert 0.1 < loop.time() - began <= 3", [1]),
        ("\nassert 3 > time.perf_counter() - began, 'slow'", [2]),
        ("assert all(time.process_time() < end for _ in range(3))", [1]),
        ("assert time.monotonic() - began > 3", []),
        ("assert 3 <= loop.time() - began", []),
        ("assert one < 3", []),
    ],
)
def test_what_counts_as_quick(source: str, lines: list[int]) -> None:
    """The rule sees both directions, chains, and what is nested."""
    assert list(quick(source)) == lines
