"""`grantproxy run --isolate`: what an isolated program can leave for the next start, and what it sees meanwhile."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.certificates import Certificates
from support.isolation import TOOLS, only
from support.runs import Runs, end
from support.upstream import Upstream
from support.waits import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolation is Linux's")

PLANT = """
import os
name = "grantproxy.yaml"
def plant():
    open(name, "w").write("proxy: 127.0.0.1:0")
def replace():
    open("other", "w").close()
    os.replace("other", name)
def link():
    os.symlink("/etc/hosts", name)
def remove():
    os.unlink(name)
def rename():
    os.rename(name, "moved")
def directory():
    os.mkdir(name)
for attempt in (plant, replace, link, remove, rename, directory):
    try:
        attempt()
        print(attempt.__name__)
    except OSError:
        pass
"""


@pytest.fixture
def runs(tmp_path: Path, certificates: Certificates) -> Iterator[Runs]:
    """A project without settings."""
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    with ExitStack() as exits:
        yield Runs(tmp_path / "project", exits.enter_context(Upstream(certificates)), certificates)


def given(runs: Runs) -> list[str]:
    return [
        *("--upstream", "https://127.0.0.1:1", "--assurance", "trusted-upstream", "--secret", "api=env:API_TOKEN"),
        *("--env", "X", "--state", str(runs.state), "--quiet"),
    ]


@pytest.mark.parametrize("before", [None, "proxy: 127.0.0.1:0\n"], ids=["none", "of-the-operator"])
@pytest.mark.parametrize("name", TOOLS)
def test_settings_are_not_planted(runs: Runs, name: str, before: str | None) -> None:
    """No program makes, replaces or removes what the next command would find as the settings."""
    runs.preamble = only(name)
    settings = runs.folder / "grantproxy.yaml"
    if before is not None:
        settings.write_text(before)
    done = runs.run("--isolate", "--", sys.executable, "-c", PLANT, endpoint=given(runs))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (settings.read_text() if settings.exists() else None) == before
    assert not settings.is_symlink()
    assert not (runs.folder / "moved").exists()


@pytest.mark.parametrize("name", TOOLS)
def test_what_is_shown_of_the_work(runs: Runs, name: str) -> None:
    """It is read-only; a link there, which the program could have made, is no name for anything."""
    runs.preamble = only(name)
    (runs.folder / "vendor").mkdir()
    (runs.folder / "data").symlink_to("/etc")
    script = "touch beside && ! touch vendor/made && ! mv vendor moved"
    done = runs.run("--isolate", "--show", "vendor", "--", "sh", "-c", script, endpoint=given(runs))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in runs.folder.iterdir()) == ["beside", "data", "vendor"]
    for shown in ("data", "data/ssl"):
        done = runs.run("--isolate", "--show", shown, "--", "touch", "ran", endpoint=given(runs))
        assert done.returncode == 1
        assert f"is shown by the link `{runs.folder}/data`" in done.stderr
    assert not (runs.folder / "ran").exists()


HOMES = [
    pytest.param("import pwd, types\npwd.getpwuid = lambda _: types.SimpleNamespace(pw_dir={project!r})", "your home"),
    pytest.param("from proxy.run import isolated\nisolated.trees = lambda: (isolated.Path({home!r}),)", "Python is"),
]


@pytest.mark.parametrize(("preamble", "says"), HOMES, ids=["another-home", "python-in-the-home"])
def test_homes(runs: Runs, preamble: str, says: str) -> None:
    """The home of the user database is no project, whatever HOME says, and no tree of Python's is a home."""
    runs.preamble = preamble.format(project=str(runs.folder), home=str(runs.folder.parent / "home"))
    done = runs.run("--isolate", "--", "touch", "ran", endpoint=given(runs))
    assert done.returncode == 1
    assert says in done.stderr
    assert not (runs.folder / "ran").exists()


@pytest.mark.skipif(not os.access("/etc", os.W_OK), reason="/etc is not ours to write to")
@pytest.mark.parametrize("name", TOOLS)
def test_configuration_that_comes_later(runs: Runs, name: str) -> None:
    """What is put into `/etc` while the program runs is not seen, and what is there is found as before."""
    runs.preamble = only(name)
    later = Path(f"/etc/grantproxy-test-{os.getpid()}-{name}")
    script = f"cat /etc/hosts >/dev/null; touch begun; while ! test -e go; do sleep 0.05; done; cat {later}"
    process = runs.start("--isolate", "--", "sh", "-c", script, endpoint=given(runs))
    try:
        wait_for((runs.folder / "begun").exists)
        descriptor = os.open(later, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, b"private")
        os.close(descriptor)
        (runs.folder / "go").touch()
        out, err = process.communicate(timeout=60)
    finally:
        end(process)
        later.unlink(missing_ok=True)
    assert (process.returncode, out) == (1, "")
    assert "No such file" in err


@pytest.mark.parametrize("source", ["file:{place}/token", "exec:cat {place}/token"], ids=["file", "exec"])
def test_variables_that_hold_what_files_hold(runs: Runs, source: str) -> None:
    """They are left out as those with the value of a variable are, and told of without it."""
    place = runs.folder.parent
    (place / "token").write_text("key-0123456789\n")
    runs.environment = {"COPY": "Bearer key-0123456789", "MINE": "kept"}
    secret = ("--secret", f"key={source.format(place=place)}")
    done = runs.run(*secret, "--", "sh", "-c", 'echo "$COPY$MINE"', endpoint=given(runs))
    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr
    assert done.stderr == "warning: `COPY` is left out too: it holds a secret that comes from a file or a command\n"


def test_nothing_is_left_by_several(runs: Runs) -> None:
    """Two at once in one directory: the name is held until the last has ended."""
    script = (
        "touch begun-$0; while ! test -e go-$0; do sleep 0.05; done; touch grantproxy.yaml 2>/dev/null && echo made"
    )
    both = [
        runs.start("--isolate", "--", "sh", "-c", script, number, endpoint=given(runs), stderr=subprocess.PIPE)
        for number in "12"
    ]
    try:
        for number in "12":
            wait_for((runs.folder / f"begun-{number}").exists)
            assert (runs.folder / "grantproxy.yaml").exists()
        for number, process in zip("12", both, strict=True):
            (runs.folder / f"go-{number}").touch()
            assert process.communicate(timeout=60)[0] == ""
    finally:
        for process in both:
            end(process)
    assert not (runs.folder / "grantproxy.yaml").exists()
