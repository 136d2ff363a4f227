"""Whether an id stood in a request already, so that it may be of something that was there before.

A server that takes an id from the client may make it of a name: in small letters, without accents, with other marks
between its words, or of a part of a longer text. So both are compared by their letters and digits alone. An id that a
server makes itself stands in no request.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

from grants.jsontext import JsonValue
from grants.message import Fields

from .fields import choosing_fields
from .texts import scalar_text

_WHOLE: Final = 6
"""An id with fewer letters and digits is looked for between marks alone: it may be within an unrelated word.

Where it is a number, the marks are those that join ids to others: prose, dates and versions are full of numbers.
"""

_LAYERS: Final = 3
_ESCAPE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})")
_MARKS: Final = bytes(byte for byte in range(0x80) if not chr(byte).isalnum())
_MARKED: Final = bytes.maketrans(_MARKS, b"-" * len(_MARKS))
_JOINED: Final = rb"(?:\A|[\n/:,;#?&=|])\s*%b\s*(?:\Z|[\n/:,;#?&=|])"


def request_texts(path: bytes, query: bytes, fields: Fields, body: JsonValue) -> Iterator[str]:
    """What stands in a request: each text and number by itself."""
    yield from (part.decode("latin-1") for part in (path, query, *(value for _, value in choosing_fields(fields))))
    pending = [body]
    while pending:
        match pending.pop():
            case dict() as item:
                yield from item
                pending += item.values()
            case list() as item:
                pending += item
            case item:
                yield scalar_text(item)


def stands_in(identifier: str, texts: Iterable[str]) -> bool:
    """Whether `identifier` stands in one of `texts`, under up to three layers of percent-encoding and JSON's escapes.

    One with no letter and no digit cannot be looked for, so it counts as standing there.
    """
    plain = identifier.isascii()
    sought = _folded(identifier, plain=plain)
    letters = sought.translate(None, _MARKS)
    if not letters:
        return True
    text = "\n".join(texts)
    for _ in range(_LAYERS + 1):
        if _holds(_folded(text, plain=plain), sought, letters):
            return True
        undone = unquote(_ESCAPE.sub(_character, text))
        if undone == text:
            break
        text = undone
    return False


def _holds(text: bytes, sought: bytes, letters: bytes) -> bool:
    if len(letters) >= _WHOLE:
        return letters in text.translate(None, _MARKS)
    if letters.isdigit():
        return re.search(_JOINED % re.escape(sought), text) is not None
    return _between_marks(sought) in _between_marks(text)


def _folded(text: str, *, plain: bool) -> bytes:
    """In small letters, and without accents and whatever else is not ASCII where that is looked for."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return decomposed.encode("ascii", "ignore") if plain else decomposed.encode("utf-8", "replace")


def _between_marks(text: bytes) -> bytes:
    return b"-%b-" % text.translate(_MARKED).strip(b"-")


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))
