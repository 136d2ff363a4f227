"""What a text, an argument or a variable's, names: everything in it that could be a path is taken for one.

A shell may read it, which fills in variables, braces and patterns, takes quotes and backslashes away, and changes the
directory on the way. So each text is read as it stands and as a shell would make it. What a shell would only find out
when it runs is not known; `unclear` says that there is such a thing.
"""

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from proxy.run.ways import leads_into

_BETWEEN: Final = re.compile(r"[\s=:,;|&<>()'\"`]+")
_OPTION: Final = re.compile(r"-{1,2}[A-Za-z0-9]")
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)
_BRACES: Final = re.compile(r"\{[^{}\s'\"]*(?:,|\.\.)[^{}\s'\"]*\}")
_MARKS: Final = re.compile(r"\\(.)|['\"]", re.DOTALL)
_PATTERN: Final = re.compile(r"[*?\[]")
_HOMEWARDS: Final = re.compile(r"\bcd\s*(?:$|[;&|)\n])")
_COMPUTED: Final = re.compile(r"\$[({]|`")
_UNKNOWN: Final = re.compile(r"\$[\w@*#?!$-]")
_MOST: Final = 10_000
"""Places that are looked at for a pattern; one that matches more may match anything."""


def names_in(text: str, directories: Collection[Path], work: Path, environment: Mapping[str, str]) -> bool:
    """Whether a text names something in `work`, seen from one of `directories`."""
    return any(str(work) in read for read in _readings(text, environment)) or any(
        _leads(directory / os.path.expanduser(piece), work)
        for piece in _pieces(text, environment)
        for directory in directories
    )


def directories_in(text: str, directory: Path, work: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Each directory that a text names: what comes after `cd`, `-C` and the like is seen from there. One in `work` is
    refused by itself."""
    for piece in (*_pieces(text, environment), *(("~",) if _HOMEWARDS.search(text) else ())):
        path = directory / os.path.expanduser(piece)
        if os.path.isdir(path) and not leads_into(path, work):
            yield path


def unclear(text: str, environment: Mapping[str, str]) -> bool:
    """Whether a shell would put something into it that is not known before it runs: what a command prints, or, in a
    path, a variable that is not set."""
    known = _MARKS.sub(r"\1", _filled(text, dict.fromkeys(environment, "x")))
    return _COMPUTED.search(known) is not None or any(
        "/" in piece and _UNKNOWN.search(piece) for piece in _BETWEEN.split(known)
    )


def _filled(text: str, environment: Mapping[str, str]) -> str:
    """With the variables that are set; others stay as they are."""
    return _VARIABLE.sub(lambda found: environment.get(found[1] or found[2], found[0]), text)


def _readings(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The text as it stands, with variables and braces filled in, and without quotes and backslashes too."""
    filled = _BRACES.sub("*", _filled(text, environment))
    return text, filled, _MARKS.sub(r"\1", filled)


def _pieces(text: str, environment: Mapping[str, str]) -> set[str]:
    """The whole, the pieces between blanks, equals signs, colons and the shell's marks, the shell's words, and what
    stands behind an option's letter."""
    readings = _readings(text, environment)
    pieces = {*readings, *(piece for read in readings for piece in _BETWEEN.split(read))}
    pieces |= {piece for word in _words(readings[1]) for piece in re.split("[=:]", word)}
    pieces |= {piece[found.end() :] for piece in pieces if (found := _OPTION.match(piece))}
    return {piece for piece in pieces if piece and "\0" not in piece}


def _words(text: str) -> list[str]:
    reader = shlex.shlex(text, posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    try:
        return list(reader)
    except ValueError:  # a quote that does not end
        return []


def _leads(path: Path, work: Path) -> bool:
    found = enumerate(_matches(path))
    return leads_into(path, work) or any(number > _MOST or leads_into(place, work) for number, place in found)


def _matches(path: Path) -> Iterator[Path]:
    """What a pattern matches, and the places on the way to there; nothing where it is none."""
    parts = path.parts[1:]
    first = next((number for number, part in enumerate(parts) if _PATTERN.search(part)), None)
    return iter(()) if first is None else _below(Path("/", *parts[:first]), parts[first:])


def _below(place: Path, parts: tuple[str, ...]) -> Iterator[Path]:
    yield place
    if not parts:
        return
    part, rest = parts[0], parts[1:]
    if not _PATTERN.search(part):
        yield from _below(place / part, rest)
        return
    try:
        names = os.listdir(place)
    except OSError:
        return
    for name in names:
        if fnmatchcase(name, part.replace("[^", "[!")):
            yield from _below(place / name, rest)
