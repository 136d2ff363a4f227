"""What a request names at Fountain: each spelling of somebody else's thing is found, and what is a box's own passes."""

from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.fountain import (
    MAX_NAME,
    MOST_STEPS,
    MOST_TEXTS,
    Fault,
    Holding,
    Kind,
    Named,
    Reading,
    foreign,
    read_body,
    read_head,
    read_path,
)

AGENT, CONVERSATION, SANDBOX, VAULT = Kind.AGENT, Kind.CONVERSATION, Kind.SANDBOX, Kind.VAULT
OWN = {AGENT: "a-1", CONVERSATION: "c-1", SANDBOX: "s-1", VAULT: "v-1"}
HOLDINGS = [
    *(Holding(box="one", kind=kind, id=each) for kind, each in OWN.items()),
    *(Holding(box="two", kind=kind, id=f"{each[0]}-2") for kind, each in OWN.items()),
    Holding(box="two", kind=VAULT, id="a:b:v-3"),
    Holding(box="two", kind=VAULT, id="7"),
    Holding(box="two", kind=AGENT, id="a-1"),
    *(Holding(box="two", kind=VAULT, id=each) for each in ("application", "messages", "text", "en", "Claude", "0.9")),
    Holding(box="two", kind=VAULT, id="averylongidwithoutdigits"),
]
MESSAGES = "/api/conversations/c-1/messages"


def ask(path: str = MESSAGES, query: str = "", body: Any = None, field: str | None = None) -> list[Reading]:
    found = read_path(path.encode())
    assert found is not None
    fields = () if field is None else ((b"If-Match", field.encode("latin-1")),)
    return [read_head(found, query.encode("latin-1"), fields), read_body(found, body)]


def refused(*readings: Reading) -> Named | None:
    assert [reading.fault for reading in readings] == [None] * len(readings)
    names = [name for reading in readings for name in reading.names]
    texts = [text for reading in readings for text in reading.texts]
    return foreign(names, texts, "one", HOLDINGS)


QUERIES = [
    *("conversation=c-9", "conversation_id=c-9", "conversationId=c-9", "Conversation-ID=c-9", "CONVERSATIONID=c-9"),
    *("conversations=c-9", "conversation_ids[]=c-9", "conversationIds=c-1,c-9", "conversations[0]=c-9"),
    *("filter[conversation_id]=c-9", "filter%5Bconversation_id%5D=c-9", "filter%255Bconversation_id%255D=c-9"),
    *("conversation.id=c-9", "conversation%20id=c-9", "conversation+id=c-9", "parent_conversation_id=c-9"),
    *("parentConversationId=c-9", "where.conversation.eq=c-9", "x=1;conversation=c-9", "cOnVeRsAtIoN=c-9"),
    *("vault_name=v-9", "vaultname=v-9", "VAULTname=v-9", "sand_box=s-9", "attachedVaults=v-9", "x-agent=a-9"),
    *("vault_handle=v-9", "vaultslug=v-9", "vault__id__in=v-9", "filter[vault][$ne]=v-9", "user_agent_id=a-9"),
    *("vault_id=1", "vault=0,1", "vaults[]=v-1&vaults[]=9", "agents=user-agent", "agent_name=0", "ref=1&type=vault"),
    *("vault=v-1&vault=v-9", "vault=v-1;v-9", "vault=", "vault=v-1,", "vault= v-1", "vault=V-1", "vault=c-1"),
    *("agent_vault_id=a-1", "conversation[agent_id]=c-1", "va%75lt=v-9", "va%25252575lt=v-9"),
    *("id=c-9", "ids=c-1,c-9", "id[]=c-9", "ID=c-9", "uuid=c-9", "uuids=c-1&uuids=c-9", "_id=c-9", "i%64=c-9"),
    *("type=vault&id=c-1", "kind=VAULTS&ref=v-9", "resource=vault&name=v-9", "type=fountain.vault&id=c-1"),
    *('filter={"vault_id":"v-9"}', 'f=[{"vault":{"id":"v-9"}}]', 'f={"type":"vault","id":"v-9"}', 'f={"id":"v-9"}'),
    *('{"vault_id":"v-9"}', '{"vault_id":"v-9"}=1', "f=%257B%22vault_id%22:%22v-9%22}", 'f=%20{"vault":"v-9"}'),
    # by value
    *("x=v-2", "x=v-1,v-2", "v-2=x", "v-2", "x=/api/vaults/v-2", "x=vault:v-2", "x=v-2?a=b", "x=a%23v-2", "x=V-2"),
    *(
        "x=(v-2)",
        'x="v-2"',
        'x=["v-2"]',
        "x=a[v-2]",
        "x=%2576-2",
        "x=vault_id%20eq%20'v-2'x:v-2",
        "x=%20v-2%20",
        "x=a:b:v-3",
    ),
    *("x=urn:a:b:v-3", "x=7", "limit=07,7", "x[v-2]=1", "x;v-2", "x=<v-2>"),
    *("x-agent-x=v-2", "user_agent=v-2", "vault_size=v-2", "x=averylongidwithoutdigits", "what=vault&ref=v-2"),
]


