"""`grantproxy check` and `serve` refuse, with file, line and column, whatever would let one part undo another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.proxyproc import ROOT

RELAY = ["name: llm", "upstream: https://llm.example", "assurance: trusted-upstream"]
HELD = ["name: api", "upstream: https://api.example", "assurance: semantic", "grant: g.yaml"]
BOX = "boxes: [{name: a, token: env:A}]"


def endpoint(base: list[str], *more: str, without: str = "") -> str:
    """One item of `endpoints`; a line of `more` stands in for the line of its key."""
    given = {line.partition(":")[0] for line in more}
    lines = [line for line in base if line.partition(":")[0] not in given | {without}] + list(more)
    return "  - " + "\n    ".join(lines) + "\n"


def settings(*endpoints: str, proxy: str = "127.0.0.1:0", more: str = "") -> str:
    """A file whose first endpoint begins in line 3, or in line 2 where there is no proxy."""
    return (f"proxy: {proxy}\n" if proxy else "") + "endpoints:\n" + "".join(endpoints) + more


REFUSED = [
    pytest.param(settings(endpoint(RELAY, without="assurance")), "3:5: endpoints[0].assurance: is missing", id="no-assurance"),
    pytest.param(settings(endpoint(HELD, without="grant")), "3:5: endpoints[0].grant: is missing", id="semantic-without-grant"),
    pytest.param(settings(endpoint(HELD, "upstream: http://api.example")), "6:15: endpoints[0].upstream: is not https", id="semantic-with-http"),
    pytest.param(settings(endpoint(RELAY, "grant: g.yaml")), "6:5: endpoints[0].grant: is not held by `trusted-upstream`", id="relay-with-grant"),
    pytest.param(settings(endpoint(HELD, "websocket: true")), "7:16: endpoints[0].websocket: is only for `trusted-upstream`", id="semantic-with-websocket"),
    pytest.param(settings(endpoint(HELD), endpoint(RELAY, "upstream: https://api.example")), "9:15: endpoints[1].upstream: has the host and port of `api`", id="one-host-twice"),
    pytest.param(settings(endpoint(RELAY), proxy=""), "2:5: endpoints[0].listen: is missing, and `proxy` is too", id="no-front"),
    pytest.param(settings(endpoint(HELD), more="tunnels: {allow: ['api.example:443']}\n"), "7:19: tunnels.allow[0]: is `api.example:443`, which covers the host of endpoint `api`", id="tunnel-to-a-semantic-host"),
    pytest.param(settings(endpoint(HELD), more="tunnels: {allow: ['.example:443']}\n"), "7:19: tunnels.allow[0]: is `.example:443`, which covers the host of endpoint `api`", id="suffix-over-a-semantic-host"),
    pytest.param(settings(endpoint(RELAY, "listen: 127.0.0.1:0"), proxy="", more="tunnels: {allow: ['a.example:443']}\n"), "6:1: tunnels: need `proxy`", id="tunnels-without-proxy"),
    pytest.param(settings(endpoint(RELAY), proxy="0.0.0.0:0"), "1:8: proxy: is not a loopback address", id="proxy-for-others-without-boxes"),
    pytest.param(settings(endpoint(RELAY, "listen: 0.0.0.0:0")), "6:13: endpoints[0].listen: is not a loopback address", id="base-url-for-others-without-boxes"),
    pytest.param(settings(endpoint(RELAY), more=f"admin: 0.0.0.0:0\n{BOX}\n"), "6:8: admin: is not a loopback address", id="admin-for-others-with-boxes"),
    pytest.param(settings(endpoint(RELAY), more="boxes: [{name: a, token: env:A, endpoints: [other]}]\n"), "6:45: boxes[0].endpoints[0]: is `other`, which is no endpoint", id="box-with-no-such-endpoint"),
    pytest.param(settings(endpoint(RELAY), more="boxes: [{name: a, token: env:A, tunnels: true}]\n"), "6:33: boxes[0].tunnels: is set, and there are none", id="box-with-no-tunnels"),
    pytest.param(settings(endpoint(RELAY, "secrets: {k: env:K}"), more="boxes: [{name: a, token: env:K}]\n"), "7:26: boxes[0].token: is a secret of endpoint `llm` too", id="token-that-is-a-credential"),
    pytest.param(settings(endpoint(RELAY, "inject: {Authorization: '@secret:k'}")), "endpoints[0].inject.Authorization: refers to a secret", id="inject-without-the-secret"),
    pytest.param(settings(endpoint(RELAY, "inject: {Host: other.example}")), "endpoints[0].inject.Host: sets a header that the connection itself needs", id="inject-of-the-connection's"),
]  # fmt: skip
# ruff: noqa: E501 - one case is one row


def grantproxy(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "proxy.cli", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "A": "token-of-the-box", "K": "key-of-the-api"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "g.yaml").write_text((ROOT / "examples" / "github-issues.grant.yaml").read_text())
    return tmp_path


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_what_does_not_go_together(folder: Path, text: str, expected: str) -> None:
    """One problem, one line, its place and its remedy; exit code 1."""
    (folder / "s.yaml").write_text(text)
    done = grantproxy(folder, "check", "s.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("s.yaml:")
    assert expected in line
    assert not line.endswith(".")


@pytest.mark.parametrize(("text", "expected"), [REFUSED[0].values, REFUSED[7].values, REFUSED[10].values])
def test_serve_says_the_same(folder: Path, text: str, expected: str) -> None:
    """What `check` refuses is not started; nothing is opened."""
    (folder / "s.yaml").write_text(text + f"state: {folder / 'state'}\n")
    served = grantproxy(folder, "serve", "-c", "s.yaml")
    assert served.returncode == 1
    assert expected in served.stderr
    assert "Traceback" not in served.stderr
    assert not (folder / "state").exists()


def test_what_goes_together(folder: Path) -> None:
    """The same parts where they do not undo each other."""
    text = settings(
        endpoint(HELD, "listen: 0.0.0.0:0"),
        endpoint(RELAY, "upstream: http://llm.example:8000", "websocket: true", "allowInside: true"),
        proxy="'[::]:0'",
        more="tunnels: {allow: ['other.example:443', 'llm.example:22', 'api.example:22']}\n"
        "boxes: [{name: a, token: env:A, endpoints: [api], tunnels: true}]\n",
    )
    (folder / "s.yaml").write_text(text)
    done = grantproxy(folder, "check", "s.yaml")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples").glob("*.yaml")))
def test_the_examples_are_sound(example: str) -> None:
    """What ships as an example passes `check`, grants and settings alike."""
    done = grantproxy(ROOT, "check", f"examples/{example}")
    assert (done.returncode, done.stdout.splitlines()[-1].startswith(f"examples/{example}: ok")) == (0, True), (
        done.stderr
    )
