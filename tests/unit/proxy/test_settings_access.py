"""Settings of relays, tunnels and boxes: what each means, and what is refused with its place and its remedy."""

# ruff: noqa: E501 - one case is one row

from functools import cache
from pathlib import Path

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.message import Authority, Origin
from proxy.settings import (
    Assurance,
    BoxSettings,
    Settings,
    SettingsInvalid,
    TcpListen,
    TunnelRule,
    Tunnels,
    UnixListen,
    load_settings,
    settings_from_endpoints,
)
from proxy.settings.tunnels import parse_rule
from proxy.settings.values import ValueInvalid, named

EXAMPLES = Path(__file__).parents[3] / "examples"
RELAY = {"name": "llm", "upstream": "https://llm.example", "assurance": "trusted-upstream"}
HELD = {"name": "api", "upstream": "https://api.example", "assurance": "semantic", "grant": "g.yaml"}


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


def item(base: dict[str, str], **fields: str) -> str:
    """An endpoint as YAML, one key a line from column 5, the list's dash in column 3; an empty text takes a key out."""
    lines = [f"{key}: {value}" for key, value in (base | fields).items() if value]
    return "  - " + "\n    ".join(lines) + "\n"


def relay(**fields: str) -> str:
    """Settings with one `trusted-upstream` endpoint in lines 3 to 5."""
    return "proxy: 127.0.0.1:0\nendpoints:\n" + item(RELAY, **fields)


def held(**fields: str) -> str:
    """Settings with one `semantic` endpoint in lines 3 to 6."""
    return "proxy: 127.0.0.1:0\nendpoints:\n" + item(HELD, **fields)


def loaded(here: Path, text: str) -> Settings:
    (here / "s.yaml").write_text(text)
    return load_settings(Path("s.yaml"))


def told(here: Path, text: str) -> list[str]:
    with pytest.raises(SettingsInvalid) as caught:
        loaded(here, text)
    return str(caught.value).splitlines()


# --- what the keys mean ---


def test_the_reference_s_example_loads(here: Path) -> None:
    """What the page shows is what is taken."""
    page = (EXAMPLES.parent / "docs" / "reference" / "settings.md").read_text()
    (here / "github.grant.yaml").write_text((here / "g.yaml").read_text())
    settings = loaded(here, page.split("```yaml\n")[1].split("```")[0])
    assert [endpoint.assurance for endpoint in settings.endpoints] == ["semantic", "trusted-upstream"]
    assert settings.boxes[0].endpoints == {"github", "llm"}


def test_the_sample_s_relay_and_tunnels_load() -> None:
    """A sample that does not load is no help."""
    settings = load_settings(EXAMPLES / "grantproxy.yaml")
    assert settings.endpoints[1].inject == ((b"X-Api-Key", b"@secret:key"),)
    assert settings.tunnels.allows(Authority(host="files.pythonhosted.org", port=443))


def test_everything_of_a_relay_can_be_set(here: Path) -> None:
    """Each key means what the reference says."""
    text = relay(
        upstream="http://llm.example:8000/v1",
        secrets="{api: env:TOKEN, b: env:OTHER}",
        inject="{Authorization: 'Bearer @secret:api', X-Both: '@secret:api and @secret:b', X-Version: 2}",
        allowInside="true",
        capture="true",
        websocket="true",
        concurrent="3",
        timeout="{connect: 1s, total: 1h, idle: 20s}",
    )
    (endpoint,) = loaded(here, text).endpoints
    assert (endpoint.assurance, endpoint.grant, endpoint.grant_path) == (Assurance.TRUSTED_UPSTREAM, None, None)
    assert (endpoint.upstream, endpoint.base) == (Origin(scheme="http", host="llm.example", port=8000), ("v1",))
    assert endpoint.inject == (
        (b"Authorization", b"Bearer @secret:api"),
        (b"X-Both", b"@secret:api and @secret:b"),
        (b"X-Version", b"2"),
    )
    assert (endpoint.allow_inside, endpoint.capture, endpoint.websocket) == (True, True, True)
    assert endpoint.concurrent == 3
    assert (endpoint.connect_timeout, endpoint.total_timeout, endpoint.idle_timeout) == (1.0, 3600.0, 20.0)
    assert "Bearer" not in repr(endpoint)