@pytest.mark.parametrize("query", QUERIES)
def test_queries_that_name_others(query: str) -> None:
    """Whatever the spelling of the key, and under any key what another box owns."""
    assert refused(*ask(query=query)) is not None


BODIES: list[Any] = [
    *({"conversation": "c-9"}, {"conversation_id": "c-9"}, {"parentConversationId": "c-9"}, {"vault.id": "v-9"}),
    *({"vault id": "v-9"}, {"attached_vaults": ["v-9"]}, {"vault_name": "v-9"}, {"vault%2Eid": "v-9"}),
    *({"vaults": ["v-1", "v-9"]}, {"vaults": [["v-9"]]}, {"vaults": [{"id": "v-1"}, {"id": "v-9"}]}),
    *({"vault": {"id": "v-9"}}, {"vault": {"uuid": "v-9"}}, {"vault": {"ref": "v-9"}}, {"vault": {"Slug": "v-9"}}),
    *({"vault": {"id": "v-1", "name": "v-9"}}, {"vault": {"id": {"id": "v-9"}}}, {"vault": {"_id": "v-9"}}),
    *({"vault": ""}, {"vault": {"handle": "v-9"}}, {"vaultHandle": "v-9"}, {"vault": {"id": 1}}, {"vaults": [0]}),
    *({"vault": {"vault": "v-9"}}, {"vault": {"title": "x", "agent": "a-9"}}, {"vault_id": 1}, {"vault_id": "0"}),
    *({"vault": {"inner": {"agent": "a-9"}, "id": "v-1"}}, {"vault": 9}, {"vault": 1.5}, {"vault": "c-1"}),
    *([{"x": {"conversationID": "c-9"}}], {"a": [[{"SANDBOX": "s-9"}]]}, {"agent": "a-9"}),
    *({"target": {"type": "vault", "id": "v-9"}}, {"type": "VAULTS", "ids": ["v-9"]}, {"id": "v-9", "kind": "vault"}),
    *({"type": "fountain.Vault", "id": "v-9"}, {"targetType": "vault", "ref": "v-9"}, {"type": "vault", "name": "v-9"}),
    *({"type": "vault", "value": "v-9"}, {"type": "vault", "key": {"id": "v-9"}}, {"type": " vault ", "id": "v-9"}),
    *({"type": "vault", "value": 1}, {"entity": "agents", "slug": "a-9"}, {"object": "vault", "handle": "v-9"}),
    *({"type": "vault", "id": "c-1"}, {"@type": "Vault", "id": "v-9"}, {"__typename": "VaultRef", "id": "v-9"}),
    # by value
    *({"x": {"y": "v-2"}}, {"v-2": True}, {"x": 7}, {"x": 7.0}, ["v-2"], {"x": ["a", ["v-2"]]}),
    *({"vault": {"title": "v-2"}}, {"vaults": {"v-2": True}}, {"what": "vault", "ref": "v-2"}, {"user_agent": "v-2"}),
    *(
        {"role": "agent", "id": "a-2"},
        {"role": "agent", "name": "v-2"},
        {"agentConfig": {"x": "v-2"}},
        {"vault_size": 7},
    ),
    *({"x": "averylongidwithoutdigits"}, {"conversation_title": "v-2"}, {"key": "topic", "value": "v-2"}),
    *({"x": "/api/vaults/v-2"}, {"x": "V-2"}, {"x": "a: v-2"}, {"x": "a:b:v-3"}, {"x": "x/a:b:v-3"}),
    *({"x": "see https://f/api/vaults/v-2?a=1 please"}, {"x": "%76-2"}, {"x": "{'a':'v-2'}"}, {"a/v-2": None}),
]


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_bodies_that_name_others(body: Any) -> None:
    """At any depth, by the key, by a type beside it, and under any key what another box owns."""
    assert refused(*ask(body=body)) is not None


