"""Ownership at Fountain: what a request names, and what of an answer is the box's."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.fountain import Kind, Named, created, created_kind, cut, foreign, listed_kind, named

AGENT, CONVERSATION, SANDBOX, VAULT = Kind.AGENT, Kind.CONVERSATION, Kind.SANDBOX, Kind.VAULT


@pytest.mark.parametrize(
    ("path", "query", "body", "names"),
    [
        pytest.param("/api/conversations", "", None, [], id="nothing"),
        pytest.param("/api/conversations/c-1/messages/m", "", None, [(CONVERSATION, "c-1")], id="path"),
        pytest.param("/api/conversations/c%2D1/", "", None, [(CONVERSATION, "c-1")], id="path, encoded, slash"),
        pytest.param(
            "/api/conversations/c/sandboxes/s", "", None, [(CONVERSATION, "c"), (SANDBOX, "s")], id="two in a path"
        ),
        pytest.param("/api/vaults", "sandbox_id=s%201&x=y", None, [(SANDBOX, "s 1")], id="query"),
        pytest.param("/api/vaults", "Agent-Id=a&vault=", None, [(AGENT, "a"), (VAULT, "")], id="query, spellings"),
        pytest.param("/api/vaults", "x=1;vaults[]=v", None, [(VAULT, "v")], id="query, semicolon and brackets"),
        pytest.param("/", "", {"agent": "a", "sandboxId": "s"}, [(AGENT, "a"), (SANDBOX, "s")], id="body"),
        pytest.param("/", "", {"vault_ids": ["v", None, 7]}, [(VAULT, "v"), (VAULT, "7")], id="body, several"),
        pytest.param("/", "", {"agent": {"id": "a"}, "vault": None}, [(AGENT, "a")], id="body, object and null"),
        pytest.param("/", "", {"vaults": [{"id": "v"}, {}]}, [(VAULT, "v"), (VAULT, "")], id="body, objects"),
        pytest.param("/", "", {"agent": True}, [(AGENT, "")], id="body, no id"),
        pytest.param("/", "", {"agent": 1.5}, [(AGENT, "")], id="body, fraction"),
        pytest.param("/", "", [{"x": {"conversationID": "c"}}], [(CONVERSATION, "c")], id="body, deep"),
        pytest.param("/", "", "agent", [], id="body, text"),
    ],
)
def test_named(path: str, query: str, body: Any, names: list[tuple[Kind, str]]) -> None:
    """An id is looked for in the path, the query and the body, at any depth."""
    assert named(path.encode(), query.encode(), body) == tuple(Named(kind=kind, id=text) for kind, text in names)


def test_foreign() -> None:
    """The first that is not the box's own is told; what has no id is nobody's."""
    owned = {CONVERSATION: frozenset({"c-1"}), VAULT: frozenset[str]()}
    own = Named(kind=CONVERSATION, id="c-1")
    other = Named(kind=SANDBOX, id="c-1")
    assert foreign((), owned) is None
    assert foreign((own,), owned) is None
    assert foreign((own, other), owned) == other
    assert foreign((Named(kind=VAULT, id=""),), owned) == Named(kind=VAULT, id="")


@pytest.mark.parametrize(
    ("method", "path", "listed", "made"),
    [
        pytest.param("GET", "/api/conversations", CONVERSATION, None, id="list"),
        pytest.param("GET", "/api/conversations/", CONVERSATION, None, id="list, slash"),
        pytest.param("GET", "/api/conversations/c", None, None, id="one"),
        pytest.param("GET", "/api/conversations/c/sandboxes", SANDBOX, None, id="list below"),
        pytest.param("POST", "/api/vaults", None, VAULT, id="creation"),
        pytest.param("POST", "/api/vaults/v/rotate", None, None, id="action"),
        pytest.param("DELETE", "/api/vaults", None, None, id="another method"),
    ],
)
def test_kinds(method: str, path: str, listed: Kind | None, made: Kind | None) -> None:
    """A GET of a collection lists it, a POST to it creates."""
    assert listed_kind(method.encode(), path.encode()) == listed
    assert created_kind(method.encode(), path.encode()) == made


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param({"id": "v"}, "v", id="id"),
        pytest.param({"id": 7}, "7", id="number"),
        pytest.param({"vault": {"id": "v"}}, "v", id="under its kind"),
        pytest.param({"data": {"id": "v"}}, "v", id="under data"),
        pytest.param({"id": None, "data": []}, None, id="none"),
        pytest.param([], None, id="array"),
    ],
)
def test_created(answer: Any, found: str | None) -> None:
    """The id of what was created stands in the answer."""
    assert created(VAULT, answer) == found


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        pytest.param([{"id": "a"}, {"id": "b"}, {"id": 1}], [{"id": "a"}, {"id": 1}], id="array"),
        pytest.param([], [], id="empty array"),
        pytest.param({"data": [{"id": "b"}], "next": "x"}, {"data": [], "next": "x"}, id="object"),
        pytest.param({"data": [{"id": "a"}], "errors": []}, {"data": [{"id": "a"}], "errors": []}, id="empty second"),
        pytest.param({"data": []}, {"data": []}, id="object, empty"),
        pytest.param({"data": [{"id": "a"}], "ids": ["b"]}, None, id="two arrays"),
        pytest.param({"path": "/"}, None, id="no array"),
        pytest.param({"data": ["a"]}, None, id="not objects"),
        pytest.param([{"id": "a"}, {"name": "b"}], None, id="no id"),
        pytest.param("a", None, id="text"),
    ],
)
def test_cut(answer: Any, shown: Any) -> None:
    """A list shows the box's own and nothing else; what is no list is not shown."""
    assert cut(answer, frozenset({"a", "1"})) == shown


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=20), st.binary(max_size=20))
def test_total(path: bytes, query: bytes) -> None:
    """No bytes raise."""
    named(path, query, None)
    listed_kind(b"GET", path)
