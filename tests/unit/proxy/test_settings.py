"""Settings: every rule, with the place and the words of its refusal, and no secret in any of them."""

# ruff: noqa: E501 - one case is one row

from functools import cache
from pathlib import Path

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.message import Authority, Origin
from grants.problems import Invalid, quoted_file
from proxy.settings import (
    Assurance,
    SettingsInvalid,
    Sync,
    TcpListen,
    UnixListen,
    default_state,
    load_settings,
    settings_from_endpoints,
)
from proxy.settings.model import is_written_inside
from proxy.settings.values import ValueInvalid, parse_duration, parse_listen, parse_path, parse_size

EXAMPLES = Path(__file__).parents[3] / "examples"
ENDPOINT = "{upstream: 'https://api.example', assurance: semantic, grant: g.yaml}"


@cache
def bundle() -> bytes:
    """A bundle of one certificate, PEM."""
    return trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.bytes()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a grant `g.yaml`, another `bad.yaml` that has a problem, and a bundle `ca.pem`."""
    (tmp_path / "g.yaml").write_text((EXAMPLES / "github-issues.grant.yaml").read_text())
    (tmp_path / "bad.yaml").write_text("operations: []\n")
    (tmp_path / "ca.pem").write_bytes(bundle())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return tmp_path


def told(here: Path, text: str) -> list[str]:
    (here / "s.yaml").write_text(text)
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(Path("s.yaml"))
    return str(caught.value).splitlines()


def endpoint(**fields: str) -> str:
    """Settings with one endpoint, its fields replaced or added as YAML."""
    all_fields = {"name": "api", "upstream": "https://api.example", "assurance": "semantic", "grant": "g.yaml"}
    lines = [f"{key}: {value}" for key, value in (all_fields | fields).items() if value]
    return "proxy: 127.0.0.1:0\nendpoints:\n  - " + "\n    ".join(lines) + "\n"


def test_everything_can_be_set(here: Path) -> None:
    """Each key means what the reference says; relative paths are relative to the file."""
    directory = here / "conf"
    directory.mkdir()
    (directory / "s.yaml").write_text("""
proxy: localhost:8080
admin: '[::1]:0'
state: ./st
endpoints:
  - name: api
    upstream: https://API.example:8443/v1/x/
    assurance: semantic
    grant: ../g.yaml
    secrets: {api: env:TOKEN, b/c: 'file:secret.txt', d: 'exec:pass show d'}
    listen: unix:api.sock
    ca: ../ca.pem
    hosts: ['box:80', '[::1]:9001']
    timeout: {connect: 500ms, total: 2m}
  - {upstream: 'https://127.0.0.1:8444', assurance: semantic, grant: ../g.yaml, listen: '127.0.0.1:9001', hosts: [box]}
audit: {path: stdout, sync: always}
limits: {headerBytes: 16KiB, bodyBytes: 1000, clients: 5, clientIdle: 1h}
""")
    loaded = load_settings(directory / "s.yaml")
    first, second = loaded.endpoints
    assert loaded.proxy == TcpListen(host="127.0.0.1", port=8080)
    assert loaded.admin == TcpListen(host="::1", port=0)
    assert (str(loaded.proxy), str(loaded.admin)) == ("127.0.0.1:8080", "[::1]:0")
    assert loaded.state == directory / "st"
    assert (first.name, first.assurance) == ("api", Assurance.SEMANTIC)
    assert (first.upstream, first.base) == (Origin(scheme="https", host="api.example", port=8443), ("v1", "x"))
    assert dict(first.secrets) == {"api": "env:TOKEN", "b/c": f"file:{directory}/secret.txt", "d": "exec:pass show d"}
    assert first.listen == UnixListen(path=directory / "api.sock")
    assert str(first.listen) == f"unix:{directory}/api.sock"
    assert first.ca == here / "ca.pem"
    assert first.hosts == (Authority(host="box", port=80), Authority(host="::1", port=9001))
    assert (first.connect_timeout, first.total_timeout) == (0.5, 120.0)
    assert second.name == "127.0.0.1"
    assert second.hosts == (Authority(host="box", port=9001),)
    assert first.grant is second.grant
    assert (loaded.audit.path, loaded.audit.sync) == (None, Sync.ALWAYS)
    assert (loaded.limits.header_bytes, loaded.limits.body_bytes) == (16384, 1000)
    assert (loaded.limits.clients, loaded.limits.client_idle) == (5, 3600.0)


def test_what_is_left_out_has_its_usual_value(here: Path) -> None:
    """No listeners but the one that is asked for, the user's state directory, the documented limits."""
    (here / "s.yaml").write_text(f"proxy: '[::1]:1'\nendpoints: [{ENDPOINT}]\n")
    loaded = load_settings(Path("s.yaml"))
    assert loaded.admin is None
    assert loaded.state == here / "xdg" / "grantproxy"
    assert loaded.audit.path == here / "xdg" / "grantproxy" / "decisions.jsonl"
    assert loaded.audit.sync is Sync.INTERVAL
    assert loaded.limits.header_bytes == 65536
    assert loaded.workers == 1
    assert (loaded.endpoints[0].name, loaded.endpoints[0].base) == ("api.example", ())
    assert (loaded.endpoints[0].connect_timeout, loaded.endpoints[0].total_timeout) == (10.0, 60.0)


