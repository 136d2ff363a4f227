"""The document of a refusal, in the form that clients of the Anthropic API show to a person.

Source: "Refusals" in the specification; the error types are those of the Anthropic API's "Errors" page.
"""

import json
from typing import Final

from .facts import JsonObject

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_OTHER_CLIENT: Final = "invalid_request_error"
_OTHER: Final = "api_error"


def refusal_document(status: int, message: str) -> JsonObject:
    """`{"type": "error", "error": {"type": ..., "message": ...}}` for a refusal with that status."""
    kind = _TYPES.get(status, _OTHER_CLIENT if 400 <= status < 500 else _OTHER)
    return {"type": "error", "error": {"type": kind, "message": message}}


def refusal_body(status: int, message: str) -> bytes:
    """The document as bytes of `application/json`."""
    return json.dumps(refusal_document(status, message), ensure_ascii=False).encode("utf-8", "backslashreplace")
