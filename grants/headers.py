"""Request headers: every end-to-end field is declared by the operation, comes once, and fits its rule.

What goes upstream is the declared name with the value that was matched, in the client's order. References are still in
the value then; of `Authorization: Basic` the rule sees the decoded credentials.
Source: "Headers" in docs/reference/matching.md.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final, final

from .decision import Deny, Reason, Rule
from .framing import Framing
from .immutable import immutable
from .message import Fields
from .model import Operation, ValueRule
from .references import carries_reference, seen
from .rule import Misfit, described, misfit
from .text import listed, quoted

_MOST_NAMED: Final = 8
"""How many undeclared fields a refusal names."""


@final
@immutable
class Forwarded:
    """The fields that an operation takes.

    Attributes:
        fields: what goes upstream.
        stripped: what was left out because it is not declared, names in lower case.
    """

    fields: Fields = field(repr=False)
    stripped: Fields = field(default=(), repr=False)


def check_headers(operation: Operation, framing: Framing, *, strip: bool, credential: bool = True) -> Forwarded | Deny:
    """Hold the end-to-end fields to an operation's rules. Total: never raises.

    Args:
        operation: the one that was picked.
        framing: the request's fields, taken apart.
        strip: leave undeclared fields out instead of denying the request (`undeclaredHeaders: strip`).
        credential: whether references may be sent where the request goes. If not, a field that carries one is left out;
            it is still held to its rule where it is declared, and counts as present where it is required.
    """
    rules = operation.headers
    fields: list[tuple[bytes, bytes]] = []
    stripped: list[tuple[bytes, bytes]] = []
    present: set[str] = set()
    for sent, lower, value in framing.rest:
        name = lower.decode("ascii")
        rule = rules.get(name)
        if "_" in name and _folds_onto_declared(name, rules):
            detail = f"request header {quoted(sent.decode('ascii'))} reads like a declared one to some servers"
            return _deny(Reason.HEADER_MALFORMED, detail, operation)
        withheld = not credential and carries_reference(lower, value)
        if rule is None:
            if withheld:
                continue
            if not strip:
                return _deny(
                    Reason.HEADER_UNDECLARED, _undeclared(operation, framing, credential=credential), operation
                )
            stripped.append((lower, value))
            continue
        if name in present:
            detail = f"request header {quoted(rule.name)} is given more than once; {_of(operation)} takes it once"
            return _deny(Reason.HEADER_REPEATED, detail, operation)
        present.add(name)
        if denial := _value(operation, rule, lower, value):
            return denial
        if not withheld:
            fields.append((rule.name.encode("ascii"), value))
    if len(present) < len(rules):
        for name, rule in rules.items():
            if rule.required and name not in present:
                detail = f"request header {quoted(rule.name)} is required by {_of(operation)}; it is {described(rule)}"
                return _deny(Reason.HEADER_MISSING, detail, operation)
    return Forwarded(fields=tuple(fields), stripped=tuple(stripped))


def _undeclared(operation: Operation, framing: Framing, *, credential: bool) -> str:
    """All that are not declared, so that whoever writes the grant need not find them one by one."""
    names = dict.fromkeys(
        quoted(sent.decode("ascii"))
        for sent, lower, value in framing.rest
        if lower.decode("ascii") not in operation.headers and (credential or not carries_reference(lower, value))
    )
    shown = ", ".join(list(names)[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    which = f"headers {shown}{more} are" if len(names) > 1 else f"header {shown} is"
    declared = listed(one.name for one in operation.headers.values())
    return f"request {which} not declared by {_of(operation)}; declared: {declared}"


def _value(operation: Operation, rule: ValueRule, lower: bytes, value: bytes) -> Deny | None:
    plain = seen(lower, value)
    if plain is None:
        detail = f"request header {quoted(rule.name)} has Basic credentials that are not canonical base64 of UTF-8 text"
        return _deny(Reason.HEADER_VALUE, detail, operation)
    wrong = misfit(rule, plain.decode("utf-8"), plain)
    if wrong is Misfit.TOO_LONG:
        detail = (
            f"request header {quoted(rule.name)} is too long for {_of(operation)}, "
            f"which takes at most {rule.max_bytes} bytes"
        )
        return _deny(Reason.HEADER_TOO_LONG, detail, operation)
    if wrong is Misfit.VALUE:
        detail = (
            f"request header {quoted(rule.name)} has a value that {_of(operation)} does not take; "
            f"it is {described(rule)}"
        )
        return _deny(Reason.HEADER_VALUE, detail, operation)
    return None


def _folds_onto_declared(name: str, rules: Mapping[str, ValueRule]) -> bool:
    """Whether a server that reads `_` as `-` (CGI's `HTTP_*` names) takes `name` for another, declared field."""
    folded = name.replace("_", "-")
    return any(other != name and other.replace("_", "-") == folded for other in rules)


def _of(operation: Operation) -> str:
    return f"operation {quoted(operation.name)}"


def _deny(reason: Reason, detail: str, operation: Operation) -> Deny:
    return Deny(rule=Rule.REQUEST, reason=reason, detail=detail, operation=operation.name)
