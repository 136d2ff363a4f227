"""The user's homes, and Python's trees beside them."""

import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from proxy.run.homes import hold_trees, homes
from proxy.run.refused import IsolationRefused


@pytest.mark.parametrize(
    ("variable", "database", "found"),
    [
        pytest.param("/nowhere/other", "/nowhere/me", ("/nowhere/other", "/nowhere/me"), id="both"),
        pytest.param("/nowhere/me", "/nowhere/me", ("/nowhere/me",), id="the-same"),
        pytest.param(None, "/nowhere/me", ("/nowhere/me",), id="no-variable"),
        pytest.param("/nowhere/me", None, ("/nowhere/me",), id="a-number"),
        pytest.param(None, None, None, id="neither"),
    ],
)
def test_both_homes(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, database: str | None, found: tuple[str, ...] | None
) -> None:
    """A variable that says otherwise does not make the user's home a project."""

    def entry(_: int) -> SimpleNamespace:
        if database is None:
            raise KeyError
        return SimpleNamespace(pw_dir=database)

    monkeypatch.setattr(pwd, "getpwuid", entry)
    if variable is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", variable)
    if found is None:
        with pytest.raises(IsolationRefused, match="set HOME"):
            homes()
        return
    assert homes() == tuple(map(Path, found))


@pytest.mark.parametrize(
    ("tree", "refused"),
    [
        pytest.param("/home/me", True, id="the-home"),
        pytest.param("/home", True, id="around-it"),
        pytest.param("/", True, id="everything"),
        pytest.param("/data/me", True, id="the-other-home"),
        pytest.param("/home/me/.local", True, id="around-its-data"),
        pytest.param("/home/me/.local/share", True, id="its-data"),
        pytest.param("/home/me/.local/share/uv/python/cpython-3.13", False, id="uv"),
        pytest.param("/home/me/.pyenv/versions/3.13", False, id="pyenv"),
        pytest.param("/home/me/project/.venv", False, id="venv"),
        pytest.param("/usr", False, id="the-system's"),
        pytest.param("/opt/python", False, id="elsewhere"),
    ],
)
def test_trees_that_hold_a_home(tree: str, refused: bool) -> None:
    """Python's trees are shown whole, so none is or holds a home."""
    places = (Path("/home/me"), Path("/data/me"))
    if not refused:
        hold_trees((Path(tree),), places)
        return
    with pytest.raises(IsolationRefused, match="directory of its own"):
        hold_trees((Path("/usr"), Path(tree)), places)
