"""The header fields that pass between a box and Fountain. What is not listed is left out, whatever it would do.

A field can name a thing, change the method, or ask for the answer to what another box did (`Idempotency-Key`); an
answer's field can speak of what was cut out of a list. So both ways are lists of what is known to be harmless.
"""

from typing import Final

from grants.framing import HOP_BY_HOP
from grants.message import Fields

_CONDITIONS: Final = frozenset({b"if-match", b"if-none-match", b"if-modified-since", b"range"})
_ASKED: Final = _CONDITIONS | {
    *(b"accept", b"accept-language", b"content-type", b"user-agent", b"last-event-id"),
    *(b"traceparent", b"tracestate", b"x-request-id"),
}
_ABOUT_LISTS: Final = frozenset({b"content-type", b"cache-control", b"location", b"retry-after"})


def asked_fields(fields: Fields, *, listed: bool) -> Fields:
    """The fields of a request that go to Fountain.

    Args:
        listed: the answer is a list. Conditions and ranges are about all of it, not only about what the box is shown.
    """
    passed = _ASKED - _CONDITIONS if listed else _ASKED
    return tuple([pair for pair in fields if pair[0].lower() in passed])


def framing_fields(fields: Fields) -> Fields:
    """The fields that are about the connection: read, and not sent on."""
    return tuple([pair for pair in fields if pair[0].lower() in HOP_BY_HOP])


def list_fields(fields: Fields) -> Fields:
    """The fields of a list answer that the box is shown."""
    return tuple([pair for pair in fields if pair[0].lower() in _ABOUT_LISTS])
