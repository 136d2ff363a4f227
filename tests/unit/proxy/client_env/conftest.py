"""A state directory with a CA."""

from pathlib import Path

import pytest

from proxy.tls.ca import CA, load_ca


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """An empty state directory, with a space in its name."""
    path = tmp_path / "my state"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def ca(state: Path) -> CA:
    return load_ca(state)
