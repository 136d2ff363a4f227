"""What a report may say beside its capabilities: the box's listing, and what it spent in a month.

Both are read into JSON objects that hold the known members and nothing else, since the broker keeps them only to
answer with them: a member that this version does not know is left out, one that is missing gets its default.
Source: "Reporting the declaration" in the specification.
"""

import re
from collections.abc import Mapping
from typing import Final

from grants.jsontext import JsonValue

type JsonObject = dict[str, JsonValue]
"""A JSON object (RFC 8259, 4)."""

MAX_TITLE: Final = 60
MAX_LINE: Final = 140
MAX_PRINCIPALS: Final = 50
MAX_PRINCIPAL: Final = 200
FIGURE_BOUND: Final = 1e9
"""Figures are below this."""

_MONTH: Final = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class Malformed(ValueError):
    """A part of a report is not in its format. The message is for the box: it holds nothing of the value."""


def has_control(text: str) -> bool:
    """Whether a control character (U+0000 to U+001F, U+007F) stands in `text`."""
    return _CONTROL.search(text) is not None


def read_listing(value: JsonValue) -> JsonObject:
    """The listing with its defaults filled in: `published` true, `title` and `line` empty.

    Raises:
        Malformed: it is not a listing.
    """
    if not isinstance(value, dict):
        raise Malformed("`listing` is an object with `published`, `title` and `line`")
    published = value.get("published", True)
    if not isinstance(published, bool):
        raise Malformed("`listing.published` is true or false")
    listing: JsonObject = {"published": published}
    for key, most in (("title", MAX_TITLE), ("line", MAX_LINE)):
        text = value.get(key, "")
        if not isinstance(text, str) or len(text) > most or has_control(text):
            raise Malformed(f"`listing.{key}` is at most {most} characters without control characters")
        listing[key] = text
    return listing


def read_spend(value: JsonValue) -> JsonObject:
    """The spend of one calendar month, in US dollars and counts of runs.

    Raises:
        Malformed: it is not a spend.
    """
    if not isinstance(value, dict):
        raise Malformed("`spend` is an object with `month`, `usd`, `runs`, `unpriced` and `byPrincipal`")
    month = value.get("month")
    if not isinstance(month, str) or _MONTH.fullmatch(month) is None:
        raise Malformed("`spend.month` is a month as YYYY-MM")
    rows = value.get("byPrincipal")
    rows = [] if rows is None else rows
    if not isinstance(rows, list) or len(rows) > MAX_PRINCIPALS:
        raise Malformed(f"`spend.byPrincipal` is an array of at most {MAX_PRINCIPALS} rows")
    return {
        "month": month,
        **_figures(value, "spend"),
        "byPrincipal": [_row(row, f"spend.byPrincipal[{index}]") for index, row in enumerate(rows)],
    }


def _row(row: JsonValue, place: str) -> JsonObject:
    if not isinstance(row, dict):
        raise Malformed(f"`{place}` is an object with `principal`, `usd`, `runs` and `unpriced`")
    principal = row.get("principal", "")
    if principal is not None and not (isinstance(principal, str) and 1 <= len(principal) <= MAX_PRINCIPAL):
        raise Malformed(f"`{place}.principal` is null or 1 to {MAX_PRINCIPAL} characters")
    return {"principal": principal, **_figures(row, place)}


def _figures(value: Mapping[str, JsonValue], place: str) -> JsonObject:
    usd = value.get("usd")
    if not _is_figure(usd):
        raise Malformed(f"`{place}.usd` is a number from 0 to below {FIGURE_BOUND:.0f}")
    figures: JsonObject = {"usd": usd}
    for key in ("runs", "unpriced"):
        count = value.get(key)
        if not _is_figure(count) or not float(count).is_integer():  # type: ignore[arg-type]
            raise Malformed(f"`{place}.{key}` is a whole number from 0 to below {FIGURE_BOUND:.0f}")
        figures[key] = count
    return figures


def _is_figure(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < FIGURE_BOUND
