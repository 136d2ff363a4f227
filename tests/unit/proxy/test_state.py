"""The state directory: owner-only, made once, refused with its name and a remedy when it is not as it was left."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from proxy import state
from proxy.state import StartRefused, digest_key, private_directory, read_private, write_whole


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """The state directory is made with mode 0700, parents included as the system makes them."""
    made = private_directory(tmp_path / "a" / "state")
    assert _mode(made) == 0o700
    assert private_directory(made) == made


def test_an_empty_directory_is_closed_to_others(tmp_path: Path) -> None:
    """A fresh volume, and a directory that already holds our state, are closed; nothing else is touched."""
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o755)
    private_directory(volume)
    assert _mode(volume) == 0o700
    digest_key(volume)
    volume.chmod(0o750)
    private_directory(volume)
    assert _mode(volume) == 0o700


def test_a_shared_directory_is_refused_and_not_changed(tmp_path: Path) -> None:
    """A directory with other things in it that others can enter is refused: it may be `/tmp`."""
    (tmp_path / "else").touch()
    tmp_path.chmod(0o755)
    with pytest.raises(StartRefused, match=r"is open to others \(mode 0755\); run `chmod 700"):
        private_directory(tmp_path)
    assert _mode(tmp_path) == 0o755
    tmp_path.chmod(0o700)


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    """A file where the directory should be is named."""
    (tmp_path / "state").touch()
    with pytest.raises(StartRefused, match=r"state directory `.*/state` cannot be used: file exists"):
        private_directory(tmp_path / "state")


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's directory is refused: that user could replace the CA."""
    monkeypatch.setattr(state.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StartRefused, match="belongs to user"):
        private_directory(tmp_path)


def test_the_digest_key_is_made_once(tmp_path: Path) -> None:
    """The key of the resource digests is 32 random bytes in an owner-only file, the same at each start."""
    key = digest_key(tmp_path)
    assert len(key) == 32
    assert _mode(tmp_path / "digest.key") == 0o600
    assert digest_key(tmp_path) == key
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "digest.key"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"00" * 31, id="short"),
        pytest.param(b"zz" * 32, id="not-hex"),
        pytest.param(b"\xff" * 64, id="not-text"),
    ],
)
def test_a_damaged_key_stops_the_start(tmp_path: Path, content: bytes) -> None:
    """A key that is not as it was written is named, and not replaced: old digests would no longer compare."""
    write_whole(tmp_path / "digest.key", content)
    with pytest.raises(StartRefused, match=r"`.*/digest\.key` is damaged; restore it, or remove it") as caught:
        digest_key(tmp_path)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "digest.key").read_bytes() == content


def test_private_files_are_owner_only_regular_and_small(tmp_path: Path) -> None:
    """A private file that others can read, a link, a directory and a huge file are refused by name."""
    path = tmp_path / "key"
    assert read_private(path, "key") is None
    write_whole(path, b"x")
    assert read_private(path, "key") == b"x"
    path.chmod(0o640)
    with pytest.raises(StartRefused, match=r"can be read by others \(mode 0640\); run `chmod 600"):
        read_private(path, "key")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(StartRefused, match="cannot be read"):
        read_private(tmp_path / "link", "key")
    with pytest.raises(StartRefused, match="not a regular file"):
        read_private(tmp_path, "key")
    write_whole(path, b"x" * 70000)
    with pytest.raises(StartRefused, match="over 64 KiB"):
        read_private(path, "key")


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A private file must belong to the user that runs the program."""
    write_whole(tmp_path / "key", b"x")
    monkeypatch.setattr(state.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StartRefused, match="belongs to user"):
        read_private(tmp_path / "key", "key")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is replaced whole or not at all, and nothing is left behind."""
    write_whole(tmp_path / "key", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state.os, "fsync", full)
    with pytest.raises(StartRefused, match="no space left on device"):
        write_whole(tmp_path / "key", b"new")
    assert (tmp_path / "key").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_directory_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lock two starts could each make a key."""

    def none(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(state.fcntl, "flock", none)
    with pytest.raises(
        StartRefused, match="cannot be locked: no locks available; name a state directory on a local disk"
    ):
        digest_key(tmp_path)


def test_processes_that_start_at_once_agree(tmp_path: Path) -> None:
    """Several processes on one new state directory come to one key."""
    script = (
        "import sys; from pathlib import Path; from proxy.state import *; "
        "print(digest_key(private_directory(Path(sys.argv[1]))).hex())"
    )
    directory = str(tmp_path / "state")
    running = [
        subprocess.Popen([sys.executable, "-c", script, directory], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    keys = {process.communicate()[0] for process in running}
    assert len(keys) == 1
    assert keys != {""}