def test_a_relay_may_last_a_day_and_is_closed_otherwise(here: Path) -> None:
    """A stream has no usual length, so a relay's total is long and its pause bounded; nothing else is on by itself."""
    (endpoint,) = loaded(here, relay()).endpoints
    assert (endpoint.total_timeout, endpoint.idle_timeout) == (86400.0, 300.0)
    assert (endpoint.allow_inside, endpoint.capture, endpoint.websocket) == (False, False, False)
    assert (endpoint.concurrent, endpoint.inject, endpoint.upstream.port) == (256, (), 443)


def test_a_semantic_endpoint_takes_the_keys_of_both(here: Path) -> None:
    """`inject`, `allowInside`, `capture` and `concurrent` are not about the assurance; `websocket: false` says nothing."""
    text = held(inject="{X-Key: literal}", allowInside="true", capture="true", concurrent="1", websocket="false")
    (endpoint,) = loaded(here, text).endpoints
    assert (endpoint.inject, endpoint.concurrent, endpoint.websocket) == (((b"X-Key", b"literal"),), 1, False)
    assert (endpoint.allow_inside, endpoint.capture, endpoint.total_timeout) == (True, True, 60.0)


def test_an_http_upstream_has_the_port_of_http(here: Path) -> None:
    """RFC 9110, 4.2.1: 80 where none is written."""
    (endpoint,) = loaded(here, relay(upstream="http://llm.example")).endpoints
    assert endpoint.upstream == Origin(scheme="http", host="llm.example", port=80)


def test_basic_credentials_may_hold_a_reference(here: Path) -> None:
    """A reference is found under the base64 of Basic, where it is replaced."""
    # base64 of `x:@secret:api`
    text = relay(secrets="{api: env:TOKEN}", inject="{Authorization: Basic eDpAc2VjcmV0OmFwaQ==}")
    assert loaded(here, text).endpoints[0].inject == ((b"Authorization", b"Basic eDpAc2VjcmV0OmFwaQ=="),)


def test_tunnels_can_be_set(here: Path) -> None:
    """Hosts and suffixes with their ports, in the order of the file, canonical; limits as they are written."""
    text = (
        relay()
        + "tunnels: {allow: ['PyPI.org:443', '.pythonhosted.org:443', '[::1]:22', 'localhost:9'], idle: 1m, total: 1h}\n"
    )
    assert loaded(here, text).tunnels == Tunnels(
        allow=(
            TunnelRule(host="pypi.org", suffix=False, port=443),
            TunnelRule(host="pythonhosted.org", suffix=True, port=443),
            TunnelRule(host="::1", suffix=False, port=22),
            TunnelRule(host="localhost", suffix=False, port=9),
        ),
        idle=60.0,
        total=3600.0,
    )


def test_without_tunnels_there_are_none(here: Path) -> None:
    """Nothing is allowed by itself; the limits have their usual values."""
    assert loaded(here, relay()).tunnels == Tunnels(allow=(), idle=600.0, total=86400.0)
    assert loaded(here, relay() + "tunnels: {allow: ['a.example:1']}\n").tunnels.idle == 600.0


def test_boxes_can_be_set(here: Path) -> None:
    """A token's reference, never its value; what a box is not given, it may not use."""
    text = (
        relay()
        + "tunnels: {allow: ['a.example:1']}\nboxes:\n- {name: agent-1, token: 'file:t', endpoints: [llm], tunnels: true}\n- {name: 2, token: 'exec:pass box'}\n"
    )
    assert loaded(here, text).boxes == (
        BoxSettings(name="agent-1", token="file:t", endpoints=frozenset({"llm"}), tunnels=True),
        BoxSettings(name="2", token="exec:pass box", endpoints=frozenset(), tunnels=False),
    )
    assert loaded(here, relay()).boxes == ()


@pytest.mark.parametrize("address", ["0.0.0.0:8080", "'[::]:8080'", "10.1.2.3:8080", "'[fd00::1]:0'"])
def test_with_boxes_a_front_may_be_on_any_address(here: Path, address: str) -> None:
    """Every request names a box then, on the proxy front and on a base URL."""
    text = relay(listen=address.replace("8080", "9001")).replace("127.0.0.1:0", address)
    settings = loaded(here, text + "boxes: [{name: a, token: env:A}]\n")
    assert isinstance(settings.proxy, TcpListen)
    assert not settings.proxy.local
    assert settings.endpoints[0].listen is not None
    assert not settings.endpoints[0].listen.local


def test_a_unix_socket_is_local() -> None:
    """A socket is its owner's, so it needs no boxes; and so is every loopback address."""
    assert UnixListen(path=Path("a")).local
    assert all(TcpListen(host=host, port=1).local for host in ("127.0.0.1", "127.9.9.9", "::1"))


