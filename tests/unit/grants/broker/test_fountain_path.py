"""The paths that Fountain is asked for: their grammar, and what they name, need, list and create."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.fountain import FountainPath, Kind, created_kind, listed_kind, read_path, scope_words

AGENT, CONVERSATION, SANDBOX, VAULT = Kind.AGENT, Kind.CONVERSATION, Kind.SANDBOX, Kind.VAULT


def path_of(path: str) -> FountainPath:
    found = read_path(path.encode())
    assert found is not None
    return found


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/api", "/api/", "/api/agents", "/api/agents/a-1", "/api/Vaults", "/api/vault", "/api/vaultsx"),
        *("/other/vaults", "/xapi/vaults", "x/api/vaults", "/API/vaults", "/api//vaults", "/api/vaults//"),
        *("/api/vaults//v-1", "/api/vaults/../v", "/api/vaults/.", "/api/./vaults", "/api/vaults/v-1/..", "api/vaults"),
        *(
            "/api/vaults/%2e%2e/v",
            "/api/vaults/%252e%252e/v",
            "/api/vaults/v%2D1",
            "/api/va%75lts",
            "/api/vaults/a%2Fb",
        ),
        *("/api/vaults;x", "/api/vaults/v-1;x=y", "/api/vaults/a\\b", "/api/vaults/a:b", "/api/vaults/a,b"),
        *("/api/vaults/v@1", "/api/vaults/\xff", "/api/vaults/v-1\n", "/api/vaults/v-1/rotate*", "/api/vaults/(v)"),
    ],
)
def test_a_path_out_of_the_grammar(path: str) -> None:
    """There is one spelling of each path: plain segments below a family, and nothing encoded."""
    assert read_path(path.encode("latin-1")) is None


PATHS = [
    pytest.param("/api/conversations", [], "conversations", id="collection"),
    pytest.param("/api/conversations/", [], "conversations", id="collection, slash"),
    pytest.param("/api/conversations/c-1", [(CONVERSATION, "c-1")], "conversations", id="thing"),
    pytest.param("/api/conversations/c-1/", [(CONVERSATION, "c-1")], "conversations", id="thing, slash"),
    pytest.param("/api/conversations/c-1/messages/m", [(CONVERSATION, "c-1")], "conversations", id="below"),
    pytest.param("/api/conversations/.c/..c", [(CONVERSATION, ".c")], "conversations", id="dots in a segment"),
    pytest.param(
        "/api/conversations/c/sandboxes/s", [(CONVERSATION, "c"), (SANDBOX, "s")], "conversations sandboxes", id="two"
    ),
    pytest.param(
        "/api/conversations/c/vault/v-2", [(CONVERSATION, "c"), (VAULT, "v-2")], "conversations vault", id="singular"
    ),
    pytest.param(
        "/api/conversations/c/AGENTS/a", [(CONVERSATION, "c"), (AGENT, "a")], "conversations agent", id="upper case"
    ),
    pytest.param("/api/vaults/Vaults/x", [(VAULT, "Vaults"), (VAULT, "x")], "vault", id="a word for an id"),
    pytest.param(
        "/api/conversations/c/attached-vaults/v",
        [(CONVERSATION, "c"), (VAULT, "v")],
        "conversations vault",
        id="word among words",
    ),
    pytest.param(
        "/api/conversations/c/agentVaults",
        [(CONVERSATION, "c")],
        "conversations agent vault",
        id="two words in one",
    ),
    pytest.param("/api/conversations/c/vaults.json", [(CONVERSATION, "c")], "conversations vault", id="ending"),
    pytest.param("/api/sandboxes/vault-a/exec", [(SANDBOX, "vault-a")], "sandboxes", id="word in an id"),
    pytest.param("/api/sandboxes/s/runs/agent-7", [(SANDBOX, "s")], "sandboxes", id="word in another id"),
]


@pytest.mark.parametrize(("path", "names", "words"), PATHS)
def test_what_a_path_names_and_needs(path: str, names: list[tuple[Kind, str]], words: str) -> None:
    """A word for a kind, in any case, stands before an id; each family needs its word."""
    found = path_of(path)
    assert [(name.kind, name.id) for name in found.names] == names
    assert scope_words(b"GET", found) == tuple(words.split())


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        pytest.param("POST", "/api/conversations", "agent", id="starts"),
        pytest.param("POST", "/api/conversations/", "agent", id="starts, slash"),
        pytest.param("POST", "/api/sandboxes/s/conversations", "sandboxes agent", id="starts below"),
        pytest.param("POST", "/api/sandboxes/s/Conversation", "sandboxes agent", id="starts, singular"),
        pytest.param("POST", "/api/sandboxes/s/start-conversation", "sandboxes agent", id="starts, two words"),
        pytest.param("GET", "/api/sandboxes/s/conversations", "sandboxes conversations", id="lists below"),
        pytest.param("POST", "/api/conversations/c/messages", "conversations", id="goes on"),
        pytest.param("POST", "/api/vaults", "vault", id="creates"),
        pytest.param("PUT", "/api/vaults/v", "vault", id="puts"),
        pytest.param("PATCH", "/api/vaults/v", "vault", id="patches"),
        pytest.param("DELETE", "/api/vaults/v", "vault", id="deletes"),
        pytest.param("HEAD", "/api/vaults/v", "vault", id="head"),
        pytest.param("HEAD", "/api/vaults", None, id="head of a collection"),
        pytest.param("HEAD", "/api/conversations/c/my-vaults", None, id="head of a list"),
        *(
            pytest.param(method, "/api/vaults", None, id=f"{method} of a collection")
            for method in ("PUT", "PATCH", "DELETE")
        ),
        *(
            pytest.param(method, "/api/vaults/v", None, id=method)
            for method in ("QUERY", "SEARCH", "PROPFIND", "OPTIONS", "TRACE", "CONNECT", "COPY", "LINK", "get", "")
        ),
    ],
)
def test_methods_and_words(method: str, path: str, words: str | None) -> None:
    """Six methods are served, two of them on collections; to start a conversation needs `agent`."""
    assert scope_words(method.encode(), path_of(path)) == (None if words is None else tuple(words.split()))


@pytest.mark.parametrize(
    ("method", "path", "listed", "made", "subject"),
    [
        pytest.param("GET", "/api/conversations", CONVERSATION, None, CONVERSATION, id="list"),
        pytest.param("GET", "/api/conversations/", CONVERSATION, None, CONVERSATION, id="list, slash"),
        pytest.param("GET", "/api/conversations/c", None, None, CONVERSATION, id="one"),
        pytest.param("GET", "/api/conversations/c/Sandbox", SANDBOX, None, SANDBOX, id="list below"),
        pytest.param("GET", "/api/conversations/c/my_vaults", VAULT, None, VAULT, id="list, two words"),
        pytest.param("POST", "/api/vaults", None, VAULT, VAULT, id="creation"),
        pytest.param("POST", "/api/conversations/c/attach-vault", None, None, VAULT, id="action"),
        pytest.param("POST", "/api/vaults/v/rotate", None, None, None, id="action, no word"),
    ],
)
def test_lists_and_creations(
    method: str, path: str, listed: Kind | None, made: Kind | None, subject: Kind | None
) -> None:
    """A GET of a collection lists it, a POST to it creates."""
    found = path_of(path)
    assert listed_kind(method.encode(), found) == listed
    assert created_kind(method.encode(), found) == made
    assert found.subject == subject


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from([b"/", b"api", b"vaults", b"Vault", b"x-1", b"..", b"%2e", b";", b"\xff"])))
def test_total(parts: list[bytes]) -> None:
    """No bytes raise, and what is read needs a word."""
    found = read_path(b"/api/" + b"".join(parts))
    assert found is None or scope_words(b"GET", found)
