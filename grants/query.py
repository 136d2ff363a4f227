"""The query: parsed once as application/x-www-form-urlencoded, then held to one operation's rules.

Parsing does not depend on the operation. `&` separates, `+` is a space, a key without `=` has an empty value (as the
URL standard reads it; it is sent with its `=`). What parsers read differently is refused as malformed: `;`, a bad
percent sequence, bytes that are no UTF-8, an empty name, an empty pair.
Source: "Query" in docs/reference/matching.md; WHATWG URL, 5.1.
"""

import re
from urllib.parse import unquote_to_bytes

from .decision import Deny, Reason, Rule
from .model import Operation, ValueRule
from .rule import Misfit, described, misfit
from .text import listed, quoted
from .urlshape import is_url_shaped

type Pairs = tuple[tuple[str, str], ...]

_ENCODED = re.compile(rb"(?:[^%]|%[0-9A-Fa-f]{2})*")

STAGES = (
    Reason.QUERY_UNDECLARED,
    Reason.QUERY_REPEATED,
    Reason.QUERY_TOO_LONG,
    Reason.QUERY_URL,
    Reason.QUERY_VALUE,
    Reason.QUERY_MISSING,
)
"""The reasons of `check_query` in the order in which they are looked for: a later one is a nearer miss."""


def parse_query(raw: bytes | None) -> Pairs | Deny:
    """Read the raw bytes after the `?` (visible ASCII). Total: never raises."""
    if not raw:
        return ()
    if b";" in raw:
        return _malformed("the query holds `;`, which some servers take for `&`; send `%3B` for it")
    if not _ENCODED.fullmatch(raw):
        return _malformed("the query has a `%` that is not followed by two hexadecimal digits; send `%25` for it")
    pairs: list[tuple[str, str]] = []
    try:
        for part in raw.split(b"&"):
            name, _, value = part.partition(b"=")
            if not name:
                return _malformed("the query has an empty name; leave out the stray `&` or `=`")
            pairs.append((_decode(name), _decode(value)))
    except UnicodeDecodeError:
        return _malformed("the query is not percent-encoded UTF-8")
    return tuple(pairs)


def check_query(operation: Operation, pairs: Pairs) -> Deny | None:
    """Hold a parsed query to an operation's rules: declared, once, fitting, nothing required missing."""
    rules = operation.query
    given = dict(pairs)
    for name in given:
        if name not in rules:
            declared = listed(rules)
            detail = f"query parameter {quoted(name)} is not declared by {_of(operation)}; declared: {declared}"
            return _deny(Reason.QUERY_UNDECLARED, detail, operation)
    if len(given) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        detail = f"query parameter {quoted(twice)} is given more than once; {_of(operation)} takes it once"
        return _deny(Reason.QUERY_REPEATED, detail, operation)
    for name, value in given.items():
        if denial := _value(operation, rules[name], value):
            return denial
    for name, rule in rules.items():
        if rule.required and name not in given:
            detail = f"query parameter {quoted(name)} is required by {_of(operation)}; it is {described(rule)}"
            return _deny(Reason.QUERY_MISSING, detail, operation)
    return None


def _value(operation: Operation, rule: ValueRule, value: str) -> Deny | None:
    wrong = misfit(rule, value, value.encode("utf-8"))
    subject = f"query parameter {quoted(rule.name)}"
    if wrong is Misfit.TOO_LONG:
        detail = f"{subject} is too long for {_of(operation)}, which takes at most {rule.max_bytes} bytes"
        return _deny(Reason.QUERY_TOO_LONG, detail, operation)
    if not rule.allow_url and is_url_shaped(value):
        detail = f"{subject} is URL-shaped, which {_of(operation)} does not take"
        return _deny(Reason.QUERY_URL, detail, operation)
    if wrong is Misfit.VALUE:
        detail = f"{subject} has a value that {_of(operation)} does not take; it is {described(rule)}"
        return _deny(Reason.QUERY_VALUE, detail, operation)
    return None


def _decode(part: bytes) -> str:
    if b"+" in part:
        part = part.replace(b"+", b" ")
    if b"%" in part:
        part = unquote_to_bytes(part)
    return part.decode("utf-8")


def _of(operation: Operation) -> str:
    return f"operation {quoted(operation.name)}"


def _malformed(detail: str) -> Deny:
    return Deny(rule=Rule.REQUEST, reason=Reason.QUERY_MALFORMED, detail=detail)


def _deny(reason: Reason, detail: str, operation: Operation) -> Deny:
    return Deny(rule=Rule.REQUEST, reason=reason, detail=detail, operation=operation.name)
