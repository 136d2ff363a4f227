"""What keeps a program from being isolated: everything of ours that it could change, by any name."""

import os
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from proxy.run import code
from proxy.run.code import hold_code
from proxy.run.commands import clean, hold_command
from proxy.run.hold import hold
from proxy.run.refused import IsolationRefused
from proxy.run.served import hidden
from proxy.run.ways import links_in, passed
from proxy.secrets.source import ExecSource, parse_source
from proxy.settings import load_settings


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """`work` is the working directory; the settings are in `base`, programs in `bin`."""
    for name in ("work/bin", "work/deep", "base", "bin", "other"):
        (tmp_path / name).mkdir(parents=True)
    program(tmp_path / "work" / "bin" / "tool")
    program(tmp_path / "bin" / "good")
    return tmp_path


def program(file: Path, first: str = "#!/bin/sh") -> None:
    file.write_text(f"{first}\n")
    file.chmod(0o755)


def link(name: str, target: str) -> Callable[[Path], None]:
    return lambda place: (place / name).symlink_to(place / target)


def chain(*names: str) -> Callable[[Path], None]:
    """Each name a link to the next."""

    def make(place: Path) -> None:
        for name, target in pairwise(names):
            (place / name).symlink_to(place / target)

    return make


def nothing(_: Path) -> None:
    pass


COMMANDS = [
    pytest.param("good", nothing, None, id="on-PATH"),
    pytest.param("/bin/echo x", nothing, None, id="by-its-path"),
    pytest.param("good --file=/etc/hosts -I/usr a:b", nothing, None, id="other-arguments"),
    pytest.param("{work}/bin/tool", nothing, "leads to", id="program"),
    pytest.param("../work/bin/tool", nothing, "leads to", id="program-relative"),
    pytest.param("linked", link("bin/linked", "work/bin/tool"), "leads to", id="program-is-a-link"),
    pytest.param("linked", chain("bin/linked", "other/a", "work/bin/tool"), "leads to", id="two-links"),
    pytest.param("linked", chain("bin/linked", "work/deep/a", "bin/good"), "leads to", id="through-and-out-again"),
    pytest.param("linked/tool", link("base/linked", "work/bin"), "leads to", id="directory-is-a-link"),
    pytest.param(
        "script", lambda place: program(place / "bin/script", f"#!{place}/work/bin/tool"), "leads to", id="first-line"
    ),
    pytest.param(
        "script",
        lambda place: (
            program(place / "bin/script", "#!/usr/bin/env linked"),
            link("bin/linked", "work/bin/tool")(place),
        ),
        "leads to",
        id="first-line-by-env",
    ),
    pytest.param(
        "script",
        lambda place: (
            program(place / "bin/script", f"#!{place}/bin/two"),
            program(place / "bin/two", f"#!{place}/work/bin/tool"),
        ),
        "leads to",
        id="first-line-of-first-line",
    ),
    pytest.param("python3 {work}/a.py", nothing, "argument 1", id="argument"),
    pytest.param("python3 ../work/absent.py", nothing, "argument 1", id="argument-that-is-not-there"),
    pytest.param("python3 -I{work}", nothing, "argument 1", id="option-with-value"),
    pytest.param("python3 -I../work", nothing, "argument 1", id="option-with-relative-value"),
    pytest.param("python3 --path=../work/x", nothing, "argument 1", id="long-option"),
    pytest.param("env PYTHONPATH={work} python3 -m x", nothing, "argument 1", id="variable"),
    pytest.param("env PYTHONPATH=/usr:../work python3 -m x", nothing, "argument 1", id="variable-with-a-list"),
    pytest.param("sh -c 'cat \"../work/x\"|head'", nothing, "argument 2", id="shell"),
    pytest.param("sh -c 'cd /; . {work}/x'", nothing, "argument 2", id="shell-absolute"),
    pytest.param("cat other/x", link("base/other", "work/deep"), "argument 1", id="argument-through-a-link"),
    pytest.param("cat a", chain("base/a", "other/b", "work/deep/c"), "argument 1", id="argument-by-two-links"),
]


