"""Capture files: owner-only, one JSON line a request."""

import json
import stat
from pathlib import Path

import pytest

from proxy.capture import CaptureFile
from proxy.state import StartRefused


def test_a_capture_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    """Its own file, 0600, in a folder that only the owner can enter."""
    sink = CaptureFile(tmp_path / "state", "api")
    sink.write({"id": "1", "target": "/a"})
    sink.write({"id": "2", "target": "/b"})
    assert stat.S_IMODE(sink.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(sink.path.parent.stat().st_mode) == 0o700
    lines = [json.loads(line) for line in sink.path.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["1", "2"]
    assert all(line["ts"] for line in lines)
    sink.close()


def test_a_long_name_is_cut(tmp_path: Path) -> None:
    """File names have a limit that host names do not have."""
    assert len(CaptureFile(tmp_path, "a" * 253).path.name) < 255


@pytest.mark.parametrize("what", ["a directory", "a link", "open to others"])
def test_a_file_that_is_not_ours_alone_is_refused(tmp_path: Path, what: str) -> None:
    """By name, with a remedy."""
    sink = CaptureFile(tmp_path, "api")
    sink.close()
    sink.path.unlink()
    if what == "a directory":
        sink.path.mkdir()
    elif what == "a link":
        sink.path.symlink_to(tmp_path / "other")
    else:
        sink.path.touch(0o600)
        sink.path.chmod(0o644)
    with pytest.raises(StartRefused, match=r"api\.jsonl"):
        CaptureFile(tmp_path, "api")
