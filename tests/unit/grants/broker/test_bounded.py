"""How many values a body may have, told before it is parsed."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker import bounded
from grants.broker.bounded import MOST_VALUES, crowded

SOME = MOST_VALUES // 2
PASSES = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"[" + b"1," * (MOST_VALUES - 2) + b"1]", id="just as many"),
    pytest.param(json.dumps(["a, [b], {c}. " * 400_000]).encode(), id="5 MB of prose"),
    pytest.param(json.dumps({"text": 'He said: "no", and \\ went. ' * 200_000}).encode(), id="5 MB of quotations"),
    pytest.param(json.dumps({"text": "\\" * 1_000_000 + "," * MOST_VALUES * 2}).encode(), id="backslashes"),
    pytest.param(json.dumps(["a,b" for _ in range(SOME)]).encode(), id="many short texts"),
]
CROWDED = [
    pytest.param(b"[" + b"1," * MOST_VALUES + b"1]", id="one too many"),
    pytest.param(b"[" * (MOST_VALUES + 1), id="arrays"),
    pytest.param(b'{"a":' * (MOST_VALUES + 1), id="objects"),
    pytest.param(json.dumps([","] * (MOST_VALUES + 1)).encode(), id="texts"),
    pytest.param(json.dumps([""] * (3 * MOST_VALUES)).encode(), id="very many texts"),
    pytest.param(json.dumps(['\\"'] * (MOST_VALUES + 1)).encode(), id="texts that end in quotes"),
]


@pytest.mark.parametrize("text", PASSES)
def test_what_has_few_values_passes(text: bytes) -> None:
    """However long it is."""
    assert not crowded(text)


@pytest.mark.parametrize("text", CROWDED)
def test_what_has_too_many_values_is_crowded(text: bytes) -> None:
    """However they stand."""
    assert crowded(text)


JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,[{"\\'),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(alphabet='a,[{"\\'), inner, max_size=6),
)


def count(value: Any) -> int:
    """Openings and commas."""
    if not isinstance(value, list | dict):
        return 0
    below = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(0, len(value) - 1) + sum(map(count, below))


@settings(max_examples=300)
@given(value=JSON, most=st.integers(min_value=0, max_value=20))
def test_exactly_the_marks_outside_of_texts_count(value: Any, most: int) -> None:
    """For every JSON text, whatever stands in its texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "MOST_VALUES", most)
        assert crowded(json.dumps(value).encode()) == (count(value) > most)
