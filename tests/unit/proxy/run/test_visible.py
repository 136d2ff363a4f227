"""What an isolated program finds by a name, and what is said where that is another one, or none."""

from pathlib import Path

import pytest

from proxy.run.mounts import Empty, Link, Mount, Show
from proxy.run.visible import differs, not_seen, seen


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """`sys` is shown, `home` is not; both have programs."""
    for name in ("sys", "home"):
        (tmp_path / name).mkdir()
        program(tmp_path / name / "tool")
    return tmp_path


def program(file: Path, first: str = "") -> None:
    file.write_text(first)
    file.chmod(0o755)


def mounts(place: Path) -> tuple[Mount, ...]:
    return (
        Show(place / "sys", place / "sys"),
        Show(place / "sys" / "masked", Path("/dev/null")),
        Empty(place / "home"),
        Link(place / "kept", "sys"),
    )


@pytest.mark.parametrize(
    ("name", "is_seen"),
    [
        ("sys/tool", True),
        ("home/tool", False),
        ("sys/masked", False),
        ("sys/out", False),
        ("home/in", False),
        ("kept/tool", True),
        ("lost/tool", False),
    ],
)
def test_what_is_seen(place: Path, name: str, is_seen: bool) -> None:
    """The end of the way and each link on it."""
    (place / "sys" / "masked").touch()
    (place / "sys" / "out").symlink_to(place / "home" / "tool")
    (place / "home" / "in").symlink_to(place / "sys" / "tool")
    (place / "kept").symlink_to("sys")
    (place / "lost").symlink_to("sys")
    assert seen(place / name, mounts(place)) is is_seen


@pytest.mark.parametrize(
    ("name", "path", "warned"),
    [
        pytest.param("tool", "home:sys", True, id="another"),
        pytest.param("tool", "sys:home", False, id="the-same"),
        pytest.param("tool", "home", False, id="none-inside"),
        pytest.param("absent", "home:sys", False, id="none-at-all"),
        pytest.param("{place}/home/tool", "sys", False, id="by-its-path"),
    ],
)
def test_another_program_inside(place: Path, name: str, path: str, warned: bool) -> None:
    """A name that means another program in there is told, with both."""
    places = ":".join(str(place / part) for part in path.split(":"))
    said = differs(name.format(place=place), places, mounts(place))
    assert (said is not None) is warned
    if said is not None:
        assert f"`{place}/home/tool` outside and `{place}/sys/tool` inside" in said
        assert "--show" in said


@pytest.mark.parametrize(
    ("first", "says"),
    [
        pytest.param("#!/absent/interpreter\n", "`/absent/interpreter`, which does not exist", id="missing"),
        pytest.param("#!{place}/home/tool -x\n", "home/tool`, which is not seen by", id="not-shown"),
        pytest.param("#!{place}/sys/tool\n", "is not seen by an isolated program", id="shown"),
        pytest.param("", "is not seen by an isolated program", id="no-script"),
    ],
)
def test_interpreters(place: Path, first: str, says: str) -> None:
    """Where a script's interpreter is what is missing, that is told."""
    program(place / "sys" / "script", first.format(place=place))
    refused = not_seen("script", str(place / "sys"), mounts(place))
    assert says in str(refused)
    assert "--show" in str(refused)
    assert refused.code == 127
