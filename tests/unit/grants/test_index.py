"""The index finds what a walk over all operations would find, and its work does not grow with their number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.grants import grant, operation, pattern, rule

from grants.index import NEAR, Entry, Index, Shape, build_index
from grants.model import Operation, PathParameter
from grants.rule import fits_segment

OPERATIONS = (
    operation("root", "GET", "/"),
    operation("info", "GET", "/info"),
    operation("repo", "GET", "/repos/{owner}/{repo}", {"owner": ["acme", "beta"], "repo": ["widgets", "a/b"]}),
    operation("repo-beta", "GET", "/repos/{owner}/{repo}", {"owner": ["beta"], "repo": ["gears"]}),
    operation("delete", "DELETE", "/repos/{owner}/{repo}", {"owner": ["acme"], "repo": ["widgets"]}),
    operation("by-number", "GET", "/repos/{owner}/{id}", {"owner": ["acme"], "id": pattern("[0-9]+")}),
    operation("mine", "GET", "/repos/acme/mine"),
    operation("any", "GET", "/any/{a}/{b}", {"a": pattern("[a-z]"), "b": pattern(".*")}),
)
INDEX = build_index(grant(*OPERATIONS))

FOUND = [
    pytest.param("GET", (), (), ["root"], id="root"),
    pytest.param("GET", ("info",), (), ["info"], id="literal"),
    pytest.param("GET", ("Info",), (), [], id="literal in other case"),
    pytest.param("POST", ("info",), (), [], id="another method"),
    pytest.param("GET", ("repos", "acme", "widgets"), (), ["repo"], id="exact values"),
    pytest.param("GET", ("repos", "beta", "widgets"), (), ["repo"], id="another value"),
    pytest.param("GET", ("repos", "beta", "gears"), (), ["repo-beta"], id="values of one route do not mix"),
    pytest.param("GET", ("repos", "acme", "gears"), (), [], id="values of two routes do not mix"),
    pytest.param("DELETE", ("repos", "acme", "widgets"), (), ["delete"], id="method"),
    pytest.param("GET", ("repos", "acme", "42"), (), ["by-number"], id="pattern"),
    pytest.param("GET", ("repos", "acme", "4x"), (), [], id="pattern that does not match"),
    pytest.param("GET", ("repos", "acme", "4" * 65), (), [], id="over the pattern's limit"),
    pytest.param("GET", ("repos", "acme", "mine"), (), ["mine"], id="literal beside parameters"),
    pytest.param("GET", ("repos", "acme", "a/b"), (2,), ["repo"], id="special value"),
    pytest.param("GET", ("any", "x", "y"), (), ["any"], id="two patterns"),
    pytest.param("GET", ("any", "x", "a/b"), (2,), [], id="a pattern takes no special segment"),
    pytest.param("GET", ("any", "xx", "y"), (), [], id="first of two patterns"),
    pytest.param("GET", ("repos", "acme"), (), [], id="too short"),
    pytest.param("GET", ("a",) * 9, (), [], id="longer than any route"),
]


def find(index: Index, method: str, segments: tuple[str, ...], special: tuple[int, ...] = ()) -> list[str]:
    shape = index.shape(segments)
    if shape is None:
        return []
    bits = shape.on_path(segments, frozenset(special), shape.methods.get(method.encode(), 0))
    return [entry.operation.name for entry in shape.chosen(bits)]


@pytest.mark.parametrize(("method", "segments", "special", "names"), FOUND)
def test_lookup(method: str, segments: tuple[str, ...], special: tuple[int, ...], names: list[str]) -> None:
    """A route literal or a path value equals the decoded segment exactly, case-sensitive."""
    assert find(INDEX, method, segments, special) == names


def test_both_that_match_are_found_in_the_order_of_the_grant() -> None:
    """Two operations that both match are both found, so that the request can be denied as ambiguous."""
    index = build_index(
        grant(
            operation("b", "GET", "/a/{x}", {"x": pattern(".*")}),
            operation("a", "GET", "/a/{x}", {"x": ["one"]}),
            operation("c", "GET", "/a/one"),
        )
    )
    assert find(index, "GET", ("a", "one")) == ["b", "a", "c"]


def test_query_narrows_operations_of_one_path() -> None:
    """Exact values and names of the query tell operations of one path apart without a walk over them."""
    actions = [
        operation(f"o{n}", "GET", "/", query=[rule("Action", f"A{n}"), rule("id", matching=".*")]) for n in range(9)
    ]
    shape = build_index(grant(*actions)).shape(())
    assert shape is not None
    every = (1 << 9) - 1
    assert shape.narrowed(every, (("Action", "A3"),)) == 1 << 3
    assert shape.narrowed(every, (("id", "x"), ("Action", "A8"))) == 1 << 8
    assert shape.narrowed(every, (("Action", "A9"),)) == every
    assert shape.narrowed(every, ()) == every
    assert shape.narrowed(0b11, (("Action", "A1"),)) == 0b11


def test_a_required_name_that_is_not_given_narrows_too() -> None:
    """Operations that require what the query does not have are out; when all are, a few can say why."""
    actions = [operation(f"o{n}", "GET", "/", query=[rule("Action", f"A{n}", required=n != 7)]) for n in range(40)]
    shape = build_index(grant(*actions)).shape(())
    assert shape is not None
    every = (1 << 40) - 1
    assert shape.narrowed(every, ()) == 1 << 7
    assert shape.narrowed(every & ~(1 << 7), ()).bit_count() == NEAR
    assert shape.narrowed(every, (("Action", "B"),)) == (1 << NEAR) - 1


def test_parameters_have_their_positions() -> None:
    """An entry knows where the values of its path parameters stand."""
    shape = INDEX.shape(("repos", "acme", "42"))
    assert shape is not None
    entry = shape.entries[3]
    assert isinstance(entry, Entry)
    assert entry.parameters == ((1, "owner"), (2, "id"))
    assert [position for position, _ in entry.patterns] == [2]


class CountingDict(dict[str, int]):
    """Counts look-ups."""

    looked = 0

    def get(self, key: str, default: int = 0) -> int:  # type: ignore[override]
        CountingDict.looked += 1
        return super().get(key, default)


@pytest.mark.parametrize("number", [10, 2000])
def test_work_does_not_grow_with_the_number_of_operations(number: int) -> None:
    """2,000 operations cost what 10 do: one look-up a segment, whatever their number."""
    operations = [operation(f"o{n}", "GET", "/repos/{o}/{r}", {"o": ["acme"], "r": [f"w{n}"]}) for n in range(number)]
    shape = build_index(grant(*operations)).shape(("repos", "acme", "w7"))
    assert isinstance(shape, Shape)
    for place in shape.positions:
        place.exact = CountingDict(place.exact)
    CountingDict.looked = 0
    assert [
        entry.operation.name for entry in shape.chosen(shape.on_path(("repos", "acme", "w7"), frozenset(), -1))
    ] == ["o7"]
    assert CountingDict.looked == 3


SEGMENTS = st.sampled_from(["a", "b", "c", "1", "22"])
PARAMETER = st.one_of(st.frozensets(SEGMENTS, min_size=1), st.sampled_from(["[a-b]", "[0-9]+", ".*"]).map(pattern))


@st.composite
def routes(draw: st.DrawFn) -> Operation:
    parts = draw(st.lists(st.one_of(SEGMENTS, PARAMETER), max_size=3))
    template = "/" + "/".join(part if isinstance(part, str) else f"{{p{n}}}" for n, part in enumerate(parts))
    parameters = {f"p{n}": part for n, part in enumerate(parts) if not isinstance(part, str)}
    return operation("o", draw(st.sampled_from(["GET", "PUT"])), template, parameters)


@settings(deadline=None, max_examples=200)
@given(st.lists(routes(), max_size=8), st.lists(SEGMENTS, max_size=3).map(tuple), st.sampled_from(["GET", "PUT"]))
def test_the_index_finds_what_a_walk_finds(made: list[Operation], path: tuple[str, ...], method: str) -> None:
    """The index is only a faster walk over all operations."""
    named = [operation(f"o{n}", each.method, each.route.template, _parameters(each)) for n, each in enumerate(made)]
    walked = [each.name for each in named if each.method == method and _fits(each, path)]
    assert find(build_index(grant(*named)), method, path) == walked


def _parameters(each: Operation) -> dict[str, object]:
    return {
        part.name: part.values if part.pattern is None else part.pattern
        for part in each.route.segments
        if isinstance(part, PathParameter)
    }


def _fits(each: Operation, path: tuple[str, ...]) -> bool:
    parts = each.route.segments
    return len(parts) == len(path) and all(
        part == segment if isinstance(part, str) else fits_segment(part, segment)
        for part, segment in zip(parts, path, strict=True)
    )
