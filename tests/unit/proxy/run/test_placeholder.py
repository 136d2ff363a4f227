"""The name of the settings in the working directory, held where nothing has it."""

import errno
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from proxy.run import placeholder
from proxy.run.placeholder import MARK, held, is_placeholder
from proxy.run.refused import IsolationRefused


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "grantproxy.yaml"


def test_it_is_there_while_it_is_used(file: Path) -> None:
    """And says what it is."""
    with held(file):
        assert is_placeholder(file)
        assert file.read_bytes().startswith(b"# No settings")
    assert not file.exists()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_several_hold_it(file: Path, order: tuple[int, int]) -> None:
    """It goes with the last, whoever that is."""
    stacks = [ExitStack(), ExitStack()]
    for stack in stacks:
        stack.enter_context(held(file))
    stacks[order[0]].close()
    assert is_placeholder(file)
    stacks[order[1]].close()
    assert not file.exists()


def test_what_a_kill_left_is_taken_over(file: Path) -> None:
    """And goes."""
    file.write_bytes(MARK)
    with held(file):
        assert is_placeholder(file)
    assert not file.exists()


@pytest.mark.parametrize("content", [b"proxy: 127.0.0.1:0\n", b"", MARK + b"proxy: 127.0.0.1:0\n", MARK[:-1]])
def test_the_operator_s_own_stays(file: Path, content: bytes) -> None:
    """As it is, before and after."""
    file.write_bytes(content)
    with held(file):
        assert file.read_bytes() == content
    assert file.read_bytes() == content


@pytest.mark.parametrize("kind", ["directory", "link", "dangling", "pipe"])
def test_other_things_with_the_name(file: Path, kind: str) -> None:
    """Are left alone: mounts and refusals are for them."""
    (file.parent / "mark").write_bytes(MARK)
    match kind:
        case "directory":
            file.mkdir()
        case "link":
            file.symlink_to("mark")
        case "dangling":
            file.symlink_to("absent")
        case _:
            os.mkfifo(file)
    with held(file):
        assert not is_placeholder(file)
    assert os.path.lexists(file)
    assert (file.parent / "mark").exists()


def test_what_is_written_to_it_stays(file: Path) -> None:
    """Somebody has made settings of it, in place or anew."""
    with held(file):
        file.write_text("proxy: 127.0.0.1:0\n")
    assert file.read_text() == "proxy: 127.0.0.1:0\n"
    file.unlink()
    with held(file):
        file.unlink()
        file.write_bytes(MARK)
    assert file.exists()


@pytest.mark.parametrize(
    ("number", "own", "refused"),
    [
        pytest.param(errno.EROFS, True, False, id="read-only"),
        pytest.param(errno.EACCES, True, True, id="my-own-directory"),
        pytest.param(errno.EACCES, False, False, id="somebody-else's"),
        pytest.param(errno.ENOSPC, False, True, id="full"),
    ],
)
def test_where_it_cannot_be_made(
    file: Path, monkeypatch: pytest.MonkeyPatch, number: int, own: bool, refused: bool
) -> None:
    """It is refused where the program, which owns what we own, could make it all the same."""

    def fails(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    uid = file.parent.stat().st_uid
    monkeypatch.setattr(placeholder, "_open", fails)
    monkeypatch.setattr(os, "geteuid", lambda: uid if own else uid + 1)
    if not refused:
        with held(file):
            pass
        return
    with pytest.raises(IsolationRefused, match="make the directory writable"), held(file):
        pass


def test_one_that_is_locked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever."""
    import fcntl

    monkeypatch.setattr(placeholder, "_SECONDS", 0.1)
    file.write_bytes(MARK)
    with file.open("rb") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        with pytest.raises(IsolationRefused, match="has it locked"), held(file):
            pass
