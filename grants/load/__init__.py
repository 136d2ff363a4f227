"""Loading a grant: YAML to structure, structure to meaning, every problem in one go.

Pure: the caller reads the file. Source: "Grant file" in the specification; docs/reference/grants.md.
"""

import hashlib
import json
from functools import cache
from typing import Any

from grants.model import Grant, Operation, UndeclaredHeaders
from grants.place import Place
from grants.problems import GrantInvalid, in_file_order, quoted
from grants.structure import Structure

from .operation import load_operation
from .redirects import load_redirects

__all__ = ["grant_structure", "load_grant", "notices"]


@cache
def grant_structure() -> Structure:
    """The structure of a grant file: the JSON Schema that ships for editors."""
    return Structure("grants", "grant.schema.json")


def load_grant(text: bytes | str, *, file: str) -> Grant:
    """Load a grant file. `file` is what problems call it.

    Raises:
        GrantInvalid: with all problems, in the order of the file. Nothing else is raised, whatever the bytes are.
    """
    place, report = grant_structure().read(text, file=file)
    if place is None:
        raise GrantInvalid(in_file_order(report.problems))
    operations = _operations(place)
    redirects = load_redirects(found) if (found := place.get("redirects")) else None
    if report.problems:
        raise GrantInvalid(in_file_order(report.problems))
    undeclared = place.get("undeclaredHeaders")
    return Grant(
        operations=operations,
        redirects=redirects,
        digest=digest(place.value),
        undeclared_headers=UndeclaredHeaders(undeclared.text) if undeclared else UndeclaredHeaders.DENY,
    )


def digest(value: Any) -> str:
    """`sha256:` and hex, over the canonical JSON form: keys sorted, no white space, UTF-8."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def notices(grant: Grant) -> list[str]:
    """What whoever reads the grant should know: path parameters that are patterns, operations that nobody can use."""
    found = []
    for operation in grant.operations:
        name = f"operation {quoted(operation.name)}"
        found += [
            f"{name}: path parameter {quoted(segment.name)} is the pattern {quoted(segment.pattern.source)}; "
            "every value that matches is granted"
            for segment in operation.route.segments
            if not isinstance(segment, str) and segment.pattern is not None
        ]
        strict = grant.undeclared_headers is UndeclaredHeaders.DENY
        if strict and operation.body is not None and "content-type" not in operation.headers:
            found.append(f"{name}: takes a body, but no `Content-Type`; add a header rule, or every request is refused")
    return found


def _operations(root: Place) -> tuple[Operation, ...]:
    names: dict[str, int] = {}
    operations = []
    for place in root.items("operations"):
        if name := place.get("name"):
            if name.text in names:
                name.problem(f"is {quoted(name.text)}, as in line {names[name.text]}; give each operation its own name")
            names.setdefault(name.text, name.node.line)
        if operation := load_operation(place):
            operations.append(operation)
    return tuple(operations)
