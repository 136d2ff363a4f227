"""Starting and ending: what is wrong is said in a line each, with its name, and exit codes tell."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.cases import grant_text
from support.client import Client
from support.clients import told_by
from support.proxyproc import ROOT, Proxy, StartFailed
from support.waits import wait_for


def grantproxy(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "proxy.cli", *arguments],
        cwd=cwd or ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.mark.parametrize("setting", ["proxy", "admin", "endpoints[0].listen"])
def test_port_in_use(make_stack: Any, setting: str) -> None:
    """A port that is taken is named, with the setting that asked for it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        changes = {setting: place} if setting in {"proxy", "admin"} else {"first": {"listen": place}}
        with pytest.raises(StartFailed) as failed:
            make_stack(**changes)
        assert place in str(failed.value)
        assert setting in str(failed.value)
        assert "Traceback" not in str(failed.value)


def test_unreadable_secrets_are_all_named(make_stack: Any, tmp_path: Path) -> None:
    """Each secret that cannot be read stops the start, by name, and no value is shown."""
    secrets = {"one": "env:NOT_SET_ANYWHERE", "two": f"file:{tmp_path}/absent", "three": "exec:false"}
    with pytest.raises(StartFailed) as failed:
        make_stack(endpoint={"secrets": secrets})
    for name in secrets:
        assert f"`{name}`" in str(failed.value)
    assert "Traceback" not in str(failed.value)


def test_unreadable_ca_bundle(make_stack: Any, tmp_path: Path) -> None:
    """A bundle that is none stops the start, by name."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("no certificate")
    with pytest.raises(StartFailed, match=r"endpoints\[0\]\.ca: "):
        make_stack(endpoint={"ca": str(bundle)})


def test_unwritable_log(make_stack: Any, tmp_path: Path) -> None:
    """A log that cannot be opened stops the start, by name."""
    (tmp_path / "taken").mkdir()
    with pytest.raises(StartFailed, match="taken") as failed:
        make_stack(audit={"path": str(tmp_path / "taken")})
    assert "Traceback" not in str(failed.value)


def test_damaged_ca(make_stack: Any, tmp_path: Path) -> None:
    """A CA key that is damaged stops the start, is named, and is left as it is."""
    state = tmp_path / "state"
    first = make_stack(check_log=False)
    assert first.proxy.stop() == 0
    (key,) = (file for file in state.iterdir() if b"PRIVATE KEY" in file.read_bytes())
    whole = key.read_bytes()
    key.write_text("damaged")
    with pytest.raises(StartFailed, match=key.name) as failed:
        first.proxy.start()
    assert key.read_text() == "damaged"
    assert "Traceback" not in str(failed.value)
    key.write_bytes(whole)
    first.proxy.start()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["serv"], "serve", id="unknown-command"),
        pytest.param(["serve", "--nope"], "--nope", id="unknown-flag"),
        pytest.param(["explain"], "GRANT", id="missing-argument"),
        pytest.param(["serve", "-c", "a.yaml", "--endpoint", "upstream=https://x"], "--endpoint", id="two-ways"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str) -> None:
    """Wrong usage is exit 2 and one line with a remedy."""
    done = grantproxy(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""


def test_bad_settings_name_every_problem(tmp_path: Path) -> None:
    """All problems of settings and grants at once, each with file, line and column."""
    (tmp_path / "bad.grant.yaml").write_text("operations:\n  - name: x\n    effect: perhaps\n")
    (tmp_path / "grantproxy.yaml").write_text(
        "prox: 127.0.0.1:1\nendpoints:\n"
        "  - {name: a, upstream: http://x.example, assurance: semantic, grant: bad.grant.yaml}\n"
    )
    for done in (
        grantproxy("serve", "-c", str(tmp_path / "grantproxy.yaml")),
        grantproxy("check", str(tmp_path / "grantproxy.yaml")),
    ):
        assert done.returncode == 1
        text = done.stderr
        assert "grantproxy.yaml:1:1: " in text
        assert "grantproxy.yaml:3:" in text
        assert "bad.grant.yaml:" in text
        assert "Traceback" not in text


def test_no_settings_file(tmp_path: Path) -> None:
    """Without settings the program says what is missing."""
    done = grantproxy("serve", cwd=tmp_path)
    assert done.returncode in {1, 2}
    assert "grantproxy.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_endpoint_on_the_command_line(make_stack: Any, tmp_path: Path) -> None:
    """`serve --endpoint` says the same as a file."""
    (tmp_path / "g.yaml").write_text(grant_text("main", "https://other.example"))
    done = grantproxy(
        "serve",
        "--endpoint",
        f"upstream=https://x.example;secret=api=env:NOT_SET;assurance=semantic;grant={tmp_path}/g.yaml",
    )
    assert done.returncode == 1
    assert "NOT_SET" in done.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_it_says_where_it_listens(make_stack: Any, workers: int) -> None:
    """Each front, each endpoint with its assurance, and the CA are printed by the time that the ready file is there,
    and then `ready`; SIGTERM ends with 0.
    """
    stack = make_stack(workers=workers)
    output = stack.proxy.folder / "stdout"
    printed = output.read_text().splitlines()
    assert printed[0] == f"proxy on {stack.proxy.ready['proxy']}"
    assert any(line.startswith("endpoint api (semantic) on http://127.0.0.1:") for line in printed)
    assert any(line.startswith("ca ") for line in printed)
    wait_for(lambda: output.read_text().endswith("\nready\n"))
    assert stack.proxy.stop() == 0


def test_state_is_the_owners_alone(make_stack: Any) -> None:
    """The CA's key and the log can be read by their owner only."""
    stack = make_stack()
    assert stack.proxy.state.stat().st_mode & 0o077 == 0
    for file in stack.proxy.state.iterdir():
        if file != stack.proxy.ca:
            assert file.stat().st_mode & 0o077 == 0, file


