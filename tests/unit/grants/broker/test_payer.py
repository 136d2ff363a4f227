"""Who pays, and what can be a grant."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.payer import Payer, PayerKind, is_grant, parse_payer_header


@pytest.mark.parametrize(
    ("value", "payer"),
    [
        pytest.param(b"shared", Payer(kind=PayerKind.SHARED), id="kind alone"),
        pytest.param(b"owner github:ada", Payer(kind=PayerKind.OWNER, principal="github:ada"), id="principal"),
        pytest.param(b" visitor \t x ", Payer(kind=PayerKind.VISITOR, principal="x"), id="white space around"),
        pytest.param(b"visitor " + b"p" * 200, Payer(kind=PayerKind.VISITOR, principal="p" * 200), id="longest"),
        pytest.param("owner é".encode(), Payer(kind=PayerKind.OWNER, principal="é"), id="UTF-8"),
        pytest.param(b"", None, id="empty"),
        pytest.param(b"Shared", None, id="case"),
        pytest.param(b"sharedx", None, id="longer kind"),
        pytest.param(b"owner a b", None, id="two words"),
        pytest.param(b"owner " + b"p" * 201, None, id="too long"),
        pytest.param(b"owner a\x00b", None, id="control character"),
    ],
)
def test_header(value: bytes, payer: Payer | None) -> None:
    """`KIND` or `KIND PRINCIPAL`; anything else names nobody."""
    assert parse_payer_header(value) == payer


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(PayerKind), st.none() | st.text(min_size=1, max_size=20))
def test_written_and_read(kind: PayerKind, principal: str | None) -> None:
    """What is written is read as it was, and is one header value."""
    try:
        payer = Payer(kind=kind, principal=principal)
    except ValueError:
        return
    assert parse_payer_header(payer.header()) == payer
    assert b"\n" not in payer.header()


@pytest.mark.parametrize("principal", ["", "a b", "a\nb", "p" * 201, "a\u00a0b", "\u200b", "\x00"])
def test_no_principal(principal: str) -> None:
    """A principal is printable, without white space, at most 200 characters."""
    with pytest.raises(ValueError, match="a principal is"):
        Payer(kind=PayerKind.OWNER, principal=principal)


@pytest.mark.parametrize(
    ("value", "grant"),
    [
        pytest.param(b"!~", True, id="ends of the range"),
        pytest.param(b"g" * 2048, True, id="longest"),
        pytest.param(b"g" * 2049, False, id="too long"),
        pytest.param(b"", False, id="empty"),
        pytest.param(b"a b", False, id="space"),
        pytest.param(b"a\n", False, id="line end"),
        pytest.param(b"\x7f", False, id="DEL"),
        pytest.param(b"\xe9", False, id="not ASCII"),
    ],
)
def test_grant(value: bytes, grant: bool) -> None:
    """A grant is visible ASCII, at most 2048 characters."""
    assert is_grant(value) is grant
