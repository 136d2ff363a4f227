"""git against its own server program: the credential of a helper or of a URL is a reference, and git never learns
another. It asks without one first, is told 401, and asks again with Basic."""

import base64
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest
from support.clients import REFERENCE, SECRET, World, needs

pytestmark = needs("git")

HELPER = f"!f() {{ echo username=x-access-token; echo password={REFERENCE}; }}; f"
ENCODED = REFERENCE.replace("@", "%40").replace(":", "%3A")
BASIC = b"Basic " + base64.b64encode(f"x-access-token:{SECRET}".encode())


@pytest.fixture
def repository(repositories: Path) -> str:
    """The name of a bare repository with one commit, on the server."""
    name = f"{uuid4().hex}.git"
    served, work = repositories / name, repositories / f"{name}.work"
    quiet = {"capture_output": True, "check": True, "timeout": 60}
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(served)], **quiet)  # type: ignore[call-overload]
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], **quiet)  # type: ignore[call-overload]
    (work / "README").write_text("hello\n" * 1000)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["add", "."], [*identity, "commit", "-q", "-m", "one"], ["push", "-q", str(served), "main"]):
        subprocess.run(["git", "-C", str(work), *command], **quiet)  # type: ignore[call-overload]
    return name


def git(world: World, *arguments: str, cwd: Path | None = None, check: bool = True) -> str:
    identity = ["-c", "user.name=agent", "-c", "user.email=agent@example.com", "-c", "init.defaultBranch=main"]
    return world.run("git", *identity, *arguments, cwd=cwd, check=check, GIT_TERMINAL_PROMPT="0")


def configure(world: World, way: str, url: str) -> str:
    """How git comes by the reference; the URL that it is given."""
    if way == "helper":
        git(world, "config", "--global", "credential.helper", HELPER)
        return url
    return url.replace("://", f"://x-access-token:{ENCODED}@")


@pytest.mark.parametrize("way", ["helper", "url"])
@pytest.mark.parametrize("front", ["proxy", "base"])
def test_clone_and_push(world: World, repository: str, repositories: Path, front: str, way: str) -> None:
    """Both directions, by credential helper and by URL, through both fronts; what was pushed is there."""
    base = "https://git.example" if front == "proxy" else world.told["GIT_URL"]
    url = configure(world, way, f"{base}/{repository}")
    git(world, "clone", "-q", url, "work")
    work = world.home / "work"
    assert (work / "README").read_text().startswith("hello")
    (work / "big").write_bytes(bytes(range(256)) * 8192)  # more than git sends in one piece
    git(world, "add", ".", cwd=work)
    git(world, "commit", "-q", "-m", "two", cwd=work)
    git(world, "push", "-q", "origin", "main", cwd=work)
    log = ["git", "-C", str(repositories / repository), "log", "--format=%an %s", "main"]
    assert subprocess.run(log, capture_output=True, text=True, check=True).stdout == "agent two\na one\n"
    found = world.asked("git.example")
    assert found[0].get("authorization") is None
    assert {request.get("authorization") for request in found[1:]} <= {BASIC, None}
    assert SECRET not in "".join(file.read_text() for file in world.home.rglob("config"))
    assert world.fronts() == {"proxy" if front == "proxy" else "terminate"}


def test_a_box(boxed: World, repository: str) -> None:
    """The token in the proxy's URL and the reference for the server are two credentials, each shown where it is for."""
    git(boxed, "config", "--global", "credential.helper", HELPER)
    git(boxed, "clone", "-q", f"https://git.example/{repository}", "work")
    assert (boxed.home / "work" / "README").exists()
    assert {record["box"] for record in boxed.proxy.decisions() if record["verdict"] == "allow"} == {"agent-1"}


def test_without_a_credential_git_is_told(world: World, repository: str) -> None:
    """The server's 401 reaches git as it came."""
    said = git(world, "clone", f"https://git.example/{repository}", "work", check=False)
    assert "could not read Username" in said


def test_a_repository_by_instead_of(world: World, repository: str) -> None:
    """Where there is no forward proxy, git's own names of repositories lead to the base URL."""
    told = world.told["GIT_URL"]
    variables = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{told}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://git.example/",
    }
    git(world, "config", "--global", "credential.helper", HELPER)
    world.run("git", "clone", "-q", f"https://git.example/{repository}", "work", GIT_TERMINAL_PROMPT="0", **variables)
    assert world.fronts() == {"terminate"}