@pytest.mark.parametrize("count", [1, 2, 64])
def test_workers(here: Path, count: int) -> None:
    """One to 64; more than one need a log that is a file."""
    (here / "s.yaml").write_text(f"proxy: 127.0.0.1:0\nendpoints: [{ENDPOINT}]\nworkers: {count}\n")
    assert load_settings(Path("s.yaml")).workers == count


def test_the_sample_settings_load() -> None:
    """A sample that does not load is no help."""
    assert load_settings(EXAMPLES / "grantproxy.yaml").endpoints[0].name == "github"


def test_the_state_directory_follows_the_xdg_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`XDG_STATE_HOME` where it is absolute, else `~/.local/state`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_state() == tmp_path / ".local/state/grantproxy"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert default_state() == tmp_path / ".local/state/grantproxy"


E = "s.yaml:{}: endpoints[0]."
UPSTREAM = E.format("4:15") + "upstream: "
REFUSED = [
    # the whole
    pytest.param("", ["s.yaml:1:1: top level: is empty; write the file's keys"], id="empty"),
    pytest.param("operations: []\n", ["s.yaml:1:1: operations: belongs to a grant file; name that file as an endpoint's `grant`", "s.yaml:1:1: endpoints: is missing; add a list: the upstreams that may be used, such as `- upstream: https://api.github.com`"], id="a-grant"),
    pytest.param("endpoints: hunter2secret\n", ["s.yaml:1:12: endpoints: is a text; write a list: the upstreams that may be used, such as `- upstream: https://api.github.com`"], id="text-for-a-list"),
    # workers
    pytest.param(endpoint() + "workers: 0\n", ["s.yaml:7:10: workers: is `0`; write a number that is at least 1"], id="no-workers"),
    pytest.param(endpoint() + "workers: 65\n", ["s.yaml:7:10: workers: is `65`; write a number that is at most 64"], id="too-many-workers"),
    pytest.param(endpoint() + "workers: two\n", ["s.yaml:7:10: workers: is `two`; write a plain number: how many processes share the work"], id="workers-in-words"),
    pytest.param(endpoint() + "workers: 2\naudit: {path: stdout}\n", ["s.yaml:7:10: workers: needs a decision log that processes can share; set `audit.path` to a file, or `workers: 1`"], id="workers-and-stdout"),
    pytest.param(endpoint(upstraem="x"), [E.format("7:5") + "upstraem: is an unknown key; did you mean `upstream`?"], id="misspelt"),
    # assurance
    pytest.param(endpoint(assurance=""), [E.format("3:5") + "assurance: is missing; add one of `semantic`, `trusted-upstream`: what the endpoint promises"], id="no-assurance"),
    pytest.param(endpoint(assurance="tunnel"), [E.format("5:16") + "assurance: `tunnel` is not for endpoints; list its `host:port` in `tunnels: {allow: [...]}`"], id="tunnel-as-an-assurance"),
    pytest.param(endpoint(assurance="none"), [E.format("5:16") + "assurance: is `none`; write one of `semantic`, `trusted-upstream`"], id="other-assurance"),
    # upstream
    pytest.param(endpoint(upstream="http://api.example"), [UPSTREAM + "is not https, which a semantic endpoint needs; write `https://host`"], id="http"),
    pytest.param(endpoint(upstream="HTTPS://api.example"), [UPSTREAM + "is not https, which a semantic endpoint needs; write `https://host`"], id="upper-case-scheme"),
    pytest.param(endpoint(upstream="api.example"), [UPSTREAM + "is not a URL; write `https://host`"], id="no-scheme"),
    *(pytest.param(endpoint(upstream=f"'{url}'"), [UPSTREAM + "holds a user or a password; put the credential into `secrets`"], id=f"userinfo-{index}") for index, url in enumerate(["https://hunter2@api.example", "https://u:hunter2@api.example/x", "https://@api.example"])),
    *(pytest.param(endpoint(upstream=f"'{url}'"), [UPSTREAM + "has a query or a fragment; write the origin and, if there is one, the path"], id=f"query-{index}") for index, url in enumerate(["https://a.example?k=hunter2", "https://a.example/#f", "https://a.example/x?", "https://a.example#"])),
    *(pytest.param(endpoint(upstream=f"'{url}'"), [UPSTREAM + "has a path that is not normal; leave out `//`, dot segments and everything encoded"], id=f"path-{index}") for index, url in enumerate(["https://a.example//", "https://a.example/a//b", "https://a.example/./a", "https://a.example/a/..", "https://a.example/a%20b", "https://a.example/a;b", "https://a.example/a\\b", "https://a.example/é", "https://a.example/a b"])),
    *(pytest.param(endpoint(upstream=f"'https://a.example:{port}'"), [UPSTREAM + "has a port above 65535; write one from 1 to 65535"], id=f"port-{port}") for port in (65536, 99012, 443443, "9" * 5000)),
    *(pytest.param(endpoint(upstream=f"'{url}'"), [UPSTREAM + "has a host or a port that can be read in more than one way; write `https://host:port`"], id=f"authority-{index}") for index, url in enumerate(["https://", "https:///x", "https://a.example:", "https://a.example:0443", "https://127.1", "https://0x7f000001", "https://a.example.", "https://a_b", "https://[::1", "https://é"])),
    pytest.param(endpoint(upstream="[hunter2]"), [UPSTREAM + "is a list; write a text: the origin and, if there is one, the path that requests go to, such as `https://api.github.com`"], id="upstream-as-a-list"),
    # grant
    pytest.param(endpoint(grant=""), [E.format("3:5") + "grant: is missing; add a text: the grant file, which `semantic` needs, such as `github.grant.yaml`"], id="no-grant"),
    pytest.param(endpoint(grant="nope.yaml"), [E.format("6:12") + "grant: `nope.yaml` does not exist; write the path of a grant file"], id="grant-that-is-not-there"),
    pytest.param(endpoint(grant="'.'"), [E.format("6:12") + "grant: `.` is a directory or a device; write the path of a grant file"], id="grant-that-is-a-directory"),
    pytest.param(endpoint(grant="/dev/zero"), [E.format("6:12") + "grant: `/dev/zero` is a directory or a device; write the path of a grant file"], id="grant-that-never-ends"),
    pytest.param(endpoint(grant='"a\\0b"'), [E.format("6:12") + "grant: is empty or holds a NUL; write a path"], id="grant-with-a-nul"),
    pytest.param(endpoint(grant="''"), [E.format("6:12") + "grant: is the text ``; write a path"], id="grant-without-a-path"),
    pytest.param(endpoint(grant="bad.yaml") + f"  - {ENDPOINT.replace('g.yaml', 'bad.yaml').replace('api.', 'b.')}\nadmin: x\n", ["s.yaml:8:8: admin: is not a listen address; write `127.0.0.1:8080`, `[::1]:8080` or `unix:path`", "bad.yaml:1:13: operations: is empty; list at least 1"], id="grant-with-problems-told-once-after-those-of-the-settings"),
    # names
    pytest.param(endpoint(name="' '"), [E.format("3:11") + "name: is ` `; write letters, digits, `.`, `_` and `-`"], id="blank-name"),
    pytest.param(endpoint(name='"a\\nb"'), [E.format("3:11") + "name: is `a\\nb`; write letters, digits, `.`, `_` and `-`"], id="name-on-two-lines"),
    pytest.param(endpoint() + "  - {name: api, upstream: 'https://b.example', assurance: semantic, grant: g.yaml}\n", ["s.yaml:7:12: endpoints[1].name: is called `api`, as the endpoint in line 3; name it differently"], id="name-twice"),
    pytest.param(f"endpoints:\n- {ENDPOINT[:-1]}, listen: '127.0.0.1:1'}}\n- {ENDPOINT[:-1]}, listen: '127.0.0.1:2'}}\n", ["s.yaml:3:3: endpoints[1]: is called `api.example`, as the endpoint in line 2; name it differently"], id="default-name-twice"),
    # secrets
    *(pytest.param(endpoint(secrets=f"{{api: {value}}}"), [E.format("7:20") + "secrets.api: does not say where the secret is; write `env:NAME`, `file:PATH` or `exec:COMMAND`"], id=f"secret-{index}") for index, value in enumerate(["hunter2secret", "'env:'", "'env:1X'", "'env:hunter2-x'", "'file:'", "'exec: '", "'vault:x'", "''", '"file:a\\0"', '"exec:a\\0"', """'exec:""'"""])),
    pytest.param(endpoint(secrets="{api: 'exec:pass \"hunter2'}"), [E.format("7:20") + "secrets.api: has a command with an open quote; close it"], id="secret-of-half-a-command"),
    pytest.param(endpoint(secrets="{'a b': 'env:X'}"), [E.format("7:22") + "secrets[`a b`]: has a name that no reference can hold; write letters, digits, `.`, `_`, `-` and `/`"], id="secret-name"),
    pytest.param(endpoint(secrets="[hunter2]"), [E.format("7:14") + "secrets: is a list; write a map: by reference name, where the value is, such as `{\"api\": \"env:API_TOKEN\"}`"], id="secrets-as-a-list"),
    pytest.param(endpoint(secrets="hunter2"), [E.format("7:14") + "secrets: is a text; write a map: by reference name, where the value is, such as `{\"api\": \"env:API_TOKEN\"}`"], id="secrets-as-a-text"),
    pytest.param(endpoint(secrets="{api: [hunter2]}"), [E.format("7:20") + "secrets.api: is a list; write `env:NAME`, `file:PATH` or `exec:COMMAND`"], id="secret-as-a-list"),
    # listeners
    pytest.param(endpoint().replace("127.0.0.1:0", "0.0.0.0:8080"), ["s.yaml:1:8: proxy: is not a loopback address, and everyone there could use the credentials; write `127.0.0.1`, or list `boxes`, so that every request names one"], id="every-address"),
    pytest.param(endpoint().replace("127.0.0.1:0", "'[::]:8080'"), ["s.yaml:1:8: proxy: is not a loopback address, and everyone there could use the credentials; write `127.0.0.1`, or list `boxes`, so that every request names one"], id="every-address-of-ipv6"),
    pytest.param(endpoint(listen="10.0.0.1:80") + "admin: 192.0.2.1:80\n", [E.format("7:13") + "listen: is not a loopback address, and everyone there could use the credentials; write `127.0.0.1`, or list `boxes`, so that every request names one", "s.yaml:8:8: admin: is not a loopback address, and this listener is for this machine alone; write `127.0.0.1`"], id="admin-and-listen"),
    pytest.param(f"endpoints: [{ENDPOINT}]\n", ["s.yaml:1:13: endpoints[0].listen: is missing, and `proxy` is too, so nobody can reach this; add one of them"], id="no-front"),
    pytest.param(endpoint(listen="127.0.0.1:9001") + "admin: localhost:9001\n", [E.format("7:13") + "listen: is the address of `admin` already; choose another port"], id="one-address-twice"),
    pytest.param(endpoint(listen="unix:a") + "admin: unix:a\n", [E.format("7:13") + "listen: is the address of `admin` already; choose another port"], id="one-socket-twice"),
    pytest.param(endpoint() + "  - {name: b, upstream: 'https://API.example:443/x', assurance: semantic, grant: g.yaml}\n", ["s.yaml:7:25: endpoints[1].upstream: has the host and port of `api`, and the proxy front could not tell them apart; put both into one endpoint, or leave `proxy` out"], id="one-host-twice-on-the-proxy-front"),
    # hosts
    pytest.param(endpoint(hosts="[box]"), [E.format("7:5") + "hosts: needs `listen`; add that, or leave it out", E.format("7:13") + "hosts[0]: is `box`, and the listener's port is not fixed; write `name:port`"], id="hosts-without-a-listener"),
    pytest.param(endpoint(listen="127.0.0.1:0", hosts="[box, 'a b', 'box:80']"), [E.format("8:13") + "hosts[0]: is `box`, and the listener's port is not fixed; write `name:port`", E.format("8:18") + "hosts[1]: is `a b`; write `name` or `name:port`"], id="hosts-on-any-port"),
    # env
    pytest.param(endpoint(env="[A_URL]"), [E.format("7:5") + "env: needs `listen`, whose URL the variables hold; add that, or leave it out"], id="env-without-a-listener"),
    pytest.param(endpoint(listen="127.0.0.1:9001", env="[A_URL, 'A-URL', A_URL, 1A, https_proxy, SSL_CERT_FILE]"), [E.format("8:18") + "env[1]: is `A-URL`; write the name of a variable, such as `API_BASE_URL`", E.format("8:27") + "env[2]: is `A_URL`, which is listed already; keep one of them", E.format("8:34") + "env[3]: is `1A`; write the name of a variable, such as `API_BASE_URL`", E.format("8:38") + "env[4]: is `https_proxy`, which leads clients to the proxy itself; write another name", E.format("8:51") + "env[5]: is `SSL_CERT_FILE`, which leads clients to the proxy itself; write another name"], id="env-names"),
    pytest.param(endpoint(listen="127.0.0.1:9001", env="[A_URL]") + "  - {name: b, upstream: 'https://b.example', assurance: semantic, grant: g.yaml, listen: '127.0.0.1:9002', env: [B_URL, A_URL]}\n", ["s.yaml:9:121: endpoints[1].env[1]: is `A_URL`, as of endpoint `api`; write another name"], id="env-of-two-endpoints"),
    # ca, timeout
    pytest.param(endpoint(ca="nope.pem"), [E.format("7:9") + "ca: `nope.pem` does not exist; write the path of a PEM bundle"], id="ca-that-is-not-there"),
    pytest.param(endpoint(ca="g.yaml"), [E.format("7:9") + "ca: `g.yaml` holds no certificate; write the path of a PEM bundle"], id="ca-that-is-none"),
    pytest.param(endpoint(timeout="{connect: 5, total: 0s}"), [E.format("7:24") + "timeout.connect: is `5`; write a number and its unit, such as `10s`, `500ms` or `2m`", E.format("7:34") + "timeout.total: is `0s`; write a number and its unit, such as `10s`, `500ms` or `2m`"], id="timeouts"),
    pytest.param(endpoint(timeout="{connect: 99999999999s}"), [E.format("7:24") + "timeout.connect: is not a duration; write a number and its unit, such as `10s`, `500ms` or `2m`"], id="timeout-beyond-all-bounds"),
    # audit and limits
    pytest.param(endpoint() + "audit: {path: '', sync: never}\n", ["s.yaml:7:15: audit.path: is the text ``; write a path", "s.yaml:7:25: audit.sync: is `never`; write one of `always`, `interval`, `off`"], id="audit"),
    pytest.param(endpoint() + 'audit: {path: "a\\0"}\n', ["s.yaml:7:15: audit.path: is empty or holds a NUL; write a path"], id="audit-path-with-a-nul"),
    pytest.param(endpoint() + "limits: {headerBytes: 64KB, bodyBytes: 0, clients: '3', clientIdle: 10}\n", ["s.yaml:7:23: limits.headerBytes: is `64KB`; write `64KiB`, `32MiB` or a plain number of bytes", "s.yaml:7:40: limits.bodyBytes: is `0`; write `64KiB`, `32MiB` or a plain number of bytes", "s.yaml:7:52: limits.clients: is the text `3`; write a plain number: connections at one time", "s.yaml:7:69: limits.clientIdle: is `10`; write a number and its unit, such as `10s`, `500ms` or `2m`"], id="limits"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_what_is_wrong_is_told_with_its_remedy(here: Path, text: str, expected: list[str]) -> None:
    """Each rule, with file, line, column, path and remedy, nothing besides, and never what may be a secret."""
    assert told(here, text) == expected
    assert "hunter2" not in "".join(expected)


@pytest.mark.parametrize(
    ("host", "inside"),
    [("localhost", True), ("127.0.0.1", True), ("[::1]", True), ("10.0.0.1:8443", True), ("a.example", False), ("localhost.example", False)],
)  # fmt: skip
def test_an_address_or_localhost_is_meant(here: Path, host: str, inside: bool) -> None:
    """An upstream written as an address or as `localhost` may be inside; a name may not."""
    (here / "s.yaml").write_text(endpoint(upstream=f"'https://{host}'"))
    assert is_written_inside(load_settings(Path("s.yaml")).endpoints[0].upstream.host) is inside


NUL = "is empty or holds a NUL; write a path"
UNKNOWN = "begins with the home of somebody who is not known here; write the path in full"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param('"a\\0b"', NUL, id="nul"),
        pytest.param("'~no-such-user-here/x'", UNKNOWN, id="home-of-nobody"),
    ],
)
@pytest.mark.parametrize(
    ("key", "settings_text"),
    [
        pytest.param("state", endpoint() + "state: {}\n", id="state"),
        pytest.param("audit.path", endpoint() + "audit: {path: {}}\n", id="audit"),
        pytest.param("admin", endpoint() + "admin: {unix}\n", id="admin"),
        pytest.param("proxy", endpoint().replace("127.0.0.1:0", "{unix}"), id="proxy"),
        pytest.param("endpoints[0].listen", endpoint(listen="{unix}"), id="listen"),
        pytest.param("endpoints[0].grant", endpoint(grant="{}"), id="grant"),
        pytest.param("endpoints[0].ca", endpoint(ca="{}"), id="ca"),
    ],
)
def test_a_path_is_one_that_the_system_has(here: Path, key: str, settings_text: str, text: str, says: str) -> None:
    """No setting that is a path takes what no path can hold: it would only fail at the start, or after it."""
    unix = text[0] + "unix:" + text[1:]
    (problem,) = told(here, settings_text.replace("{unix}", unix).replace("{}", text))
    place, _, message = problem.partition(f": {key}: ")
    assert place.startswith("s.yaml:")
    assert message == says


