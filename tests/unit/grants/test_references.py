"""References: found and replaced in one pass, in header values only."""

from base64 import b64encode

import pytest
from support.grants import UPSTREAM, head

from grants.decision import Deny, Reason, Rule
from grants.message import Outgoing
from grants.references import Sealed, carries_reference, referenced, seal
from grants.secret import Secret

HELD = {
    "api": Secret(b"sk-0123456789"),
    "a": Secret(b"first-value"),
    "b": Secret(b"second-value"),
    "a/b.c_d-e": Secret(b"long-name-value"),
    "self": Secret(b"x@secret:api"),
}
KNOWN = frozenset(HELD) | {"gone"}


def request(*fields: tuple[str | bytes, str | bytes], body: bytes | None = None) -> Outgoing:
    return Outgoing(
        origin=UPSTREAM,
        method=b"GET",
        target=b"/a?q=%40secret%3Aapi",
        fields=head("GET", "/", *fields).fields,
        body=body,
    )


def basic(text: bytes, scheme: bytes = b"Basic") -> bytes:
    return scheme + b" " + b64encode(text)


REPLACED = [
    pytest.param("Authorization", b"Bearer @secret:api", b"Bearer sk-0123456789", ("api",), id="one"),
    pytest.param("Token", b"Token @secret:a,@secret:b", b"Token first-value,second-value", ("a", "b"), id="two"),
    pytest.param("X", b"@secret:a@secret:a", b"first-valuefirst-value", ("a",), id="the same twice"),
    pytest.param("X", b"<@secret:a/b.c_d-e>", b"<long-name-value>", ("a/b.c_d-e",), id="every character of a name"),
    pytest.param("X", b"@secret:self", b"x@secret:api", ("self",), id="a value is not searched again"),
    pytest.param("X", b"@SECRET:api @secret api", b"@SECRET:api @secret api", (), id="only the exact word"),
    pytest.param("X", basic(b"u:@secret:api"), basic(b"u:@secret:api"), (), id="Basic in another field stays"),
    pytest.param("Authorization", b"Basicx @secret:a", b"Basicx first-value", ("a",), id="another scheme"),
]


@pytest.mark.parametrize(("name", "value", "sent", "names"), REPLACED)
def test_references_are_replaced(name: str, value: bytes, sent: bytes, names: tuple[str, ...]) -> None:
    """`@secret:NAME` anywhere in a header value; NAME goes as far as its characters; several may stand in a value."""
    sealed = seal(request((name, value)), HELD, KNOWN)
    assert isinstance(sealed, Sealed)
    assert sealed.request.fields == ((name.encode(), sent),)
    assert sealed.names == names


@pytest.mark.parametrize("scheme", [b"Basic", b"basic", b"BASIC"])
def test_basic_is_decoded_and_encoded_again(scheme: bytes) -> None:
    """Basic credentials arrive with the token's own value in them."""
    sealed = seal(request(("authorization", basic(b"x-access-token:@secret:api", scheme))), HELD, KNOWN)
    assert isinstance(sealed, Sealed)
    plain = b"x-access-token:sk-0123456789"
    assert sealed.request.fields == ((b"authorization", basic(plain, scheme)),)
    assert sealed.names == ("api",)


UNRESOLVED = [
    pytest.param(b"Bearer @secret:other", Reason.REFERENCE_UNKNOWN, id="unknown"),
    pytest.param(b"Bearer @secret:api.", Reason.REFERENCE_UNKNOWN, id="a name goes as far as its characters"),
    pytest.param(b"Bearer @secret:API", Reason.REFERENCE_UNKNOWN, id="other case"),
    pytest.param(b"Bearer @secret:", Reason.REFERENCE_UNKNOWN, id="empty name"),
    pytest.param(b"Bearer @secret: api", Reason.REFERENCE_UNKNOWN, id="empty name before a space"),
    pytest.param(b"@secret:api @secret:other", Reason.REFERENCE_UNKNOWN, id="one of two"),
    pytest.param(b"Bearer @secret:gone", Reason.REFERENCE_EMPTY, id="no value now"),
    pytest.param(basic(b"u:@secret:other"), Reason.REFERENCE_UNKNOWN, id="unknown inside Basic"),
    pytest.param(basic(b"@secret:gone:p"), Reason.REFERENCE_EMPTY, id="no value inside Basic"),
]


@pytest.mark.parametrize(("value", "reason"), UNRESOLVED)
def test_unresolved_references_are_refused(value: bytes, reason: Reason) -> None:
    """A name that the endpoint does not hold, or an empty value, is a 502 and nothing goes upstream."""
    denial = seal(request(("Authorization", value)), HELD, KNOWN)
    assert isinstance(denial, Deny)
    assert (denial.rule, denial.reason, denial.status) == (Rule.UNRESOLVED_SECRET, reason, 502)
    assert "other" not in denial.detail


def test_references_elsewhere_stay() -> None:
    """References outside header values stay as they are: in a path, a query, a body, a field's name."""
    sealed = seal(request(("X-secret", "x"), body=b'{"a":"@secret:api"}'), HELD, KNOWN)
    assert isinstance(sealed, Sealed)
    assert sealed.request == request(("X-secret", "x"), body=b'{"a":"@secret:api"}')
    mixed = seal(request(("X", "@secret:a"), ("Y", "plain"), body=b'{"a":"@secret:api"}'), HELD, KNOWN)
    assert isinstance(mixed, Sealed)
    assert mixed.request == request(("X", "first-value"), ("Y", "plain"), body=b'{"a":"@secret:api"}')


def test_nothing_of_a_sealed_request_is_printed() -> None:
    """No secret in a repr, in the clear or encoded."""
    sealed = seal(request(("Authorization", basic(b"u:@secret:api")), ("X", "@secret:a")), HELD, KNOWN)
    assert repr(sealed) == "Sealed(names=('api', 'a'))"


def test_what_a_value_refers_to() -> None:
    """References are looked for where `seal` replaces them: also under Basic, also with an unusable name."""
    assert carries_reference(b"x-api-key", b"a @secret:")
    assert carries_reference(b"authorization", basic(b"u:@secret:api"))
    assert not carries_reference(b"authorization", basic(b"u:p"))
    assert not carries_reference(b"authorization", b"Basic !!")
    assert not carries_reference(b"x-api-key", basic(b"u:@secret:api"))
    fields = head("GET", "/", ("X", "@secret:b @secret:"), ("Authorization", basic(b"u:@secret:a"))).fields
    assert referenced(fields) == ("b", "", "a")
    assert referenced(((b"Authorization", b"Basic !!"),)) == ()


def test_credentials_that_cannot_be_decoded_are_searched_as_sent() -> None:
    """Authorization denies them before; even so, no reference goes upstream unresolved."""
    fields = (("Authorization", "Basic @secret:other"), ("X", "@secret:a"))
    denial = seal(request(*fields), HELD, KNOWN)
    assert isinstance(denial, Deny)
    assert denial.reason is Reason.REFERENCE_UNKNOWN
