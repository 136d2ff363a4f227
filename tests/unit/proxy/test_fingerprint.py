"""Settings that differ in anything have another digest."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.settings import load_settings
from proxy.settings.fingerprint import fingerprint
from proxy.settings.model import Settings

ROOT = Path(__file__).parents[3]
BASE: dict[str, Any] = {
    "proxy": "127.0.0.1:1",
    "state": "/nowhere",
    "endpoints": [
        {
            "name": "api",
            "upstream": "https://api.example/v1",
            "assurance": "trusted-upstream",
            "secrets": {"a": "env:A", "b": "env:B"},
            "inject": {"X-A": "@secret:a"},
            "listen": "127.0.0.1:2",
        },
        {"name": "judged", "upstream": "https://j.example", "assurance": "semantic", "grant": "g.yaml"},
    ],
    "boxes": [{"name": "one", "token": "env:T", "endpoints": ["api", "judged"]}],
    "tunnels": {"allow": ["pypi.org:443"]},
    "broker": {
        "listen": "127.0.0.1:3",
        "word": "lobby",
        "anthropic": {"url": "https://a.example", "credential": "env:H"},
        "secrets": [{"name": "S", "host": "https://s.example", "value": "env:V"}],
        "capabilities": [
            {
                "name": "search",
                "routes": ["/search"],
                "upstream": {"url": "https://s.example", "credential": {"header": "X-K", "value": "env:K"}},
                "scopes": [{"method": "GET", "path": "/search/{x}", "words": ["read", "write"]}],
            }
        ],
    },
}


def load(folder: Path, document: dict[str, Any], grant: str = "") -> Settings:
    text = (ROOT / "examples" / "github-issues.grant.yaml").read_text()
    (folder / "g.yaml").write_text(text.replace("maxBytes: 128", f"maxBytes: {grant}") if grant else text)
    (folder / "s.yaml").write_text(json.dumps(document))
    return load_settings(folder / "s.yaml")


def changed(*path: str | int, to: object) -> dict[str, Any]:
    document: Any = json.loads(json.dumps(BASE))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return document  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param((("proxy",), "127.0.0.1:9"), id="proxy"),
        pytest.param((("endpoints", 0, "upstream"), "https://api.example/v2"), id="upstream"),
        pytest.param((("endpoints", 0, "secrets", "a"), "env:C"), id="secret"),
        pytest.param((("endpoints", 0, "inject", "X-A"), "@secret:b"), id="inject"),
        pytest.param((("endpoints", 0, "listen"), "unix:x"), id="listen"),
        pytest.param((("boxes", 0, "endpoints"), ["api"]), id="box"),
        pytest.param((("boxes", 0, "tunnels"), True), id="box-tunnels"),
        pytest.param((("tunnels", "allow"), [".pypi.org:443"]), id="tunnel"),
        pytest.param((("limits",), {"clients": 9}), id="limits"),
        pytest.param((("workers",), 2), id="workers"),
        pytest.param((("broker", "word"), "other"), id="word"),
        pytest.param((("broker", "database"), "postgresql://u:p@h/b"), id="database"),
        pytest.param((("broker", "secrets", 0, "value"), "env:W"), id="broker-secret"),
        pytest.param((("broker", "capabilities", 0, "scopes", 0, "words"), ["read"]), id="words"),
        pytest.param((("broker", "capabilities", 0, "scopes", 0, "path"), "/search/**"), id="path"),
    ],
)
def test_every_change_shows(tmp_path: Path, path: tuple[tuple[str | int, ...], object]) -> None:
    """Whatever part of the settings it is in."""
    before = fingerprint(load(tmp_path, BASE))
    assert fingerprint(load(tmp_path, BASE)) == before
    assert fingerprint(load(tmp_path, changed(*path[0], to=path[1]))) != before


def test_a_grant_goes_in_by_its_digest(tmp_path: Path) -> None:
    """The settings file is the same, the grant is not."""
    loaded = load(tmp_path, BASE)
    grant = loaded.endpoints[1].grant
    assert grant is not None
    other = replace(loaded.endpoints[1], grant=replace(grant, digest="sha256:other"))
    assert fingerprint(replace(loaded, endpoints=(loaded.endpoints[0], other))) != fingerprint(loaded)


def test_it_is_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever order its sets happen to have."""
    before = fingerprint(load(tmp_path, BASE))
    program = (
        "from pathlib import Path\nfrom proxy.settings import load_settings\n"
        "from proxy.settings.fingerprint import fingerprint\n"
        f"print(fingerprint(load_settings(Path({str(tmp_path / 's.yaml')!r}))))"
    )
    for seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == before


def test_what_has_no_digest_is_an_error(tmp_path: Path) -> None:
    """Left out, it would make settings alike that differ."""
    loaded = replace(load(tmp_path, BASE), directory=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no digest"):
        fingerprint(loaded)
