"""What `run` serves of the settings, what the program may not see, and its environment."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from addons.record import Event, Mode, Record
from grants.decision import Reason
from proxy.client_env.addresses import Addresses
from proxy.client_env.trust import TrustFiles
from proxy.decisionlog.remedies import ANSWERS
from proxy.run.environment import environment
from proxy.run.messages import Ready, Tally
from proxy.run.served import Hidden, NothingToServe, hidden, served, unfound
from proxy.settings import Settings, load_settings
from proxy.settings.model import TcpListen, UnixListen

SETTINGS = """
proxy: 127.0.0.1:8080
admin: 127.0.0.1:8081
state: state
audit: {path: stdout}
endpoints:
  - name: a
    upstream: https://a.example
    assurance: trusted-upstream
    secrets: {one: env:ONE, two: "file:keys/two", three: "exec:show three"}
    listen: 127.0.0.1:9001
    env: [A_URL]
  - {name: b, upstream: https://b.example, assurance: trusted-upstream, secrets: {one: env:ONE}}
boxes:
  - {name: x, token: env:BOX_TOKEN, anthropic: {credential: env:OWNER}}
broker:
  listen: 127.0.0.1:9100
  word: lobby
  anthropic: {url: https://c.example, credential: env:SHARED}
  fountain: {url: https://d.example, credential: "file:/run/keys/fountain"}
  secrets: [{name: S, host: https://e.example, value: env:EGRESS}]
  capabilities:
    - name: search
      routes: [/search]
      upstream: {url: https://f.example, credential: {header: X-Api-Key, value: env:SEARCH}}
      scopes: [{method: GET, path: /search, words: [w]}]
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "grantproxy.yaml").write_text(SETTINGS)
    return load_settings(tmp_path / "grantproxy.yaml")


def test_every_place_that_names_a_secret_is_found(settings: Settings, tmp_path: Path) -> None:
    """Endpoints, boxes and every part of the broker, served or not: each variable and each file."""
    found = hidden(settings, tmp_path / "grantproxy.yaml")
    assert found.variables == {"ONE", "BOX_TOKEN", "OWNER", "SHARED", "EGRESS", "SEARCH"}
    assert set(found.files) == {tmp_path / "keys" / "two", Path("/run/keys/fountain")}
    assert found.rules == (tmp_path / "grantproxy.yaml",)


def test_free_places(settings: Settings) -> None:
    """The forward proxy and each base URL get a free port; nothing else is served, and standard output is not ours."""
    found = served(settings)
    free = TcpListen(host="127.0.0.1", port=0)
    assert (found.proxy, found.admin, found.broker) == (free, None, None)
    assert [endpoint.listen for endpoint in found.endpoints] == [free, None]
    assert found.audit.path == settings.state / "decisions.jsonl"


def test_sockets(settings: Settings, tmp_path: Path) -> None:
    """Of an isolated program everything is a socket."""
    found = served(settings, sockets=tmp_path)
    assert found.proxy == UnixListen(path=tmp_path / "proxy.sock")
    assert found.endpoints[0].listen == UnixListen(path=tmp_path / "0.sock")


def test_base_urls_without_a_variable_are_told(settings: Settings) -> None:
    """An endpoint with `listen` and no `env`, unless the box may not use it; no word of what has no base URL."""
    a, b = settings.endpoints
    assert unfound(settings, None) is None
    bare, other = replace(a, env=()), replace(b, listen=a.listen)
    told = "endpoint `a` names no variable for the base URL, so the program has none; add such as `env: [API_BASE_URL]`"
    way = "; the forward proxy leads there"
    assert unfound(replace(settings, endpoints=(bare, b)), None) == told + way
    assert unfound(replace(settings, endpoints=(bare, b), proxy=None), None) == told
    both = replace(settings, endpoints=(bare, other))
    assert unfound(both, None) == told.replace("endpoint `a` names", "endpoints `a`, `b` name") + way
    assert unfound(both, "x") is None
    box = replace(settings.boxes[0], endpoints=frozenset({"b"}))
    assert unfound(replace(both, boxes=(box,)), "x") == told.replace("`a`", "`b`") + way


def test_nothing_to_serve(tmp_path: Path) -> None:
    """Settings with a broker alone have nothing for one program."""
    (tmp_path / "a.yaml").write_text(
        "broker: {listen: 127.0.0.1:9100, word: lobby}\nboxes: [{name: x, token: env:BOX_TOKEN}]\n"
    )
    with pytest.raises(NothingToServe, match="no endpoint"):
        served(load_settings(tmp_path / "a.yaml"))


READY = Ready(
    addresses=Addresses(
        proxy_url="http://127.0.0.1:1", base_urls={"A_URL": "http://127.0.0.1:2"}, git_urls={"https://a/": "http://b/"}
    ),
    forwards=((29170, Path("/s/proxy.sock")),),
    hidden=Hidden(variables=frozenset({"ONE", "SHORT"}), files=(Path("/k/two"),), rules=(Path("/g.yaml"),)),
    trust=TrustFiles(
        ca=Path("/t/ca.pem"),
        bundle=Path("/t/bundle.pem"),
        pkcs12=Path("/t/bundle.p12"),
        pkcs12_password="changeit",
        wgetrc=Path("/t/wgetrc"),
        system=Path("/etc/s.pem"),
    ),
    state=Path("/state"),
    log=Path("/state/decisions.jsonl"),
)


def test_messages_come_out_as_they_went_in() -> None:
    """One line each, whatever is in them."""
    assert Ready.of(READY.line()[:-1]) == READY
    assert b"\n" not in READY.line()[:-1]
    tally = Tally(3, {"route": 1, "method": 2}, {"a.example": 1}, {"api 401": 1})
    assert Tally.of(tally.line()) == tally


@pytest.mark.parametrize(
    ("tally", "text"),
    [
        (Tally(), "allowed 0, refused 0"),
        (Tally(2, {"route": 1}), "allowed 2, refused 1 (route 1)"),
        (Tally(0, {"a": 1, "c": 2, "b": 1}), "allowed 0, refused 4 (c 2, a 1, b 1)"),
    ],
)
def test_the_line_at_the_end(tally: Tally, text: str) -> None:
    """Reasons, the most frequent first."""
    assert str(tally) == text


ASKED = Record(id="r", event=Event.DENY, mode=Mode.CONNECT, verdict="deny", reason=Reason.HOST_UNKNOWN, status=403)


def test_what_is_counted() -> None:
    """Decisions, by reason; of hosts that are no endpoint, which; of upstreams, what they refused. No more than 64
    names of clients' own choosing are kept.
    """
    tally = Tally()
    for number in [*range(100), 7]:
        tally.count(replace(ASKED, host=f"h{number}.example"))
    for event in (Event.ALLOW, Event.END):
        tally.count(replace(ASKED, event=event, endpoint="api", reason=None, upstream_status=401))
    assert str(tally) == "allowed 1, refused 101 (host-unknown 101)"
    assert (len(tally.unknown), tally.unknown["h7.example"]) == (64, 2)
    unknown, credential = tally.hints()
    assert unknown.startswith("host-unknown: h7.example 2, h0.example 1, ")
    assert unknown.partition(";")[0].count(",") == 4
    assert "`tunnels.allow`" in unknown
    assert credential == f"api answered 401: 1; {ANSWERS[401]}"
    assert list(Tally(1, {"route": 1}).hints()) == []


@pytest.mark.parametrize(
    ("base", "gone"),
    [
        pytest.param({"ONE": "secret-0001"}, {"ONE"}, id="the-variable"),
        pytest.param({"ONE": "secret-0001", "X": "secret-0001"}, {"ONE", "X"}, id="the-same-value"),
        pytest.param({"ONE": "secret-0001", "X": "https://u:secret-0001@h"}, {"ONE", "X"}, id="within-another"),
        pytest.param({"ONE": "secret-0001", "X": "secret-0002"}, {"ONE"}, id="another-value"),
        pytest.param({"SHORT": "a", "X": "banana"}, {"SHORT"}, id="too-short-to-tell"),
        pytest.param({"X": "kept"}, set(), id="not-set"),
        pytest.param({"LEFT": "x"}, {"LEFT"}, id="named"),
    ],
)
def test_what_the_program_does_not_get(base: Mapping[str, str], gone: set[str]) -> None:
    """Variables of secrets, others that hold their values, and those that are named; all else is as it was."""
    found = environment(base, READY, without=("LEFT",))
    assert base.keys() - found.variables.keys() == gone
    assert found.variables["A_URL"] == "http://127.0.0.1:2"
    assert found.variables["HTTPS_PROXY"] == "http://127.0.0.1:1"
    assert found.also == ({"X": "ONE"} if "X" in gone else {})
    assert "secret" not in repr(found)
