"""Credentials of `Authorization: Basic`: one encoding of each text."""

from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.basic import decode_basic, encode_basic, encoded_cores, is_basic


@pytest.mark.parametrize(
    ("value", "basic"),
    [
        pytest.param(b"Basic eDp5", True, id="usual"),
        pytest.param(b"bASIC eDp5", True, id="other case"),
        pytest.param(b"Basic", True, id="scheme alone"),
        pytest.param(b"Basic\teDp5", True, id="tab"),
        pytest.param(b"Basicx eDp5", False, id="longer scheme"),
        pytest.param(b"Bearer Basic", False, id="another scheme"),
        pytest.param(b"", False, id="empty"),
    ],
)
def test_scheme(value: bytes, basic: bool) -> None:
    """The scheme is compared without regard to case (RFC 9110, 11.1)."""
    assert is_basic(value) is basic


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        pytest.param(b"Basic eDp5", b"Basic x:y", id="usual"),
        pytest.param(b"basic eDp5", b"basic x:y", id="the scheme stays as sent"),
        pytest.param(b"Basic " + b64encode("é:@secret:a".encode()), "Basic é:@secret:a".encode(), id="UTF-8"),
        pytest.param(b"Basic QHNlY3JldDpwYWly", b"Basic @secret:pair", id="no colon of its own"),
        pytest.param(b"Basic eDp5eQ==", b"Basic x:yy", id="padding"),
        pytest.param(b"Basic eDp5eR==", None, id="stray bits"),
        pytest.param(b"Basic eDp5eQ", None, id="padding missing"),
        pytest.param(b"Basic eDp5eQ=", None, id="padding cut"),
        pytest.param(b"Basic eDp5====", None, id="padding for nothing"),
        pytest.param(b"Basic eDp5=eQ==", None, id="padding inside"),
        pytest.param(b"Basic eDp5\neDp5", None, id="line end inside"),
        pytest.param(b"Basic eDp5 eDp5", None, id="space inside"),
        pytest.param(b"Basic eDp5 ", None, id="space behind"),
        pytest.param(b"Basic  eDp5", None, id="two spaces"),
        pytest.param(b"Basic\teDp5", None, id="tab for the space"),
        pytest.param(b"Basic eD-_", None, id="URL-safe alphabet"),
        pytest.param(b"Basic \xff\xff\xff\xff", None, id="not ASCII"),
        pytest.param(b"Basic x:y", None, id="not encoded"),
        pytest.param(b"Basic /w==", None, id="not UTF-8"),
        pytest.param(b"Basic " + b64encode(b"x:\ny"), None, id="line end in the text"),
        pytest.param(b"Basic " + b64encode(b"x:\x7f"), None, id="DEL in the text"),
        pytest.param(b"Basic " + b64encode("x:\x85".encode()), None, id="C1 control in the text"),
        pytest.param(b"Basic ", None, id="empty credentials"),
        pytest.param(b"Basic", None, id="scheme alone"),
    ],
)
def test_decoding(value: bytes, plain: bytes | None) -> None:
    """Canonical base64 of UTF-8 without control characters, after one space (RFC 7617, 2; RFC 4648, 3)."""
    assert decode_basic(value) == plain


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=24))
def test_what_is_decoded_is_encoded_as_it_was(tail: bytes) -> None:
    """There is one encoding of each text; nothing raises."""
    for value in (b"Basic " + tail, b"Basic " + b64encode(tail)):
        plain = decode_basic(value)
        if plain is not None:
            assert encode_basic(plain) == value


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=7), st.binary(min_size=8, max_size=40), st.binary(max_size=7))
def test_what_stands_around_a_value_does_not_change_its_core(before: bytes, value: bytes, behind: bytes) -> None:
    """One of the three cores stands in the base64 of every text that holds the value, and is nearly all of it."""
    core = encoded_cores(value)[len(before) % 3]
    start = -(-8 * len(before) // 6)
    assert b64encode(before + value + behind)[start : start + len(core)] == core
    assert len(core) > len(value) * 4 / 3 - 2
    assert b"=" not in core
