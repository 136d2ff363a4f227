"""Every row that needs no wire, on the pure core: the same decision that the fronts come to."""

from collections.abc import Mapping
from functools import cache

import pytest
from support.cases import SECRETS, Answering, Case, Expected, Names, data, grant_text, params

from grants.authorize import Allow, Granted, authorize_body, authorize_head
from grants.decision import Deny
from grants.endpoint import Endpoint
from grants.load import load_grant
from grants.message import Authority, Fields, Origin, Outgoing, Relay, RequestHead, Response
from grants.redirect import Chain, Hop, NotRedirect, next_hop, start
from grants.references import Sealed, seal
from grants.response import check_response, scan_intermediate
from grants.secret import Secret

NAMES = Names("api.example.test", 443, "https://other.example.test:8443")
UPSTREAM = Origin(scheme="https", host="api.example.test", port=443)
HERE = Authority(host="api.example.test", port=443)
HELD: Mapping[str, Secret] = {name: Secret(value.encode()) for name, value in SECRETS.items()}


@cache
def endpoint_of(name: str) -> Endpoint:
    grant = load_grant(grant_text(name, NAMES.other), file=f"{name}.yaml")
    return Endpoint.of(name="case", upstream=UPSTREAM, grant=grant, secrets=frozenset(HELD) | {"empty"})


@pytest.mark.parametrize("case", params("core"))
def test_row(case: Case) -> None:
    """The core's decision, what it would send and what it would relay are what the row says."""
    outcome = Run(endpoint_of(case.grant), case).outcome()
    expected = case.core
    if expected.allow is None:
        assert isinstance(outcome, Deny), outcome
        assert outcome.reason in expected.deny, outcome
        assert outcome.rule in expected.rule
        assert outcome.status in expected.status
        assert outcome.detail
        _no_secret(repr(outcome))
    else:
        assert not isinstance(outcome, Deny), outcome
        _allowed(outcome, expected)


class Run:
    """One row on the core, its upstream a script."""

    def __init__(self, endpoint: Endpoint, case: Case) -> None:
        self.endpoint = endpoint
        self.case = case
        self.sent: list[Outgoing] = []
        self.operations: list[str] = []
        self.relay: Relay | None = None

    def outcome(self) -> "Run | Deny":
        fields = [(name, NAMES.put_in(value)) for name, value in self.case.request.head_fields()]
        head = RequestHead(
            method=data(self.case.request.method),
            target=NAMES.put_in(self.case.request.target),
            fields=((b"Host", NAMES.host.encode()), *fields),
        )
        granted = authorize_head(self.endpoint, head, authority=HERE)
        if isinstance(granted, Deny):
            return granted
        allow = authorize_body(granted, self.case.request.body or b"")
        if isinstance(allow, Deny):
            return allow
        return self.send(allow, start(self.endpoint, granted), list(self.case.answers))

    def send(self, allow: Allow, chain: Chain, answers: list[Answering]) -> "Run | Deny":
        sealed = seal(allow.request, HELD, self.endpoint.secrets)
        if isinstance(sealed, Deny):
            return sealed
        self.sent.append(sealed.request)
        self.operations.append(allow.granted.operation.name)
        if not answers:
            return self
        return self.judge(chain, allow.granted, sealed, answers)

    def judge(self, chain: Chain, granted: Granted, sealed: Sealed, answers: list[Answering]) -> "Run | Deny":
        response = _response(answers[0])
        needles = tuple(HELD.values())
        hop = next_hop(chain, response)
        if isinstance(hop, NotRedirect):
            checked = check_response(granted.operation, method=granted.method, response=response, needles=needles)
            if isinstance(checked, Relay):
                self.relay = checked
                return self
            return checked
        if denial := scan_intermediate(response, needles):
            return denial
        if isinstance(hop, Hop):
            return self.send(hop.allow, hop.chain, answers[1:])
        return hop


def _response(answering: Answering) -> Response:
    return Response(
        status=answering.status,
        reason=answering.reason,
        fields=tuple((name, NAMES.put_in(value)) for name, value in answering.head_fields()),
        body=answering.body,
        trailers=tuple(answering.trailers),
    )


def _allowed(run: Run, expected: Expected) -> None:
    assert run.operations[0] == expected.allow
    _sent(run.sent[0], expected.sent, UPSTREAM)
    assert len(run.sent) == len(expected.hops) + 1
    other = Origin(scheme="https", host="other.example.test", port=8443)
    for hop, request in zip(expected.hops, run.sent[1:], strict=True):
        _sent(request, hop, other if hop.get("other") else UPSTREAM)
    if expected.final:
        assert run.operations[-1] == expected.final
    if expected.relayed:
        assert run.relay is not None
        _relayed(run.relay, expected.relayed)


def _sent(request: Outgoing, expected: Mapping[str, object], origin: Origin) -> None:
    assert request.origin == origin
    if "method" in expected:
        assert request.method == data(expected["method"])
    if "target" in expected:
        assert request.target == data(expected["target"])
    if "headers" in expected:
        assert request.fields == _pairs(expected["headers"])
    if "body" in expected:
        assert request.body == data(expected["body"])


def _relayed(relay: Relay, expected: Mapping[str, object]) -> None:
    assert relay.status == expected["status"]
    if "body" in expected:
        assert relay.body == data(expected["body"])
    shown = {name.lower(): value for name, value in relay.fields}
    if relay.length is not None:
        shown[b"content-length"] = str(relay.length).encode()
    for name, value in _pairs(expected.get("headers", ())):
        assert shown.get(name.lower()) == value
    if relay.status == 204:
        assert relay.length in {None, 0}
        shown.pop(b"content-length", None)
    for name in expected.get("no_headers", ()):  # type: ignore[attr-defined]
        assert name.lower().encode() not in shown


def _pairs(spec: object) -> Fields:
    assert isinstance(spec, list | tuple)
    return tuple((data(name), data(value)) for name, value in spec)


def _no_secret(text: str) -> None:
    for value in SECRETS.values():
        assert value not in text