@pytest.mark.parametrize(("text", "make", "says"), COMMANDS)
def test_commands(place: Path, text: str, make: Callable[[Path], None], says: str | None) -> None:
    """Nothing that a command names, by itself or by any link on the way, is in the working directory."""
    make(place)
    source = parse_source(f"exec:{text.format(work=place / 'work')}", place / "base")
    assert isinstance(source, ExecSource)
    environment = {"PATH": f"{place}/bin:/usr/bin:/bin"}
    if says is None:
        hold_command(source, place / "work", environment)
        return
    with pytest.raises(IsolationRefused, match=says) as refused:
        hold_command(source, place / "work", environment)
    assert "outside of the working directory" in str(refused.value)


@pytest.mark.parametrize(
    "path",
    ["{work}/bin:/bin", "/bin:", "/bin:.", "bin", "{base}/link:/bin", "{base}/back:/bin"],
    ids=["named", "empty", "dot", "relative", "by-a-link", "through-it"],
)
def test_the_path_of_commands(place: Path, path: str) -> None:
    """PATH does not come through the working directory."""
    (place / "base" / "link").symlink_to(place / "work" / "bin")
    (place / "work" / "out").symlink_to(place / "bin")
    (place / "base" / "back").symlink_to(place / "work" / "out")
    source = ExecSource(arguments=("true",), directory=place / "base")
    with pytest.raises(IsolationRefused, match="take that out of PATH"):
        hold_command(source, place / "work", {"PATH": path.format(work=place / "work", base=place / "base")})


@pytest.mark.parametrize("where", ["work", "work/deep", "link"])
def test_where_commands_run(place: Path, where: str) -> None:
    """Not in the working directory, by whatever name."""
    (place / "link").symlink_to(place / "work" / "deep")
    with pytest.raises(IsolationRefused, match="put the settings outside of the working directory"):
        hold_command(ExecSource(arguments=("true",), directory=place / where), place / "work", {"PATH": "/bin"})


def test_arguments_are_not_told(place: Path) -> None:
    """They may be credentials."""
    source = ExecSource(arguments=("show", f"tok-0123456789={place}/work"), directory=place / "base")
    with pytest.raises(IsolationRefused) as refused:
        hold_command(source, place / "work", {"PATH": "/bin"})
    assert "tok-" not in str(refused.value)


def test_the_environment_of_commands(place: Path) -> None:
    """Variables that lead into the working directory are gone, whatever they are called, but those of secrets."""
    work = place / "work"
    kept = {"PATH": "/bin", "HOME": str(place), "SECRET": f"{work}x", "LANG": "C"}
    gone = {
        "PYTHONPATH": f"/usr/lib:{work}/src",
        "NODE_OPTIONS": f"--require {work}/a.js",
        "RUBYOPT": "-r../work/a",
        "BASH_ENV": "../work/rc",
        "GIT_CONFIG": str(place / "base" / "link"),
        "OLDPWD": str(work),
    }
    (place / "base" / "link").symlink_to(work / "gitconfig")
    environment = kept | gone
    clean(environment, {"SECRET"}, place / "base", work)
    assert environment == kept


def test_every_hop_is_passed(place: Path) -> None:
    """Relative and absolute targets, parents, and links that go in circles."""
    (place / "a").symlink_to("other/../b")
    (place / "b").symlink_to(place / "work" / "c")
    (place / "work" / "c").symlink_to("../bin")
    found = list(passed(place / "a" / "good"))
    assert found[-1] == place / "bin" / "good"
    assert {place / "a", place / "b", place / "work" / "c", place / "other"} <= set(found)
    assert links_in(place / "a", place / "work") == place / "work" / "c"
    (place / "x").symlink_to("y")
    (place / "y").symlink_to("x")
    assert links_in(place / "x", place / "work") is None


