"""Media types and the one charset."""

import pytest

from grants.mediatype import parse_media_type

CASES = [
    pytest.param(b"application/json", "application/json", id="plain"),
    pytest.param(b"Application/JSON", "application/json", id="other case"),
    pytest.param(b"application/vnd.api+json", "application/vnd.api+json", id="suffix"),
    pytest.param(b"application/json; charset=utf-8", "application/json", id="charset"),
    pytest.param(b"application/json;charset=UTF-8", "application/json", id="charset in upper case"),
    pytest.param(b'application/json;charset="UTF-8"', "application/json", id="quoted"),
    pytest.param(b'application/json;charset="ut\\f-8"', "application/json", id="quoted with an escape"),
    pytest.param(b"application/json\t; \tversion=1 ;charset=utf-8;", "application/json", id="further parameters"),
    pytest.param(b'application/json; a="x; y=z"', "application/json", id="quoted text is no parameter"),
    pytest.param(b'application/json; a="x; charset=utf-16"', None, id="charset in a quoted text"),
    pytest.param(b"application/json; charset*=utf-16''x", None, id="extended charset"),
    pytest.param(b"application/json; x-charset=utf-16", None, id="charset in another name"),
    pytest.param(b"application/json; charset=utf-8; a=charset", None, id="charset as a value"),
    pytest.param(b"application/json; charset=utf-16", None, id="another charset"),
    pytest.param(b"application/json; CHARSET=latin1", None, id="another charset, name in upper case"),
    pytest.param(b"application/json; charset=", None, id="empty charset"),
    pytest.param(b'application/json; charset=""', None, id="empty quoted charset"),
    pytest.param(b"application/json; charset=utf-8; charset=utf-8", None, id="charset twice"),
    pytest.param(b"application/json; charset=utf-8; charset=utf-16", None, id="two charsets"),
    pytest.param(b"application/json; charset =utf-8", None, id="space before ="),
    pytest.param(b"application/json; charset= utf-8", None, id="space after ="),
    pytest.param(b"application/json, text/html", None, id="two types"),
    pytest.param(b'application/json; a="x', None, id="quote not closed"),
    pytest.param(b"application/json charset=utf-8", None, id="no semicolon"),
    pytest.param(b"application", None, id="no subtype"),
    pytest.param(b"/json", None, id="no type"),
    pytest.param(b"", None, id="empty"),
    pytest.param(b" application/json", None, id="space in front"),
    pytest.param(b"application/json\n", None, id="line end"),
    pytest.param(b"application/json; a=\xff", None, id="not ASCII"),
]


@pytest.mark.parametrize(("value", "expected"), CASES)
def test_media_type(value: bytes, expected: str | None) -> None:
    """Compared without parameters and without regard to case; `charset` is absent or utf-8."""
    assert parse_media_type(value) == expected
