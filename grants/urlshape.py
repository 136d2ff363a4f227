"""Whether a query value is URL-shaped: something that a server could be made to fetch.

The value is looked at in each form that a lenient reader could see: with tabs and line ends removed, C0 controls and
spaces trimmed (as the URL standard does), and after up to eight rounds of percent-decoding. A value that still
changes after those rounds hides something and counts as URL-shaped.
Source: "Query" in docs/reference/matching.md; WHATWG URL, "basic URL parser".
"""

import re
from urllib.parse import unquote_to_bytes

_ROUNDS = 8
_SHAPE = re.compile(rb"//|\\\\|/\\|\\/|[A-Za-z][A-Za-z0-9+.\-]*:")
_SUSPECT = re.compile(r"[%+:/\\]")
_REMOVED = b"\t\r\n"
_TRIMMED = bytes(range(0x21))


def is_url_shaped(value: str) -> bool:
    """Whether `value`, a decoded query value, looks like a URL to some reader. Total: never raises."""
    if _SUSPECT.search(value) is None:
        return False
    form = _clean(value.encode("utf-8", "surrogatepass"))
    for _ in range(_ROUNDS):
        if _SHAPE.match(form):
            return True
        further = _clean(unquote_to_bytes(form.replace(b"+", b" ")))
        if further == form:
            return False
        form = further
    return _SHAPE.match(form) is not None or _changes(form)


def _clean(form: bytes) -> bytes:
    return form.translate(None, _REMOVED).strip(_TRIMMED)


def _changes(form: bytes) -> bool:
    return _clean(unquote_to_bytes(form.replace(b"+", b" "))) != form
