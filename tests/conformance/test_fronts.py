"""Every row over real sockets, through the base URL and through the forward proxy.

A refused request reaches nothing: its endpoint's upstream is a bare port that must see no connection and no byte.
"""

import json

import pytest
from support.cases import REQUEST_RULES, SECRETS, Case, data, params
from support.client import Answer
from support.conformance_field import Field
from support.upstream import Received, Step, Upstream, answer

_DROPPED = {b"host", b"content-length"}


def _default(request: Received) -> bytes:
    """What an upstream answers where the row does not say."""
    body = b'[{"id":1}]' if request.target == b"/listing" else b'{"id":1}'
    status = 201 if request.method == b"POST" and request.target.endswith(b"/issues") else 200
    return answer(status, b"" if request.method == b"HEAD" else body)


ROWS = [
    pytest.param(*row.values, front, id=f"{row.id}-{front}")
    for row in params("front")
    for front in sorted(row.values[0].fronts)
]


@pytest.mark.parametrize(("case", "front"), ROWS)
def test_row(case: Case, front: str, running: Field) -> None:
    """The decision, the record, what went upstream and what came back are what the row says."""
    behind = running.behind(case)
    if isinstance(behind, Upstream):
        _script(case, running, behind)
    running.proxy.new_records()
    with running.open(case, front) as client:
        shown = client.exchange(case.request.wire(running.names(case, front)), case.request.method)
        if shown.status == 400:
            assert client.closed(), "after an unreadable head the connection is closed"
    (record,) = running.proxy.decisions()
    assert record["mode"] == ("terminate" if front == "base" else "proxy")
    assert record["status"] == shown.status
    _no_secret(case, shown, json.dumps(record))
    if case.front.allow is None:
        _refused(case, running, shown, record)
    else:
        _allowed(case, running, shown, record)


def _script(case: Case, running: Field, upstream: Upstream) -> None:
    names = running.upstream_names(case)
    upstream.clear()
    running.other.clear()
    upstream.handler = running.other.handler = _default
    scripted: list[list[Step]] = [list(each.steps(names)) for each in case.answers]
    upstream.answers.extend(scripted)


def _refused(case: Case, running: Field, shown: Answer, record: dict[str, object]) -> None:
    assert record["verdict"] == "deny"
    assert record["reason"] in case.front.deny, record
    assert record["rule"] in case.front.rule, record
    assert shown.status in case.front.status
    if case.request.method != "HEAD":
        problem = json.loads(shown.body)
        assert shown.get("content-type") == b"application/problem+json"
        assert problem["rule"] == record["rule"]
        assert problem["reason"] == record["reason"]
        assert problem["status"] == shown.status
        assert problem["decision"] == record["id"]
        assert problem["detail"]
    for scripted in case.answers:
        if len(scripted.body) > 20:
            assert scripted.body not in shown.raw
    if case.dark:
        assert running.dark[case.grant].connections == 0, "something dialled the upstream"
        assert running.dark[case.grant].bytes_received == 0
        assert record["rule"] in REQUEST_RULES
        assert record["bytes_out"] == 0
    else:
        reached = running.lit[case.grant].requests
        assert len(reached) == len(case.answers), "one request for each answer, and nothing after the refusal"
        assert not running.other.requests


def _allowed(case: Case, running: Field, shown: Answer, record: dict[str, object]) -> None:
    assert record["verdict"] == "allow", record
    assert record["operation"] == case.front.allow
    upstream = running.lit[case.grant]
    first, *later = [*upstream.requests, *running.other.requests]
    _sent(case.front.sent, first, upstream)
    assert len(later) == len(case.front.hops)
    for expected, hop in zip(case.front.hops, later, strict=True):
        _sent(expected, hop, running.other if expected.get("other") else upstream)
    assert record["redirect_hops"] == len(case.front.hops)
    if case.front.final:
        assert record["final_operation"] == case.front.final
    relayed = case.front.relayed
    assert shown.status == relayed.get("status", shown.status)
    assert shown.informational == ()
    if "body" in relayed:
        assert shown.body == data(relayed["body"])
    for name, value in relayed.get("headers", ()):
        assert shown.get(name) == data(value), name
    for name in relayed.get("no_headers", ()):
        assert shown.get(name) is None, name


def _sent(expected: object, request: Received, upstream: Upstream) -> None:
    assert isinstance(expected, dict)
    assert request.version == b"HTTP/1.1"
    assert request.get("host") == f"localhost:{upstream.port}".encode()
    assert request.get("transfer-encoding") is None
    if "method" in expected:
        assert request.method == data(expected["method"])
    if "target" in expected:
        assert request.target == data(expected["target"])
    if "headers" in expected:
        sent = [(name, value) for name, value in request.fields if name.lower() not in _DROPPED]
        assert sent == [(data(name), data(value)) for name, value in expected["headers"]]
    if "body" in expected:
        assert request.body == data(expected["body"])
        assert request.get("content-length") == str(len(request.body)).encode()


def _no_secret(case: Case, shown: Answer, record: str) -> None:
    for value in SECRETS.values():
        assert value.encode() not in shown.raw
        assert value not in record
    assert b"secret_plan" not in shown.raw