def test_a_tilde_is_the_users_home(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` stands for the user's home in every path."""
    monkeypatch.setenv("HOME", str(here))
    listen, secrets = "'unix:~/s'", "{a: 'file:~/t', b: 'file: ~/u '}"
    (here / "s.yaml").write_text(
        endpoint(grant="~/g.yaml", ca="~/ca.pem", listen=listen, secrets=secrets)
        + "state: ~/st\naudit: {path: ~/log.jsonl}\n"
    )
    loaded = load_settings(Path("s.yaml"))
    (found,) = loaded.endpoints
    assert (loaded.state, loaded.audit.path) == (here / "st", here / "log.jsonl")
    assert (found.grant_path, found.ca, found.listen) == (here / "g.yaml", here / "ca.pem", UnixListen(path=here / "s"))
    assert dict(found.secrets) == {"a": f"file:{here}/t", "b": f"file:{here}/u"}


def _pem(body: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("text", "holds no certificate", id="text"),
        pytest.param("-----BEGIN CERTIFICATE-----\n", "holds a certificate that cannot be read", id="marker-alone"),
        pytest.param(_pem("AAAA"), "holds a certificate that cannot be read", id="garbage"),
        pytest.param(
            bundle().decode() + _pem("AAAA"), "holds a certificate that cannot be read", id="garbage-behind-one"
        ),
        pytest.param(bundle().decode() * 2000, "is over 1 MiB", id="too-large"),
    ],
)
def test_a_bundle_is_one_that_the_start_can_load(here: Path, text: str, says: str) -> None:
    """A bundle that no connection could be verified by is found before the start."""
    (here / "b.pem").write_text(text)
    assert told(here, endpoint(ca="b.pem")) == [
        f"s.yaml:7:9: endpoints[0].ca: `b.pem` {says}; write the path of a PEM bundle"
    ]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        *(pytest.param(path, "is a directory; write the path of a file, or `stdout`", id=f"directory-{index}") for index, path in enumerate([".", "..", "/", "x/..", "logs", "{here}"])),
        pytest.param("none/log.jsonl", "is in a directory that does not exist; make it, or write another", id="missing"),
        pytest.param("/none/log.jsonl", "is in a directory that does not exist; make it, or write another", id="missing-elsewhere"),
        pytest.param("/dev/null", "is not a regular file; write the path of one, or `stdout`", id="device"),
        pytest.param("link", "is not a regular file; write the path of one, or `stdout`", id="link"),
        pytest.param("logs/log.jsonl", None, id="in-a-directory"),
        pytest.param("log.jsonl", None, id="in-the-state-directory"),
        pytest.param("there", None, id="is-there"),
    ],
)  # fmt: skip
def test_the_logs_path_is_one_that_can_be_opened(here: Path, path: str, says: str | None) -> None:
    """A log that could not be opened is found before the start."""
    (here / "st" / "logs").mkdir(parents=True)
    (here / "st" / "there").touch()
    (here / "st" / "link").symlink_to("there")
    _hold_log(here, path, says)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        *(pytest.param(path, "is a directory; write the path of a file, or `stdout`", id=f"directory-{index}") for index, path in enumerate([".", "..", "x/.."])),
        pytest.param("logs/log.jsonl", "is in a directory that does not exist; make it, or write another", id="missing"),
        pytest.param("log.jsonl", None, id="in-the-state-directory"),
    ],
)  # fmt: skip
def test_the_state_directory_need_not_be_there_yet(here: Path, path: str, says: str | None) -> None:
    """The first start makes the state directory, and nothing below it."""
    _hold_log(here, path, says)


def _hold_log(here: Path, path: str, says: str | None) -> None:
    path = path.replace("{here}", str(here))
    text = endpoint() + f"state: st\naudit: {{path: '{path}'}}\n"
    if says is None:
        (here / "s.yaml").write_text(text)
        assert load_settings(Path("s.yaml")).audit.path == here / "st" / path
    else:
        assert told(here, text) == [f"s.yaml:8:15: audit.path: {quoted_file(path)} {says}"]


def test_one_host_may_have_two_base_urls(here: Path) -> None:
    """Two endpoints of one host and port are told apart by their listeners, where there is no proxy front."""
    one, two = (
        ENDPOINT.replace("{", f"{{name: {name}, listen: '127.0.0.1:{port}', ") for name, port in [("a", 1), ("b", 2)]
    )
    (here / "s.yaml").write_text(f"endpoints: [{one}, {two}]\n")
    assert [found.name for found in load_settings(Path("s.yaml")).endpoints] == ["a", "b"]


def test_any_free_port_may_be_asked_for_twice(here: Path) -> None:
    """Port 0 is never the same port."""
    (here / "s.yaml").write_text("admin: 127.0.0.1:0\n" + endpoint(listen="127.0.0.1:0"))
    assert load_settings(Path("s.yaml")).admin == TcpListen(host="127.0.0.1", port=0)


def test_a_file_that_is_not_there_is_told(here: Path) -> None:
    """A file that cannot be read has no lines."""
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(Path("nope.yaml"))
    assert str(caught.value) == "nope.yaml: does not exist; write the path of a file"


def test_a_file_that_may_not_be_read_is_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own reason is passed on."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(Path("g.yaml"))
    assert str(caught.value) == "g.yaml: cannot be read: permission denied; write the path of a file"


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64KiB", 65536), ("32MiB", 32 * 1024**2), ("2GiB", 2 * 1024**3), ("7B", 7)]
)
def test_sizes(text: str, size: int) -> None:
    """Bytes with a binary unit, or plain."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "64KB", "64 KiB", "1.5MiB", "-1", "64kib", "KiB", "01", "9" * 20, "1\n"])
def test_what_is_no_size(text: str) -> None:
    """One spelling, so that nobody has to guess what a unit is."""
    with pytest.raises(ValueInvalid):
        parse_size(text)


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("10s", 10.0), ("2m", 120.0), ("1h", 3600.0)])
def test_durations(text: str, seconds: float) -> None:
    """A number and its unit."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "0s", "1.5s", "10 s", "-1s", "s", "1d", "10S", "1s\n"])
def test_what_is_no_duration(text: str) -> None:
    """No unit, no duration."""
    with pytest.raises(ValueInvalid):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:8080", "127.0.0.1", 8080), ("127.9.9.9:0", "127.9.9.9", 0), ("[::1]:65535", "::1", 65535), ("[0:0::1]:1", "::1", 1), ("localhost:5", "127.0.0.1", 5), ("0.0.0.0:1", "0.0.0.0", 1), ("[::]:1", "::", 1), ("10.0.0.1:1", "10.0.0.1", 1)],
)  # fmt: skip
def test_listen_addresses(text: str, host: str, port: int) -> None:
    """An address and a port; `localhost` is 127.0.0.1."""
    assert parse_listen(text, directory=Path()) == TcpListen(host=host, port=port)


@pytest.mark.parametrize(
    "text",
    ["", "8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:08", "127.1:80", "0177.0.0.1:80", "::1:80", "[::1]", "[1.2.3.4]:80", "[::ffff:10.0.0.1]:80", "example.com:80", "*:80", "unix:", "unix:a\0b", "unix:" + "x" * 101, "127.0.0.1:80\n"],
)  # fmt: skip
def test_what_is_no_listen_address(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueInvalid):
        parse_listen(text, directory=Path())


PORTS = ("65536", "99012", "443443", "9" * 5000)


@pytest.mark.parametrize("port", PORTS)
def test_a_port_that_is_too_large_is_told(here: Path, port: str) -> None:
    """Wherever an address is written: its port is what is wrong, and how large one may be is what is right."""
    names = {"proxy": f"127.0.0.1:{port}", "admin": f"'[::1]:{port}'"}
    text = "".join(f"{key}: {value}\n" for key, value in names.items())
    relay = f"{{upstream: 'http://a.example:{port}', assurance: trusted-upstream, listen: '127.0.0.1:{port}'"
    text += f"endpoints:\n- {relay}, hosts: ['box:{port}']}}\ntunnels: {{allow: ['b.example:{port}', '.c:{port}']}}\n"
    (here / "s.yaml").write_text(text)
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(Path("s.yaml"))
    paths = ["proxy", "admin", "endpoints[0].upstream", "endpoints[0].listen", "endpoints[0].hosts[0]"]
    found = {problem.path: problem.message for problem in caught.value.problems}
    assert list(found) == [*paths, "tunnels.allow[0]", "tunnels.allow[1]"]
    assert all("above 65535; write one from 1 to 65535" in message for message in found.values())


# --- settings without a file ---


def test_a_key_of_an_endpoint_that_was_meant_is_named() -> None:
    """As in a file; and what is called as another endpoint names that option."""
    specs = ["upstream=https://a.example;assurnce=semantic", "upstream=https://a.example;assurance=trusted-upstream"]
    with pytest.raises(SettingsInvalid) as caught:
        settings_from_endpoints(specs)
    found = str(caught.value).splitlines()
    assert "--endpoint[0]: assurnce: is an unknown key; did you mean `assurance`?" in found
    assert "--endpoint[1]: is called `a.example`, as the endpoint in `--endpoint[0]`; name it differently" in found


def test_endpoints_on_the_command_line_mean_what_a_file_means(here: Path) -> None:
    """Every field of an endpoint has its key in `--endpoint`."""
    spec = "name=api; upstream=https://api.example/v1;assurance=semantic;grant=./g.yaml;secret=api=env:X;secret=b=exec:a=b;"
    spec += "listen=127.0.0.1:9001;ca=ca.pem;host=box;host=box:80;env=API_BASE_URL;env=API_URL;connect=1s;total=2s"
    loaded = settings_from_endpoints([spec], proxy="127.0.0.1:0", admin="[::1]:0", state="st")
    (found,) = loaded.endpoints
    assert (loaded.proxy, loaded.admin) == (TcpListen(host="127.0.0.1", port=0), TcpListen(host="::1", port=0))
    assert loaded.state == here / "st"
    assert (found.name, str(found.upstream), found.base) == ("api", "https://api.example", ("v1",))
    assert dict(found.secrets) == {"api": "env:X", "b": "exec:a=b"}
    assert found.listen == TcpListen(host="127.0.0.1", port=9001)
    assert found.hosts == (Authority(host="box", port=9001), Authority(host="box", port=80))
    assert found.env == ("API_BASE_URL", "API_URL")
    assert (found.connect_timeout, found.total_timeout, found.ca) == (1.0, 2.0, Path("ca.pem"))


def test_problems_of_the_command_line_name_their_option(here: Path) -> None:
    """`--endpoint[0]: …`, in order; what is in a grant file keeps its place there; no secret in any of them."""
    with pytest.raises(SettingsInvalid) as caught:
        settings_from_endpoints(
            [
                "upstream=https://a.example;secret=hunter2;foo=1;hunter2;hunter2!=x;assurance=semantic;listen=1.2.3.4:1",
                "upstream=x;upstream=y;grant=bad.yaml;total=1s;total=2s;secret=a=hunter2;secret=a=env:X",
            ],
            proxy="x:1",
        )
    assert str(caught.value).splitlines() == [
        "--proxy: is not a listen address; write `127.0.0.1:8080`, `[::1]:8080` or `unix:path`",
        "--endpoint[0]: secret: names no reference; write `secret=NAME=REFERENCE`, such as `secret=api=env:TOKEN`",
        "--endpoint[0]: foo: is an unknown key; the keys here are `name`, `upstream`, `assurance`, `grant`, `secret`, `inject`, `listen`, `ca`, `host`, `env`, `allowInside`, `capture`, `websocket`, `concurrent`, `connect`, `total`, `idle`",
        "--endpoint[0]: has a part without `=`; write `key=value;key=value`, and a value that holds `;` into a file",
        "--endpoint[0]: a key: is an unknown key; the keys here are `name`, `upstream`, `assurance`, `grant`, `secret`, `inject`, `listen`, `ca`, `host`, `env`, `allowInside`, `capture`, `websocket`, `concurrent`, `connect`, `total`, `idle`",
        "--endpoint[0]: grant: is missing; add a text: the grant file, which `semantic` needs, such as `github.grant.yaml`",
        "--endpoint[0]: listen: is not a loopback address, and everyone there could use the credentials; write `127.0.0.1`, or list `boxes`, so that every request names one",
        "--endpoint[1]: upstream: is here twice; keep one of them",
        "--endpoint[1]: total: is here twice; keep one of them",
        "--endpoint[1]: secret: has one name twice; give each secret its own name",
        "--endpoint[1]: assurance: is missing; add one of `semantic`, `trusted-upstream`: what the endpoint promises",
        "--endpoint[1]: upstream: is not a URL; write `https://host`",
        "bad.yaml:1:13: operations: is empty; list at least 1",
    ]


