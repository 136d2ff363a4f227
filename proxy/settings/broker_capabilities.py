"""`broker.capabilities`: what the broker serves beside the protocol's own, held to the same rule.

Source: "Adding a capability" in the specification.
"""

import re
from collections.abc import Sequence

from grants.broker.capabilities import (
    DECIDE_PATH,
    DECLARATION_PATH,
    EGRESS_PREFIX,
    FOUNTAIN_PREFIX,
    INFERENCE_PREFIX,
    STANDARD,
)
from grants.broker.declaration import MAX_WORD, MAX_WORDS, is_capability_name
from grants.broker.extra import Extra, PatternInvalid, Scope, parse_path_pattern
from grants.broker.facts import has_control
from grants.place import Place
from grants.problems import quoted
from proxy.settings.broker_model import Capability, Service
from proxy.settings.broker_parts import References, load_url
from proxy.settings.terms import load_terms

_ROUTE = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+")
_FIELD_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NOT_SET = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect"}
)
_OWN_PREFIXES = tuple(
    f"/{path.decode().split('/')[1]}"
    for path in (DECLARATION_PATH, DECIDE_PATH, EGRESS_PREFIX, FOUNTAIN_PREFIX, INFERENCE_PREFIX)
)


def is_word(text: str) -> bool:
    """Whether `text` can be a scope word, or a broker's: 1 to 64 characters, none of them a control character."""
    return 1 <= len(text) <= MAX_WORD and not has_control(text)


def load_capabilities(broker: Place, references: References) -> tuple[Capability, ...]:
    """The capabilities; no two share a name or a path. Those that have problems are left out."""
    names: dict[str, int] = {}
    routes: dict[str, str] = {}
    capabilities = []
    for place in broker.items("capabilities"):
        name = _name(place.get("name"), names)
        prefixes = [route for item in place.items("routes") if (route := _route(item, routes, name or "another"))]
        scopes = _scopes(place, prefixes)
        upstream = place.get("upstream")
        service, header = _upstream(upstream, references) if upstream else (None, None)
        if name and service and header:
            extra = Extra(name=name, routes=tuple(route.encode() for route in prefixes), scopes=scopes)
            capabilities.append(Capability(extra=extra, service=service, header=header))
    return tuple(capabilities)


def _name(place: Place | None, names: dict[str, int]) -> str | None:
    if place is None:
        return None
    name = place.text
    if not is_capability_name(name):
        place.problem(f"is {quoted(name)}; write at most 63 of `a` to `z`, `0` to `9` and `-`, a letter first")
        return None
    if name in STANDARD:
        place.problem(f"is {quoted(name)}, which is the protocol's own; name it differently")
        return None
    if name in names:
        place.problem(f"is {quoted(name)}, as capability {names[name]}; name it differently")
    names.setdefault(name, int(place.path[-2]))
    return name


def _route(place: Place, routes: dict[str, str], name: str) -> str | None:
    """A prefix that is nobody else's. `routes`: the prefixes so far, and whose they are; this one is added."""
    route = place.text.removesuffix("/")
    if not _ROUTE.fullmatch(route) or {".", ".."} & set(route.split("/")):
        place.problem(f"is {quoted(place.text)}; write the path that they begin with, such as `/search`")
        return None
    own = next((prefix for prefix in _OWN_PREFIXES if _within(route, prefix)), None)
    if own is not None:
        place.problem(f"is {quoted(route)}, below the protocol's own {quoted(own)}; choose another path")
    other = next((known for known in routes if _within(route, known) or _within(known, route)), None)
    if other is not None:
        place.problem(f"is {quoted(route)}, which meets {quoted(other)} of {quoted(routes[other])}; keep them apart")
    routes.setdefault(route, name)
    return route


def _within(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def _scopes(capability: Place, prefixes: Sequence[str]) -> tuple[Scope, ...]:
    scopes: dict[tuple[str, str], Scope] = {}
    for place in capability.items("scopes"):
        method, path = place.get("method"), place.get("path")
        if method is None or path is None:
            continue
        words = tuple(item.text for item in _words(place))
        if not any(_within(path.text, prefix) for prefix in prefixes):
            path.problem(f"is {quoted(path.text)}, below none of `routes`; add the prefix there, or correct this")
        if (method.text, path.text) in scopes:
            place.problem("has the method and path of another one; put the words into one entry")
        try:
            pattern = parse_path_pattern(path.text)
        except PatternInvalid as invalid:
            path.problem(f"is {quoted(path.text)}: {invalid}")
            continue
        scopes.setdefault((method.text, path.text), Scope(method=method.text.encode(), path=pattern, words=words))
    return tuple(scopes.values())


def _words(scope: Place) -> list[Place]:
    words = scope.items("words")
    for item in words:
        if not is_word(item.text):
            item.problem(f"is {quoted(item.text)}; write 1 to {MAX_WORD} characters without control characters")
    if len(words) > MAX_WORDS:
        scope.key_problem("words", f"has more than {MAX_WORDS}, which no report can list; leave some out")
    return words


def _upstream(place: Place, references: References) -> tuple[Service | None, str | None]:
    url, credential = load_url(place.get("url")), place.get("credential")
    terms = load_terms(place, url, references.directory)
    if credential is None:
        return None, None
    header, value = credential.get("header"), references.read(credential.get("value"))
    if header and not _FIELD_NAME.fullmatch(header.text):
        header.problem(f"is {quoted(header.text)}, which is no header's name; write such as `X-Api-Key`")
    elif header and header.text.lower() in _NOT_SET:
        header.problem(f"is {quoted(header.text)}, which the connection needs; write such as `X-Api-Key`")
    if url is None or header is None or value is None:
        return None, None
    return Service(origin=url.origin, base=url.base, credential=value, terms=terms), header.text
