"""`boxes`: the clients that are known by a token, and what each may use. What is not given to a box, it may not use.

Source: docs/reference/settings.md, "Boxes".
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from grants.place import Place
from grants.problems import quoted
from proxy.settings.broker import load_box_anthropic, load_box_fountain
from proxy.settings.broker_parts import References
from proxy.settings.endpoint import Candidate
from proxy.settings.model import BoxSettings
from proxy.settings.reference import parse_reference
from proxy.settings.values import named, read, where

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def load_boxes(root: Place, endpoints: Sequence[Candidate], *, directory: Path) -> tuple[BoxSettings, ...]:
    """The boxes, each name and each token once. Those that have problems are left out."""
    references: dict[str, str] = {}
    for endpoint in endpoints:
        for held in (endpoint.settings.secrets if endpoint.settings else {}).values():
            references.setdefault(held, f"a secret of endpoint {quoted(endpoint.name or '')}")
    names: dict[str, str] = {}
    tokens: dict[str, str] = {}
    boxes = []
    for place in root.items("boxes"):
        name, token = place.get("name"), place.get("token")
        if name:
            _hold_name(name, names)
            names.setdefault(name.text, where(name))
        reference = read(token, partial(parse_reference, directory=directory))
        if token and reference:
            if reference in references:
                token.problem(f"is {references[reference]} too; give each box a token of its own")
            references.setdefault(reference, f"the token of box {quoted(name.text)}" if name else "the token of a box")
        tunnels = place.flag("tunnels")
        if tunnels and not root.has("tunnels"):
            place.key_problem("tunnels", "is set, and there are none; add `tunnels` at the top, or leave this out")
        allowed = _endpoints(place, endpoints)
        if name and reference:
            tokens.setdefault(reference, name.text)
        fountain = load_box_fountain(root, place)
        anthropic = load_box_anthropic(root, place, References(directory=directory, tokens=tokens))
        if anthropic:
            references.setdefault(anthropic.credential, "the credential of a box's owner")
        if name and reference:
            boxes.append(
                BoxSettings(
                    name=name.text,
                    token=reference,
                    endpoints=allowed,
                    tunnels=tunnels,
                    fountain=fountain,
                    anthropic=anthropic,
                )
            )
    return tuple(boxes)


def _hold_name(name: Place, names: Mapping[str, str]) -> None:
    if not _NAME.fullmatch(name.text):
        name.problem(f"is {quoted(name.text)}; write at most 63 letters, digits, `.`, `_` and `-`")
    elif name.text in names:
        name.problem(f"is {quoted(name.text)}, as the box {names[name.text]}; name it differently")


def _endpoints(place: Place, endpoints: Sequence[Candidate]) -> frozenset[str]:
    known = [endpoint.name for endpoint in endpoints if endpoint.name is not None]
    allowed: set[str] = set()
    for item in place.items("endpoints"):
        if item.text in allowed:
            item.problem(f"is {quoted(item.text)}, which is listed already; keep one of them")
        elif item.text not in known and len(known) == len(endpoints):
            item.problem(f"is {quoted(item.text)}, which is no endpoint; the endpoints are {named(known)}")
        allowed.add(item.text)
    return frozenset(allowed)