@pytest.mark.parametrize("name", ["id", "ids", "uuid", "UUIDs", "_id"])
@pytest.mark.parametrize("path", ["/api/vaults", "/api/vaults/v-1", "/api/conversations/c-1/vaults"])
def test_a_body_has_no_id_of_its_own(path: str, name: str) -> None:
    """The id of what is created is not the client's choice, and that of what is changed is the path's."""
    assert refused(*ask(path, body={name: "v-9"})) == Named(kind=VAULT, id="v-9")
    assert refused(*ask(path, body=[{"x": 1}, {name: "c-1"}])) == Named(kind=VAULT, id="c-1")
    assert refused(*ask(path, body={name: "v-1"})) is None
    assert refused(*ask(f"{path}/v-1/x" if path.endswith("vaults") else f"{path}/x", body={name: "m-9"})) is None


@pytest.mark.parametrize("path", ["/api/conversations/c-2", "/api/vaults/v-9", "/api/vaults/c-1", f"{MESSAGES}/v-2"])
def test_paths_that_name_others(path: str) -> None:
    """By the word before it, and by itself."""
    assert refused(*ask(path)) is not None


@pytest.mark.parametrize("value", ["v-2", '"v-2"', 'W/"v-2"', "a, v-2", "x;y=v-2"])
def test_fields_that_name_others(value: str) -> None:
    """A value that goes upstream is looked at too."""
    assert refused(*ask(field=value)) is not None


PASSING_QUERIES = [
    *(
        "include_agent=true",
        "expand[sandbox]=1",
        "vault=TRUE",
        "with[vaults]=0",
        "agent=null",
        "vault_ids=false",
    ),
    *("conversation_title=x", "agent_version=2", "sandbox_size=large", "vault_count=3", "sort=agent_created"),
    *("user_agent=curl", "type=agent_message&ref=m-9", "role=agent&name=Claude", "model=agent&name=large"),
    *(
        "key=topic&value=vault",
        "sort=application&x=messages,text&lang=en",
        "q=100%25%7B&f={%22q%22:%22100%2525%22}",
    ),
]
PASSING_BODIES: list[Any] = [
    *({"role": "agent", "id": "m-1"}, {"role": "agent", "name": "Claude"}, {"name": "Vault"}),
    *({"include_agent": True}, {"include_agent": "true"}, {"expand": {"sandbox": 1}}, {"vaults": False}),
    *({"conversation_title": "x"}, {"agent_version": 2}, {"sandbox_size": "large"}, {"conversationTitle": "x"}),
    *({"metadata": {"user_agent": "curl/8"}}, {"metadata.user_agent": "x"}, {"userAgent": "x"}),
    *(
        {"agentConfig": {"model": "large"}},
        {"agent": {"model": "large"}},
        {"vault": {}},
        {"vault": {"id": None}},
    ),
    *({"tags": [{"name": "sandbox"}]}, {"key": "topic", "value": "vault"}, {"vaults": {"title": True}}),
    *({"type": "function", "name": "agent"}, {"type": "function", "function": {"name": "vault"}}),
    {"type": "object", "properties": {"vault": {"type": "string"}, "vault_id": {"type": "string"}}},
    *({"type": "agent_message", "id": "m-9"}, {"model": "agent", "name": "large"}),
    *({"format": "application/text", "text": "messages"}, {"speaker": "Claude"}, {"application": {"en": 1}}),
    {"type": "x" * 2000, "id": "m-9"},
]
PASS: list[tuple[str, Any]] = [
    ("", None),
    ("", {}),
    ("limit=10&after=x&q=hello+world", None),
    ("conversation_id=c-1&vaults=v-1,v-1&id=s-1&ids[]=a-1,c-1", None),
    ("filter[conversation_id]=c-1&type=vault&ref=v-1", {}),
    ('filter={"vault":"v-1","a":{"id":"x"}}&g=not {json&h=[1]&i=[]', None),
    ("agent=a-1", {"agent": "a-1"}),
    ("", {"title": "A title", "messages": [{"role": "user", "content": "Say hello to c-2 and v-2, or: v-2 is mine"}]}),
    ("", {"messages": [{"role": "agent", "content": "hello"}], "stream": True, "limit": 5, "n": None, "f": 1.5}),
    ("", {"agent": {"id": "a-1"}, "vault": None, "sandbox": False, "conversations": [], "vaults": ["v-1", None]}),
    ("", {"target": {"type": "vault", "id": "v-1", "note": "x"}, "vaultId": "v-1", "x": {"conversation": ["c-1"]}}),
    ("", {"type": "message", "id": "m-9", "name": "x", "model": "large"}),
    ("", {"text": "x" * 2000 + ":v-2", "reagent": "x", "agenda": "y", "evaluate": "z"}),
    ("", ["text"]),
    *((query, None) for query in PASSING_QUERIES),
    *(("", body) for body in PASSING_BODIES),
]


