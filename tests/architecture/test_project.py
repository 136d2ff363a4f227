"""What ships: the typing marker, schemas, locks with hashes and no address in them, one version."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["runtime.txt", "dev.txt", "bench.txt"])
def test_locks_have_hashes_and_no_address(name: str) -> None:
    """Every package is locked by hash, and whoever installs chooses where from."""
    text = (ROOT / "requirements" / name).read_text()
    assert "://" not in text
    assert "--index" not in text
    requirements = re.split(r"\n(?=\S)", text.strip())
    assert all("--hash=sha256:" in requirement for requirement in requirements)


def test_the_lock_covers_the_project() -> None:
    """Each dependency that the project names is in the lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime, dev = ((ROOT / "requirements" / name).read_text() for name in ("runtime.txt", "dev.txt"))
    for wanted, text in (
        *((name, runtime) for name in project["project"]["dependencies"]),
        *((name, dev) for name in project["dependency-groups"]["dev"]),
    ):
        name = re.split(r"[<>=!~ \[]", wanted)[0].lower().replace("_", "-")
        assert re.search(rf"^{re.escape(name)}==", text, re.MULTILINE), name


@pytest.mark.parametrize("package", ["grants", "addons", "proxy"])
def test_packages_are_typed(package: str) -> None:
    """Types are part of what ships (PEP 561)."""
    assert (ROOT / package / "py.typed").exists()


def test_setup_says_where_the_program_is() -> None:
    """`make setup` ends with the line that puts the program on the path."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make")
    done = subprocess.run([make, "-n", "setup"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f'export PATH="{ROOT}/.venv/bin:$PATH"' in done.stdout
