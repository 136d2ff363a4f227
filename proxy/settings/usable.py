"""What nobody could use, though each part is sound: a grant beside the secrets, the upstream and the fronts.

An operation whose every request would be refused is noticed. Where all of a grant's are like that, the settings can
never work, and that is a problem.
"""

from collections.abc import Iterator, Sequence

from grants.model import Operation, PathParameter
from grants.place import Place
from grants.problems import Problem, quoted, written
from grants.references import referenced
from grants.rule import fits_segment
from proxy.client_env.names import LOOPBACK
from proxy.settings.endpoint import Candidate
from proxy.settings.model import EndpointSettings
from proxy.settings.values import named

_PLAIN = b"any"
"""A field that is searched for references as it stands: of `Authorization: Basic` a rule has the decoded form."""


def hold_usable(endpoints: Sequence[Candidate], *, front: bool) -> tuple[Problem, ...]:
    """Note as problems what can never work, and return the notices. `front`: there is a forward proxy."""
    notices: list[Problem] = []
    for endpoint in endpoints:
        settings, grant = endpoint.settings, endpoint.place.get("grant")
        if settings is None:
            continue
        if front and settings.upstream.host in LOOPBACK and not settings.env:
            upstream = endpoint.place.at(("upstream",))
            notices.append(_notice(upstream, direct(settings)))
        if settings.grant is None or grant is None:
            continue
        operations = settings.grant.operations
        found: dict[str, list[Operation]] = {}
        never = 0
        for operation in operations:
            texts = [*_headers(operation, settings), *_route(operation, settings, front=front)]
            for text, _ in texts:
                found.setdefault(text, []).append(operation)
            never += any(useless for _, useless in texts)
        for text, which in found.items():
            message = f"has {_called(which)} {text}"
            if never == len(operations):
                grant.problem(message)
            else:
                notices.append(_notice(grant, message))
    return tuple(notices)


def direct(settings: EndpointSettings) -> str:
    """What to say of an upstream whose host clients reach without the proxy."""
    remedy = "point them at its `listen`" if settings.listen is not None else "add `listen`"
    return (
        f"is on {quoted(settings.upstream.host)}, which clients are told to reach without the proxy (`NO_PROXY`), so "
        f"that they get to it by its base URL only; {remedy}"
    )


def _headers(operation: Operation, settings: EndpointSettings) -> Iterator[tuple[str, bool]]:
    """For each header whose exact values refer to secrets that the endpoint lacks: what is wrong, and whether that
    leaves the operation without any request. A header that is injected is set whatever the client sends.
    """
    injected = {name.decode("ascii").lower() for name, _ in settings.inject}
    for name, rule in operation.headers.items():
        if rule.values is None or name in injected:
            continue
        lacking = {value: missing for value in rule.values if (missing := _missing(value, settings))}
        if not lacking:
            continue
        names = sorted({one for missing in lacking.values() for one in missing})
        has = f"has {named(sorted(settings.secrets))}" if settings.secrets else "has none"
        text = (
            f"that takes {quoted(rule.name)} with a reference to {named(names)}, and the endpoint {has}; "
            f"add {'it' if len(names) == 1 else 'them'} to `secrets`, or write another name in the grant"
        )
        yield text, rule.required and len(lacking) == len(rule.values)


def _missing(value: str, settings: EndpointSettings) -> frozenset[str]:
    return frozenset(referenced(((_PLAIN, value.encode("utf-8", "replace")),))) - settings.secrets.keys()


def _route(operation: Operation, settings: EndpointSettings, *, front: bool) -> Iterator[tuple[str, bool]]:
    """A base URL stands for the upstream with its path, so that every path asked for there begins with that. Within
    the forward proxy the client writes the whole path itself.
    """
    base, segments = settings.base, operation.route.segments
    if settings.listen is None or operation.origins is not None:
        return
    below = len(segments) >= len(base) and all(map(_takes, segments, base))
    if not below:
        path = "/" + "/".join(base)
        by_proxy = "; by the forward proxy it can be called" if front else ""
        text = (
            f"whose route is not below {quoted(path)}, the path of `upstream`, so that the base URL never leads to it"
            f"{by_proxy}; write routes that begin with {quoted(path)}, or `upstream` without a path"
        )
        yield text, not front


def _takes(segment: str | PathParameter, wanted: str) -> bool:
    return fits_segment(segment, wanted) if isinstance(segment, PathParameter) else segment == wanted


def _called(which: Sequence[Operation]) -> str:
    more = f" (and {len(which) - 1} more)" if len(which) > 1 else ""
    return f"operation {quoted(which[0].name)}{more}"


def _notice(place: Place, message: str) -> Problem:
    return Problem(place.report.file, place.node.line, place.node.column, written(place.path), message)