@pytest.mark.parametrize(("query", "body"), PASS, ids=str)
def test_own_things_and_text_pass(query: str, body: Any) -> None:
    """A box's own ids in each place, and text that names nothing."""
    assert refused(*ask(query=query, body=body, field='"tag-1"')) is None


def test_names_and_their_kinds() -> None:
    """The last kind in a key is its value's; a bare id is of any."""
    head, body = ask("/api/conversations/c/messages", "agent_vault=v&id=x", {"vault": [7, None], "agent": True})
    assert head.names == (
        Named(kind=CONVERSATION, id="c"),
        Named(kind=VAULT, id="v"),
        Named(kind=None, id="x"),
    )
    assert body.names == (Named(kind=VAULT, id="7"),)


def test_foreign() -> None:
    """What is shared is own; what has no id is nobody's; what nobody is known to own is foreign when it is named."""
    assert foreign((), (), "one", ()) is None
    assert foreign((Named(kind=AGENT, id="a-1"),), ("a-1",), "one", HOLDINGS) is None
    assert foreign((Named(kind=None, id="c-1"),), (), "one", HOLDINGS) is None
    assert foreign((Named(kind=None, id="c-9"),), (), "one", HOLDINGS) == Named(kind=None, id="c-9")
    assert foreign((Named(kind=VAULT, id=""),), (), "one", HOLDINGS) == Named(kind=VAULT, id="")
    assert foreign((), ("x", "v-2"), "one", HOLDINGS) == Named(kind=None, id="v-2")
    assert foreign((), ("v-2",), "two", HOLDINGS) is None


@pytest.mark.parametrize(
    ("query", "body"),
    [
        *(pytest.param(f"{name}=DELETE", None, id=name) for name in ("_method", "_METHOD", "%5Fmethod")),
        *(pytest.param("", {name: "PUT"}, id=f"body {name}") for name in ("_method", "X-HTTP-Method-Override")),
        pytest.param("x-http-method=GET", None, id="header's name"),
        pytest.param("methodOverride=GET", None, id="camel case"),
    ],
)
def test_a_name_for_the_method_is_told(query: str, body: Any) -> None:
    """The words that a request needs depend on its method."""
    assert Fault.OVERRIDE in {reading.fault for reading in ask(query=query, body=body)}
    assert refused(*ask(query="method=GET", body={"x": {"_method": 1}, "method": "GET"})) is None


UNREAD = [
    *('{"vault":"v-9","vault":"v-1"}', '{"vault":NaN}', '\ufeff{"vault":"v-9"}', '{"vault":"v-9",}', '["v-9",]', "{"),
    *(
        "{not json",
        "[",
        "[WIP] a title",
        "{'vault':'v-9'}",
        '\x0b{"vault":"v-9"}',
        '\ufeff\x00 \ufeff[{"vault":"v-9"}]',
    ),
    *('{"vault":"v-9"}{', '{"vault":"v-9"}//', '[{"vault":1e999}]', "%7Bvault", "%257Bvault"),
]


@pytest.mark.parametrize("text", UNREAD)
@pytest.mark.parametrize("place", ["f={}", "{}", "{}=1"])
def test_what_begins_as_json_is_strict_json(text: str, place: str) -> None:
    """A lenient reader would find in it what the broker does not."""
    reading, _ = ask(query=place.format(quote_plus(text)))
    assert reading.fault is Fault.UNREAD


@pytest.mark.parametrize(("text", "fault"), [("{x", Fault.UNREAD), ("[{}", Fault.UNREAD), ("[1]", None), ("x {", None)])
@pytest.mark.parametrize("name", [b"Accept", b"If-Match"])
def test_so_is_a_field(name: bytes, text: str, fault: Fault | None) -> None:
    """Whatever goes upstream can be read as JSON there."""
    found = read_path(MESSAGES.encode())
    assert found is not None
    assert read_head(found, b"", ((name, text.encode()),)).fault is fault
    named = read_head(found, b"", ((name, b'{"vault": "v-9"}'),))
    assert refused(named) == Named(kind=VAULT, id="v-9")


