"""What an isolated program sees, and what makes that impossible."""

import os
import socket
import stat
from pathlib import Path

import pytest

from proxy.run.bubblewrap import arguments, can_forbid_nesting
from proxy.run.configuration import copied
from proxy.run.kernel import MASKED, masks
from proxy.run.mounts import Empty, Link, Mount, Show
from proxy.run.placeholder import MARK
from proxy.run.refused import IsolationRefused
from proxy.run.view import Wish, hold_work, view
from proxy.run.visible import covering, shown


def wish(root: Path, **changes: object) -> Wish:
    """A wish with everything in `root`, which stands for a disk."""
    for name in ("work/conf", "home", "state/trust", "python", "elsewhere/keys"):
        (root / name).mkdir(parents=True, exist_ok=True)
    values: dict[str, object] = {
        "work": root / "work",
        "home": root / "home",
        "show": (),
        "interpreter": (root / "python",),
        "ours": (),
        "rules": (),
        "secrets": (),
        "state": root / "state",
        "trust": root / "state" / "trust",
        "extra": (),
        "etc": (Show(Path("/etc"), root / "etc", copied=True),),
    }
    return Wish(**{**values, **changes})  # type: ignore[arg-type]


def after(mounts: tuple[Mount, ...], path: Path) -> tuple[Mount, ...]:
    """The mounts behind the one of `path`."""
    paths = [mount.path for mount in mounts]
    return mounts[paths.index(path) + 1 :]


def test_the_system_is_read_only_and_what_is_private_is_empty(tmp_path: Path) -> None:
    """Only the working directory is writable, and nothing of the host's `/tmp`, `/run`, `/var` or home is there."""
    mounts = view(wish(tmp_path))
    assert [mount.path for mount in mounts if isinstance(mount, Show) and mount.writable] == [tmp_path / "work"]
    assert Show(Path("/usr"), Path("/usr")) in mounts
    for path in ("/tmp", "/var", "/run", tmp_path / "home"):
        assert Empty(Path(path)) in mounts
    assert not any(str(mount.path).startswith(("/sys", "/dev", "/boot", "/opt", "/nix/var")) for mount in mounts)
    assert {mount for mount in mounts if mount.path.is_relative_to("/proc")} == set(masks())


def test_what_is_masked_of_the_kernel(tmp_path: Path) -> None:
    """What this kernel has of the list: a directory is empty, a file is nothing."""
    (tmp_path / "acpi").mkdir()
    (tmp_path / "kcore").touch()
    (tmp_path / "meminfo").touch()
    assert set(masks(tmp_path)) == {
        Empty(tmp_path / "acpi", closed=True),
        Show(tmp_path / "kcore", Path("/dev/null")),
    }
    assert {"sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "kcore", "keys", "timer_list"} <= set(MASKED)


@pytest.mark.parametrize(
    ("name", "mode", "covered"),
    [
        pytest.param("hosts", 0o644, False, id="everybody"),
        pytest.param("shadow", 0o640, True, id="group"),
        pytest.param("key.pem", 0o600, True, id="owner"),
        pytest.param("conf/hosts", 0o644, False, id="deeper"),
        pytest.param("conf/key.pem", 0o600, True, id="deeper-owner"),
        pytest.param("closed/key.pem", 0o644, True, id="directory"),
        pytest.param("link", 0o120777, False, id="link"),
        pytest.param("socket", 0o140777, True, id="socket"),
        pytest.param("pipe", 0o010666, True, id="pipe"),
    ],
)
def test_configuration_is_what_everybody_may_read(tmp_path: Path, name: str, mode: int, covered: bool) -> None:
    """Files, directories, sockets and pipes of `/etc`, at any depth: what is covered stands there without a byte."""
    etc, copy = tmp_path / "etc", tmp_path / "copy"
    (etc / "conf").mkdir(parents=True, mode=0o755)
    (etc / "closed").mkdir(mode=0o700)
    path = etc / name
    if stat.S_ISLNK(mode):
        path.symlink_to("/dev/zero")
    elif stat.S_ISSOCK(mode):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(path))
    elif stat.S_ISFIFO(mode):
        os.mkfifo(path)
    else:
        path.write_text("text")
        path.chmod(mode)
    mounts = copied(copy, etc)
    assert mounts == (Show(etc, copy, copied=True), Empty(etc / "closed", closed=True))
    assert shown(path, mounts) is not covered
    made = copy / name
    assert list((copy / "closed").iterdir()) == []
    if made.is_symlink():
        assert os.readlink(made) == "/dev/zero"
    elif name != "closed/key.pem":
        assert made.is_file()
        assert made.stat().st_size == (0 if covered else 4)
        assert stat.S_IMODE(made.stat().st_mode) == (0 if covered else mode)