PATHS = [
    pytest.param("{other}", None, id="elsewhere"),
    pytest.param("{tree}/lib", None, id="installed-in-there"),
    pytest.param("{tree}/absent.zip", None, id="nothing-in-the-installation"),
    pytest.param("{work}", "takes modules", id="working-directory"),
    pytest.param("{work}/..", "takes modules", id="around-it"),
    pytest.param("/", "takes modules", id="root"),
    pytest.param("{work}/src", "takes modules", id="in-it"),
    pytest.param("{work}/absent", "takes modules", id="not-there-yet"),
    pytest.param("{work}/link", "takes modules", id="link-in-it"),
    pytest.param("{other}/in-link", "takes modules", id="link-into-it"),
    pytest.param("{other}/through-link", "takes modules", id="through-it"),
]


@pytest.mark.parametrize(("path", "says"), PATHS)
def test_places_of_modules(place: Path, monkeypatch: pytest.MonkeyPatch, path: str, says: str | None) -> None:
    """Python takes no module from where the program can put one; an installation in there is read-only."""
    work, tree = place / "work", place / "work" / ".venv"
    for name in ("src", ".venv/lib"):
        (work / name).mkdir(parents=True)
    (work / "link").symlink_to(place / "other")
    (place / "other" / "in-link").symlink_to(work / "src")
    (place / "other" / "through-link").symlink_to(work / "link")
    monkeypatch.setattr(code, "trees", lambda: (tree,))
    names = [path.format(work=work, other=place / "other", tree=tree)]
    if says is None:
        assert tree in hold_code(work, {}, names)
        return
    with pytest.raises(IsolationRefused, match=says) as refused:
        hold_code(work, {}, names)
    assert "change into another directory" in str(refused.value)


