"""A box's token in a head: taken out of its own places, found in all others, also where the head comes again."""

import base64

import pytest

from addons.boxes import holds_token, take_token
from grants.memo import Memo
from grants.message import Fields, RequestHead

TOKEN, OTHER = b"box-token-0123456789", b"box-token-9876543210"
PLAIN: Fields = ((b"Host", b"api.example.test"), (b"Accept", b"*/*"))
ENCODED = base64.b64encode(b"user:" + TOKEN)


def head(fields: Fields, target: bytes = b"/") -> RequestHead:
    """As a connection's reader makes it."""
    return RequestHead(method=b"GET", target=target, fields=fields, memo=Memo(fields=fields))


def again(first: RequestHead, target: bytes = b"/") -> RequestHead:
    """The next request with the same fields."""
    return RequestHead(method=b"GET", target=target, fields=first.fields, memo=first.memo)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param((*PLAIN, (b"Cookie", b"a=" + TOKEN)), id="value"),
        pytest.param((*PLAIN, (TOKEN, b"1")), id="name"),
        pytest.param((*PLAIN, (b"Authorization", b"Basic " + ENCODED)), id="basic"),
        pytest.param((*PLAIN, (b"X", TOKEN.replace(b"-", b"%2d"))), id="percent"),
    ],
)
def test_it_is_found_each_time(fields: Fields) -> None:
    """What was found once is looked for again."""
    first = head(fields)
    assert [holds_token(one, TOKEN) for one in (first, again(first), again(first))] == [True] * 3
    assert not holds_token(first, OTHER)
    assert holds_token(again(first), TOKEN)


def test_a_target_is_looked_at_each_time() -> None:
    """Fields that come again say nothing of the line before them."""
    first = head(PLAIN)
    assert not holds_token(first, TOKEN)
    assert holds_token(again(first, b"/?t=" + TOKEN), TOKEN)
    assert not holds_token(again(first), TOKEN)


def test_fields_are_looked_at_once_for_each_token() -> None:
    """And anew for another one, and for other fields with the same memory."""
    fields: Fields = (*PLAIN, (b"Cookie", OTHER))
    first = head(fields)
    assert not holds_token(first, TOKEN)
    assert first.memo is not None
    assert first.memo.free_of == TOKEN
    assert holds_token(again(first), OTHER)
    assert not holds_token(again(first), TOKEN)
    changed = RequestHead(method=b"GET", target=b"/", fields=((b"Cookie", TOKEN),), memo=first.memo)
    assert holds_token(changed, TOKEN)
    assert TOKEN.decode() not in repr(first.memo)


@pytest.mark.parametrize(
    ("fields", "target", "same"),
    [
        pytest.param(PLAIN, b"/box/" + TOKEN + b"/v1", True, id="in-the-path"),
        pytest.param((*PLAIN, (b"Proxy-Authorization", b"Bearer " + TOKEN)), b"/v1", False, id="in-a-field"),
        pytest.param(PLAIN, b"/v1", True, id="nowhere"),
    ],
)
def test_fields_that_nothing_was_taken_out_of_are_the_same(fields: Fields, target: bytes, same: bool) -> None:
    """So that what is known of them still holds."""
    whole = head(fields, target)
    taken = take_token(whole, from_path=True).head
    assert taken.target == b"/v1"
    assert taken.fields == PLAIN
    assert (taken.fields is whole.fields) is same
    assert not holds_token(taken, TOKEN)
    assert (whole.memo is not None and whole.memo.free_of == TOKEN) is same
