"""`grantproxy env` on the command line: what it takes, prints, writes and refuses."""

# ruff: noqa: E501 - one case is one row

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.cli import main

RELAY = "endpoints:\n- {name: api, upstream: 'https://api.example', assurance: trusted-upstream, "
SETTINGS = f"proxy: 127.0.0.1:8080\nstate: ./st\n{RELAY}listen: '127.0.0.1:9001', env: [API_URL]}}\n"
BOXES = "boxes:\n- {name: agent-1, token: env:AGENT_1, endpoints: [api]}\n- {name: agent-2, token: env:NONE}\n"
TOKEN = "token-of-agent-1-0001"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("AGENT_1", TOKEN)
    monkeypatch.delenv("NONE", raising=False)
    (tmp_path / "grantproxy.yaml").write_text(SETTINGS)
    (tmp_path / "boxes.yaml").write_text(SETTINGS + BOXES)
    (tmp_path / "ready.json").write_text(
        json.dumps({"proxy": "127.0.0.1:41001", "endpoints": {"api": "http://127.0.0.1:41002"}, "ca": "x"})
    )
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["env", *arguments])


def told(*arguments: str) -> dict[str, str]:
    done = run("--format", "json", *arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_the_folder_s_settings(here: Path) -> None:
    """The proxy's URL, the base URL, and files that are there: one command makes the CA and what holds it."""
    found = told()
    assert (found["HTTPS_PROXY"], found["API_URL"]) == ("http://127.0.0.1:8080", "http://127.0.0.1:9001")
    assert Path(found["SSL_CERT_FILE"]) == here / "st" / "trust" / "bundle.pem"
    assert Path(found["WGETRC"]).exists()
    assert (here / "st" / "ca-key.pem").exists()


def test_a_shell_is_told_where_the_authorities_are_from(here: Path) -> None:
    """In the last line, so that nothing is lost where an `eval` joins the lines."""
    lines = run().stdout.splitlines()
    assert all(line.startswith("export ") for line in lines[:-1])
    assert lines[-1].startswith("# the system's authorities are those of '")
    assert "#" not in run("--format", "docker").stdout


def test_without_a_forward_proxy_nothing_is_said_of_authorities(here: Path) -> None:
    """The base URL is plain http on this machine."""
    (here / "grantproxy.yaml").write_text(SETTINGS.partition("\n")[2])
    assert set(told()) == {"API_URL", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"}
    assert "#" not in run().stdout


def test_endpoints_in_place_of_a_file(here: Path) -> None:
    """The same options as `serve` has."""
    spec = "upstream=https://b.example;assurance=trusted-upstream;listen=127.0.0.1:9002;env=B_URL"
    found = told("--endpoint", spec, "--state", "other")
    assert (found["HTTPS_PROXY"], found["B_URL"]) == ("http://127.0.0.1:8080", "http://127.0.0.1:9002")
    assert (here / "other" / "trust").is_dir()
    assert told("--endpoint", spec, "--proxy", "127.0.0.1:1")["HTTPS_PROXY"] == "http://127.0.0.1:1"


def test_a_running_program_s_addresses(here: Path) -> None:
    """Ports that were picked at the start."""
    found = told("--ready-file", "ready.json")
    assert (found["HTTPS_PROXY"], found["API_URL"]) == ("http://127.0.0.1:41001", "http://127.0.0.1:41002")


def test_a_container_s_view(here: Path) -> None:
    """Its own name for this machine and its own place of the files; this shell's Java and git settings are not its."""
    (here / "grantproxy.yaml").write_text(SETTINGS.replace("env:", "hosts: [host.docker.internal], env:"))
    found = CliRunner(env={"JAVA_TOOL_OPTIONS": "-Xmx9g"}).invoke(
        main, ["env", "--format", "docker", "--host", "host.docker.internal", "--files", "/grantproxy"]
    )
    lines = dict(line.split("=", 1) for line in found.stdout.splitlines())
    assert lines["HTTPS_PROXY"] == "http://host.docker.internal:8080"
    assert lines["API_URL"] == "http://host.docker.internal:9001"
    assert lines["NO_PROXY"].endswith(",host.docker.internal")
    assert lines["SSL_CERT_FILE"] == "/grantproxy/bundle.pem"
    assert "-Xmx9g" not in lines["JAVA_TOOL_OPTIONS"]


def test_a_box_s_token_on_request(here: Path) -> None:
    """In the URLs of the box that was asked for, and in nothing else."""
    found = told("-c", "boxes.yaml", "--box", "agent-1")
    assert found["HTTPS_PROXY"] == f"http://agent-1:{TOKEN}@127.0.0.1:8080"
    assert found["API_URL"] == f"http://127.0.0.1:9001/box/{TOKEN}"
    assert {name for name, value in found.items() if TOKEN in value} == {
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "API_URL")
    }


REFUSED = [
    pytest.param(["-c", "nope.yaml"], 1, "nope.yaml: does not exist; name settings with `-c FILE`, or an endpoint with `--endpoint SPEC`", id="no-settings"),
    pytest.param(["-c", "bad.yaml"], 1, "bad.yaml:1:1: foo: is an unknown key; the keys here are", id="bad-settings"),
    pytest.param(["-c", "x", "--endpoint", "y"], 2, "error: --config and --endpoint are two ways to say the same; use one of them", id="both"),
    pytest.param(["--proxy", "127.0.0.1:1", "--state", "x"], 2, "error: --proxy, --state goes with --endpoint; a settings file says it itself", id="fronts"),
    pytest.param(["--endpoint", "hunter2"], 1, "--endpoint[0]: has a part without `=`; write", id="bad-endpoint"),
    pytest.param(["-c", "boxes.yaml"], 1, "error: every request names a box here; say which with `--box`: `agent-1`, `agent-2`", id="no-box"),
    pytest.param(["-c", "boxes.yaml", "--box", "x"], 1, "error: `x` is no box of the settings; its boxes are `agent-1`, `agent-2`, and one that was added knows its variables by `box env`", id="unknown-box"),
    pytest.param(["--box", "x"], 1, "error: `x` is no box of the settings; it has none, and one that was added knows its variables by `box env`", id="box-without-boxes"),
    pytest.param(["-c", "boxes.yaml", "--box", "agent-2"], 1, "error: the token of box `agent-2` cannot be read: environment variable `NONE` is not set; export it or name another source", id="no-token"),
    pytest.param(["--host", "a b"], 1, "error: `a b` is no host; write a name or an address, such as `172.17.0.1`", id="host"),
    pytest.param(["--files", "x"], 2, "error: invalid value: `x` is relative; write it from the root, as clients run anywhere", id="files"),
    pytest.param(["--files", "/a\nb", "--format", "docker"], 1, "error: `SSL_CERT_FILE` holds a line end or a control character; use `shell` or `json`", id="files-with-a-line-end"),
    pytest.param(["--ready-file", "none"], 1, "error: ready file `none` cannot be read: no such file or directory; start `grantproxy serve --ready-file` first", id="no-ready-file"),
    *(pytest.param(["--ready-file", name], 1, f"error: `{name}` is no ready file; name the one that `grantproxy serve --ready-file` writes", id=f"ready-file-{name}") for name in ("grantproxy.yaml", "list.json", "number.json", "odd.json")),
    pytest.param(["--format", "fish"], 2, "error: invalid value for `--format`: `fish` is not one of", id="format"),
    pytest.param(["-c", "open.yaml"], 1, "error: state directory `{here}/open` is open to others (mode 0755); run `chmod 700", id="state"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "message"), REFUSED)
def test_what_is_wrong_is_one_line(here: Path, arguments: list[str], code: int, message: str) -> None:
    """On standard error, with what helps; nothing is printed that a shell could take for variables."""
    (here / "bad.yaml").write_text("foo: 1\n")
    (here / "list.json").write_text("[]")
    (here / "number.json").write_text('{"proxy": 1, "endpoints": {}}')
    (here / "odd.json").write_text('{"proxy": "somewhere", "endpoints": {}}')
    (here / "open").mkdir(mode=0o755)
    (here / "open" / "x").touch()
    (here / "open.yaml").write_text(SETTINGS.replace("./st", "./open"))
    done = run(*arguments)
    assert done.exit_code == code
    assert done.stderr.startswith(message.format(here=here))
    assert done.stdout == ""
    assert "hunter2" not in done.output


@pytest.mark.parametrize(
    ("endpoint", "box", "says"),
    [
        pytest.param(
            "upstream: 'https://localhost:1', assurance: trusted-upstream",
            None,
            "# endpoint `own` is on `localhost`, which",
            id="name",
        ),
        pytest.param(
            "upstream: 'http://127.0.0.1:1', assurance: trusted-upstream, listen: '127.0.0.1:2'",
            None,
            "point them at its `listen`",
            id="address",
        ),
        pytest.param(
            "upstream: 'http://127.0.0.1:1', assurance: trusted-upstream, listen: '127.0.0.1:2', env: [OWN]",
            None,
            "",
            id="a variable names it",
        ),
        pytest.param("upstream: 'https://own.example', assurance: trusted-upstream", None, "", id="elsewhere"),
        pytest.param("upstream: 'http://127.0.0.1:1', assurance: trusted-upstream", "agent-1", "", id="not the box's"),
    ],
)
def test_endpoints_that_clients_reach_without_the_proxy_are_named(
    here: Path, endpoint: str, box: str | None, says: str
) -> None:
    """In a comment on standard error: standard output is what a shell evaluates."""
    text = SETTINGS.replace("endpoints:\n", "endpoints:\n- {name: own, " + endpoint + "}\n")
    (here / "grantproxy.yaml").write_text(text + (BOXES if box else ""))
    done = run(*(["--box", box] if box else []))
    assert done.exit_code == 0, done.stderr
    first, *lines = done.stderr.splitlines()
    assert first == f"# the settings are those of {str(here / 'grantproxy.yaml')!r}"
    assert len(lines) == bool(says)
    assert says in "".join(lines)
