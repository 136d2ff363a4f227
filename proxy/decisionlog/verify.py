"""Checking the chains of a log: pure over lines, so that a test and the command see the same.

Rules, all of them over whole lines: a record's `seq` is one more than that of the record before it in its chain, and
its `prev` the digest of that line. The first record of a chain has `seq` 1, and its `prev` is the digest of the last
record above it in the log, of whatever chain, or zeros at the top of a file. A chain that goes on from a file that was
not given must go on from a line that the caller vouches for (`after`). Empty lines, and lines that are what a crash
leaves of a record (`torn`), prove nothing and hide nothing: a record that was made to look like one is missing from its
chain. They are reported as torn. Any other line that is no record is damage.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from .chain import as_record
from .lines import FIRST_PREV, digest
from .reader import read_lines
from .torn import is_torn


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of a file. Prints as `FILE:LINE`."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Intact:
    """Every record is where it was written.

    Attributes:
        records: how many there are. chains: how many chains they are in.
        head: the digest of the last record; zeros when there is none.
        heads: the digest of each chain's last record, by the chain's id.
        torn: lines of which a crash left the beginning only.
    """

    records: int
    chains: int
    head: str
    heads: dict[str, str] = field(default_factory=dict)
    torn: tuple[Place, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first place at which the log is not what was written. `what` says how, and what to do."""

    place: Place
    what: str


type Verdict = Intact | Broken

_DAMAGED = "the line is no record, nor the beginning of one, which a crash leaves; it was changed or added"


@dataclass(slots=True)
class _End:
    """The last record of a chain; `torn` is how many torn lines there were before it."""

    seq: int
    link: str
    torn: int


def verify(files: Sequence[Path], *, heads: Iterable[str] = (), after: Iterable[str] = ()) -> Verdict:
    """Check `files`, oldest first.

    `heads` are digests noted earlier, which must be among the records: a cut tail, and a change of the last record of a
    chain, show in no other way. `after` are
    the last digests of files that were not given.

    Raises:
        OSError: a file cannot be read.
    """
    return verify_lines(((str(file), read_lines(file)) for file in files), heads=heads, after=after)


def verify_lines(
    files: Iterable[tuple[str, Iterator[bytes]]], *, heads: Iterable[str] = (), after: Iterable[str] = ()
) -> Verdict:
    """Check lines, by file; each has its line end, or is the file's last and has none."""
    ends: dict[str, _End] = {}
    wanted, vouched = dict.fromkeys(heads), frozenset(after)
    torn: list[Place] = []
    last, records, before = FIRST_PREV, 0, 0
    place = Place(file="-", line=0)
    for file, lines in files:
        top = True
        for number, raw in enumerate(lines, 1):
            place = Place(file=file, line=number)
            line = raw[:-1] if raw.endswith(b"\n") else b""
            record = as_record(line)
            if record is None:
                if not is_torn(raw):
                    return Broken(place=place, what=_DAMAGED)
                if raw != b"\n":
                    torn.append(place)
                continue
            end = ends.get(str(record["chain"]))
            if problem := _problem(record, end, last, top=top, vouched=vouched):
                unread = torn[before if end is None else end.torn :]
                return Broken(place=place, what=f"{problem}; {unread[0]} cannot be read" if unread else problem)
            last, before = digest(line), len(torn)
            ends[str(record["chain"])] = _End(int(str(record["seq"])), last, before)
            wanted.pop(last, None)
            records += 1
            top = False
    if wanted:
        head = next(iter(wanted))
        return Broken(
            place=place, what=f"the log ends without the record {head}; its tail was cut, or that record was changed"
        )
    return Intact(
        records=records,
        chains=len(ends),
        head=last,
        heads={chain: end.link for chain, end in ends.items()},
        torn=tuple(torn),
    )


def _problem(
    record: dict[str, object], end: _End | None, last: str, *, top: bool, vouched: frozenset[str]
) -> str | None:
    """What is wrong with a record in its place, or None."""
    chain, seq, prev = str(record["chain"]), int(str(record["seq"])), str(record["prev"])
    if end is None:
        if prev == FIRST_PREV and top and seq == 1:
            return None
        if prev in vouched or (seq == 1 and prev == last):
            return None
        if seq == 1:
            return f"chain {chain} begins after a record that is not there; the line before it was changed or removed"
        return f"chain {chain} begins at record {seq}; name the older file first, or give its last digest with --after"
    if seq != end.seq + 1:
        return f"record {seq} of chain {chain} follows record {end.seq}; a line was removed, added or moved"
    if prev != end.link:
        return f"record {seq} of chain {chain} does not fit record {end.seq}; that line was changed"
    return None
