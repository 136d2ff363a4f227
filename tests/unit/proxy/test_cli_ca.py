"""`grantproxy ca`: the certificate's place, its fingerprint, and never its key."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.cli.ca import command
from proxy.run.placeholder import MARK
from proxy.tls.ca import load_ca


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "grantproxy"


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_the_ca_is_made_and_shown(state: Path) -> None:
    """The command prints where `ca.pem` is and its fingerprint, and makes a CA where there is none yet."""
    result = _run()
    assert result.exit_code == 0, result.stderr
    ca = load_ca(state)
    assert result.stdout == f"{state / 'ca.pem'}\nsha256 {ca.fingerprint}\n"
    assert _run().stdout == result.stdout


SETTINGS = "proxy: 127.0.0.1:0\nstate: st\nendpoints: [{upstream: 'https://a.example', assurance: trusted-upstream}]\n"


@pytest.mark.parametrize(
    ("file", "arguments", "says"),
    [
        pytest.param(None, [], "/xdg/grantproxy`, the user's own, as there is no `grantproxy.yaml` here; name settings", id="the user's"),
        pytest.param("grantproxy.yaml", [], "/st`, that of `grantproxy.yaml`", id="the folder's"),
        pytest.param("other.yaml", ["-c", "other.yaml"], "/st`, that of `other.yaml`", id="by name"),
    ],
)  # fmt: skip
# ruff: noqa: E501 - one case is one row
def test_a_new_ca_is_told(state: Path, file: str | None, arguments: list[str], says: str) -> None:
    """A CA that nobody trusts yet is told on standard error, with the place and whose it is; one that is there is not."""
    if file is not None:
        Path(file).write_text(SETTINGS)
    first = _run("--json", *arguments)
    named = f"notice: the settings are those of `{Path('grantproxy.yaml').absolute()}`\n"
    before = named if file == "grantproxy.yaml" else ""
    assert first.stderr.startswith(f"{before}notice: a new CA was made in the state directory `")
    assert says in first.stderr
    assert json.loads(first.stdout)["sha256"]
    assert _run("--json", *arguments).stderr == before


def test_a_held_name_is_no_settings(state: Path) -> None:
    """What only holds the name while an isolated program runs here."""
    Path("grantproxy.yaml").write_bytes(MARK)
    result = _run()
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"{state / 'ca.pem'}\n")
    assert "as there is no `grantproxy.yaml` here" in result.stderr


def test_json_is_for_programs(state: Path) -> None:
    """`--json` has path, name, fingerprint and the last day."""
    document = json.loads(_run("--json").stdout)
    ca = load_ca(state)
    assert document["path"] == str(ca.path)
    assert document["sha256"] == ca.fingerprint
    assert document["name"] == ca.name
    assert document["notAfter"].startswith(f"{ca.certificate.not_valid_after_utc:%Y-%m-%dT}")


def test_pem_is_the_certificate_alone(state: Path) -> None:
    """`--pem` prints the certificate, without its key."""
    shown = _run("--pem").stdout
    assert shown == (state / "ca.pem").read_text()
    assert shown.count("-----BEGIN") == 1
    assert "PRIVATE" not in shown


def test_a_damaged_ca_is_named(state: Path) -> None:
    """A CA that cannot be used is an error with its name, exit 1."""
    load = _run()
    assert load.exit_code == 0
    (state / "ca-key.pem").write_bytes(b"x")
    result = _run()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: key of the CA `{state / 'ca-key.pem'}` holds no key")


def test_bad_settings_are_named(state: Path) -> None:
    """Settings that cannot be used are named with each problem, and nothing is made."""
    Path("grantproxy.yaml").write_text("x: y\n")
    result = _run()
    assert result.exit_code == 1
    assert "grantproxy.yaml:1:1" in result.stderr
    assert not state.exists()


def test_two_forms_at_once_are_wrong_usage(state: Path) -> None:
    """`--json` and `--pem` together are exit 2."""
    assert _run("--json", "--pem").exit_code == 2
