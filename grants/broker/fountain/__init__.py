"""Fountain knows only the operator, so ownership is the broker's: what a request names has to be the box's own.

`path` has the paths that there are, `keys` the names under which something is named, `texts` what could be an id,
`request` reads a request by them, `answer` and `fields` say what of an answer a box is shown.
Source: "fountain" in the specification.
"""

from .answer import created, cut, may_list
from .fields import asked_fields, framing_fields, list_fields
from .kinds import MAX_ID, Holding, Kind, Named, Owned, foreign, is_id
from .path import FountainPath, created_kind, listed_kind, read_path, scope_words
from .request import Reading, read_body, read_head
from .texts import MOST_STEPS, MOST_TEXTS

__all__ = [
    "MAX_ID",
    "MOST_STEPS",
    "MOST_TEXTS",
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
    "may_list",
    "read_body",
    "read_head",
    "read_path",
    "scope_words",
]
