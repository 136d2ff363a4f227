"""`grantproxy explain`: offline, exact, and quick to start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.cli.explain import command

GRANT = """\
operations:
  - name: list-open-issues
    effect: read
    method: GET
    route: /repos/{owner}/{repo}/issues
    pathParameters: {owner: [acme], repo: [widgets]}
    query:
      - {name: state, required: true, values: [open]}
    headers:
      - {name: Authorization, required: true, pattern: 'Bearer @secret:[a-z]+', maxBytes: 64}
    response: &r
      statuses: [200]
      contentTypes: [application/json]
      maxBytes: 1024
      credentialDisclosure: deny-exact
      json: {type: object}
  - name: create-issue
    effect: write
    method: POST
    route: /repos/{owner}/{repo}/issues
    pathParameters: {owner: [acme], repo: [widgets]}
    headers:
      - {name: Content-Type, required: true, values: [application/json]}
    body:
      maxBytes: 64
      contentTypes: [application/json]
      json: {type: object, properties: {title: string}, required: [title]}
    response:
      statuses: [201]
      contentTypes: [application/json]
      maxBytes: 1024
      credentialDisclosure: deny-exact
      json: {type: object}
""".replace(" &r", "")
ISSUES = "https://api.example.com/repos/acme/widgets/issues"
BEARER = "Authorization: Bearer @secret:api"


@pytest.fixture
def grant(tmp_path: Path) -> Path:
    path = tmp_path / "api.grant.yaml"
    path.write_text(GRANT)
    return path


def run(grant: Path, *arguments: str) -> Result:
    return CliRunner().invoke(command, [str(grant), *arguments])


def test_allowed(grant: Path) -> None:
    """Exit 0: the operation, and what would be sent."""
    result = run(grant, "GET", ISSUES + "?st%61te=open", "-H", BEARER)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "allow: operation list-open-issues (read)",
        "  route:      GET /repos/{owner}/{repo}/issues",
        "  sent:       GET https://api.example.com/repos/acme/widgets/issues?state=open",
        "  headers:    Authorization",
        "  references: api",
    ]


def test_a_path_alone(grant: Path) -> None:
    """The host may be left out; the request is the same."""
    result = run(grant, "GET", "/repos/acme/widgets/issues?state=open", "-H", BEARER)
    assert result.exit_code == 0
    assert "  sent:       GET /repos/acme/widgets/issues?state=open" in result.stdout.splitlines()


def test_refused(grant: Path) -> None:
    """Exit 1: the refusal, then what kept each near operation from matching."""
    result = run(grant, "GET", ISSUES + "?state=open&page=2", "-H", BEARER)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "deny: query-undeclared (semantic-request-deny, 403)"
    assert lines[1] == '  query parameter "page" is not declared by operation "list-open-issues"; declared: state'
    assert lines[2:] == []


def test_near_operations(grant: Path) -> None:
    """Those of another method are near only where the path has none of this one."""
    lines = run(grant, "GET", ISSUES + "/7", "-H", BEARER).stdout.splitlines()
    assert lines[0].startswith("deny: route ")
    assert "near: operation create-issue, POST /repos/{owner}/{repo}/issues" in lines
    wrong = run(grant, "PUT", ISSUES).stdout
    assert wrong.startswith("deny: method ")


def test_undeclared_headers_have_a_remedy(grant: Path) -> None:
    """Whoever writes the grant is told all of them at once, and how to leave them out."""
    lines = run(
        grant, "GET", ISSUES + "?state=open", "-H", BEARER, "-H", "Accept: x", "-H", "X-A: y"
    ).stdout.splitlines()
    assert lines[1].startswith('  request headers "Accept", "X-A" are not declared by operation "list-open-issues"')
    assert "`undeclaredHeaders: strip`" in lines[2]
    assert "undeclaredHeaders" not in run(grant, "GET", ISSUES, "-H", BEARER).stdout


def test_settings_are_no_grant(tmp_path: Path) -> None:
    """One line says so, in place of all that a settings file has and a grant has not."""
    path = tmp_path / "grantproxy.yaml"
    path.write_text("proxy: 127.0.0.1:0\nendpoints: []\n")
    result = run(path, "GET", "/x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: `{path}` is a settings file; name a grant file, such as one that it names\n"


def test_body(grant: Path, tmp_path: Path) -> None:
    """`-d` is the body, and `@FILE` reads it; its length is announced as on the wire."""
    kind = "Content-Type: application/json"
    assert run(grant, "POST", ISSUES, "-H", kind, "-d", '{"title":"x"}').exit_code == 0
    wrong = run(grant, "POST", ISSUES, "-H", kind, "-d", '{"title":1}')
    assert wrong.exit_code == 1
    assert wrong.stdout.startswith("deny: body-schema")
    assert run(grant, "POST", ISSUES, "-H", kind).stdout.startswith("deny: body-missing")
    file = tmp_path / "body.json"
    file.write_text('{"title":"x"}')
    assert run(grant, "POST", ISSUES, "-H", kind, "-d", f"@{file}").exit_code == 0
    own = run(grant, "POST", ISSUES, "-H", kind, "-H", "Content-Length: 65", "-d", '{"title":"x"}')
    assert own.stdout.startswith("deny: body-too-large")


def test_json(grant: Path) -> None:
    """`--json` prints one object; header values are not in it."""
    allowed = json.loads(run(grant, "GET", ISSUES + "?state=open", "-H", BEARER, "--json").stdout)
    assert allowed == {
        "verdict": "allow",
        "operation": "list-open-issues",
        "effect": "read",
        "route": "/repos/{owner}/{repo}/issues",
        "method": "GET",
        "target": "/repos/acme/widgets/issues?state=open",
        "headers": ["Authorization"],
        "references": ["api"],
    }
    refused = json.loads(run(grant, "GET", ISSUES + "?state=open", "-H", "Authorization: hunter2", "--json").stdout)
    assert refused["verdict"] == "deny"
    assert (refused["rule"], refused["reason"], refused["status"]) == ("semantic-request-deny", "header-value", 403)
    assert refused["operation"] == "list-open-issues"
    assert refused["near"][0]["operation"] == "list-open-issues"
    assert refused["near"][1]["reason"] == "method"
    assert "hunter2" not in json.dumps(refused)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param("https://api.example.com/repos/acme/../evil", "path-segment", id="nothing is normalized"),
        pytest.param("https://api.example.com/repos/acme/widgets/issues#x", "target-unreadable", id="fragment"),
        pytest.param("https://api.example.com/é", "path-encoding", id="raw UTF-8"),
        pytest.param("https://api.example.com", "route", id="no path"),
        pytest.param("https://api.example.com?state=open", "route", id="a query alone"),
    ],
)
def test_the_url_is_taken_as_it_is(grant: Path, url: str, reason: str) -> None:
    """The URL is judged as the bytes that would be on the wire."""
    result = run(grant, "GET", url)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"deny: {reason} ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["GET", "http://h/x"], "`http://h/x` is no https URL", id="http"),
        pytest.param(["GET", "repos"], "`repos` is no https URL", id="no URL"),
        pytest.param(["GET", "https://user@h/x"], "`user@h` is no canonical host", id="userinfo"),
        pytest.param(["GET", "https://127.1/x"], "`127.1` is no canonical host", id="short address"),
        pytest.param(["GET", "/x", "-H", "hunter2"], "a header has no colon", id="no colon"),
        pytest.param(["GET", "/x", "-d", "@/no/such/file"], "`/no/such/file` cannot be read", id="no such file"),
        pytest.param(["GET"], "Missing argument 'URL'", id="no URL at all"),
    ],
)
def test_wrong_usage(grant: Path, arguments: list[str], message: str) -> None:
    """Exit 2: what is wrong, and what would be right."""
    result = run(grant, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "hunter2" not in result.stderr


def test_reading_a_body_ends(grant: Path) -> None:
    """A file that never ends is no body: exit 2, in one line and in bounded memory."""
    result = run(grant, "POST", ISSUES, "-d", "@/dev/zero")
    assert result.exit_code == 2
    assert "`/dev/zero` is over 32 MiB, more than any body that is held; name a smaller file" in result.stderr


def test_a_grant_with_problems(tmp_path: Path) -> None:
    """A grant that cannot be loaded prints every problem with its place; there is no decision: exit 2."""
    path = tmp_path / "bad.yaml"
    path.write_text("operations: []\nextra: 1\n")
    result = run(path, "GET", "/x")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert [line.split(": ")[0] for line in result.stderr.splitlines()] == [f"{path}:1:13", f"{path}:2:1"]


def test_a_grant_that_cannot_be_read(grant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be opened is said so in one line."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    result = run(grant, "GET", "/x")
    assert result.exit_code == 2
    assert result.stderr == f"{grant}: cannot be read: permission denied; write the path of a grant file\n"


def test_what_is_imported() -> None:
    """It starts quickly: no proxy, no server, no pure-Python schema library."""
    code = (
        "import sys, proxy.cli.explain; "
        "print([m for m in ('mitmproxy', 'aiohttp', 'jsonschema', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