# --- what is refused ---

R = "s.yaml:{}: endpoints[0]."
BOX = "boxes: [{name: a, token: env:A}]\n"
UNLOCAL = "is not a loopback address, and everyone there could use the credentials; write `127.0.0.1`, or list `boxes`, so that every request names one"
REFERENCE = "does not say where the secret is; write `env:NAME`, `file:PATH` or `exec:COMMAND`"
AROUND = "leave it out, as no tunnel goes around a grant"
COMBINATIONS = [
    pytest.param(relay(assurance=""), [R.format("3:5") + "assurance: is missing; add one of `semantic`, `trusted-upstream`: what the endpoint promises"], id="endpoint-without-assurance"),
    pytest.param(held(grant=""), [R.format("3:5") + "grant: is missing; add a text: the grant file, which `semantic` needs, such as `github.grant.yaml`"], id="semantic-without-grant"),
    pytest.param(held(upstream="http://api.example"), [R.format("4:15") + "upstream: is not https, which a semantic endpoint needs; write `https://host`"], id="semantic-with-http"),
    pytest.param(relay(grant="g.yaml"), [R.format("6:5") + "grant: is not held by `trusted-upstream`, which relays everything; leave it out, or write `semantic`"], id="trusted-upstream-with-grant"),
    pytest.param(relay(grant="bad.yaml"), [R.format("6:5") + "grant: is not held by `trusted-upstream`, which relays everything; leave it out, or write `semantic`"], id="trusted-upstream-with-a-bad-grant"),
    pytest.param(held(websocket="true"), [R.format("7:16") + "websocket: is only for `trusted-upstream`, as no grant can hold a WebSocket; leave it out"], id="semantic-with-websocket"),
    pytest.param(held(timeout="{idle: 5s}"), [R.format("7:15") + "timeout.idle: is for the streams of `trusted-upstream`; leave it out, `total` is the bound here"], id="semantic-with-idle"),
    pytest.param(relay(upstream="http://llm.example", ca="ca.pem"), [R.format("6:5") + "ca: is for an https upstream; leave it out"], id="ca-without-tls"),
    *(
        pytest.param("proxy: 127.0.0.1:0\nendpoints:\n" + one + item(RELAY, name="two", upstream=upstream), [f"s.yaml:{line}:15: endpoints[1].upstream: has the host and port of `{name}`, and the proxy front could not tell them apart; put both into one endpoint, or leave `proxy` out"], id=label)
        for label, one, upstream, name, line in (
            ("two-relays-of-one-host", item(RELAY), "https://LLM.example:443/v2", "llm", 7),
            ("a-relay-of-a-semantic-host", item(HELD), "https://api.example", "api", 8),
            ("http-and-https-on-one-port", item(RELAY), "http://llm.example:443", "llm", 7),
        )
    ),
    pytest.param("proxy: 127.0.0.1:0\nendpoints:\n" + item(HELD, grant="nope.yaml", name="") + item(RELAY, upstream="https://api.example"), ["s.yaml:5:12: endpoints[0].grant: `nope.yaml` does not exist; write the path of a grant file", "s.yaml:7:15: endpoints[1].upstream: has the host and port of `api.example`, and the proxy front could not tell them apart; put both into one endpoint, or leave `proxy` out"], id="one-host-twice-beside-a-bad-grant"),
    pytest.param("endpoints:\n" + item(RELAY), ["s.yaml:2:5: endpoints[0].listen: is missing, and `proxy` is too, so nobody can reach this; add one of them"], id="relay-without-a-front"),
    # a tunnel around a grant
    pytest.param(held() + "tunnels: {allow: ['b.example:443', 'API.example:443']}\n", [f"s.yaml:7:36: tunnels.allow[1]: is `api.example:443`, which covers the host of endpoint `api`; {AROUND}"], id="tunnel-to-a-semantic-host"),
    pytest.param(held() + "tunnels:\n  allow:\n  - .example:443\n", [f"s.yaml:9:5: tunnels.allow[0]: is `.example:443`, which covers the host of endpoint `api`; {AROUND}"], id="suffix-over-a-semantic-host"),
    pytest.param(held(upstream="https://[::1]:8443") + "tunnels: {allow: ['[::1]:8443']}\n", [f"s.yaml:7:19: tunnels.allow[0]: is `[::1]:8443`, which covers the host of endpoint `api`; {AROUND}"], id="tunnel-to-a-semantic-address"),
    pytest.param(held(grant="bad.yaml") + "tunnels: {allow: ['api.example:443']}\n", [f"s.yaml:7:19: tunnels.allow[0]: is `api.example:443`, which covers the host of endpoint `api`; {AROUND}", "bad.yaml:1:13: operations: is empty; list at least 1"], id="tunnel-beside-a-bad-grant"),
    # a front for everybody
    pytest.param(relay(listen="0.0.0.0:9001").replace("127.0.0.1:0", "10.0.0.1:8080"), [f"s.yaml:1:8: proxy: {UNLOCAL}", R.format("6:13") + f"listen: {UNLOCAL}"], id="fronts-for-others-without-boxes"),
    pytest.param(relay(listen="'[::]:9001'"), [R.format("6:13") + f"listen: {UNLOCAL}"], id="base-url-for-others-without-boxes"),
    pytest.param(relay() + "admin: 0.0.0.0:8081\n" + BOX, ["s.yaml:6:8: admin: is not a loopback address, and this listener is for this machine alone; write `127.0.0.1`"], id="admin-for-others-with-boxes"),
    pytest.param(relay(listen="0.0.0.0:8080").replace("127.0.0.1:0", "127.0.0.1:8080") + BOX, [R.format("6:13") + "listen: is the address of `proxy` already; choose another port"], id="every-address-and-one-of-them"),
    pytest.param(relay(listen="'[::1]:8080'").replace("127.0.0.1:0", "'[::]:8080'") + BOX, [R.format("6:13") + "listen: is the address of `proxy` already; choose another port"], id="one-of-every-address"),
]  # fmt: skip
REFUSED = [
    pytest.param(relay(upstream="ftp://llm.example"), [R.format("4:15") + "upstream: is neither https nor http; write `https://host`"], id="ftp"),
    pytest.param(relay(upstream="http://127.1"), [R.format("4:15") + "upstream: has a host or a port that can be read in more than one way; write `http://host:port`"], id="http-authority"),
    pytest.param(relay(upstream="http://u:hunter2@llm.example"), [R.format("4:15") + "upstream: holds a user or a password; put the credential into `secrets`"], id="http-userinfo"),
    pytest.param(relay(assurance="none", grant="g.yaml"), [R.format("5:16") + "assurance: is `none`; write one of `semantic`, `trusted-upstream`"], id="unknown-assurance"),
    pytest.param(relay(concurrent="0", capture="'true'", websocket="yes", allowInside="1"), [R.format("6:17") + "concurrent: is `0`; write a number that is at least 1", R.format("7:14") + "capture: is the text `true`; write plain `true` or `false`: whether requests are written to the endpoint's own file, before secrets are put in", R.format("8:16") + "websocket: is `yes`; write plain `true` or `false`: whether WebSockets are relayed; `trusted-upstream` only", R.format("9:18") + "allowInside: is `1`; write plain `true` or `false`: whether the upstream's name may resolve to an address inside the network"], id="switches"),
    pytest.param(relay(timeout="{idle: 5}"), [R.format("6:21") + "timeout.idle: is `5`; write a number and its unit, such as `10s`, `500ms` or `2m`"], id="idle"),
    pytest.param(relay(timeout="{idle: 99999999999s}"), [R.format("6:21") + "timeout.idle: is not a duration; write a number and its unit, such as `10s`, `500ms` or `2m`"], id="idle-beyond-all-bounds"),
    # inject
    *(pytest.param(relay(inject=f"{{{name}: hunter2secret}}"), [R.format(f"6:{16 + len(name)}") + f"inject.{name}: sets a header that the connection itself needs; leave it out"], id=f"inject-{name.lower()}") for name in ("Host", "connection", "Content-Length", "Transfer-Encoding", "TE", "Trailer", "Upgrade", "Expect", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection")),
    *(pytest.param(relay(inject=f"{{{name}: hunter2secret}}"), [R.format(f"6:{16 + len(name)}") + f"inject.{name}: sets a header that says how the client's body is read; leave it to the client"], id=f"inject-{name.lower()}") for name in ("Content-Type", "content-encoding")),
    pytest.param(relay(inject="{'X Key': hunter2, 'é': hunter2}"), [R.format("6:23") + "inject[`X Key`]: has a name that no header can have; write letters, digits and `-`", R.format("6:37") + "inject[`é`]: has a name that no header can have; write letters, digits and `-`"], id="inject-names"),
    pytest.param(relay(inject="{X-Key: a, x-key: b}"), [R.format("6:31") + "inject.x-key: sets one header twice, as letter case makes no difference; keep one of them"], id="inject-twice"),
    *(pytest.param(relay(inject=f"{{X: {value}}}"), [R.format("6:17") + "inject.X: is not visible ASCII without white space around it; write such as `Bearer @secret:api`"], id=f"inject-value-{index}") for index, value in enumerate(["' hunter2'", "'hunter2 '", '"hunter2\\r\\nX: y"', '"a\\tb"', "hunter2é", "''"])),
    pytest.param(relay(inject="{X: }"), [R.format("6:17") + "inject.X: has no value; write a text, such as `Bearer @secret:api`"], id="inject-no-value"),
    pytest.param(relay(inject="{X: [hunter2]}"), [R.format("6:17") + "inject.X: is a list; write a text, such as `Bearer @secret:api`"], id="inject-a-list"),
    pytest.param(relay(inject="hunter2"), [R.format("6:13") + "inject: is a text; write a map: by header name, what the proxy sets there in place of what the client sent, such as `{\"Authorization\": \"Bearer @secret:api\"}`"], id="inject-a-text"),
    pytest.param(relay(inject="{X: '@secret:hunter2'}"), [R.format("6:17") + "inject.X: refers to a secret that the endpoint, which has none, does not have; add it to `secrets`"], id="inject-without-secrets"),
    pytest.param(relay(secrets="{b: env:B, a: env:A}", inject="{X: '@secret:a@secret:hunter2', Y: '@secret:'}"), [R.format("7:17") + "inject.X: refers to a secret that the endpoint, which has `a`, `b`, does not have; add it to `secrets`", R.format("7:48") + "inject.Y: refers to a secret that the endpoint, which has `a`, `b`, does not have; add it to `secrets`"], id="inject-of-another-secret"),
    pytest.param(relay(secrets="{a: hunter2}", inject="{X: '@secret:a'}"), [R.format("6:18") + f"secrets.a: {REFERENCE}"], id="inject-of-a-bad-secret-is-told-once"),
    pytest.param(relay(secrets="hunter2", inject="{X: '@secret:a'}"), [R.format("6:14") + "secrets: is a text; write a map: by reference name, where the value is, such as `{\"api\": \"env:API_TOKEN\"}`"], id="inject-beside-bad-secrets"),
    # tunnels
    pytest.param(relay() + "tunnels: {}\n", ["s.yaml:6:10: tunnels.allow: is missing; add a list: where they may lead: `host:port` or `.suffix:port`, such as `- pypi.org:443`"], id="tunnels-to-nowhere"),
    pytest.param(relay() + "tunnels: {allow: [], allowInside: true, deny: []}\n", ["s.yaml:6:18: tunnels.allow: is empty; list at least 1", "s.yaml:6:22: tunnels.allowInside: is an unknown key; write the address itself, or `localhost`, into `allow`: that allows exactly it", "s.yaml:6:41: tunnels.deny: is an unknown key; what `allow` does not list is refused"], id="tunnels-keys"),
    pytest.param("endpoints:\n" + item(RELAY, listen="127.0.0.1:1") + "tunnels: {allow: ['a.example:1']}\n", ["s.yaml:6:1: tunnels: need `proxy`, as only that front has CONNECT; add it, or leave them out"], id="tunnels-without-a-proxy"),
    pytest.param(relay() + "tunnels: {allow: ['a.example:1', '.a.example:1', 'A.EXAMPLE:1', 'a.example:2', '.A.example:1']}\n", ["s.yaml:6:50: tunnels.allow[2]: is `a.example:1`, which is listed already; keep one of them", "s.yaml:6:80: tunnels.allow[4]: is `.a.example:1`, which is listed already; keep one of them"], id="tunnel-twice"),
    pytest.param(relay() + "tunnels: {allow: ['a.example', {}], idle: 1, total: 0s}\n", ["s.yaml:6:19: tunnels.allow[0]: is `a.example`, which names no port; write it too, such as `host:443`", "s.yaml:6:32: tunnels.allow[1]: is a map; write `host:port` or `.suffix:port`", "s.yaml:6:43: tunnels.idle: is `1`; write a number and its unit, such as `10s`, `500ms` or `2m`", "s.yaml:6:53: tunnels.total: is `0s`; write a number and its unit, such as `10s`, `500ms` or `2m`"], id="tunnels-values"),
    # boxes
    pytest.param(relay() + "boxes: []\n", ["s.yaml:6:8: boxes: is empty; list at least 1"], id="no-boxes"),
    pytest.param(relay() + "boxes: [{}]\n", ["s.yaml:6:9: boxes[0].name: is missing; add a text: what records call it, such as `agent-1`", "s.yaml:6:9: boxes[0].token: is missing; add a text: where its token is, such as `env:AGENT_1_TOKEN`"], id="empty-box"),
    *(pytest.param(relay() + f"boxes: [{{name: {name}, token: env:A}}]\n", [f"s.yaml:6:16: boxes[0].name: is `{shown}`; write at most 63 letters, digits, `.`, `_` and `-`"], id=f"box-name-{index}") for index, (name, shown) in enumerate([("''", ""), ("-a", "-a"), ("a b", "a b"), ("é", "é"), ("a:b", "a:b"), ("a/b", "a/b"), ('"a\\n"', "a\\n"), ("a" * 64, "a" * 60 + "…")])),
    pytest.param(relay() + "boxes:\n- {name: a, token: env:A}\n- {name: a, token: env:B}\n- {name: a, token: env:A}\n", ["s.yaml:8:10: boxes[1].name: is `a`, as the box in line 7; name it differently", "s.yaml:9:10: boxes[2].name: is `a`, as the box in line 7; name it differently", "s.yaml:9:20: boxes[2].token: is the token of box `a` too; give each box a token of its own"], id="box-twice"),
    pytest.param(relay() + "boxes:\n- {token: env:A}\n- {name: b, token: env:A}\n", ["s.yaml:7:3: boxes[0].name: is missing; add a text: what records call it, such as `agent-1`", "s.yaml:8:20: boxes[1].token: is the token of a box too; give each box a token of its own"], id="token-of-a-box-without-a-name"),
    pytest.param(relay(secrets="{api: 'file:x'}") + "boxes: [{name: a, token: 'file:./x'}]\n", ["s.yaml:7:26: boxes[0].token: is a secret of endpoint `llm` too; give each box a token of its own"], id="token-that-is-a-credential"),
    *(pytest.param(relay() + f"boxes: [{{name: a, token: {token}}}]\n", [f"s.yaml:6:26: boxes[0].token: {REFERENCE}"], id=f"token-{index}") for index, token in enumerate(["hunter2secret", "'env:hunter2-x'", "'exec: '", "'vault:hunter2'", "''"])),
    pytest.param(relay() + "boxes: [{name: a, token: [hunter2]}, hunter2]\n", ["s.yaml:6:26: boxes[0].token: is a list; write `env:NAME`, `file:PATH` or `exec:COMMAND`", "s.yaml:6:38: boxes[1]: is a text; write a map: a client and what it may use, such as `name: agent-1`"], id="token-as-a-list"),
    pytest.param(relay() + "boxes: [{name: a, token: env:A, endpoints: [llm, github, llm]}]\n", ["s.yaml:6:50: boxes[0].endpoints[1]: is `github`, which is no endpoint; the endpoints are `llm`", "s.yaml:6:58: boxes[0].endpoints[2]: is `llm`, which is listed already; keep one of them"], id="box-with-endpoints-that-are-none"),
    pytest.param(relay(name="", upstream="x") + "boxes: [{name: a, token: env:A, endpoints: [llm.example]}]\n", ["s.yaml:3:15: endpoints[0].upstream: is not a URL; write `https://host`"], id="endpoint-whose-name-is-not-known-yet"),
    pytest.param(relay() + "boxes: [{name: a, token: env:A, tunnels: true}]\n", ["s.yaml:6:33: boxes[0].tunnels: is set, and there are none; add `tunnels` at the top, or leave this out"], id="box-with-tunnels-that-are-none"),
    pytest.param(relay() + "boxes: [{name: a, token: env:A, fountain: {}, anthropic: {}, grant: x}]\n", ["s.yaml:6:33: boxes[0].fountain: is for the broker, which has none; add `fountain` below `broker`, or leave this out", "s.yaml:6:47: boxes[0].anthropic: is for the broker, which has none; add `anthropic` below `broker`, or leave this out", "s.yaml:6:58: boxes[0].anthropic.credential: is missing; add a text: where the API key or the setup token is, such as `env:OWNER_KEY`", "s.yaml:6:62: boxes[0].grant: is an unknown key; the keys here are `name`, `token`, `endpoints`, `tunnels`, `fountain`, `anthropic`"], id="box-keys"),
    pytest.param(relay(host="x") + "tunnel: {}\nbox: {}\ncapture: true\n", [R.format("6:5") + "host: is an unknown key; write `hosts` with a list under it", "s.yaml:7:1: tunnel: is an unknown key; write `tunnels` with a map under it", "s.yaml:8:1: box: is an unknown key; write `boxes` with a list under it", "s.yaml:9:1: capture: belongs to an endpoint; write `capture: true` there"], id="near-keys"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), COMBINATIONS)
def test_parts_that_do_not_go_together_are_told_with_their_line(here: Path, text: str, expected: list[str]) -> None:
    """Whatever would let one part undo what another promises is refused, with file, line, column and remedy."""
    assert told(here, text) == expected


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_what_is_wrong_is_told_with_its_remedy(here: Path, text: str, expected: list[str]) -> None:
    """Each rule, with file, line, column, path and remedy, nothing besides, and never what may be a secret."""
    assert told(here, text) == expected
    assert "hunter2" not in "".join(expected)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("api.example:22", id="another-port"),
        pytest.param(".api.example:443", id="the-names-below-it"),
        pytest.param(".pi.example:443", id="half-a-label"),
        pytest.param("llm.example:443", id="a-relay's-host"),
    ],
)
def test_a_tunnel_beside_a_grant_is_allowed(here: Path, rule: str) -> None:
    """Only host and port of a semantic endpoint are closed to tunnels."""
    text = held() + item(RELAY) + f"tunnels: {{allow: ['{rule}']}}\n"
    assert str(loaded(here, text).tunnels.allow[0]) == rule


