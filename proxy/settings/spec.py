"""Settings without a file: `--endpoint "upstream=…;secret=api=env:X;assurance=semantic;grant=./g.yaml"`.

The specs are turned into the document that a file would have been, so that they mean exactly the same. Problems then
name the option in place of a line.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from grants.document import Document, Entry, ListNode, MapNode, Node, Scalar
from grants.problems import Problem, unknown_key
from proxy.settings.load import SettingsInvalid, settings_of, settings_structure
from proxy.settings.model import Settings


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """A repeatable key whose values are `NAME=TEXT`: the field that they come into, and what is said of bad ones.

    `incomplete` is said of a part of a spec, `alone` of an option of its own.
    """

    field: str
    incomplete: str
    alone: str
    repeated: str


_MAPS = {
    "secret": _Pairs(
        field="secrets",
        incomplete="names no reference; write `secret=NAME=REFERENCE`, such as `secret=api=env:TOKEN`",
        alone="names no reference; write `--secret NAME=REFERENCE`, such as `--secret api=env:TOKEN`",
        repeated="has one name twice; give each secret its own name",
    ),
    "inject": _Pairs(
        field="inject",
        incomplete="names no value; write `inject=NAME=VALUE`, such as `inject=Authorization=Bearer @secret:api`",
        alone="names no value; write `--inject HEADER=VALUE`, such as `--inject 'Authorization=Bearer @secret:api'`",
        repeated="sets one header twice; keep one of them",
    ),
}
_TIMEOUTS = ("connect", "total", "idle")
_PLAIN = ("allowInside", "capture", "websocket", "concurrent")
KEYS = (
    *("name", "upstream", "assurance", "grant", "secret", "inject", "listen", "ca", "host", "env"),
    *(*_PLAIN, *_TIMEOUTS),
)
"""What an endpoint's spec may say. `grantproxy run` has an option for each."""
_LISTS = {"host": "hosts", "env": "env"}
_SINGULAR = {"secrets": "secret", "hosts": "host"}
_FROM_ENDPOINT = re.compile(r"endpoints\[(\d+)\]\.?")

type _Fields = dict[str, "str | dict[str, str] | list[str]"]


def settings_from_endpoints(
    specs: Sequence[str],
    *,
    proxy: str | None = None,
    admin: str | None = None,
    state: str | None = None,
    directory: Path = Path(),
    options: Sequence[str] = (),
) -> Settings:
    """The settings that the specs and options say. Relative paths are relative to `directory`.

    A spec is `KEY=VALUE` joined by `;`. Its keys are the endpoint's: name, upstream, assurance, grant, listen, ca,
    allowInside, capture, websocket, concurrent; `secret=NAME=REFERENCE`, `inject=HEADER=VALUE`, `host=NAME` and
    `env=VARIABLE`, all repeatable; `connect`, `total` and `idle` for the timeouts.

    Args:
        options: the parts `KEY=VALUE` of one more endpoint, the last, whose values may hold `;`: each came by an
            option of its own, such as `--upstream`, which its problems name.

    Raises:
        SettingsInvalid: with all problems, each naming its option: `--endpoint[0]: upstream: …`, `--upstream: …`.
    """
    problems: list[Problem] = []
    parts = [[piece for piece in map(str.strip, spec.split(";")) if piece] for spec in specs]
    if options:
        parts.append(list(options))
    endpoints = [_endpoint(pieces, index, problems) for index, pieces in enumerate(parts)]
    top = {key: text for key, text in (("proxy", proxy), ("admin", admin), ("state", state)) if text is not None}
    entries = {key: Entry(line=1, column=1, value=_node(text, 1)) for key, text in top.items()}
    items = tuple(_node(endpoint, index + 1) for index, endpoint in enumerate(endpoints))
    entries["endpoints"] = Entry(line=1, column=1, value=ListNode(line=1, column=1, items=items))
    root = MapNode(line=1, column=1, entries=entries)
    place, _ = settings_structure().hold(Document(root=root, problems=()), file="")
    assert place is not None  # noqa: S101 - the document has a root
    try:
        settings = settings_of(place, directory=directory)
    except SettingsInvalid as invalid:
        problems += [_of_option(problem) for problem in invalid.problems]
    if problems:
        own = len(specs) if options else None
        raise SettingsInvalid([_of_own(problem, own) for problem in sorted(problems, key=_option_first)])
    return settings


