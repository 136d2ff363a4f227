"""Where Python takes modules from: what is there, what would be, and by which name we were started."""

import os
import site
import sys
from pathlib import Path

import pytest

from proxy.run import code
from proxy.run.code import hold_code
from proxy.run.refused import IsolationRefused


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`work` is the working directory, with an installation in it; Python has one directory of packages, `site`."""
    for name in ("work/.venv/bin", "work/deep", "site", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "other" / "way").symlink_to(tmp_path / "work")
    (tmp_path / "work" / "out").symlink_to(tmp_path / "other")
    (tmp_path / "work" / ".venv" / "bin" / "grantproxy").touch()
    monkeypatch.setattr(code, "trees", lambda: (tmp_path / "work" / ".venv",))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setattr(site, "getsitepackages", list)
    monkeypatch.setattr(site, "ENABLE_USER_SITE", False)
    return tmp_path


LINES = [
    pytest.param("{place}/other", False, id="elsewhere"),
    pytest.param("{place}/absent", False, id="elsewhere-and-not-there"),
    pytest.param("# {place}/work/x", False, id="comment"),
    pytest.param("import os; x = '{place}/work/x'", False, id="code"),
    pytest.param("\n  \n", False, id="blank"),
    pytest.param("{place}/work/.venv/lib", False, id="installation"),
    pytest.param("{place}/work/x\0", False, id="nul"),
    pytest.param("{place}/work/absent", True, id="not-there"),
    pytest.param("{place}/other\n{place}/work/absent  \n", True, id="second-line"),
    pytest.param("../work/absent", True, id="relative"),
    pytest.param("\ufeff../work/absent", True, id="byte-order-mark"),
    pytest.param("{place}/other/way/absent", True, id="by-a-link"),
    pytest.param("{place}/work/out/absent", True, id="through-it"),
]


@pytest.mark.parametrize(("line", "refused"), LINES)
@pytest.mark.parametrize("name", ["a.pth", ".hidden.pth"])
def test_lines_of_pth_files(place: Path, name: str, line: str, refused: bool) -> None:
    """What a line names is a place of modules once somebody makes it."""
    (place / "site" / name).write_text(line.format(place=place))
    if not refused:
        hold_code(place / "work", {})
        return
    with pytest.raises(IsolationRefused, match=r"takes modules from .*\.pth"):
        hold_code(place / "work", {})


@pytest.mark.parametrize("user", [True, False], ids=["user", "packages"])
@pytest.mark.parametrize(
    ("name", "refused"),
    [("absent", False), ("work/absent", True), ("other/way/absent", True), ("work/out/absent", True)],
)
def test_sites_that_are_not_there(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, user: bool, refused: bool
) -> None:
    """The directories of packages, and the user's, whether they exist or not."""
    if user:
        monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
        monkeypatch.setattr(site, "getusersitepackages", lambda: str(place / name))
    else:
        monkeypatch.setattr(site, "getsitepackages", lambda: [str(place / name)])
    if not refused:
        hold_code(place / "work", {})
        return
    with pytest.raises(IsolationRefused, match="takes modules from"):
        hold_code(place / "work", {})


def test_a_user_s_site_that_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that is installed there, editable, is no matter of a Python that does not look there."""
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(place / "work" / "absent"))
    hold_code(place / "work", {})


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        pytest.param("", False, id="nothing"),
        pytest.param("{place}/other", False, id="elsewhere"),
        pytest.param("{place}/work/.venv/lib", False, id="installation"),
        pytest.param("{place}/other:{place}/work/absent", True, id="not-there"),
        pytest.param("{place}/other/way/deep/../absent", True, id="back-from-a-link"),
    ],
)
def test_pythonpath_as_it_is_written(place: Path, text: str, refused: bool) -> None:
    """Before `site` has run, Python looks at the entries as they are."""
    environment = {"PYTHONPATH": text.format(place=place)}
    if not refused:
        hold_code(place / "work", environment)
        return
    with pytest.raises(IsolationRefused, match="takes modules from"):
        hold_code(place / "work", environment)


@pytest.mark.parametrize(
    ("name", "target", "refused"),
    [
        pytest.param("sitecustomize.py", "work/absent.py", True, id="module"),
        pytest.param("sitecustomize", "work/absent", True, id="package"),
        pytest.param("more.pth", "work/absent.pth", True, id="pth"),
        pytest.param("package/deep.py", "work/deep/x.py", True, id="in-a-package"),
        pytest.param("a.py", "work/out/x.py", True, id="through-it"),
        pytest.param("a.py", "other/x.py", False, id="elsewhere"),
        pytest.param("a", "work/.venv/lib/a", False, id="installation"),
        pytest.param("notes.txt", "work/notes.txt", False, id="no-module"),
    ],
)
def test_links_among_modules(place: Path, name: str, target: str, refused: bool) -> None:
    """One that leads into the working directory is the program's to fill, whether there is something or not."""
    (place / "site" / "package").mkdir()
    (place / "site" / name).symlink_to(place / target)
    if not refused:
        hold_code(place / "work", {})
        return
    with pytest.raises(IsolationRefused, match="is a link into the working directory"):
        hold_code(place / "work", {})


NAMES = [
    pytest.param("/usr/bin/grantproxy", False, id="elsewhere"),
    pytest.param("-c", False, id="no-file"),
    pytest.param("", False, id="none"),
    pytest.param(".venv/bin/grantproxy", False, id="installation"),
    pytest.param("{work}/.venv/bin/grantproxy", False, id="installation-by-its-whole-path"),
    pytest.param("venv/bin/grantproxy", True, id="link"),
    pytest.param("{work}/venv/bin/grantproxy", True, id="link-by-its-whole-path"),
    pytest.param("deep/../venv/bin/grantproxy", True, id="link-and-back"),
    pytest.param("bin/grantproxy", True, id="file"),
    pytest.param("grantproxy", True, id="in-the-directory-itself"),
    pytest.param("{work}/out/grantproxy", True, id="through-it"),
    pytest.param("../other/way/grantproxy", True, id="link-into-it"),
    pytest.param("../other/in", False, id="link-to-the-installation"),
]


@pytest.mark.parametrize(("name", "refused"), NAMES)
def test_the_name_by_which_we_were_started(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, refused: bool
) -> None:
    """Whoever can change what that is, is run by the operator at the next start."""
    work = place / "work"
    (work / "venv").symlink_to(place / "other")
    (place / "other" / "in").symlink_to(work / ".venv" / "bin" / "grantproxy")
    monkeypatch.setattr(sys, "argv", [name.format(work=work), "run"])
    if not refused:
        hold_code(work, {})
        return
    with pytest.raises(IsolationRefused, match="was started as") as said:
        hold_code(work, {})
    assert "installed elsewhere" in str(said.value)
    assert os.path.lexists(work / "venv")