def test_one_host_may_have_two_ports(here: Path) -> None:
    """Host and port together tell endpoints apart, also by their schemes' own ports."""
    text = relay() + item(RELAY, name="plain", upstream="http://llm.example")
    assert [str(endpoint.upstream) for endpoint in loaded(here, text).endpoints] == ["https://llm.example", "http://llm.example"]  # fmt: skip


def test_both_families_may_have_one_port(here: Path) -> None:
    """`0.0.0.0` takes the port of every IPv4 address, and of no other."""
    text = relay(listen="'[::1]:8080'").replace("127.0.0.1:0", "0.0.0.0:8080") + BOX
    assert str(loaded(here, text).proxy) == "0.0.0.0:8080"


# --- tunnel rules ---

RULES = (
    "pypi.org:443",
    ".hosted.example:443",
    ".localhost:443",
    "localhost:80",
    "127.0.0.1:22",
    "[::1]:22",
    "10.0.0.1:22",
)
TUNNELS = Tunnels(allow=tuple(parse_rule(rule) for rule in RULES))


@pytest.mark.parametrize(
    ("host", "port", "allowed"),
    [
        pytest.param("pypi.org", 443, True, id="host"),
        pytest.param("pypi.org", 80, False, id="another-port"),
        pytest.param("www.pypi.org", 443, False, id="below-a-host"),
        pytest.param("evilpypi.org", 443, False, id="ends-like-a-host"),
        pytest.param("a.hosted.example", 443, True, id="below-a-suffix"),
        pytest.param("a.b.hosted.example", 443, True, id="far-below-a-suffix"),
        pytest.param("hosted.example", 443, False, id="the-suffix-itself"),
        pytest.param("evilhosted.example", 443, False, id="ends-like-a-suffix"),
        pytest.param("hosted.example.evil", 443, False, id="begins-like-a-suffix"),
        pytest.param("a.hosted.example", 8443, False, id="suffix-with-another-port"),
        pytest.param("::1", 22, True, id="address"),
        pytest.param("::2", 22, False, id="another-address"),
        pytest.param("127.0.0.1", 443, False, id="address-with-another-port"),
    ],
)
def test_a_tunnel_leads_where_a_rule_says(host: str, port: int, allowed: bool) -> None:
    """A host is itself, a suffix every name below it; the port is part of both."""
    assert TUNNELS.allows(Authority(host=host, port=port)) is allowed


