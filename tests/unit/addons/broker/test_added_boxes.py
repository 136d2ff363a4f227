"""Boxes that are not in the settings, on the other fronts; and steps of the broker that lack what they need."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.brokers import ENVIRONMENT, Running, brokers, reply
from support.running import FixedVault, MemoryLog
from support.waits import until

from addons.audit import Audit
from addons.boxes import Box, Boxes
from addons.broker.call import Call
from addons.broker.fountain import FountainPart
from addons.broker.parts import Credential
from addons.broker.route import BrokerRoute
from addons.exchange import Arrival, Exchange
from addons.policy import Policy
from addons.ports import StateUnavailable
from addons.record import Mode
from addons.who import Who
from grants.broker.capabilities import Needs, Route
from grants.broker.fountain import Kind
from grants.decision import Reason, Rule
from grants.message import Authority, RequestHead
from proxy.store import Store

TOKEN_OF_ADDED = b"token-of-the-added-box"
ADDED = Box(name="added", endpoints=frozenset({"api"}), tunnels=True)


class Added:
    """One box, or a failure."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    async def find(self, token: bytes) -> Box | None:
        if self.fails:
            raise StateUnavailable
        return ADDED if token == TOKEN_OF_ADDED else None


def admit(arrival: Arrival, *, fails: bool, fields: tuple[tuple[bytes, bytes], ...] = ()) -> Exchange:
    boxes = Boxes([Box(name="one", endpoints=frozenset())], FixedVault(one="token-of-box-one"), Added(fails=fails))
    head = RequestHead(method=b"GET", target=b"/", fields=fields)
    made = Exchange(arrival=arrival, policy=Policy.of([], boxes=boxes), head=head)
    asyncio.run(Who().broker_head(made))
    return made


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("tunnel", [False, True])
def test_an_added_box_is_known_on_every_front(tunnel: bool, fails: bool) -> None:
    """By its token, in its tunnel by the one that opened it; while its state cannot be asked, nobody is let in."""
    arrival = Arrival(mode=Mode.TERMINATE, peer="127.0.0.1")
    fields: tuple[tuple[bytes, bytes], ...] = ((b"Proxy-Authorization", b"Bearer token-of-the-added-box"),)
    if tunnel:
        authority = Authority(host="a.example", port=443)
        arrival = Arrival(
            mode=Mode.PROXY, peer=None, authority=authority, box="added", box_token=TOKEN_OF_ADDED, encrypted=True
        )
        fields = ()
    made = admit(arrival, fails=fails, fields=fields)
    if fails:
        assert made.denial is not None
        assert (made.denial.status, made.denial.reason) == (503, Reason.STATE)
    else:
        assert made.box is ADDED


@pytest.mark.parametrize(
    ("box", "token"),
    [
        pytest.param("gone", TOKEN_OF_ADDED, id="another-box-has-the-token"),
        pytest.param("added", b"token-before-a-rotation", id="the-token-was-rotated"),
        pytest.param("added", b"token-of-box-one", id="the-token-is-another-box-s"),
        pytest.param("added", None, id="no-token"),
        pytest.param(None, TOKEN_OF_ADDED, id="no-box"),
    ],
)
def test_a_box_that_is_gone_is_refused_in_its_tunnel(box: str | None, token: bytes | None) -> None:
    """The token that opened it is that box's still, or nobody's."""
    arrival = Arrival(mode=Mode.PROXY, peer=None, box=box, box_token=token, encrypted=True)
    made = admit(arrival, fails=False)
    assert made.denial is not None
    assert made.denial.reason is Reason.BOX_UNKNOWN


def test_a_request_without_a_head_fails_closed() -> None:
    """What cannot be is refused, not passed on."""
    made = Exchange(arrival=Arrival(mode=Mode.BROKER, peer=None), policy=Policy.of([]))
    asyncio.run(BrokerRoute(Audit(MemoryLog(), b"k" * 32)).broker_request(made))
    assert made.denial is not None
    assert made.denial.rule is Rule.FAULT


def test_fountain_acts_on_what_has_begun_alone() -> None:
    """Without rules there is nothing to send by."""
    nothing: Any = None
    part = FountainPart(service=nothing, credential=Credential(name="x", vault=FixedVault()), upstream=nothing)
    made = Exchange(arrival=Arrival(mode=Mode.BROKER, peer=None), policy=Policy.of([]))
    with pytest.raises(TypeError):
        asyncio.run(part.act(made, nothing))


