"""A secret's value is shown by `reveal` alone."""

import copy
import pickle

import pytest

from grants.secret import Secret, SecretInvalid

VALUE = b"sk-0123456789"


def test_a_secret_prints_as_one() -> None:
    """In no text: repr, str, format, an exception."""
    secret = Secret(VALUE)
    assert {repr(secret), str(secret), f"{secret}", f"{secret:>20}", "{!s}".format(secret)} == {"<secret>"}  # noqa: UP032 - the other way
    assert secret.reveal() == VALUE


def test_a_secret_is_not_pickled() -> None:
    """Nor copied by way of it."""
    for work in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            work(Secret(VALUE))


def test_secrets_of_one_value_are_equal() -> None:
    """So that a rotated value is told from the one before."""
    assert Secret(VALUE) == Secret(VALUE) != Secret(b"another-value")
    assert len({Secret(VALUE), Secret(VALUE)}) == 1
    assert Secret(VALUE) != VALUE


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"1234567", id="7 bytes"),
        pytest.param(b" 12345678", id="space before"),
        pytest.param(b"12345678\n", id="line end"),
        pytest.param(b"1234\r5678", id="CR"),
        pytest.param(b"1234\x005678", id="NUL"),
        pytest.param("1234567é".encode(), id="not ASCII"),
        pytest.param(b"1234567\x7f", id="DEL"),
    ],
)
def test_what_cannot_stand_in_a_field_is_no_secret(value: bytes) -> None:
    """Visible ASCII without outer white space, at least 8 bytes; the message holds nothing of it."""
    with pytest.raises(SecretInvalid) as invalid:
        Secret(value)
    assert "1234" not in str(invalid.value)


def test_a_secret_may_hold_inner_spaces() -> None:
    """`Bearer x` as a whole, for example."""
    assert Secret(b"Bearer 123").reveal() == b"Bearer 123"