@pytest.mark.parametrize(
    ("query", "body", "fault"),
    [
        pytest.param("x" * MAX_NAME + "_vault=v-9", None, Fault.LONG_PARAMETER, id="parameter"),
        pytest.param("x." * MAX_NAME + "vault=v-9", None, Fault.LONG_PARAMETER, id="parameter, parts"),
        pytest.param(f'f={{"{"x" * MAX_NAME}_vault":"v-9"}}', None, Fault.LONG_PARAMETER, id="JSON"),
        pytest.param("", {" " * MAX_NAME + "vault": "v-9"}, Fault.LONG_MEMBER, id="member"),
        pytest.param("", [{"a": [{"x" * MAX_NAME + ".vault": "v-9"}]}], Fault.LONG_MEMBER, id="member, deep"),
        pytest.param("", {"vault": {"x" * MAX_NAME + "id": "v-9"}}, Fault.LONG_MEMBER, id="member of a thing"),
        pytest.param("x" * MAX_NAME + "=v-9", {"x" * MAX_NAME: "v-9"}, None, id="as long as can be"),
    ],
)
def test_a_name_is_read_whole_or_refused(query: str, body: Any, fault: Fault | None) -> None:
    """What a long name ends with is never passed over."""
    assert ({reading.fault for reading in ask(query=query, body=body)} - {None} or {None}) == {fault}


def test_what_only_says_which_forms_are_understood_holds_no_id() -> None:
    """A quality or a language may be equal to an id; in other fields the same text is refused."""
    found = read_path(MESSAGES.encode())
    assert found is not None
    for name, passes in ((b"Accept", True), (b"ACCEPT-LANGUAGE", True), (b"If-Match", False)):
        assert (refused(read_head(found, b"", ((name, b"text/html, application/*;q=0.9"),))) is None) is passes


def test_an_id_that_is_like_a_word_is_own_where_it_is_named() -> None:
    """It is free to stand anywhere else."""
    for name, own in (("vault", False), ("vault_id", False), ("id", False), ("x", True), ("vault_size", True)):
        assert (refused(*ask(query=f"{name}=messages")) is None) is own
    assert refused(*ask("/api/vaults/messages")) == Named(kind=VAULT, id="messages")
    assert refused(*ask(f"{MESSAGES}/text", field="application")) is None


LARGE: list[Any] = [
    pytest.param([f"t{number}" for number in range(MOST_TEXTS + 1)], Fault.MANY_TEXTS, id="texts"),
    pytest.param({f"t{number}": 1 for number in range(MOST_TEXTS + 1)}, Fault.MANY_TEXTS, id="names"),
    pytest.param([[]] * (MOST_STEPS + 2), Fault.MANY_STEPS, id="values"),
    pytest.param([{"vault": [None] * 400}] * (MOST_STEPS // 400), Fault.MANY_STEPS, id="ids"),
    pytest.param({f"{number:05}" + "aB" * 300: 1 for number in range(400)}, Fault.MANY_STEPS, id="long names"),
    pytest.param([": a b " * 150 + str(number) for number in range(1500)], Fault.MANY_STEPS, id="pieces"),
    pytest.param([":".join("abcdefghij") * 40 + str(number) for number in range(100)], Fault.MANY_TEXTS, id="ends"),
]


@pytest.mark.parametrize(("body", "fault"), LARGE)
def test_what_is_looked_at_is_bounded(body: Any, fault: Fault) -> None:
    """What holds more than is looked for, or than is looked at, says which."""
    assert ask(body=body)[1].fault is fault
    assert ask("/api/vaults", body=body)[1].fault is fault


def test_much_passes() -> None:
    """A long conversation is within the bounds."""
    text = "A line with (some) code: foo(bar, baz) / x = y; see https://example.com/a/b?c=d#e, and so on. " * 8
    body = {"messages": [{"role": "user", "content": f"{number} {text}"} for number in range(1000)]}
    assert refused(*ask(body=body)) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=20), st.binary(max_size=20), JSON)
def test_total(query: bytes, value: bytes, body: Any) -> None:
    """Nothing raises."""
    found = read_path(b"/api/vaults")
    assert found is not None
    read_head(found, query, ((b"If-Match", value),))
    read_body(found, body)