def test_the_current_folder_as_a_place_of_modules(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `python -m` has it: an empty entry is the working directory."""
    monkeypatch.chdir(place / "work")
    with pytest.raises(IsolationRefused, match="python -m"):
        hold_code(place / "work", {}, [""])


@pytest.mark.parametrize(
    ("second", "refused"),
    [("work/deep/b.py", True), ("work/.venv/b.py", False), ("other/b.py", False)],
    ids=["in-the-working-directory", "in-the-installation", "elsewhere"],
)
def test_second_names_of_our_files(place: Path, monkeypatch: pytest.MonkeyPatch, second: str, refused: bool) -> None:
    """A hard link in the working directory is a way to write to a file that a mount protects."""
    (place / "modules").mkdir()
    (place / "work" / ".venv").mkdir()
    monkeypatch.setattr(code, "trees", lambda: (place / "work" / ".venv",))
    (place / "modules" / "a.py").touch()
    os.link(place / "modules" / "a.py", place / second)
    if not refused:
        hold_code(place / "work", {}, [str(place / "modules")])
        return
    with pytest.raises(IsolationRefused, match="second name in the working directory"):
        hold_code(place / "work", {}, [str(place / "modules")])


BROKER = "boxes: [{name: x, token: env:BOX_TOKEN}]\nbroker: {listen: 127.0.0.1:9100, word: lobby, %s}\n"
SETTINGS = [
    pytest.param("base", "audit: {path: ../../other/log}", None, id="log-elsewhere"),
    pytest.param("work", "audit: {path: decisions.jsonl}", None, id="log-in-the-state"),
    pytest.param("base", "audit: {path: ../../work/log}", "`audit.path` is", id="log"),
    pytest.param("base", "audit: {path: ../../other/link/log}", "`audit.path` is", id="log-by-a-link"),
    pytest.param("base", BROKER % "feedback: {file: ../../work/f}", "`broker.feedback` is", id="feedback"),
    pytest.param("base", BROKER % 'database: "sqlite:///../../work/b.db"', "`broker.database` is", id="database"),
    pytest.param("base", BROKER % 'database: "postgresql://u:pw@h/d"', None, id="password-elsewhere"),
    pytest.param("work", BROKER % 'database: "postgresql://u@h/d"', None, id="no-password"),
    pytest.param("work", BROKER % 'database: "postgresql://u:pw@h/d"', "holds the password", id="password"),
    pytest.param(
        "work", BROKER % 'database: "postgresql://h/d?password=pw"', "holds the password", id="password-after"
    ),
    pytest.param("work/deep", BROKER % 'database: "postgresql://u:pw@h/d"', "holds the password", id="password-below"),
]


@pytest.mark.parametrize(("where", "text", "says"), SETTINGS)
def test_settings(place: Path, where: str, text: str, says: str | None) -> None:
    """Logs, feedback and databases are not in the working directory, nor is a settings file with a password."""
    (place / "other" / "link").symlink_to(place / "work")
    config = place / where / "grantproxy.yaml"
    (config.parent / "state").mkdir()
    endpoint = "proxy: 127.0.0.1:0\nendpoints: [{upstream: https://a.example, assurance: trusted-upstream}]\n"
    config.write_text(f"state: state\n{endpoint}{text}\n")
    settings = load_settings(config)
    if says is None:
        hold(settings, config, hidden(settings, config), place / "work", {})
        return
    with pytest.raises(IsolationRefused, match=says):
        hold(settings, config, hidden(settings, config), place / "work", {})


@pytest.mark.parametrize("name", ["grantproxy.yaml", "token"])
def test_second_names_of_what_decides(place: Path, name: str) -> None:
    """Of settings and of secrets; that they are in the working directory themselves is no second name."""
    config = place / "work" / "grantproxy.yaml"
    config.write_text(
        "state: ../state\nproxy: 127.0.0.1:0\nendpoints:\n"
        "  - {name: a, upstream: https://a.example, assurance: trusted-upstream, secrets: {s: 'file:token'}}\n"
    )
    (place / "work" / "token").write_text("key-0123456789")
    settings = load_settings(config)
    hold(settings, config, hidden(settings, config), place / "work", {})
    os.link(place / "work" / name, place / "work" / "deep" / "copy")
    assert (place / "work" / name).stat().st_nlink == 2
    assert stat.S_ISREG((place / "work" / "deep" / "copy").stat().st_mode)
    with pytest.raises(IsolationRefused, match="a hard link"):
        hold(settings, config, hidden(settings, config), place / "work", {})


def test_second_name_of_settings_that_are_not_used(place: Path) -> None:
    """What the next command would find by its name in the working directory decides too, whatever this one reads."""
    config = place / "base" / "a.yaml"
    config.write_text(
        "state: ../state\nproxy: 127.0.0.1:0\nendpoints: [{upstream: https://a.example, assurance: trusted-upstream}]\n"
    )
    settings = load_settings(config)
    (place / "work" / "grantproxy.yaml").touch()
    hold(settings, config, hidden(settings, config), place / "work", {})
    os.link(place / "work" / "grantproxy.yaml", place / "work" / "deep" / "copy")
    with pytest.raises(IsolationRefused, match=r"work/grantproxy\.yaml` has a second name"):
        hold(settings, config, hidden(settings, config), place / "work", {})


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        pytest.param("postgresql://u@h/d", {"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY"}, id="postgresql"),
        pytest.param("postgresql://u:p%40ss-0123@h/d", {"PGPASSWORD", "DATABASE_URL", "PLAIN"}, id="password"),
        pytest.param(
            "postgresql://h/d?password=p%40ss-0123", {"PGPASSWORD", "DATABASE_URL", "PLAIN"}, id="password-after"
        ),
        pytest.param("sqlite:///b.db", set(), id="sqlite"),
    ],
)
def test_variables_of_the_database(place: Path, url: str, variables: set[str]) -> None:
    """Those that its client reads, and those that hold the password of its URL."""
    config = place / "base" / "grantproxy.yaml"
    config.write_text(BROKER % f'database: "{url}"')
    environment = {
        "DATABASE_URL": "postgres://u:p%40ss-0123@other/d",
        "PLAIN": "p@ss-0123",
        "PGPASSFILE": str(place / "work" / "pgpass"),
        "MINE": "kept",
    }
    found = hidden(load_settings(config), config, environment)
    assert variables <= found.variables
    assert "MINE" not in found.variables
    assert (place / "work" / "pgpass" in found.files) is url.startswith("postgresql")
