"""The body of a request to Fountain: JSON that has one reading, for the broker and for whoever reads it next.

A text can be strict JSON and, to a server that goes by the media type, a form or UTF-7 as well. So the box has to say
that it is JSON in UTF-8, what is sent on says exactly that, and what is neither object nor array is refused: in
`"&vault_id=v-1"` a form would name something.
"""

from typing import Final

from grants.decision import Deny, Reason, Rule
from grants.jsontext import JsonInvalid, JsonValue, parse_json
from grants.mediatype import parse_media_type
from grants.message import Fields

_JSON: Final = "application/json"
_SUFFIX: Final = "+json"
JSON_FIELDS: Final[Fields] = ((b"Content-Type", _JSON.encode()),)
"""What is said of a body to Fountain, in place of what the box said."""


def take_body(fields: Fields, body: bytes) -> list[JsonValue] | dict[str, JsonValue] | Deny:
    """Read the body of a request, or say why it is not taken. Total: never raises.

    Args:
        fields: of the request, as they came.
        body: not empty.
    """
    declared = [value for name, value in fields if name.lower() == b"content-type"]
    media_type = parse_media_type(declared[0]) if len(declared) == 1 else None
    if media_type is None or not (media_type == _JSON or media_type.endswith(_SUFFIX)):
        return _denied(
            Reason.BODY_MEDIA_TYPE,
            "a body is taken here as JSON in UTF-8 alone; send it with one `Content-Type: application/json`",
            415,
        )
    try:
        value = parse_json(body)
    except JsonInvalid as invalid:
        detail = f"the body is not strict JSON, so what it names cannot be told: {invalid}"
        return _denied(Reason.BODY_JSON, detail)
    if not isinstance(value, list | dict):
        return _denied(Reason.BODY_JSON, "the body is neither a JSON object nor an array; send one of these")
    return value


def _denied(reason: Reason, detail: str, status: int = 400) -> Deny:
    return Deny(rule=Rule.BAD_REQUEST, reason=reason, detail=detail, status=status)
