"""What is wrong with a file, each thing with its place.

A loader collects every problem before it gives up, so that one run shows all of them. Nothing that may be a
credential is repeated in a message: a loader that reads one says what is wrong and leaves the value out.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import final

type Path = tuple[str | int, ...]
"""Where a value stands in a document: keys and indices from the top."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$@/-]+")
_SHOWN = 60
_CLOSE = 0.7
_LONGEST_PATH = 4096


def quoted(text: str, *, most: int = _SHOWN) -> str:
    """`text` in backticks, on one line and, unless `most` characters are too few for it, whole."""
    cut = text if len(text) <= most else text[:most] + "…"
    return "`" + "".join(char if char.isprintable() else ascii(char)[1:-1] for char in cut) + "`"


def quoted_file(path: str) -> str:
    """The name of a file, whole: its end is what tells it from another."""
    return quoted(path, most=_LONGEST_PATH)


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that was surely meant by `word`, in whatever case; None where none is close."""
    folded = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), folded, n=1, cutoff=_CLOSE)
    return folded[near[0]] if near else None


def unknown_key(key: str, names: Sequence[str]) -> str:
    """What is said of a key that there is not: the one that was meant, else all of them."""
    if near := nearest(key, names):
        return f"is an unknown key; did you mean {quoted(near)}?"
    return f"is an unknown key; the keys here are {', '.join(map(quoted, names))}"


def written(path: Path) -> str:
    """A path as users read it: `operations[1].query[0].pattern`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{quoted(step)}]"
    return text or "top level"


@final
@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        file: as the caller named it.
        line, column: from 1; a column counts characters. Line 0: the whole file, or no file at all.
        path: where in the document, as `written` shows it; empty for the whole file.
        message: what is wrong and, after a semicolon, what would be right.
    """

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return ": ".join(part for part in (place, self.path, self.message) if part)


class Invalid(ValueError):
    """A file that cannot be used. `problems` are all that were found, in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class GrantInvalid(Invalid):
    """A grant that cannot be used. A loader of grants raises this and nothing else."""


def in_file_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems of one file by place; what stands at one place keeps its order; none twice."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.column)))
