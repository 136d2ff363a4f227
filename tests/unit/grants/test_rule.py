"""Value rules and what a refusal says of them."""

import pytest
from support.grants import pattern, rule

from grants.model import PathParameter
from grants.rule import Misfit, described, fits_segment, misfit


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("a", None, id="fits"),
        pytest.param("n", Misfit.VALUE, id="outside values"),
        pytest.param("z", Misfit.VALUE, id="outside the pattern"),
        pytest.param("aaaaa", Misfit.TOO_LONG, id="length first"),
    ],
)
def test_misfit(value: str, expected: Misfit | None) -> None:
    """Length, exact values, pattern; each that is given must hold."""
    assert misfit(rule("x", "a", "z", matching="[a-m]", max_bytes=4), value, value.encode()) is expected


def test_a_rule_without_any_limit_takes_anything() -> None:
    """The loader makes no such rule; here it means what it says."""
    assert misfit(rule("x"), "anything", b"anything") is None


@pytest.mark.parametrize(
    ("parameter", "segment", "fits"),
    [
        pytest.param(PathParameter(name="x", values=frozenset({"a"})), "a", True, id="value"),
        pytest.param(PathParameter(name="x", values=frozenset({"a"})), "A", False, id="other case"),
        pytest.param(PathParameter(name="x", pattern=pattern("[0-9]+"), max_bytes=2), "12", True, id="pattern"),
        pytest.param(PathParameter(name="x", pattern=pattern("[0-9]+"), max_bytes=2), "123", False, id="too long"),
        pytest.param(PathParameter(name="x", pattern=pattern("[0-9]+")), "1x", False, id="whole segment"),
        pytest.param(PathParameter(name="x", pattern=pattern(".*"), max_bytes=2), "éé", False, id="bytes count"),
        pytest.param(PathParameter(name="x"), "a", False, id="neither takes nothing"),
    ],
)
def test_path_parameter(parameter: PathParameter, segment: str, fits: bool) -> None:
    """An exact value equals the decoded segment; a pattern matches the whole of it within its limit."""
    assert fits_segment(parameter, segment) is fits


def test_described() -> None:
    """What a refusal says that a rule declares."""
    assert described(rule("x", "b", "a")) == "one of: a, b"
    assert described(rule("x", matching="[a-z]+", max_bytes=8)) == "a match of the pattern [a-z]+, at most 8 bytes"
