"""Routes and their path parameters.

A literal and an exact value are compared with the decoded segment, and no segment that decodes to something unclear
ever gets that far. So a template or a value that could never match is refused here. Source: "Routes" in
docs/reference/grants.md.
"""

import re

from grants.model import PathParameter, Route
from grants.place import Place
from grants.problems import quoted

from .rules import load_pattern

_PARAMETER = re.compile(r"\{([A-Za-z0-9_.-]+)\}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_NEVER_IN_ROUTE = re.compile(r"[%\\?#;]")


def load_route(operation: Place) -> Route | None:
    """The route with the values of its parameters, or None when either has problems."""
    place = operation.get("route")
    names = _segments(place) if place else None
    declared = operation.fields("pathParameters")
    parameters = {name: load_path_parameter(name, rule) for name, rule in declared.items()}
    if place is None or names is None:
        return None
    wanted = [match[1] for segment in names if (match := _PARAMETER.fullmatch(segment))]
    _compare(operation, place, wanted)
    segments: list[str | PathParameter] = []
    for segment in names:
        match = _PARAMETER.fullmatch(segment)
        parameter = parameters.get(match[1]) if match else segment
        if parameter is None:
            return None
        segments.append(parameter)
    return Route(template=place.text, segments=tuple(segments))


def _segments(place: Place) -> list[str] | None:
    """The template's segments; None, with a problem, for a template that is no route."""
    template = place.text
    if template == "/":
        return []
    segments = template.split("/")[1:]
    if wrong := _NEVER_IN_ROUTE.search(template) or _CONTROL.search(template):
        place.problem(f"holds {quoted(wrong.group())}; write the path decoded, without query or fragment")
    elif template.endswith("/"):
        place.problem(f"ends in `/`; write {quoted(template.rstrip('/') or '/')}")
    elif "" in segments:
        place.problem("has an empty segment; write one `/` between segments")
    elif dots := [segment for segment in segments if segment in (".", "..")]:
        place.problem(f"has the segment {quoted(dots[0])}; write the path without it")
    elif stray := [part for part in segments if set("{}") & set(part) and not _PARAMETER.fullmatch(part)]:
        place.problem(f"has the segment {quoted(stray[0])}; a parameter is a whole segment, such as `{{name}}`")
    elif twice := [part for part in segments if "{" in part and segments.count(part) > 1]:
        place.problem(f"has {quoted(twice[0])} twice; give each parameter its own name")
    else:
        return segments
    return None


def _compare(operation: Place, route: Place, wanted: list[str]) -> None:
    """One entry of `pathParameters` for every parameter of the route and no other."""
    parameters = operation.get("pathParameters")
    if parameters is None and operation.has("pathParameters"):
        return
    for name in wanted:
        if parameters is None or not parameters.has(name):
            owner, key = (operation, "pathParameters") if parameters is None else (parameters, name)
            owner.key_problem(key, f"is missing for {quoted('{' + name + '}')} of the route; list its values")
    if parameters is not None:
        for name in parameters.value:
            if name not in wanted:
                known = f"its parameters are {', '.join(quoted(item) for item in wanted)}" if wanted else "it has none"
                parameters.key_problem(name, f"is not in the route {quoted(route.text)}; {known}")


def load_path_parameter(name: str, place: Place) -> PathParameter | None:
    """One path parameter in its list form, or in its map form (extension P)."""
    if isinstance(place.value, list):
        values = [value.text for value in place.own_items() if _value_holds(value, in_map=False)]
        return PathParameter(name=name, values=frozenset(values)) if values else None
    if place.has("values") == place.has("pattern"):
        both = place.has("values")
        place.problem(f"has {'both' if both else 'neither'} `values` and `pattern`; write one of them")
        return None
    if place.has("values"):
        values = [value.text for value in place.items("values") if _value_holds(value, in_map=True)]
        return PathParameter(name=name, values=frozenset(values)) if values else None
    pattern, limit = load_pattern(place), place.get("maxBytes")
    return PathParameter(name=name, pattern=pattern, max_bytes=limit.number) if pattern and limit else None


def _value_holds(place: Place, *, in_map: bool) -> bool:
    """Whether a path value could be a decoded segment. Map form lifts `/`, `;` and `%`."""
    value = place.text
    if not value:
        place.problem("is empty; a segment is never empty")
    elif value in (".", ".."):
        place.problem(f"is {quoted(value)}, which no segment may be; write the real value")
    elif _CONTROL.search(value) or "\\" in value:
        place.problem(f"is {quoted(value)}; a segment holds no control character and no backslash")
    elif not in_map and (special := set(value) & set("/;%")):
        found = quoted(min(special))
        place.problem(f"is {quoted(value)}, which holds {found}; write the map form `{{values: [...]}}` to allow that")
    elif in_map and {".", ".."} & set(value.split("/")):
        place.problem(f"is {quoted(value)}, which climbs when it is decoded again; write it without dot segments")
    else:
        return True
    return False