def test_the_ca_is_kept(make_stack: Any) -> None:
    """A second start has the same CA, and the chain of records goes on."""
    stack = make_stack()
    with stack.open("base") as client:
        client.exchange(stack.get("base"))
    before = stack.proxy.ca.read_bytes()
    assert b"PRIVATE" not in before
    assert stack.proxy.stop() == 0
    stack.proxy.start()
    assert stack.proxy.ca.read_bytes() == before
    with stack.open("base") as client:
        client.exchange(stack.get("base"))
    first, second = stack.proxy.records()
    assert first["chain"] != second["chain"]


@pytest.mark.parametrize("workers", [1, 2])
def test_who_was_told_of_the_ca_trusts_the_next_one_too(tmp_path: Path, workers: int) -> None:
    """The files that `env` names hold the CA that signs now, and no more the one before; it is said once."""
    endpoint = {"name": "api", "upstream": "https://127.0.0.1:9", "assurance": "trusted-upstream"}
    with Proxy(tmp_path, {"endpoints": [endpoint], "workers": workers}) as proxy:
        told = told_by(proxy)
        files = {name: Path(told[name]).read_bytes() for name in ("SSL_CERT_FILE", "WGETRC")}
        before = proxy.ca.read_bytes()
        assert before in files["SSL_CERT_FILE"]
        for said in ("", "now hold the CA", ""):
            assert proxy.stop() == 0
            if said:
                (proxy.state / "ca-key.pem").unlink()
                proxy.ca.unlink()
            proxy.start()
            assert said in proxy.output()
            assert ("notice: " in proxy.output()) is bool(said)
            with Client(proxy.proxy) as client:
                assert client.connect("127.0.0.1:9").status == 200
                client.start_tls(name="127.0.0.1", ca=Path(told["SSL_CERT_FILE"]))
        after = proxy.ca.read_bytes()
        assert after != before
        assert Path(told["SSL_CERT_FILE"]).read_bytes() == files["SSL_CERT_FILE"].replace(before, b"") + after
        assert Path(told["WGETRC"]).read_bytes() == files["WGETRC"]
