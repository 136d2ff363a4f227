"""Ownership at Fountain, for whatever spelling and place: sentences of docs/reference/broker.md."""

import json
from typing import Any
from urllib.parse import quote_plus

from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.fountain import Holding, Kind, foreign, read_body, read_head, read_path

HOLDINGS = [Holding(box="one", kind=Kind.VAULT, id="v-1"), Holding(box="two", kind=Kind.VAULT, id="v-2")]
PATH = read_path(b"/api/conversations")
WORD = st.sampled_from(["vault", "vaults", "Vault", "VAULT", "Vaults"])
SEPARATOR = st.sampled_from(["_", "-", ".", " ", "[", "]", "/", ":", "$"])
BEFORE = st.sampled_from(["", "parent", "attached", "x", "filter"])
AFTER = st.sampled_from(["", "id", "Id", "IDS", "name", "ref", "eq", "0"])


@st.composite
def keys(draw: st.DrawFn) -> str:
    before, after = draw(BEFORE), draw(AFTER)
    return "".join([before, draw(SEPARATOR) if before else "", draw(WORD), draw(SEPARATOR) if after else "", after])


def nested(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaf,
        lambda below: (
            st.lists(below, min_size=1, max_size=1)
            | st.dictionaries(st.sampled_from("xyz"), below, min_size=1, max_size=1)
        ),
    )


@settings(deadline=None)
@given(keys(), st.data())
def test_a_key_with_a_word_for_a_kind_names_it(key: str, data: st.DataObject) -> None:
    """What stands under a name with a kind's word in it, in query and body, has to be the box's own."""
    assert PATH is not None
    for identifier, own in (("v-1", True), ("v-9", False)):
        body = data.draw(nested(st.just({key: identifier})))
        head = read_head(PATH, f"{quote_plus(key)}={identifier}".encode())
        for reading in (head, read_body(PATH, body)):
            assert (foreign(reading.names, (), "one", HOLDINGS) is None) is own, (key, body)


@settings(deadline=None)
@given(nested(st.sampled_from(["v-2", "/x/v-2", "x:v-2", "V-2"])))
def test_what_another_box_owns_is_found_anywhere(body: Any) -> None:
    """A text anywhere that is another box's id, alone or behind a mark, is refused; so is it in a query as JSON."""
    assert PATH is not None
    head = read_head(PATH, b"x=" + quote_plus(json.dumps(body)).encode())
    for reading in (read_body(PATH, body), head):
        assert foreign(reading.names, reading.texts, "one", HOLDINGS) is not None
        assert foreign(reading.names, reading.texts, "two", HOLDINGS) is None
