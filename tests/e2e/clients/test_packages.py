"""Package managers against registries that want a credential, which the clients do not have."""

import subprocess
import sys
from pathlib import Path

from support.client_apis import CRATE
from support.clients import REFERENCE, World, needs

ENCODED = REFERENCE.replace("@", "%40").replace(":", "%3A")
INDEX = f"https://__token__:{ENCODED}@pypi.example/simple/"


def installed(folder: Path) -> str:
    """What the installed Python package says."""
    command = [sys.executable, "-c", "import demo_of_ours; print(demo_of_ours.GREETING)"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_pip(place: World) -> None:
    """pip takes the reference out of the index's URL, with its escapes, and sends it as Basic."""
    target = place.home / "target"
    arguments = ["install", "-q", "--isolated", "--no-deps", "--target", str(target), "--index-url", INDEX]
    place.run(sys.executable, "-m", "pip", *arguments, "demo-of-ours", PIP_CONFIG_FILE="/dev/null")
    assert installed(target) == "installed"
    assert place.fronts() == {"proxy"}


def test_pip_by_base_url(world: World) -> None:
    """By `PIP_INDEX_URL` alone."""
    target = world.home / "target"
    url = world.told["PYPI_URL"].replace("://", f"://__token__:{ENCODED}@")
    more = {"PIP_INDEX_URL": f"{url}/simple/", "PIP_CONFIG_FILE": "/dev/null"}
    world.run(sys.executable, "-m", "pip", "install", "-q", "--target", str(target), "demo-of-ours", **more)
    assert installed(target) == "installed"
    assert world.fronts() == {"terminate"}


def test_uv(place: World) -> None:
    """uv reads `SSL_CERT_FILE` and the proxy's variables."""
    target = place.home / "target"
    arguments = [
        "pip",
        "install",
        "-q",
        "--no-config",
        "--no-deps",
        "--python",
        sys.executable,
        "--target",
        str(target),
    ]
    place.run(sys.executable, "-m", "uv", *arguments, "--index-url", INDEX, "demo-of-ours")
    assert installed(target) == "installed"
    assert place.fronts() == {"proxy"}


@needs("npm")
def test_npm(place: World) -> None:
    """npm holds no token: the proxy attaches it by host."""
    (place.home / "package.json").write_text('{"private": true}')
    place.run(
        "npm", "install", "--registry", "https://npm.example/", "--no-audit", "--no-fund", "--silent", "demo-of-ours"
    )
    assert place.run("node", "-p", "require('demo-of-ours')") == "installed\n"
    assert place.fronts() == {"proxy"}


@needs("cargo")
def test_cargo(place: World) -> None:
    """cargo reads a sparse index and fetches a crate from it."""
    (place.home / "src").mkdir()
    (place.home / "src" / "lib.rs").write_text("")
    (place.home / "Cargo.toml").write_text(
        '[package]\nname = "mine"\nversion = "0.1.0"\nedition = "2021"\n'
        '[dependencies]\ndemo-of-ours = { version = "1", registry = "ours" }\n'
    )
    place.run("cargo", "fetch", "-q", CARGO_REGISTRIES_OURS_INDEX="sparse+https://crates.example/")
    assert [path.read_bytes() for path in place.home.rglob("demo-of-ours-1.0.0.crate")] == [CRATE]
    assert place.fronts() == {"proxy"}
