"""Answers that the broker makes itself."""

import json

from grants.broker.facts import JsonObject
from grants.broker.search import holds
from grants.jsontext import JsonValue
from grants.message import Fields, Relay


def json_answer(document: JsonObject, *, status: int = 200, fields: Fields = ()) -> Relay:
    """A JSON document."""
    body = encoded(document)
    shown = ((b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store"), *fields)
    return Relay(status=status, fields=shown, body=body, length=len(body))


def encoded(value: JsonValue) -> bytes:
    """JSON text; a lone surrogate stays escaped."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def holds_token(body: bytes, token: bytes) -> bool:
    """Whether a body holds the token, in any spelling that `grants.broker.search` knows."""
    return holds(body, token)
