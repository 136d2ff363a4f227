"""From settings to the policy in force, and what a new one takes over."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from support.certificates import make_certificates

from addons.policy import Judged, Relayed
from proxy.broker.state import State
from proxy.services import Services
from proxy.settings import load_settings
from proxy.settings.model import Settings
from proxy.state import StartRefused
from proxy.upstream import Pool

GRANT = """operations:
  - name: read
    effect: read
    method: GET
    route: /a
    response: {statuses: [200], contentTypes: [application/json], maxBytes: 10, credentialDisclosure: deny-exact,
      json: {type: object, additionalProperties: true}}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Callable[[str], Settings]:
    """Settings with these endpoints; secrets `one` and `two` are files."""
    (tmp_path / "g.yaml").write_text(GRANT)
    (tmp_path / "one").write_text("value-one-0123456789")
    (tmp_path / "two").write_text("value-two-0123456789")
    (tmp_path / "same").write_text("value-one-0123456789")
    (tmp_path / "state").mkdir(mode=0o700)

    def load(text: str) -> Settings:
        file = tmp_path / "grantproxy.yaml"
        file.write_text(f"proxy: 127.0.0.1:0\nstate: state\n{text}")
        return load_settings(file)

    return load


JUDGED = """endpoints:
- {name: a, upstream: https://a.example, assurance: semantic, grant: g.yaml, secrets: {api: "file:one"}, concurrent: 3}
"""
RELAY = "- {name: b, upstream: https://b.example, assurance: trusted-upstream, capture: true}\n"


def services() -> Services:
    return Services(Pool(), Pool())


def test_ways(settings: Callable[[str], Settings]) -> None:
    """A semantic endpoint is judged, a relay streams by a pool of its own."""
    some = services()
    policy = some.adopt(some.prepare(settings(JUDGED + RELAY)))
    judged, relayed = policy.services["a"], policy.services["b"]
    assert isinstance(judged.way, Judged)
    assert isinstance(relayed.way, Relayed)
    assert judged.way.upstream._pool is some._pool  # type: ignore[attr-defined]
    assert relayed.way.upstream._pool is some._streams  # type: ignore[attr-defined]
    assert judged.capture is None
    assert relayed.capture is not None


def test_every_problem_is_told_and_nothing_changes(settings: Callable[[str], Settings]) -> None:
    """Secrets that cannot be read are named, one line each, before anything is put in force."""
    some = services()
    some.adopt(some.prepare(settings(JUDGED)))
    vaults = some._vaults
    with pytest.raises(StartRefused) as refused:
        some.prepare(settings(JUDGED.replace("file:one", "file:none").replace("api:", "other: 'env:NOT_SET', api:")))
    assert len(str(refused.value).splitlines()) == 2
    assert some._vaults is vaults


def test_a_new_policy_still_searches_for_old_values(settings: Callable[[str], Settings]) -> None:
    """A value that was held before a reload is still a needle."""

    async def work() -> None:
        some = services()
        some.adopt(some.prepare(settings(JUDGED)))
        policy = some.adopt(some.prepare(settings(JUDGED.replace("file:one", "file:two"))))
        held = await policy.services["a"].vault.open()
        assert held.values["api"].reveal() == b"value-two-0123456789"
        assert {secret.reveal() for secret in held.needles} == {b"value-one-0123456789", b"value-two-0123456789"}

    asyncio.run(work())


def test_what_is_in_flight_counts_after_a_reload(settings: Callable[[str], Settings]) -> None:
    """The gate is the endpoint's for as long as its limit stays."""
    some = services()
    first = some.adopt(some.prepare(settings(JUDGED))).services["a"].gate
    same = some.adopt(some.prepare(settings(JUDGED + RELAY))).services["a"].gate
    other = some.adopt(some.prepare(settings(JUDGED.replace("concurrent: 3", "concurrent: 4")))).services["a"].gate
    assert first is same
    assert other is not same


def test_a_worker_has_its_part_of_what_an_upstream_may_be_asked(settings: Callable[[str], Settings]) -> None:
    """An equal part of `concurrent`, rounded up; the broker's upstreams too ("Workers" in settings.md)."""
    some = Services(Pool(), Pool(), of=2)
    gates = [some.adopt(some.prepare(settings(JUDGED))).services["a"].gate, some._gate("broker.fountain", 5)[1]]
    for gate, part in zip(gates, (2, 3), strict=True):
        assert [gate.enter() for _ in range(part + 1)] == [True] * part + [False]


