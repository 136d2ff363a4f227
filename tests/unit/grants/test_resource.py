"""The keyed digest of the object that a request is about."""

import hashlib
import hmac

import pytest
from support.grants import CDN, UPSTREAM

from grants.message import Origin
from grants.resource import _LONGEST_KEPT, _remembered, resource_digest

KEY = b"k" * 32
ONE = (("owner", "acme"), ("repo", "widgets"))


def test_is_hmac_sha_256_of_length_prefixed_parts() -> None:
    """HMAC-SHA-256 over the origin and each path parameter's name and value."""
    parts = [b"https://api.example.com", b"owner", b"acme", b"repo", b"widgets"]
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert resource_digest(KEY, UPSTREAM, ONE) == hmac.new(KEY, text, hashlib.sha256).hexdigest()


def test_order_does_not_matter() -> None:
    """A read and a write of one object can be tied together, in whichever order their routes name it."""
    assert resource_digest(KEY, UPSTREAM, tuple(reversed(ONE))) == resource_digest(KEY, UPSTREAM, ONE)


@pytest.mark.parametrize(
    ("key", "origin", "parameters"),
    [
        pytest.param(b"x" * 32, UPSTREAM, ONE, id="another key"),
        pytest.param(KEY, CDN, ONE, id="another origin"),
        pytest.param(KEY, UPSTREAM, (), id="no parameters"),
        pytest.param(KEY, UPSTREAM, (("owner", "acme"), ("repo", "gadgets")), id="another value"),
        pytest.param(KEY, UPSTREAM, (("owner", "acme"), ("name", "widgets")), id="another name"),
        pytest.param(KEY, UPSTREAM, (("owner", "acmerepo"), ("", "widgets")), id="parts do not run together"),
        pytest.param(KEY, UPSTREAM, (("owner", "widgets"), ("repo", "acme")), id="values swapped"),
    ],
)
def test_another_object_has_another_digest(key: bytes, origin: Origin, parameters: tuple[tuple[str, str], ...]) -> None:
    """Names, values and the origin all count."""
    assert resource_digest(key, origin, parameters) != resource_digest(KEY, UPSTREAM, ONE)


@pytest.mark.parametrize(
    ("length", "kept"),
    [
        pytest.param(_LONGEST_KEPT, 1, id="as long as may be"),
        pytest.param(_LONGEST_KEPT + 1, 0, id="longer"),
    ],
)
def test_what_is_remembered_is_bounded(length: int, kept: int) -> None:
    """A client chooses the values: long ones have their digest all the same, and are not held in memory."""
    _remembered.cache_clear()
    parameters = (("owner", "acme"), ("repo", "é" * length))
    value = ("é" * length).encode()
    parts = [b"https://api.example.com", b"owner", b"acme", b"repo", value]
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    for _ in range(2):
        assert resource_digest(KEY, UPSTREAM, parameters) == hmac.new(KEY, text, hashlib.sha256).hexdigest()
    assert _remembered.cache_info().currsize == kept