def test_fountain_answers_no_path_without_a_route() -> None:
    """The route has read the path already; what it would not take is no request here."""
    nothing: Any = None
    part = FountainPart(service=nothing, credential=Credential(name="x", vault=FixedVault()), upstream=nothing)
    head = RequestHead(method=b"GET", target=b"/fountain/other", fields=())
    needs = Needs(route=Route.FOUNTAIN, capability="fountain", upstream=b"/other")
    call = Call(broker=nothing, needs=needs, box=ADDED, head=head, token=b"t" * 20, query=None, declaration=None)
    made = Exchange(arrival=Arrival(mode=Mode.BROKER, peer=None), policy=Policy.of([]))
    with pytest.raises(ValueError, match="no route"):
        asyncio.run(part.begin(made, call))


# --- a name that is given again


EVERYTHING = {"inference": ["agent"], "fountain": ["agent", "conversations", "sandboxes", "vault"]}
VAULT = "vault-of-the-first-0001"
CREATED = json.dumps({"id": VAULT, "content": "first"}).encode()
NOW = 1_800_000_000.0


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@asynccontextmanager
async def first(folder: Path) -> AsyncIterator[tuple[Running, Store, str]]:
    """A broker, its store, and the token of an added box of the name `ada` that has reported everything."""
    async with brokers(folder) as broker:
        store = broker.state.store
        assert store is not None
        token = await store.add_box("ada", now=NOW)
        await broker.report(token=token, **EVERYTHING)
        yield broker, store, token


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("again", ["added", "settings"])
def test_what_ends_late_is_no_later_box_s(tmp_path: Path, again: str) -> None:
    """A creation of a removed box that ends once its name is another's: that one neither owns nor sees it."""

    async def work() -> None:
        async with first(tmp_path) as (broker, store, old):
            gate = asyncio.Event()
            broker.api.script = lambda got: [*([gate] if got.method == "POST" else []), *reply(CREATED, 201)]
            making = asyncio.get_running_loop().create_task(
                broker.ask("POST", "/fountain/api/vaults", body={"note": "x"}, token=old)
            )
            await until(lambda: any(got.method == "POST" for got in broker.api.got))
            await store.remove_box("ada", now=NOW)
            if again == "added":
                new = await store.add_box("ada", now=NOW, owned=[(Kind.VAULT, "vault-of-the-second-2")])
                await broker.report(token=new, **EVERYTHING)
            gate.set()
            await making
            if again == "added":
                shown = await broker.ask("GET", f"/fountain/api/vaults/{VAULT}", token=new)
                assert (shown.status, broker.reasons()[-1]) == (404, Reason.NOT_OWN)
            assert await store.owned("ada", Kind.VAULT) == frozenset()

    asyncio.run(work())


@pytest.mark.usefixtures("environment")
def test_a_list_that_ends_late_shows_nothing_of_a_later_box(tmp_path: Path) -> None:
    """The list of a removed box is cut to what that one owns, which is nothing any more."""

    async def work() -> None:
        async with first(tmp_path) as (broker, store, old):
            gate = asyncio.Event()
            listed = json.dumps([{"id": "vault-of-the-second-2", "content": "second"}]).encode()
            broker.api.script = lambda got: [gate, *reply(listed)]
            listing = asyncio.get_running_loop().create_task(broker.ask("GET", "/fountain/api/vaults", token=old))
            await until(lambda: len(broker.api.got) > 0)
            await store.remove_box("ada", now=NOW)
            await store.add_box("ada", now=NOW, owned=[(Kind.VAULT, "vault-of-the-second-2")])
            gate.set()
            assert (await listing).body == b"[]"

    asyncio.run(work())


@pytest.mark.usefixtures("environment")
def test_a_report_that_ends_late_is_no_later_box_s(tmp_path: Path) -> None:
    """A report of a removed box that is stored once its name is another's allows that one nothing."""

    async def work() -> None:
        async with brokers(tmp_path) as broker:
            store = broker.state.store
            assert store is not None
            old = await store.add_box("bob", now=NOW)
            write, gate, waits = store._engines.write, asyncio.Event(), asyncio.Event()

            async def later(change: Any) -> Any:
                waits.set()
                await gate.wait()
                return await write(change)

            store._engines.write = later  # type: ignore[method-assign]
            reporting = asyncio.get_running_loop().create_task(broker.report(token=old, **EVERYTHING))
            await waits.wait()
            store._engines.write = write  # type: ignore[method-assign]
            await store.remove_box("bob", now=NOW)
            new = await store.add_box("bob", now=NOW)
            gate.set()
            await reporting
            asked = await broker.ask("POST", "/llm/anthropic/v1/messages", body={}, token=new)
            assert (asked.status, broker.reasons()[-1]) == (403, Reason.SCOPE)

    asyncio.run(work())
