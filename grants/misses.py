"""Why no operation was picked: the nearest one is found only when a request is refused.

Nearness: the path fits another method; the literals of a route fit but a parameter does not; nothing fits. Texts name
methods, route templates and what the grant declares, never what the client sent.
"""

from collections.abc import Iterable
from itertools import islice

from .decision import Deny, Reason, Rule
from .index import NEAR, Entry, Index, Shape
from .model import PathParameter
from .rule import described, fits_segment
from .target import RequestTarget
from .text import listed, quoted


def no_operation(index: Index, method: bytes, target: RequestTarget) -> Deny:
    """The refusal of a method and path that no operation has. Total: never raises."""
    shape = index.shape(target.segments)
    others = 0 if shape is None else shape.on_path(target.segments, target.special, _all(shape))
    if shape is not None and others:
        near = list(islice(shape.chosen(others), NEAR))
        methods = listed(sorted(one.decode("utf-8") for one, bits in shape.methods.items() if bits & others))
        routes = listed(sorted({entry.operation.route.template for entry in near}))
        return _deny(Reason.METHOD, f"the method is not granted for the route {routes}; granted: {methods}", near)
    if target.special:
        detail = "a path segment holds an encoded `/`, `;` or `%` and no path parameter declares that value"
        return _deny(Reason.PATH_SEGMENT, detail)
    if method not in index.routes:
        methods = listed(sorted(one.decode("utf-8") for one in index.routes))
        return _deny(Reason.METHOD, f"no operation has this method; granted: {methods}")
    if shape is not None:
        near = list(islice(shape.chosen(shape.near_path(target.segments, shape.methods.get(method, 0))), NEAR))
        if near:
            return _parameter(near, target.segments)
    routes = listed(index.routes[method])
    return _deny(Reason.ROUTE, f"no route of this method fits the path; routes with this method: {routes}")


def _parameter(near: list[Entry], segments: tuple[str, ...]) -> Deny:
    """Name the parameter that kept the nearest operation, the one whose path fits furthest, from matching."""
    (_, parameter), entry = max(((_first_misfit(entry, segments), entry) for entry in near), key=lambda one: one[0][0])
    detail = (
        f"path parameter {quoted(parameter.name)} of operation {quoted(entry.operation.name)} "
        f"({entry.operation.route.template}) is {described(parameter)}"
    )
    return _deny(Reason.PATH_PARAMETER, detail, near)


def _first_misfit(entry: Entry, segments: tuple[str, ...]) -> tuple[int, PathParameter]:
    """The first parameter that does not take its segment. There is one: literals fit, and yet the route does not."""
    return next(
        (position, declared)
        for position, (segment, declared) in enumerate(zip(segments, entry.operation.route.segments, strict=True))
        if isinstance(declared, PathParameter) and not fits_segment(declared, segment)
    )


def _all(shape: Shape) -> int:
    return (1 << len(shape.entries)) - 1


def _deny(reason: Reason, detail: str, near: Iterable[Entry] = ()) -> Deny:
    names = [entry.operation.name for entry in near]
    only = names[0] if len(names) == 1 else None
    return Deny(rule=Rule.REQUEST, reason=reason, detail=detail, operation=only)
