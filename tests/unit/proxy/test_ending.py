"""What is said of the end of the program."""

import asyncio

import pytest

from proxy import ending
from proxy.ending import announced, stopping


@pytest.mark.parametrize(
    ("running", "long", "said"),
    [
        pytest.param(0, False, [], id="nothing runs and it is quick"),
        pytest.param(0, True, ["stopping", "stopped"], id="it takes a while"),
        pytest.param(1, False, [stopping(5.0), "stopped"], id="a request runs"),
        pytest.param(1, True, [stopping(5.0), "stopped"], id="a request runs for a while"),
    ],
)
def test_an_end_is_told(monkeypatch: pytest.MonkeyPatch, running: int, long: bool, said: list[str]) -> None:
    """Nothing is said of an end that nobody waits for; else its beginning and its end, once each."""
    monkeypatch.setattr(ending, "LONG_SECONDS", 0.01 if long else 60.0)
    lines: list[str] = []

    async def end() -> None:
        async with announced(lines.append, lambda: running, 5.0):
            await asyncio.sleep(0.1)

    asyncio.run(end())
    assert lines == said


def test_an_end_that_fails_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said to stop is said to have stopped, whatever came in between."""
    monkeypatch.setattr(ending, "LONG_SECONDS", 60.0)
    lines: list[str] = []

    async def end() -> None:
        async with announced(lines.append, lambda: 1, 5.0):
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        asyncio.run(end())
    assert lines == [stopping(5.0), "stopped"]