def test_configuration_that_comes_later(tmp_path: Path) -> None:
    """What is put into `/etc`, or in the place of something there, while the program runs is not seen."""
    etc, copy = tmp_path / "etc", tmp_path / "copy"
    (etc / "conf").mkdir(parents=True)
    (etc / "conf" / "open").write_text("before")
    copied(copy, etc)
    (etc / "conf" / "new").write_text("private")
    (etc / "new").write_text("private")
    os.replace(etc / "new", etc / "conf" / "open")
    assert sorted(path.name for path in copy.rglob("*")) == ["conf", "open"]
    assert (copy / "conf" / "open").read_text() == "before"


def test_configuration_that_cannot_be_copied(tmp_path: Path) -> None:
    """It is refused, as half of it could be what matters."""
    with pytest.raises(IsolationRefused, match=r"cannot be made in .* make room there"):
        copied(tmp_path / "absent" / "copy", tmp_path)


@pytest.mark.parametrize(
    ("secret", "closed"),
    [
        pytest.param("work/conf/token", "work/conf", id="in-the-working-directory"),
        pytest.param("elsewhere/keys/token", None, id="not-shown"),
        pytest.param("home/token", None, id="in-the-home"),
    ],
)
@pytest.mark.parametrize("around", [True, False])
def test_directories_with_secrets_are_closed(tmp_path: Path, secret: str, closed: str | None, around: bool) -> None:
    """The directory of each secret that would be seen is empty and stays so, also where somebody shows what is around
    it."""
    made = wish(tmp_path, secrets=(tmp_path / secret,), show=(tmp_path / "elsewhere",) if around else ())
    mounts = view(made)
    wanted = closed or ("elsewhere/keys" if around and secret.startswith("elsewhere") else None)
    shut = {mount.path for mount in mounts if mount == Empty(mount.path, closed=True)}
    assert sorted(path for path in shut if path.is_relative_to(tmp_path)) == ([tmp_path / wanted] if wanted else [])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"work": "/"}, "which others use", id="root"),
        pytest.param({"work": "/tmp"}, "which others use", id="tmp"),
        pytest.param({"work": "/proc/self"}, "which others use", id="proc"),
        pytest.param({"work": "home"}, "holds your home", id="home"),
        pytest.param({"work": "."}, "holds your home", id="above-the-home"),
        pytest.param({"work": "state"}, "in the state directory", id="state"),
        pytest.param({"work": "state/trust"}, "in the state directory", id="below-state"),
        pytest.param({"secrets": ("work/token",)}, "move it into one of its own", id="secret-beside-the-work"),
        pytest.param({"secrets": ("/etc/token",)}, "move it into one of its own", id="secret-in-etc"),
        pytest.param({"show": ("absent",)}, "does not exist", id="show-nothing"),
        pytest.param({"show": ("work",)}, "is the working directory, which is writable", id="show-the-work"),
    ],
)
def test_what_leaves_no_way(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    """Where nothing can be hidden it is refused, with what would help."""
    given = {
        key: tuple(tmp_path / text for text in value) if isinstance(value, tuple) else tmp_path / str(value)
        for key, value in changes.items()
    }
    with pytest.raises(IsolationRefused, match=says):
        view(wish(tmp_path, **given))


@pytest.mark.parametrize(
    ("work", "says"),
    [
        pytest.param("/usr", "is in `/usr`", id="usr"),
        pytest.param("/usr/lib/python3", "is in `/usr`", id="below-usr"),
        pytest.param("/etc/grantproxy", "is in `/etc`", id="etc"),
        pytest.param("/nix/store/x", "is in `/nix/store`", id="store"),
        pytest.param("/usr/src", "is in `/usr`", id="sources"),
        pytest.param("/usr/src/app", None, id="a-project-in-the-sources"),
        pytest.param("/opt/app", None, id="opt"),
        pytest.param("/pythons/3.13/lib/site-packages", "is in `/pythons/3.13`", id="python"),
        pytest.param("/", "which others use", id="root"),
    ],
)
def test_directories_of_programs(work: str, says: str | None) -> None:
    """The working directory is a project's: where programs are installed nothing is made writable."""
    if says is None:
        hold_work(Path(work), Path("/home/me"), (Path("/pythons/3.13"),))
        return
    with pytest.raises(IsolationRefused, match=says):
        hold_work(Path(work), Path("/home/me"), (Path("/pythons/3.13"),))


@pytest.mark.parametrize("name", ["work/conf/a.grant.yaml", "work/grantproxy.yaml", "work/a/b/c/ca.pem"])
def test_what_decides_is_read_only_and_stays_where_it_is(tmp_path: Path, name: str) -> None:
    """Settings and grants in the working directory are mounts, and so is each directory on the way."""
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    made = wish(tmp_path, rules=(file,))
    file.touch()
    behind = after(view(made), tmp_path / "work")
    way = [parent for parent in reversed(file.parents) if tmp_path / "work" in parent.parents]
    assert behind[: len(way) + 1] == (
        *(Show(parent, parent, writable=True) for parent in way),
        Show(file, file),
    )


@pytest.mark.parametrize("what", ["rules", "secrets", "state"])
@pytest.mark.parametrize(
    ("link", "path"),
    [
        pytest.param("work/link", "work/link", id="itself"),
        pytest.param("work/link", "work/link/below/it", id="on-the-way"),
        pytest.param("work/conf/link", "work/conf/link/below", id="deeper"),
        pytest.param("elsewhere/link", "elsewhere/link", id="outside"),
        pytest.param("work/link", "elsewhere/first", id="a-later-hop"),
    ],
)
def test_links_in_the_working_directory(tmp_path: Path, what: str, link: str, path: str) -> None:
    """What is named by a link that the program could change is refused; else it is protected where it really is."""
    made = wish(tmp_path)
    target = tmp_path / "work" / "deep" / "target"
    target.mkdir(parents=True)
    (tmp_path / link).symlink_to(target)
    (tmp_path / "elsewhere" / "first").symlink_to(tmp_path / "work" / "link")
    given = tmp_path / path
    made = wish(tmp_path, **{what: given if what == "state" else (given,)})
    if link.startswith("work"):
        with pytest.raises(IsolationRefused, match="is a link in the working directory"):
            view(made)
        return
    covered = {"rules": Show(target, target), "secrets": Empty(target.parent, closed=True)}
    assert covered.get(what, Empty(target, closed=True)) in view(made)


@pytest.mark.parametrize(
    ("named", "links"),
    [
        pytest.param("home", {}, id="no-link"),
        pytest.param("me", {"me": "home"}, id="the-home"),
        pytest.param("first/below", {"first": "second", "second": "elsewhere"}, id="two-links"),
        pytest.param("work/link", {}, id="in-what-is-shown"),
    ],
)
def test_links_are_made_again(tmp_path: Path, named: str, links: dict[str, str]) -> None:
    """The home, the working directory and what is shown are found by the names that they were given by."""
    made = wish(tmp_path, named=(tmp_path / named,))
    for name, target in (("me", "home"), ("first", "second"), ("second", "elsewhere"), ("work/link", "../home")):
        (tmp_path / name).symlink_to(target)
    found = {mount for mount in view(made) if isinstance(mount, Link) and mount.path.is_relative_to(tmp_path)}
    assert found == {Link(tmp_path / name, target) for name, target in links.items()}


@pytest.mark.parametrize(
    ("what", "name", "writable"),
    [
        pytest.param({}, "work/vendor/a", False, id="itself"),
        pytest.param({}, "work/other", True, id="beside-it"),
        pytest.param({"rules": ("work/vendor/conf/a.yaml",)}, "work/vendor/a", False, id="rules-in-it"),
        pytest.param({"rules": ("work/vendor/conf/a.yaml",)}, "work/vendor/conf/b", False, id="beside-rules-in-it"),
        pytest.param({"secrets": ("work/vendor/conf/token",)}, "work/vendor/a", False, id="secrets-in-it"),
        pytest.param({"state": "work/vendor/conf"}, "work/vendor/a", False, id="state-in-it"),
        pytest.param({"show": ("work/vendor", "work/vendor/conf")}, "work/vendor/a", False, id="twice"),
        pytest.param({"show": ("work/vendor/conf", "work/vendor")}, "work/vendor/conf/a", False, id="inner-first"),
    ],
)
def test_what_is_shown_of_the_work_is_read_only(
    tmp_path: Path, what: dict[str, object], name: str, writable: bool
) -> None:
    """As all that is shown, whatever is protected in it."""
    (tmp_path / "work" / "vendor" / "conf").mkdir(parents=True)
    for file in ("a.yaml", "token"):
        (tmp_path / "work" / "vendor" / "conf" / file).touch()
    given = {"show": ("work/vendor",), **what}
    mounts = view(
        wish(
            tmp_path,
            **{
                key: tuple(tmp_path / text for text in value) if isinstance(value, tuple) else tmp_path / str(value)
                for key, value in given.items()
            },
        )
    )
    mount = covering(tmp_path / name, mounts)
    assert isinstance(mount, Show)
    assert mount.writable is writable


@pytest.mark.parametrize(
    ("content", "source"),
    [(b"proxy: 127.0.0.1:0", None), (MARK, Path("/dev/null")), (MARK + b"x", None)],
    ids=["settings", "placeholder", "more-than-that"],
)
def test_settings_that_are_not_used(tmp_path: Path, content: bytes, source: Path | None) -> None:
    """What the next command would find by its name is read-only, though this one has its settings elsewhere."""
    made = wish(tmp_path)
    file = tmp_path / "work" / "grantproxy.yaml"
    file.write_bytes(content)
    assert covering(file, view(made)) == Show(file, source or file)
    file.rename(tmp_path / "elsewhere" / "a.yaml")
    file.symlink_to(tmp_path / "elsewhere" / "a.yaml")
    with pytest.raises(IsolationRefused, match="is a link in the working directory"):
        view(made)


VERSIONS = [
    pytest.param("sh/current/token", {"sh/current": "data/v1"}, "come to by the link", id="a-version"),
    pytest.param("now/token", {"now": "sh/data/v1"}, "come to by the link", id="a-version-from-outside"),
    pytest.param("sh/now/token", {"sh/now": "../other/v1"}, "come to by the link", id="a-version-outside"),
    pytest.param("sh/data/v1/token", {}, None, id="no-link"),
    pytest.param("sh/data/v1/now", {"sh/data/v1/now": "token"}, None, id="link-in-the-closed-directory"),
    pytest.param("other/v1/token", {"sh/now": "../other/v1"}, None, id="another-way"),
    pytest.param("sh/data/token", {"sh/data/token": "..now/token", "sh/data/..now": "v1"}, None, id="closed-around"),
    pytest.param("other/now/token", {"other/now": "v1"}, None, id="not-shown"),
    pytest.param("sh/data/v1", {}, "is shown itself", id="itself"),
]


@pytest.mark.parametrize(("secret", "links", "says"), VERSIONS)
def test_versions_of_secrets(tmp_path: Path, secret: str, links: dict[str, str], says: str | None) -> None:
    """Where a link leads to the secret, what it leads to next must not be seen either."""
    for name in ("sh/data/v1", "other/v1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "token").touch()
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    made = wish(tmp_path, show=(tmp_path / "sh",), secrets=(tmp_path / secret,))
    if says == "is shown itself":
        made = wish(tmp_path, show=(tmp_path / "sh/data/v1/token",), secrets=(tmp_path / "sh/data/v1/token",))
    if says is None:
        assert not shown(Path(os.path.realpath(tmp_path / secret)), view(made))
        return
    with pytest.raises(IsolationRefused, match=says):
        view(made)


@pytest.mark.parametrize(
    ("show", "refused"),
    [("sh", True), ("sh/deep/copy", True), ("other", False)],
    ids=["tree", "file", "elsewhere"],
)
def test_second_names_of_secrets_that_are_shown(tmp_path: Path, show: str, refused: bool) -> None:
    """A hard link below a path that is shown gives what the closed directory hides."""
    for name in ("sh/deep", "other", "keys"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "keys" / "token").touch()
    os.link(tmp_path / "keys" / "token", tmp_path / "sh" / "deep" / "copy")
    made = wish(tmp_path, show=(tmp_path / show,), secrets=(tmp_path / "keys" / "token",))
    if not refused:
        view(made)
        return
    with pytest.raises(IsolationRefused, match=r"has a second name, .*sh/deep/copy"):
        view(made)


def test_rules_elsewhere_need_no_mount(tmp_path: Path) -> None:
    """What the program does not see needs no protection."""
    file = tmp_path / "elsewhere" / "a.yaml"
    file.parent.mkdir(parents=True)
    file.touch()
    assert file not in [mount.path for mount in view(wish(tmp_path, rules=(file,)))]


def test_state_in_the_working_directory(tmp_path: Path) -> None:
    """It is closed, what is public of it is shown again, and our own code there is read-only."""
    (tmp_path / "work" / "var" / "state" / "trust").mkdir(parents=True)
    (tmp_path / "work" / ".venv").mkdir()
    state = tmp_path / "work" / "var" / "state"
    mounts = view(wish(tmp_path, state=state, trust=state / "trust", ours=(tmp_path / "work" / ".venv",)))
    assert after(mounts, tmp_path / "work") == (
        Show(tmp_path / "work" / ".venv", tmp_path / "work" / ".venv"),
        Show(tmp_path / "work" / "var", tmp_path / "work" / "var", writable=True),
        Empty(state, closed=True),
        Show(state / "trust", state / "trust"),
    )


def test_the_command_line_of_bubblewrap() -> None:
    """Each mount in its order; what is closed, and the root, is read-only at the end; no capability; a session of its
    own where the terminal could be written to."""
    mounts = (
        Link(Path("/bin"), "usr/bin"),
        Show(Path("/usr"), Path("/usr")),
        Empty(Path("/tmp")),
        Show(Path("/w"), Path("/w"), writable=True),
        Empty(Path("/w/s"), closed=True),
    )
    line = " ".join(arguments("bwrap", mounts, Path("/w"), session=True, nested=True, stderr=7))
    assert "/private.py 7 -- bwrap --unshare-user --unshare-net --unshare-pid --unshare-ipc --unshare-uts " in line
    for part in ("--die-with-parent", "--cap-drop ALL", "--new-session", "--disable-userns", "--as-pid-1"):
        assert f" {part} " in line
    assert line.endswith(
        " --dev /dev --proc /proc --symlink usr/bin /bin"
        " --ro-bind /usr /usr --perms 1777 --tmpfs /tmp --bind /w /w --perms 0700 --tmpfs /w/s"
        " --remount-ro /w/s --remount-ro /proc --remount-ro / --chdir /w --"
    )
    plain = arguments("bwrap", (), Path("/w"), session=False, nested=False, stderr=7)
    assert not {"--new-session", "--disable-userns"} & set(plain)


@pytest.mark.parametrize(
    ("version", "can"),
    [
        ("bubblewrap 0.8.0\n", True),
        ("bubblewrap 0.11.0", True),
        ("bubblewrap 1.0.0", True),
        ("bubblewrap 0.6.1", False),
        ("bubblewrap", False),
        ("", False),
    ],
)
def test_versions(version: str, can: bool) -> None:
    """--disable-userns came with 0.8; what cannot be read has it not."""
    assert can_forbid_nesting(version) is can
