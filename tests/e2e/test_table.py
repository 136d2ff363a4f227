"""Every pair of endpoint kind, front, credential way and box way: the answer, what the upstream received, the record.

One client request for all rows. What differs between them is what the reference says differs, and nothing else: the
expectations are made of the row, field by field and in order.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from support.certificates import Certificates
from support.proxyproc import Proxy
from support.relays import ENVIRONMENT, SECRET, TOKENS, Front, boxes, events, records, relay, settle
from support.upstream import Received, Upstream, answer

BODY = b'{"title":"a"}'
BASIC = base64.b64encode(b"x:@secret:api").decode()
BASIC_SENT = base64.b64encode(b"x:" + SECRET.encode()).decode()
KINDS = {"semantic": "semantic", "https": "trusted-upstream", "http": "trusted-upstream"}
WAYS = {
    # what the client sends in Authorization, and what the upstream gets
    "reference": ("Bearer @secret:api", f"Bearer {SECRET}"),
    "inject": ("Bearer of-the-client", f"Token {SECRET}"),
    "basic": (f"Basic {BASIC}", f"Basic {BASIC_SENT}"),
    "none": (None, None),
}
BOXES = ("no-boxes", "token-in-field", "token-in-path")
METHODS = {"GET": (b"", 200), "POST": (BODY, 201), "HEAD": (b"", 200)}
RESPONSE = {
    "contentTypes": ["application/json"],
    "maxBytes": 1000,
    "credentialDisclosure": "deny-exact",
    "json": {"type": "object", "properties": {"id": "integer"}, "required": ["id"], "additionalProperties": False},
}


def grant() -> str:
    """A read, its HEAD and a write of one route. What is undeclared is left out, so that every row sends the same."""
    authorization = {"name": "Authorization", "pattern": "(Bearer @secret:api|Basic x:@secret:api)", "maxBytes": 64}
    accept = {"name": "Accept", "values": ["application/json"]}
    content_type = {"name": "Content-Type", "values": ["application/json"], "required": True}
    common = {
        "route": "/things/{id}",
        "pathParameters": {"id": ["1"]},
        "query": [{"name": "q", "values": ["a b"], "required": True}],
    }
    title = {"type": "object", "properties": {"title": "string"}, "required": ["title"], "additionalProperties": False}
    operations = [
        {
            **common,
            "name": method.lower(),
            "method": method,
            "effect": "read",
            "headers": [authorization, accept],
            "response": {**RESPONSE, "statuses": [200]},
        }
        for method in ("GET", "HEAD")
    ]
    operations.append(
        {
            **common,
            "name": "post",
            "method": "POST",
            "effect": "write",
            "headers": [authorization, accept, content_type],
            "body": {"maxBytes": 100, "contentTypes": ["application/json"], "json": title},
            "response": {**RESPONSE, "statuses": [201]},
        }
    )
    return json.dumps({"undeclaredHeaders": "strip", "operations": operations, "redirects": {"allow": False}})


@dataclass(slots=True)
class Served:
    """A running proxy with every endpoint, and the upstream behind each."""

    proxy: Proxy
    endpoints: dict[str, dict[str, Any]]
    upstreams: dict[str, Upstream]


def respond(request: Received) -> bytes:
    """What every upstream answers; only a relay passes the cookie on."""
    status = 201 if request.method == b"POST" else 200
    shown = answer(status, b'{"id":1}', ("Set-Cookie", "a=b"), ("X-Own", "of the upstream"))
    return shown[: -len(b'{"id":1}')] if request.method == b"HEAD" else shown


def serve(exits: ExitStack, folder: Any, certificates: Certificates, *, with_boxes: bool) -> Served:
    """Each kind twice, without and with `inject`, each in front of an upstream of its own."""
    (folder / "things.grant.yaml").write_text(grant())
    endpoints, upstreams = {}, {}
    for kind, injected in product(KINDS, (False, True)):
        name = f"{kind}-inject" if injected else kind
        tls = None if kind == "http" else certificates
        upstreams[name] = exits.enter_context(Upstream(tls, handler=respond))
        endpoint = relay(name, upstreams[name], tls)
        if kind == "semantic":
            endpoint |= {"assurance": "semantic", "grant": "things.grant.yaml"}
        if injected:
            endpoint["inject"] = {"Authorization": "Token @secret:api"}
        endpoints[name] = endpoint
    settings: dict[str, Any] = {"endpoints": list(endpoints.values())}
    if with_boxes:
        settings["boxes"] = boxes(*endpoints)
    return Served(exits.enter_context(Proxy(folder, settings, ENVIRONMENT)), endpoints, upstreams)


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Served]:
    with ExitStack() as exits:
        yield serve(exits, tmp_path_factory.mktemp("table"), certificates, with_boxes=False)


@pytest.fixture(scope="module")
def for_boxes(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Served]:
    with ExitStack() as exits:
        yield serve(exits, tmp_path_factory.mktemp("boxes"), certificates, with_boxes=True)


@dataclass(frozen=True, slots=True)
class Row:
    """One way through the table."""

    kind: str
    front: str
    way: str
    box: str
    method: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.front}-{self.way}-{self.box}-{self.method}"

    @property
    def endpoint(self) -> str:
        return f"{self.kind}-inject" if self.way == "inject" else self.kind

    @property
    def token(self) -> list[str]:
        """The field that shows the box's token, if one does."""
        return [f"Proxy-Authorization: Bearer {TOKENS['agent-1']}"] if self.box == "token-in-field" else []

    @property
    def prefix(self) -> str:
        return f"/box/{TOKENS['agent-1']}" if self.box == "token-in-path" else ""

    def sent(self) -> list[str]:
        """The client's fields."""
        authorization = WAYS[self.way][0]
        fields = ["Accept: application/json", "X-Own: of the client"]
        if self.kind != "semantic":
            # A field that belongs to the connection, which a grant's side refuses.
            fields += ["Connection: keep-alive, X-Hop", "X-Hop: 1"]
        if authorization is not None:
            fields.insert(0, f"Authorization: {authorization}")
        if body := METHODS[self.method][0]:
            fields += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return fields

    def received(self, upstream: Upstream) -> list[tuple[str, str]]:
        """All that the upstream is to see, in its order."""
        body = METHODS[self.method][0]
        host = f"127.0.0.1:{upstream.port}" if self.kind == "http" else f"localhost:{upstream.port}"
        fields = [("Host", host)]
        authorization = WAYS[self.way][1]
        if authorization is not None and self.way != "inject":
            fields.append(("Authorization", authorization))
        fields.append(("Accept", "application/json"))
        if self.kind != "semantic":
            fields.append(("X-Own", "of the client"))
        if body:
            fields.append(("Content-Type", "application/json"))
        if self.way == "inject" and authorization is not None:
            fields.append(("Authorization", authorization))
        if body:
            fields.append(("Content-Length", str(len(body))))
        return fields


