"""A secret with a grant: what `/egress/NAME` may do is what the grant says, with the engine of every other front."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.brokers import ENVIRONMENT, TOKEN, VALUE, Running, brokers
from support.certificates import Certificates, make_certificates
from support.upstream import DarkPort, Upstream, answer

from addons.record import Event
from grants.decision import Reason
from proxy.upstream import Trust

GRANT = """
operations:
  - name: read
    effect: read
    method: GET
    route: /items/{id}
    pathParameters: {id: ["1", "2"]}
    headers: [{name: Authorization, pattern: "(Bearer |Basic user:)@secret:API", maxBytes: 64, required: true}]
    response:
      statuses: [200]
      contentTypes: [application/json]
      maxBytes: 1024
      credentialDisclosure: deny-exact
      json: {type: object, additionalProperties: true}
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("upstream"))


@pytest.fixture
def upstream(certificates: Certificates) -> Iterator[Upstream]:
    with Upstream(certificates) as server:
        yield server


BASIC = "Basic " + base64.b64encode(f"user:{TOKEN}".encode()).decode()
LEAK = json.dumps({"k": VALUE}).encode()
CASES = [
    pytest.param("/egress/API/items/1", {}, b"{}", 200, None, id="allowed"),
    pytest.param(
        "/egress/API/items/1", {"token": None, "fields": {"Authorization": BASIC}}, b"{}", 200, None, id="basic"
    ),
    pytest.param("/egress/API/items/x", {}, b"{}", 403, "semantic-request-deny", id="outside the grant"),
    pytest.param("/egress/API/items/1", {"body": b"x"}, b"{}", 403, "semantic-request-deny", id="body"),
    pytest.param(
        "/egress/API/items/1", {}, json.dumps({"k": VALUE}).encode(), 502, "semantic-response-credential", id="leak"
    ),
    pytest.param("/egress/API/items/1", {}, b"[]", 502, "semantic-response-schema", id="answer"),
    pytest.param(f"/egress/API/items/1?k={TOKEN}", {}, b"{}", 403, "denied", id="token in query"),
    pytest.param(f"/egress/API/items/{TOKEN}", {}, b"{}", 403, "denied", id="token in path"),
]


@pytest.mark.parametrize(("path", "sent", "body", "status", "rule"), CASES)
def test_the_grant_decides(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    upstream: Upstream,
    certificates: Certificates,
    path: str,
    sent: dict[str, Any],
    body: bytes,
    status: int,
    rule: str | None,
) -> None:
    """The token becomes the reference, the grant sees that, and the value is put in behind its decision."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Trust, "system", lambda: Trust.only(certificates.ca.read_bytes()))
    (tmp_path / "api.grant.yaml").write_text(GRANT)
    upstream.handler = lambda _request: answer(200, body)
    secret = {
        "name": "API",
        "host": f"https://localhost:{upstream.port}",
        "value": "env:VALUE",
        "grant": "api.grant.yaml",
    }

    async def work(broker: Running) -> None:
        await broker.report(egress=["API"])
        got = await broker.ask("GET", path, **sent)
        record = broker.log.records[-1]
        assert (got.status, record.rule) == (status, rule), got
        assert VALUE.encode() not in got.body
        assert len(upstream.requests) == (status != 403)
        if status != 403:
            request = upstream.requests[0]
            credential = request.get("Authorization")
            assert credential is not None
            assert VALUE.encode() in (credential + base64.b64decode(credential.rpartition(b" ")[2] + b"==="))
            assert (request.target, TOKEN.encode() in credential) == (b"/items/1", False)
        if rule is None:
            assert (record.event, record.assurance, record.operation) == (Event.ALLOW, "semantic", "read")
            assert (record.endpoint, record.secret_refs) == ("egress:api", ("API",))
            assert record.labels == ("capability:egress", "word:API")
        elif rule == "denied":
            assert record.reason is Reason.BOX_TOKEN_LEAK

    async def main() -> None:
        async with asyncio.timeout(50), brokers(tmp_path, secrets=[secret]) as broker:
            await work(broker)

    asyncio.run(main())


REDIRECTS = [
    pytest.param("/items/2", 200, None, [b"/items/1", b"/items/2"], id="to an operation"),
    pytest.param("https://localhost:{port}/items/2", 200, None, [b"/items/1", b"/items/2"], id="to one by its URL"),
    pytest.param("/items/3", 403, Reason.REDIRECT_REQUEST, [b"/items/1"], id="outside the grant"),
    pytest.param("/items/2?key={token}", 403, Reason.REDIRECT_REQUEST, [b"/items/1"], id="with a token"),
    pytest.param("https://localhost:{dark}/items/2", 403, Reason.REDIRECT_ORIGIN, [b"/items/1"], id="another port"),
    pytest.param("https://other.example/items/2", 403, Reason.REDIRECT_ORIGIN, [b"/items/1"], id="another host"),
    pytest.param("http://localhost:{port}/items/2", 403, Reason.REDIRECT_LOCATION, [b"/items/1"], id="without TLS"),
    pytest.param("/items/1", 403, Reason.REDIRECT_HOPS, [b"/items/1"] * 2, id="on and on"),
]


@pytest.mark.parametrize(("location", "status", "reason", "targets"), REDIRECTS)
def test_each_hop_is_decided_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    upstream: Upstream,
    certificates: Certificates,
    location: str,
    status: int,
    reason: Reason | None,
    targets: list[bytes],
) -> None:
    """A redirect goes on where the grant allows it, with the credential put in anew; nothing else is dialled."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Trust, "system", lambda: Trust.only(certificates.ca.read_bytes()))
    (tmp_path / "api.grant.yaml").write_text(GRANT + "redirects: {allow: true, maxHops: 1}\n")
    with DarkPort() as dark:
        goes_to = location.format(port=upstream.port, dark=dark.port, token=TOKEN)
        upstream.handler = lambda request: (
            answer(302, b"", ("Location", goes_to)) if request.target == b"/items/1" else answer(200, b"{}")
        )
        secret = {"name": "API", "host": f"https://localhost:{upstream.port}", "value": "env:VALUE"}

        async def main() -> None:
            async with (
                asyncio.timeout(50),
                brokers(tmp_path, secrets=[{**secret, "grant": "api.grant.yaml"}]) as broker,
            ):
                await broker.report(egress=["API"])
                got = await broker.ask("GET", "/egress/API/items/1")
                record = broker.log.records[-1]
                assert (got.status, record.reason) == (status, reason), got
                assert record.rule == (None if reason is None else "semantic-redirect-deny")
                assert got.all("location") == []
                assert VALUE not in repr(got)

        asyncio.run(main())
        assert [request.target for request in upstream.requests] == targets
        assert [request.get("Authorization") for request in upstream.requests] == [b"Bearer " + VALUE.encode()] * len(
            targets
        )
        assert dark.connections == 0
