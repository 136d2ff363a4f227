"""Attach by host, over the program: what is set on the host's side, what of the client's is dropped, where it goes."""

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from support.certificates import Certificates
from support.client import Answer
from support.proxyproc import Proxy
from support.relays import ENVIRONMENT, FRONTS, SECRET, Front, events, records, relay, settle
from support.upstream import Received, Upstream, answer

both = pytest.mark.parametrize("front", FRONTS)
kinds = pytest.mark.parametrize("kind", ["semantic", "relay"])
BASIC = base64.b64encode(b"x:@secret:api").decode()
SENT = {
    "Authorization": f"Bearer {SECRET}",
    "X-Key": f"k={SECRET}",
    "X-Version": "2",
}
"""What is injected, as the upstream is to see it."""


def grant(foreign: str) -> str:
    """Reads that declare no header at all but `Accept`; redirects may lead to `foreign`, one operation names it."""
    response = {
        "statuses": [200],
        "contentTypes": ["application/json"],
        "maxBytes": 1000,
        "credentialDisclosure": "deny-exact",
        "json": {"type": "object", "additionalProperties": True},
    }
    accept = [{"name": "Accept", "values": ["application/json"]}]
    reads = [
        {"name": name, "effect": "read", "method": "GET", "route": f"/{name}", "headers": accept, "response": response}
        for name in ("start", "next", "named")
    ]
    reads[2]["origins"] = [foreign]
    return json.dumps({"operations": reads, "redirects": {"allow": True, "maxHops": 2, "allowedOrigins": [foreign]}})


@dataclass(slots=True)
class Injecting:
    """The proxy with both kinds of endpoint, their upstreams, and an origin that is neither's."""

    proxy: Proxy
    endpoints: dict[str, dict[str, Any]]
    upstreams: dict[str, Upstream]
    foreign: Upstream

    def ask(self, front: str, kind: str, target: str = "/start", *fields: str) -> Answer:
        with Front(self.proxy, front, self.endpoints[kind]) as wire:
            return wire.client.exchange(wire.request(target, *fields))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Injecting]:
    with ExitStack() as exits:
        folder = tmp_path_factory.mktemp("inject")
        names = ("semantic", "relay", "basic")
        upstreams = {name: exits.enter_context(Upstream(certificates)) for name in names}
        foreign = exits.enter_context(Upstream(certificates))
        (folder / "reads.grant.yaml").write_text(grant(foreign.url))
        inject = {"Authorization": "Bearer @secret:api", "X-Key": "k=@secret:api", "X-Version": "2"}
        endpoints = {name: relay(name, upstreams[name], certificates, inject=inject) for name in names}
        endpoints["semantic"] |= {"assurance": "semantic", "grant": "reads.grant.yaml"}
        endpoints["basic"]["inject"] = {"Authorization": f"Basic {BASIC}"}
        settings = {"endpoints": list(endpoints.values())}
        yield Injecting(exits.enter_context(Proxy(folder, settings, ENVIRONMENT)), endpoints, upstreams, foreign)


@pytest.fixture
def injecting(running: Injecting) -> Injecting:
    """The module's proxy, with nothing recorded yet."""
    settle(running.proxy)
    for upstream in (*running.upstreams.values(), running.foreign):
        upstream.clear()
        upstream.handler = lambda _request: answer()
    return running


def injected(request: Received) -> dict[str, str | None]:
    """What of the injected fields a request carries; each at most once."""
    return {name: value.decode() if (value := request.get(name)) is not None else None for name in SENT}