def test_boxes_have_tokens_of_their_own(settings: Callable[[str], Settings]) -> None:
    """A token that is also a credential, or another box's, is refused by name and without its value."""
    some = services()
    boxes = 'boxes:\n- {name: x, token: "file:same", endpoints: [a]}\n- {name: y, token: "file:two", endpoints: [a]}\n'
    with pytest.raises(StartRefused, match="endpoint `a`: secret `api` is also the token of box `x`") as refused:
        some.prepare(settings(JUDGED + boxes))
    assert "value" not in str(refused.value)
    alone = JUDGED.replace(' secrets: {api: "file:one"},', "")
    assert some.adopt(some.prepare(settings(alone + boxes))).boxes is not None
    with pytest.raises(StartRefused, match="box `y`: its token is also that of box `x`"):
        some.prepare(settings(alone + boxes.replace("file:two", "file:one")))


EVERYTHING = """endpoints:
- {name: a, upstream: https://a.example, assurance: trusted-upstream, secrets: {api: "SOURCE"}}
boxes:
- {name: x, token: "TOKEN", endpoints: [a], anthropic: {credential: "SOURCE"}}
broker:
  listen: 127.0.0.1:0
  word: lobby
  anthropic: {url: "https://anthropic.example", credential: "SOURCE"}
  fountain: {url: "https://fountain.example", credential: "SOURCE"}
  secrets:
  - {name: STRIPE, host: "https://stripe.example", value: "SOURCE"}
  - {name: STRIPE, host: "https://stripe.example", value: "SOURCE", box: x}
  capabilities:
  - name: weather
    routes: [/weather]
    scopes: [{method: GET, path: /weather/x, words: []}]
    upstream: {url: "https://weather.example", credential: {header: X-K, value: "SOURCE"}}
"""
WHOSE = (
    "endpoint `a`: secret `api`",
    "box `x`: its token",
    "broker: the credential of `anthropic`",
    "broker: the credential of `fountain`",
    "broker: secret `STRIPE`",
    "broker: secret `STRIPE` of box `x`",
    "broker: the credential of capability `weather`",
    "box `x`: its credential of `anthropic`",
)


def broker_services() -> Services:
    return Services(Pool(), Pool(), State(Path()))


def test_what_cannot_be_read_is_called_what_the_settings_call_it(settings: Callable[[str], Settings]) -> None:
    """Wherever a credential or a token may stand, its problem says what it is for, as the settings have it."""
    with pytest.raises(StartRefused) as refused:
        broker_services().prepare(settings(EVERYTHING.replace("SOURCE", "file:none").replace("TOKEN", "file:gone")))
    told = str(refused.value).splitlines()
    assert [line.partition(": file `")[0] for line in told] == list(WHOSE)


def test_a_token_that_is_a_credential_too_is_told_by_what_it_is_for(settings: Callable[[str], Settings]) -> None:
    """Each credential that is the box's token is named, as the settings have it."""
    with pytest.raises(StartRefused) as refused:
        broker_services().prepare(settings(EVERYTHING.replace("SOURCE", "file:one").replace("TOKEN", "file:same")))
    wanted = {f"{whose} is also the token of box `x`; give the box one of its own" for whose in WHOSE[:1] + WHOSE[2:]}
    assert set(str(refused.value).splitlines()) == wanted


def test_a_bundle_that_cannot_be_read_is_told_by_its_upstream(
    settings: Callable[[str], Settings], tmp_path: Path
) -> None:
    """It may go after the settings were read."""
    bundle = make_certificates(tmp_path).ca.rename(tmp_path / "own.pem")
    text = EVERYTHING.replace("SOURCE", "file:one").replace("TOKEN", "file:two")
    text = text.replace('"https://stripe.example"', '"https://stripe.example", ca: own.pem')
    ready = settings(text)
    bundle.unlink()
    with pytest.raises(StartRefused, match=r"broker: secret `STRIPE`: ca `.*own.pem`: no such file"):
        broker_services().prepare(ready)
