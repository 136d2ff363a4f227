"""Fountain knows only the operator, so ownership is the broker's: what a request names has to be the box's own.

`path` has the paths that there are, `keys` the names under which something is named, `texts` what could be an id,
`body` and `request` read a request by them, `answer` and `fields` say what of an answer a box is shown, `chosen` which
id in an answer was the box's own choice.
Source: "fountain" in the specification.
"""

from .answer import created, cut, may_be_taken, tells_no_list
from .body import JSON_FIELDS, take_body
from .chosen import request_texts, stands_in
from .fields import asked_fields, framing_fields, list_fields
from .keys import MAX_NAME
from .kinds import MAX_ID, Holding, Kind, Named, Owned, foreign, is_id
from .path import FountainPath, created_kind, listed_kind, read_path, scope_words
from .reading import Fault, Reading
from .request import read_body, read_head
from .texts import MOST_STEPS, MOST_TEXTS

__all__ = [
    "JSON_FIELDS",
    "MAX_ID",
    "MAX_NAME",
    "MOST_STEPS",
    "MOST_TEXTS",
    "Fault",
    "FountainPath",
    "Holding",
    "Kind",
    "Named",
    "Owned",
    "Reading",
    "asked_fields",
    "created",
    "created_kind",
    "cut",
    "foreign",
    "framing_fields",
    "is_id",
    "list_fields",
    "listed_kind",
    "may_be_taken",
    "read_body",
    "read_head",
    "read_path",
    "request_texts",
    "scope_words",
    "stands_in",
    "take_body",
    "tells_no_list",
]
