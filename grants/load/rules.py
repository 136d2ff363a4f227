"""Value rules of query parameters and request headers. Source: "Value rules" in docs/reference/grants.md."""

import re
from collections.abc import Iterable
from types import MappingProxyType

from grants.model import ValueRule
from grants.pattern import PatternInvalid, Re2Pattern, compile_pattern
from grants.place import Place
from grants.problems import quoted
from grants.urlshape import is_url_shaped

# RFC 9110, 7.6.1 and 10.1.1; what the upstream client makes itself is not for the client of the proxy to send.
_NEVER_DECLARED = frozenset(
    ("connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")
)
_NEVER_RELAYED = frozenset(
    (*_NEVER_DECLARED - {"expect", "host", "content-length"}, "content-encoding", "alt-svc", "refresh")
)
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"([\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?)?")


def load_query(operation: Place) -> MappingProxyType[str, ValueRule]:
    """The query rules by name."""
    rules: dict[str, ValueRule] = {}
    for place in operation.items("query"):
        if name := place.get("name"):
            if not name.text:
                name.problem("is empty; write the parameter's name")
            elif name.text in rules:
                name.problem(f"{quoted(name.text)} has a rule already; put both into one")
        if not place.has("allowURL") or place.get("allowURL"):
            _hold_urls(place)
        rule = _rule(place, name.text if name else "")
        rules.setdefault(rule.name, rule)
    return MappingProxyType(rules)


def load_headers(operation: Place) -> MappingProxyType[str, ValueRule]:
    """The header rules by lower-case field name."""
    rules: dict[str, ValueRule] = {}
    folded: set[str] = set()
    for place in operation.items("headers"):
        if name := place.get("name"):
            key = name.text.lower()
            if _field_name_holds(name, _NEVER_DECLARED, "never matched and never forwarded; leave it out"):
                if key.replace("_", "-") in folded:
                    name.problem(f"{quoted(name.text)} has a rule already (case and `_` make no difference); keep one")
                folded.add(key.replace("_", "-"))
            rules.setdefault(key, _rule(place, name.text))
        else:
            _rule(place, "")
        for value in place.items("values"):
            if not _FIELD_VALUE.fullmatch(value.text):
                value.problem("can be no field value; write visible ASCII without spaces around it")
    return MappingProxyType(rules)


def load_field_names(response: Place) -> frozenset[str] | None:
    """The response fields that are relayed (extension H), lower case; None when all are."""
    if not response.has("headers"):
        return None
    names: set[str] = set()
    for place in response.items("headers"):
        if _field_name_holds(place, _NEVER_RELAYED, "never passed on; leave it out"):
            if place.text.lower() in names:
                place.problem(f"{quoted(place.text)} is listed already (case makes no difference); keep one")
            names.add(place.text.lower())
    return frozenset(names)


def load_pattern(place: Place) -> Re2Pattern | None:
    """The compiled `pattern` of a rule; None when there is none, or it has problems."""
    pattern = place.get("pattern")
    if pattern is None:
        return None
    try:
        return compile_pattern(pattern.text)
    except PatternInvalid as invalid:
        pattern.problem(f"is not an RE2 pattern: {invalid}; RE2 has no lookaround and no backreferences")
        return None


def _rule(place: Place, name: str) -> ValueRule:
    limit = place.get("maxBytes")
    return ValueRule(
        name=name,
        required=place.flag("required"),
        values=_texts(place.items("values")) if place.has("values") else None,
        pattern=load_pattern(place),
        max_bytes=limit.number if limit else None,
        allow_url=place.flag("allowURL"),
    )


def _texts(places: Iterable[Place]) -> frozenset[str]:
    return frozenset(place.text for place in places)


def _hold_urls(rule: Place) -> None:
    """A URL-shaped value never matches without `allowURL`, so it is refused here ("URL-shaped", specification)."""
    if rule.flag("allowURL"):
        return
    for value in rule.items("values"):
        if is_url_shaped(value.text):
            value.problem(f"{quoted(value.text)} is URL-shaped; add `allowURL: true` to the rule, or leave it out")


def _field_name_holds(place: Place, never: frozenset[str], why: str) -> bool:
    name = place.text.lower()
    if not _FIELD_NAME.fullmatch(place.text):
        place.problem(f"{quoted(place.text)} is not a field name; write letters, digits and hyphens")
    elif name in never or name.startswith("proxy-"):
        place.problem(f"{quoted(place.text)} is {why}")
    else:
        return True
    return False