def test_no_endpoint_is_a_problem(here: Path) -> None:
    """A proxy without an endpoint allows nothing."""
    with pytest.raises(SettingsInvalid, match=r"^--endpoint: is empty; list at least 1$"):
        settings_from_endpoints([])


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.from_regex(
                r"((name|upstream|assurance|secret|inject|listen|host|total|idle|ca|grant|capture|concurrent)=[^;]{0,9};){1,4}",
                fullmatch=True,
            ),
        ),
        max_size=3,
    )
)
def test_any_spec_gives_settings_or_problems(specs: list[str]) -> None:
    """Whatever stands on the command line: settings or `SettingsInvalid`, and nothing else."""
    try:
        settings_from_endpoints(specs, proxy="127.0.0.1:0")
    except Invalid as invalid:
        lines = [str(problem) for problem in invalid.problems]
    assert lines
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param("g.yaml", "{here}/conf/g.yaml", id="below"),
        pytest.param("../g.yaml", "{here}/g.yaml", id="beside"),
        pytest.param("./a/../../g.yaml", "{here}/g.yaml", id="there and back"),
        pytest.param("link/../g.yaml", "{here}/else/g.yaml", id="above what a link leads to"),
        pytest.param("../link/g.yaml", "{here}/link/g.yaml", id="a link behind it is kept"),
    ],
)
def test_paths_are_shown_without_parents(tmp_path: Path, text: str, path: str) -> None:
    """`..` is taken out as the system would go, so that a message names the place itself."""
    conf = tmp_path / "conf"
    (tmp_path / "else" / "where").mkdir(parents=True)
    conf.mkdir()
    (conf / "link").symlink_to(tmp_path / "else" / "where")
    (tmp_path / "link").symlink_to(tmp_path / "else")
    assert str(parse_path(text, directory=conf)) == path.format(here=tmp_path.resolve())