def test_an_address_is_consent_for_exactly_that() -> None:
    """What was written as an address, or as `localhost`, may be inside; a suffix never is."""
    assert TUNNELS.consented == {("localhost", 80), ("127.0.0.1", 22), ("::1", 22), ("10.0.0.1", 22)}


@pytest.mark.parametrize("text", RULES)
def test_a_rule_prints_as_it_is_written(text: str) -> None:
    """So that records and messages name what the operator wrote."""
    assert str(parse_rule(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "write `host:port` or `.suffix:port`") for text in ("", ".", ":443", ".:443", "..a:1", "a..b:1", "a.:1", "a:0", "a:01", "a:", "a:+1", "a b:1", "*.a:1", "*:443", "u@a:1", "https://a:1", "a:1/x", "a_b:1", "127.1:80", "0x7f.1:1", "[::1", "::1:22", "[0::1]:1", "[::ffff:1.2.3.4]:1", "a:1\n", ".1.2:80")),
        *((text, "names no port") for text in ("a.example", ".a.example", "1.2.3.4", "[::1]")),
        *((text, "below an address") for text in (".1.2.3.4:80", ".[::1]:80")),
        *((text, "write the name as DNS has it") for text in ("é.example:443", "a。example:443")),
    ],
)  # fmt: skip
def test_what_is_no_tunnel_rule(text: str, message: str) -> None:
    """One spelling of each host, and a port always."""
    with pytest.raises(ValueInvalid, match=message):
        parse_rule(text)


LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,5}[a-z0-9])?", fullmatch=True)


@settings(deadline=None, max_examples=100)
@given(st.lists(LABEL, min_size=1, max_size=4), st.booleans(), st.integers(1, 65535), st.lists(LABEL, max_size=3))
def test_a_suffix_is_whole_labels(labels: list[str], suffix: bool, port: int, below: list[str]) -> None:
    """A rule covers a name by whole labels or not at all: by none for a host, by at least one for a suffix."""
    host = ".".join(labels)
    rule = parse_rule(f"{'.' if suffix else ''}{host}:{port}")
    assert rule == TunnelRule(host=host, suffix=suffix, port=port)
    assert rule.covers(".".join([*below, host]), port) is (bool(below) is suffix)
    assert not rule.covers("x" + host, port)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=30))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    """Whatever is written: a rule that reads back as itself, or `ValueInvalid`."""
    try:
        rule = parse_rule(text)
    except ValueInvalid:
        return
    assert parse_rule(str(rule)) == rule


def test_long_lists_of_names_are_cut() -> None:
    """Five are shown, and how many more there are."""
    assert named(["a", "b"]) == "`a`, `b`"
    assert named(list("abcdefg")) == "`a`, `b`, `c`, `d`, `e` and 2 more"


# --- settings without a file ---


