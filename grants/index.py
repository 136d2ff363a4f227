"""Which operations a method and a path pick, without walking all of them.

Routes of one length share a `Shape`. For each position of the path it maps a segment to the set of operations that take
it there, a set being the bits of an integer: finding the operations is one look-up and one AND a segment, whether
there are ten operations or two thousand. Patterns cannot be looked up, so an operation with a pattern at a position
takes every segment there until the AND is done, and only what is left is matched. Where many operations share one
path, the query's names and exact values narrow them in the same way.
Source: "Operation" in docs/reference/matching.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

from .model import Grant, Operation, PathParameter
from .query import Pairs
from .rule import fits_segment

NEAR = 16
"""How many operations are looked at to say why none matched: a refusal must not cost more in a larger grant."""

_NARROW_FROM = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An operation with what its route needs at hand.

    Attributes:
        parameters: position and name of each path parameter.
        patterns: the path parameters that have a pattern, by position.
    """

    operation: Operation
    parameters: tuple[tuple[int, str], ...]
    patterns: tuple[tuple[int, PathParameter], ...]


@final
@dataclass(slots=True, kw_only=True)
class Position:
    """What the routes of one length take at one position. Each number is a set of operations, as bits.

    Attributes:
        exact: by segment: literals, exact values, and every pattern.
        other: for any other segment: every pattern.
        special: by exact value that holds `/`, `;` or `%`; in `exact` too, with the patterns.
        literal: by segment: literals only. parameter: every parameter. For saying what was near.
    """

    exact: dict[str, int] = field(default_factory=dict)
    other: int = 0
    special: dict[str, int] = field(default_factory=dict)
    literal: dict[str, int] = field(default_factory=dict)
    parameter: int = 0


@final
@dataclass(slots=True, kw_only=True)
class Shape:
    """All operations whose routes have one number of segments."""

    positions: tuple[Position, ...]
    entries: list[Entry] = field(default_factory=list)
    methods: dict[bytes, int] = field(default_factory=dict)
    patterned: int = 0
    query_exact: dict[tuple[str, str], int] = field(default_factory=dict)
    query_open: dict[str, int] = field(default_factory=dict)
    query_required: dict[str, int] = field(default_factory=dict)

    def chosen(self, bits: int) -> Iterator[Entry]:
        """The operations of a set, in the grant's order."""
        while bits:
            low = bits & -bits
            yield self.entries[low.bit_length() - 1]
            bits ^= low

    def on_path(self, segments: tuple[str, ...], special: frozenset[int], among: int) -> int:
        """Those of `among` whose route takes `segments`; a special segment only as an exact value."""
        bits = among
        for segment, place in zip(segments, self.positions, strict=True):
            bits &= place.exact.get(segment, place.other)
            if not bits:
                return 0
        for position in special:
            bits &= self.positions[position].special.get(segments[position], 0)
        return self._held_to_patterns(segments, bits) if bits & self.patterned else bits

    def near_path(self, segments: tuple[str, ...], among: int) -> int:
        """Those of `among` whose literals stand in `segments`, whatever their parameters take."""
        bits = among
        for segment, place in zip(segments, self.positions, strict=True):
            bits &= place.literal.get(segment, 0) | place.parameter
        return bits

    def narrowed(self, bits: int, pairs: Pairs) -> int:
        """`bits` less operations that cannot take the query; a few of them when none could, so that one can say why."""
        if bits.bit_count() < _NARROW_FROM:
            return bits
        rest = bits
        for pair in pairs:
            rest &= self.query_exact.get(pair, 0) | self.query_open.get(pair[0], 0)
        given = {name for name, _ in pairs}
        for name, requiring in self.query_required.items():
            if name not in given:
                rest &= ~requiring
        return rest or _lowest(bits, NEAR)

    def _held_to_patterns(self, segments: tuple[str, ...], bits: int) -> int:
        kept = bits
        left = bits & self.patterned
        while left:
            low = left & -left
            entry = self.entries[low.bit_length() - 1]
            for position, parameter in entry.patterns:
                if not fits_segment(parameter, segments[position]):
                    kept ^= low
                    break
            left ^= low
        return kept


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A grant's operations by the number of segments in their route, and the route templates of each method."""

    shapes: dict[int, Shape]
    routes: dict[bytes, tuple[str, ...]]

    def shape(self, segments: tuple[str, ...]) -> Shape | None:
        """The operations whose routes are as long as `segments`."""
        return self.shapes.get(len(segments))


def build_index(grant: Grant) -> Index:
    """Index a grant's operations. Done once, when the grant is loaded."""
    shapes: dict[int, Shape] = {}
    for operation in grant.operations:
        length = len(operation.route.segments)
        shape = shapes.get(length)
        if shape is None:
            shape = shapes[length] = Shape(positions=tuple(Position() for _ in range(length)))
        _add(shape, operation)
    for shape in shapes.values():
        for place in shape.positions:
            place.exact = {segment: bits | place.other for segment, bits in place.exact.items()}
    routes: dict[bytes, set[str]] = {}
    for operation in grant.operations:
        routes.setdefault(operation.method.encode("utf-8"), set()).add(operation.route.template)
    return Index(shapes=shapes, routes={method: tuple(sorted(found)) for method, found in routes.items()})


def _add(shape: Shape, operation: Operation) -> None:
    bit = 1 << len(shape.entries)
    parameters: list[tuple[int, str]] = []
    patterns: list[tuple[int, PathParameter]] = []
    for position, (segment, place) in enumerate(zip(operation.route.segments, shape.positions, strict=True)):
        if isinstance(segment, str):
            _join(place.exact, segment, bit)
            _join(place.literal, segment, bit)
            continue
        place.parameter |= bit
        parameters.append((position, segment.name))
        if segment.pattern is not None:
            place.other |= bit
            patterns.append((position, segment))
            shape.patterned |= bit
            continue
        for value in segment.values or ():
            _join(place.exact, value, bit)
            if not _is_plain(value):
                _join(place.special, value, bit)
    method = operation.method.encode("utf-8")
    shape.methods[method] = shape.methods.get(method, 0) | bit
    for name, rule in operation.query.items():
        if rule.values is None:
            shape.query_open[name] = shape.query_open.get(name, 0) | bit
        if rule.required:
            shape.query_required[name] = shape.query_required.get(name, 0) | bit
        for allowed in rule.values or ():
            shape.query_exact[name, allowed] = shape.query_exact.get((name, allowed), 0) | bit
    shape.entries.append(Entry(operation=operation, parameters=tuple(parameters), patterns=tuple(patterns)))


def _join(sets: dict[str, int], segment: str, bit: int) -> None:
    sets[segment] = sets.get(segment, 0) | bit


def _lowest(bits: int, number: int) -> int:
    kept = 0
    for _ in range(number):
        kept |= bits & -bits
        bits &= bits - 1
    return kept


def _is_plain(value: str) -> bool:
    return not any(character in value for character in "/;%")
