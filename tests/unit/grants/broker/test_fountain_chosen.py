"""An id that stood in the request is not learned from the answer."""

import json
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.fountain import request_texts, stands_in

PATH = b"/api/sandboxes/s-77/vaults"


def chosen(identifier: str, *, query: str = "", field: str = "", body: Any = None) -> bool:
    fields = ((b"X-Request-Id", field.encode()), (b"User-Agent", b"x/28 y/28"), (b"Accept", b"a/b;q=9"))
    texts = request_texts(PATH, query.encode(), fields, body)
    return stands_in(identifier, texts)


CHOSEN = [
    pytest.param("mine", {"body": {"name": "mine"}}, id="whole"),
    pytest.param("mine", {"body": {"name": "MINE"}}, id="capitals"),
    pytest.param("MiNe", {"body": {"name": "mine"}}, id="small letters"),
    pytest.param("mine", {"body": {"a": [{"b": "x/mine?y"}]}}, id="short, between marks"),
    pytest.param("mine", {"body": {"a": "this is mine."}}, id="short, in a text"),
    pytest.param("mine", {"body": {"a": "x" * 2000 + "\nmine\n"}}, id="short, in a long text"),
    pytest.param("mine", {"body": {"mine": 1}}, id="a member's name"),
    pytest.param("a-b", {"body": ["a.b"]}, id="short, other marks"),
    pytest.param("7", {"body": {"n": 7}}, id="number"),
    pytest.param("7", {"body": {"n": 7.0}}, id="number with a point"),
    pytest.param("7", {"query": "limit=7"}, id="number in the query"),
    pytest.param("7", {"query": "a=1&by=x:7"}, id="number behind a mark"),
    pytest.param("7", {"body": {"a": [" 7 ", 8]}}, id="number as a text"),
    pytest.param("7", {"body": {"a": "/vaults/7"}}, id="number in a path"),
    pytest.param("7", {"body": {"a": "x" * 2000 + ",7"}}, id="number in a long text"),
    pytest.param("my-vault", {"body": {"title": "My Vault"}}, id="of a title"),
    pytest.param("my_vault", {"body": {"title": "my-vault"}}, id="other marks"),
    pytest.param("myvault", {"body": {"title": "My Vault!"}}, id="no marks"),
    pytest.param("mein-tresor", {"body": {"title": "Mein Tr\u00e9sor"}}, id="without accents"),
    pytest.param("strasse", {"body": {"title": "Stra\u00dfe"}}, id="folded"),
    pytest.param("stra\u00dfe", {"body": {"title": "STRASSE"}}, id="folded, not ASCII"),
    pytest.param("\u65e5\u672c", {"body": {"title": "\u65e5\u672c\u8a9e"}}, id="not ASCII"),
    pytest.param("vault-1", {"body": {"title": "\uff56ault-1"}}, id="wide letters"),
    pytest.param("vault-7", {"body": {"title": "x" * 5000 + "vault-7"}}, id="in a longer word"),
    pytest.param("vault-7", {"query": "by=va%75lt-7"}, id="encoded"),
    pytest.param("vault-7", {"query": "by=va%252575lt-7"}, id="encoded three times"),
    pytest.param("vault-7", {"query": "vault-7"}, id="a parameter's name"),
    pytest.param("vault-7", {"body": {"x": "va%75lt-7"}}, id="encoded in the body"),
    pytest.param("vault-7", {"body": {"x": json.dumps({"y": "va\\u0075lt-7"})}}, id="escaped in the body"),
    pytest.param("vault-7", {"body": {"x": '{"y": "va\\u0075lt-7"}'}}, id="escaped in a text"),
    pytest.param("vault-7", {"field": "a vault-7"}, id="field"),
    pytest.param("s-77", {}, id="path"),
    pytest.param("sandboxes", {}, id="a word of the path"),
    pytest.param("--", {}, id="marks alone"),
    pytest.param("", {}, id="empty"),
]


@pytest.mark.parametrize(("identifier", "request_parts"), CHOSEN)
def test_chosen(identifier: str, request_parts: dict[str, Any]) -> None:
    """In whatever place and letters, within a longer text, and with other marks between its words."""
    assert chosen(identifier, **request_parts)


@pytest.mark.parametrize(
    ("identifier", "body"),
    [
        pytest.param("mine", {"a": "determined"}, id="short, in a word"),
        pytest.param("7", {"a": "for 7 people at 17.7, 2027-07-7", "b": 0.7, "c": 77}, id="number in prose"),
        pytest.param("28", {"a": "x"}, id="number of a version"),
        pytest.param("9", {"a": "x"}, id="number of a quality"),
        pytest.param("v-9", {"a": "v-99", "b": "9"}, id="short, other number"),
        pytest.param("v-9", None, id="no body"),
        pytest.param("vault-7", {"a": "va%2525252575lt-7"}, id="encoded more than three times"),
        pytest.param("vault-8", {"a": "vault-7", "b": [None, True, 1.5]}, id="another"),
        pytest.param("\u65e5\u672c", {"a": "nihon"}, id="not ASCII"),
        pytest.param("None", {"a": [None, True]}, id="null"),
    ],
)
def test_not_chosen(identifier: str, body: Any) -> None:
    """A short id may be in an unrelated word."""
    assert not chosen(identifier, query="a=b&limit=10", field="r-1", body=body)


@settings(deadline=None, max_examples=100)
@given(st.uuids(version=4), st.uuids(version=4), st.text(max_size=40))
def test_what_a_server_makes_stands_in_no_request(made: UUID, other: UUID, text: str) -> None:
    """And the same id does, however it is written."""
    body = {"messages": [{"content": text}], "parent": str(other)}
    assert chosen(str(made), body=body) is (made == other)
    for spelled in (str(made).upper(), made.hex, quote(quote("".join(f"%{ord(each):x}" for each in str(made))))):
        assert chosen(str(made), body={**body, "x": [f"a {spelled} b"]})