@both
@kinds
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param((), id="nothing"),
        pytest.param(("Authorization: Bearer mine",), id="its-own"),
        pytest.param(("authorization: Bearer @secret:api", "AUTHORIZATION: Basic eDp5"), id="several-spellings"),
        pytest.param(("X-Key: @secret:none", "x-version: 1"), id="an-unknown-reference"),
    ],
)
def test_what_the_client_sends_there_is_dropped(
    injecting: Injecting, front: str, kind: str, fields: tuple[str, ...]
) -> None:
    """The field is set here, once, whatever came; a grant that declares no such header does not see the client's."""
    assert injecting.ask(front, kind, "/start", "Accept: application/json", *fields).status == 200
    (request,) = injecting.upstreams[kind].requests
    assert injected(request) == SENT
    assert request.get("Accept") == b"application/json"
    found = records(injecting.proxy, 1 if kind == "semantic" else 2)
    assert events(found) == (["allow"] if kind == "semantic" else ["allow", "end"])
    assert all(record["secret_refs"] == ["api"] for record in found)
    assert SECRET not in json.dumps(found)


@both
def test_a_grant_still_holds_for_everything_else(injecting: Injecting, front: str) -> None:
    """Only what is injected is out of the grant's sight."""
    shown = injecting.ask(front, "semantic", "/start", "X-Other: 1")
    assert (shown.status, json.loads(shown.body)["reason"]) == (403, "header-undeclared")
    assert injecting.upstreams["semantic"].requests == []


@both
def test_basic_credentials_are_made_here(injecting: Injecting, front: str) -> None:
    """A reference inside of Basic credentials is put in under the base64."""
    assert injecting.ask(front, "basic").status == 200
    (request,) = injecting.upstreams["basic"].requests
    assert request.get("Authorization") == b"Basic " + base64.b64encode(b"x:" + SECRET.encode())


@both
@pytest.mark.parametrize(
    ("location", "where", "expected"),
    [
        pytest.param("$OWN/next", "semantic", SENT, id="own-origin"),
        pytest.param("/next", "semantic", SENT, id="path"),
        pytest.param("$FOREIGN/next", "foreign", dict.fromkeys(SENT), id="foreign-origin"),
        pytest.param("$FOREIGN/named", "foreign", SENT, id="origin-that-the-operation-names"),
    ],
)
def test_where_a_redirect_takes_it(
    injecting: Injecting, front: str, location: str, where: str, expected: dict[str, str | None]
) -> None:
    """To the upstream's own origin, and to no other unless the hop's operation names it."""
    own = injecting.upstreams["semantic"]
    there = location.replace("$OWN", own.url).replace("$FOREIGN", injecting.foreign.url)
    own.answers.append(answer(302, b"", ("Location", there)))
    shown = injecting.ask(front, "semantic", "/start", "Authorization: Bearer mine")
    assert shown.status == 200, shown.body
    last = injecting.foreign.requests if where == "foreign" else own.requests[1:]
    assert [injected(request) for request in last] == [expected]
    assert injected(own.requests[0]) == SENT
    sent = b"".join(bytes(raw) for raw in injecting.foreign.raw.values())
    assert b"mine" not in sent
    (record,) = records(injecting.proxy, 1)
    assert (record["redirect_hops"], record["final_operation"]) == (1, location.rpartition("/")[2])


@both
def test_a_relay_takes_it_nowhere_else(injecting: Injecting, front: str) -> None:
    """A relay follows nothing, so it goes to the upstream alone."""
    injecting.upstreams["relay"].answers.append(answer(302, b"", ("Location", f"{injecting.foreign.url}/next")))
    assert injecting.ask(front, "relay").get("Location") == f"{injecting.foreign.url}/next".encode()
    assert injecting.foreign.requests == []


@both
def test_an_answer_that_holds_it_is_refused(injecting: Injecting, front: str) -> None:
    """What was injected is a credential like another: a semantic answer may not hold it."""
    injecting.upstreams["semantic"].answers.append(answer(200, json.dumps({"seen": SECRET}).encode()))
    shown = injecting.ask(front, "semantic")
    assert shown.status == 502
    assert SECRET.encode() not in shown.raw
    (record,) = records(injecting.proxy, 1)
    assert (record["rule"], record["signals"]) == ("semantic-response-credential", ["denied", "credential-disclosed"])
