"""What the pages' commands and the helps' examples are run with."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def grantproxy(tmp_path: Path) -> Path:
    """A folder with `grantproxy` as people have it, before everything else on the path."""
    binary = tmp_path / "bin" / "grantproxy"
    binary.parent.mkdir()
    binary.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m proxy.cli "$@"\n')
    binary.chmod(0o755)
    return binary.parent
