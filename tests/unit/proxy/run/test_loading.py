"""Variables by which code comes into grantproxy: each entry as its reader takes it."""

from pathlib import Path

import pytest

from proxy.run.loading import LOADING, SKIP_EMPTY, hold_variables
from proxy.run.refused import IsolationRefused


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The working directory; `way` beside it leads there, by a name with a blank too."""
    work = tmp_path / "work"
    (work / "deep").mkdir(parents=True)
    (tmp_path / "way").symlink_to(work)
    (tmp_path / "a way").symlink_to(work)
    (tmp_path / "down").symlink_to(work / "deep")
    return work


@pytest.mark.parametrize("name", LOADING)
@pytest.mark.parametrize(
    ("text", "refused"),
    [
        pytest.param("", False, id="nothing"),
        pytest.param("/usr/lib", False, id="elsewhere"),
        pytest.param("/usr/lib:/lib", False, id="two-elsewhere"),
        pytest.param("{work}", True, id="one"),
        pytest.param("{work}/lib", True, id="not-there-yet"),
        pytest.param("/usr/lib:{work}/lib", True, id="second"),
        pytest.param("{around}/way/lib", True, id="by-a-link"),
        pytest.param("{around}/a way/lib", True, id="by-a-link-with-a-blank"),
        pytest.param("{around}/down/../lib", True, id="back-from-a-link"),
        pytest.param("lib", True, id="relative"),
        pytest.param("../lib", True, id="relative-and-out"),
        pytest.param("/usr/lib:.", True, id="dot"),
    ],
)
def test_what_leads_there(work: Path, name: str, text: str, refused: bool) -> None:
    """No entry leads into the working directory, and none depends on where grantproxy is started."""
    value = text.format(work=work, around=work.parent)
    if not refused:
        hold_variables(work, {name: value})
        return
    with pytest.raises(IsolationRefused, match=f"`{name}` leads into") as said:
        hold_variables(work, {name: value})
    assert f"-- env {name}=" in str(said.value)


@pytest.mark.parametrize("name", [*LOADING, "PYTHONPATH"])
@pytest.mark.parametrize("text", [":", "/usr/lib:", ":/usr/lib", "/usr/lib::/lib"])
def test_empty_entries(work: Path, name: str, text: str) -> None:
    """They are the current directory, but where their reader leaves them out."""
    if name in SKIP_EMPTY:
        hold_variables(work, {name: text})
        return
    with pytest.raises(IsolationRefused, match=f"`{name}` leads into .* empty"):
        hold_variables(work, {name: text})


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        pytest.param("LD_LIBRARY_PATH", "/usr/lib;{work}/lib", "leads into", id="semicolon"),
        pytest.param("LD_LIBRARY_PATH", "/usr/lib;", "empty", id="semicolon-at-the-end"),
        pytest.param("LD_LIBRARY_PATH", "/usr/lib:;/lib", "empty", id="both"),
        pytest.param("LD_LIBRARY_PATH", "/usr/lib\n{work}/lib", "leads into", id="line-end"),
        pytest.param("LD_LIBRARY_PATH", "/opt/my libs/lib", None, id="blank-in-a-path"),
        pytest.param("LD_PRELOAD", "/usr/a.so {work}/b.so", "leads into", id="blank"),
        pytest.param("LD_PRELOAD", "/usr/a.so\t{work}/b.so", "leads into", id="tab"),
        pytest.param("LD_PRELOAD", "/usr/a.so /usr/b.so ", None, id="blank-at-the-end"),
        pytest.param("LD_PRELOAD", "libc.so.6", "relative", id="by-its-name"),
        pytest.param("LD_LIBRARY_PATH", "/home/me/$LIB/x", "holds a `\\$`", id="lib"),
        pytest.param("LD_PRELOAD", "/home/me/${{PLATFORM}}/x.so", "holds a `\\$`", id="platform"),
        pytest.param("LD_AUDIT", "$ORIGIN/x.so", "relative", id="origin"),
        pytest.param("SSL_CERT_FILE", "/etc/$LIB/ca.pem", None, id="not-the-loader-s"),
        pytest.param("PYTHONPATH", "../lib", "relative", id="modules-relative"),
        pytest.param("PYTHONPATH", "{work}/lib", None, id="modules-are-held-as-places"),
    ],
)
def test_what_each_reader_makes_of_it(work: Path, name: str, text: str, says: str | None) -> None:
    """Separators are the reader's own, and so is what it puts in."""
    if says is None:
        hold_variables(work, {name: text.format(work=work)})
        return
    with pytest.raises(IsolationRefused, match=says):
        hold_variables(work, {name: text.format(work=work)})
