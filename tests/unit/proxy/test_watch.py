"""The watch: a change that has settled is told once."""

import asyncio
import os
from pathlib import Path

import pytest
from support.waits import HANG_SECONDS

from proxy import watch
from proxy.watch import Watch, named_by, stamp

PATH = Path("file")


def seen(*looks: object, read_ns: int = 100) -> list[int]:
    """At which of these looks a change is told. A look is a stamp's modification time; None: no file."""
    told: list[int] = []
    now = 0
    one = Watch(lambda: [PATH], lambda: read_ns, lambda: told.append(now))
    for now, modified in enumerate(looks):  # noqa: B007 - the callback reads it
        one.look({PATH: None if modified is None else (1, 1, 1, int(str(modified)), 1)})
    return told


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        pytest.param([1, 1, 1], [], id="unchanged"),
        pytest.param([1, 2, 2, 2], [2], id="changed"),
        pytest.param([1, 2, 3, 4, 4, 4], [4], id="being-written"),
        pytest.param([1, None, None, 2, 2], [2, 4], id="removed-and-back"),
        pytest.param([1, None, 2, 2], [3], id="replaced"),
        pytest.param([200, 200, 200], [1], id="changed-since-it-was-read"),
        pytest.param([None, None, 1, 1], [3], id="made"),
        pytest.param([1, 2, 1, 1], [], id="put-back"),
    ],
)
def test_changes(looks: list[object], told: list[int]) -> None:
    """Two looks that see the same make a change; what is as it was is none."""
    assert seen(*looks) == told


def test_files_may_come_and_go() -> None:
    """A file that is no longer named is not looked at; one that is new counts from now on."""
    told: list[int] = []
    one = Watch(list, lambda: 100, lambda: told.append(1))
    other = Path("other")
    old = (1, 1, 1, 1, 1)
    for looked in ({PATH: old}, {PATH: old, other: old}, {other: old}, {other: old}):
        one.look(looked)
    assert told == []
    for _ in range(2):
        one.look({other: (1, 1, 1, 2, 1)})
    assert told == [1]


def test_a_stamp_follows_links_and_sees_replacements(tmp_path: Path) -> None:
    """As mounted files are swapped: by a link's target."""
    first, second, link = tmp_path / "1", tmp_path / "2", tmp_path / "link"
    first.write_text("a")
    second.write_text("a")
    link.symlink_to(first)
    before = stamp(link)
    assert before == stamp(first)
    fresh = tmp_path / "fresh"
    fresh.symlink_to(second)
    fresh.rename(link)
    assert stamp(link) == stamp(second) != before
    assert stamp(tmp_path / "absent") is None
    os.utime(second, ns=(1, 1))
    assert stamp(link) != before


def test_it_runs_until_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real files, in real time."""
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.02)
    file = tmp_path / "file"
    file.write_text("a")

    async def work() -> None:
        changed = asyncio.Event()
        one = Watch(lambda: [file], lambda: file.stat().st_mtime_ns, changed.set)
        task = asyncio.get_running_loop().create_task(one.run())
        await asyncio.sleep(0.1)
        assert not changed.is_set()
        file.write_text("other")
        async with asyncio.timeout(HANG_SECONDS):
            await changed.wait()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(work())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(
            "endpoints:\n- {upstream: https://x.example, assurance: semantic, grant: g.yaml, ca: /b.pem}\n"
            "- {upstream: https://y.example, assurance: trusted-upstream}\n",
            {"g.yaml", "/b.pem"},
            id="missing-files",
        ),
        pytest.param("endpoints: [", set(), id="unreadable"),
        pytest.param(None, set(), id="absent"),
    ],
)
def test_named_files(tmp_path: Path, text: str | None, names: set[str]) -> None:
    """What settings name is found also where they cannot be used."""
    file = tmp_path / "grantproxy.yaml"
    if text is not None:
        file.write_text(text)
    assert named_by(file) == {tmp_path / name for name in names}