ROWS = [
    Row(*values)
    for values in product(KINDS, ("base", "proxy"), WAYS, BOXES, METHODS)
    # Only a base URL has a path of its own.
    if not (values[1] == "proxy" and values[3] == "token-in-path")
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_way_through(row: Row, request: pytest.FixtureRequest) -> None:
    """What is served, what goes upstream and what is recorded follows from the row, and nothing else does."""
    served: Served = request.getfixturevalue("open_to_all" if row.box == "no-boxes" else "for_boxes")
    upstream = served.upstreams[row.endpoint]
    for each in served.upstreams.values():
        each.clear()
    settle(served.proxy)
    body, status = METHODS[row.method]
    fields = row.sent()
    # In a tunnel it is the CONNECT that names the box.
    tunnelled = row.front == "proxy" and row.kind != "http"
    connect = "".join(f"{field}\r\n" for field in row.token).encode() if tunnelled else b""
    with Front(served.proxy, row.front, served.endpoints[row.endpoint], connect=connect) as front:
        asked = front.request(
            f"{row.prefix}/things/%31?q=a+b", *([] if tunnelled else row.token), *fields, method=row.method
        )
        shown = front.client.exchange(asked + body, row.method)
        # The connection stays in step: a second request on it is served like the first.
        again = front.client.exchange(asked + body, row.method)
    assert (shown.status, again.status) == (status, status)
    assert shown.body == again.body == (b"" if row.method == "HEAD" else b'{"id":1}')
    assert shown.get("X-Own") == b"of the upstream"
    assert shown.get("Set-Cookie") == (None if row.kind == "semantic" else b"a=b")

    reached = {name: len(each.requests) for name, each in served.upstreams.items() if each.requests}
    assert reached == {row.endpoint: 2}
    for got in upstream.requests:
        # Decoded and encoded anew for a semantic endpoint, as it came for a relay.
        target = b"/things/1?q=a%20b" if row.kind == "semantic" else b"/things/%31?q=a+b"
        assert (got.method, got.target, got.body) == (row.method.encode(), target, body)
        assert [(name.decode(), value.decode()) for name, value in got.fields] == row.received(upstream)
        assert TOKENS["agent-1"].encode() not in got.head

    semantic = row.kind == "semantic"
    one = (["intent", "allow"] if row.method == "POST" else ["allow"]) if semantic else ["allow", "end"]
    found = records(served.proxy, 2 * len(one))
    assert events(found) == one * 2
    assert len({record["id"] for record in found}) == 2
    for record in found:
        assert record["mode"] == ("terminate" if row.front == "base" else "proxy")
        assert record["endpoint"] == row.endpoint
        assert record["host"] == ("127.0.0.1" if row.kind == "http" else "localhost")
        assert record["method"] == row.method
        assert record["assurance"] == KINDS[row.kind]
        assert record["verdict"] == "allow"
        assert record.get("box") == (None if row.box == "no-boxes" else "agent-1")
        assert record.get("secret_refs", []) == ([] if row.way == "none" else ["api"])
        assert record.get("operation") == (row.method.lower() if semantic else None)
        assert record.get("effect") == (("write" if row.method == "POST" else "read") if semantic else None)
        assert record.get("route") == ("/things/{id}" if semantic else None)
        assert bool(record.get("grant_digest")) is semantic
        assert not record.get("rule")
        assert not record.get("reason")
        assert not record.get("signals")
        text = json.dumps(record)
        assert not any(word in text for word in (SECRET, BASIC_SENT, *TOKENS.values(), "of the client"))
    last = found[-1]
    assert (last["status"], last["bytes_out"]) == (status, len(body))
    assert last["bytes_in"] == (0 if row.method == "HEAD" else 8)
    assert last.get("labels", []) == ([] if semantic else ["ended-by-upstream"])


REFUSALS = {
    # what is sent, whether with boxes, and the answer
    "no-token": (True, None, "@secret:api", 407, "denied", "box-unknown"),
    "wrong-token": (True, "Bearer nobody-has-this-one", "@secret:api", 407, "denied", "box-unknown"),
    "another-box": (True, f"Bearer {TOKENS['agent-2']}", "@secret:api", 403, "denied", "box-endpoint"),
    "unknown-reference": (False, None, "@secret:other", 502, "unresolved-secret-ref", "reference-unknown"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("front_name", ["base", "proxy"])
@pytest.mark.parametrize("case", REFUSALS)
def test_every_way_is_refused_alike(
    kind: str, front_name: str, case: str, open_to_all: Served, for_boxes: Served
) -> None:
    """Who is unknown, what a box may not use and a reference without a secret are refused; nothing is dialled."""
    with_boxes, token, reference, status, rule, reason = REFUSALS[case]
    served = for_boxes if with_boxes else open_to_all
    upstream = served.upstreams[kind]
    before = upstream.connections
    settle(served.proxy)
    tunnelled = front_name == "proxy" and kind != "http"
    fields = [f"Proxy-Authorization: {token}"] if token else []
    connect = "".join(f"{field}\r\n" for field in fields).encode() if tunnelled else b""
    at_connect = tunnelled and with_boxes
    with Front(served.proxy, front_name, served.endpoints[kind], connect=connect) as front:
        if at_connect:
            shown = front.opened
        else:
            inside = [] if tunnelled else fields
            authorization = f"Authorization: Bearer {reference}"
            shown = front.client.exchange(front.request("/things/1?q=a%20b", *inside, authorization))
    if kind == "semantic" and not with_boxes:
        # The grant holds it back before a secret is looked for.
        status, rule, reason = 403, "semantic-request-deny", "header-value"
    assert shown.status == status
    assert json.loads(shown.body)["reason"] == reason
    assert (shown.get("Proxy-Authenticate") is not None) is (status == 407)
    assert upstream.connections == before
    (record,) = records(served.proxy, 1)
    assert (record["event"], record["verdict"], record["status"]) == ("broker_request_deny", "deny", status)
    assert (record["rule"], record["reason"]) == (rule, reason)
    assert "denied" in record["signals"]
    assert record["mode"] == ("terminate" if front_name == "base" else "connect" if at_connect else "proxy")
    assert record.get("box") == ("agent-2" if case == "another-box" else None)
    if status == 407:
        # Who is unknown learns nothing of endpoints, and neither does the record say what they would have got.
        assert "upstream" not in json.loads(shown.body)["detail"]