def test_a_relay_on_the_command_line_means_what_a_file_means(here: Path) -> None:
    """Every field of an endpoint has its key in `--endpoint`."""
    spec = "name=llm;upstream=http://llm.example;assurance=trusted-upstream;secret=api=env:TOKEN;inject=Authorization=Bearer @secret:api;"
    spec += "inject=X-Query=a=b;allowInside=true;capture=true;websocket=true;concurrent=7;connect=1s;total=2s;idle=3s"
    (found,) = settings_from_endpoints([spec], proxy="127.0.0.1:0").endpoints
    text = relay(
        upstream="http://llm.example",
        secrets="{api: env:TOKEN}",
        inject="{Authorization: 'Bearer @secret:api', X-Query: a=b}",
        allowInside="true",
        capture="true",
        websocket="true",
        concurrent="7",
        timeout="{connect: 1s, total: 2s, idle: 3s}",
    )
    assert found == loaded(here, text).endpoints[0]
    assert found.concurrent == 7


def test_problems_of_a_relay_on_the_command_line_name_their_option() -> None:
    """`--endpoint[0]: …`, without what may be a secret."""
    spec = "upstream=https://a.example;assurance=trusted-upstream;grant=g.yaml;inject=hunter2;inject=X=hunter2;inject=X=hunter2;"
    spec += "inject=Host=hunter2;capture=maybe;concurrent=many;idle=1s;idle=2s"
    with pytest.raises(SettingsInvalid) as caught:
        settings_from_endpoints([spec], proxy="0.0.0.0:1")
    assert str(caught.value).splitlines() == [
        f"--proxy: {UNLOCAL}",
        "--endpoint[0]: inject: names no value; write `inject=NAME=VALUE`, such as `inject=Authorization=Bearer @secret:api`",
        "--endpoint[0]: inject: sets one header twice; keep one of them",
        "--endpoint[0]: idle: is here twice; keep one of them",
        "--endpoint[0]: capture: is `maybe`; write plain `true` or `false`: whether requests are written to the endpoint's own file, before secrets are put in",
        "--endpoint[0]: concurrent: is `many`; write a plain number: the most requests in flight",
        "--endpoint[0]: inject.Host: sets a header that the connection itself needs; leave it out",
        "--endpoint[0]: grant: is not held by `trusted-upstream`, which relays everything; leave it out, or write `semantic`",
    ]