def _endpoint(parts: Sequence[str], index: int, problems: list[Problem]) -> _Fields:
    def refuse(message: str, key: str = "") -> None:
        problems.append(Problem(f"--endpoint[{index}]", 0, 0, key, message))

    fields: _Fields = {}
    maps: dict[str, dict[str, str]] = {"secrets": {}, "inject": {}}
    lists: dict[str, list[str]] = {field: [] for field in _LISTS.values()}
    timeouts: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            refuse("has a part without `=`; write `key=value;key=value`, and a value that holds `;` into a file")
        elif key not in KEYS:
            refuse(unknown_key(key, KEYS), _word(key))
        elif key in _MAPS:
            name, between, text = value.partition("=")
            into = maps[_MAPS[key].field]
            if not between:
                refuse(_MAPS[key].incomplete, key)
                continue
            if name in into:
                refuse(_MAPS[key].repeated, key)
            into[name] = text
        elif key in _LISTS:
            lists[_LISTS[key]].append(value)
        elif key in fields or key in timeouts:
            refuse("is here twice; keep one of them", key)
        elif key in _TIMEOUTS:
            timeouts[key] = value
        else:
            fields[key] = value
    collections: Mapping[str, dict[str, str] | list[str]] = {**maps, **lists, "timeout": timeouts}
    return fields | {key: found for key, found in collections.items() if found}


def _word(key: str) -> str:
    """A key as far as it is surely no credential."""
    return key if re.fullmatch(r"[A-Za-z.-]{1,20}", key) else "a key"


def _node(value: "str | _Fields | dict[str, str] | list[str]", line: int, *, plain: bool = False) -> Node:
    """The value as a file would have it. `plain`: it may be a number or a boolean."""
    if isinstance(value, str):
        return Scalar(line=line, column=1, text=value, plain=plain)
    if isinstance(value, list):
        return ListNode(line=line, column=1, items=tuple(_node(item, line) for item in value))
    entries = {
        key: Entry(line=line, column=1, value=_node(item, line, plain=key in _PLAIN)) for key, item in value.items()
    }
    return MapNode(line=line, column=1, entries=entries)


def _option_first(problem: Problem) -> tuple[bool, int]:
    """Options in the order of their number, then files."""
    number = re.search(r"^--endpoint\[(\d+)\]$", problem.file)
    return not problem.file.startswith("--"), int(number[1]) if number else -1


def _of_option(problem: Problem) -> Problem:
    """The same problem, naming the option that it came from. A problem in a grant file stays as it is."""
    if problem.file:
        return problem
    if match := _FROM_ENDPOINT.match(problem.path):
        return replace(problem, file=f"--endpoint[{match[1]}]", line=0, column=0, path=problem.path[match.end() :])
    name = f"--{problem.path}" if problem.path in ("proxy", "admin", "state") else "--endpoint"
    return replace(problem, file=name, line=0, column=0, path="")


def _of_own(problem: Problem, own: int | None) -> Problem:
    """A problem of the endpoint that has an option for each key, number `own`: it names that option."""
    if own is None or problem.file != f"--endpoint[{own}]":
        return problem
    words = re.split(r"[.\[]", problem.path)
    key = words[1] if words[0] == "timeout" and len(words) > 1 else _SINGULAR.get(words[0], words[0]) or "upstream"
    rest = problem.path if words[0] in ("secrets", "inject") else ""
    pairs = _MAPS.get(problem.path)
    message = pairs.alone if pairs is not None and problem.message == pairs.incomplete else problem.message
    return replace(
        problem, file=f"--{option_of(key)}", path="" if message is not problem.message else rest, message=message
    )


def option_of(key: str) -> str:
    """The name of the option for a key of `--endpoint`: `allow-inside` for `allowInside`."""
    return re.sub(r"[A-Z]", lambda found: f"-{found[0].lower()}", key)
