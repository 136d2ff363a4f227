"""Places: what is there, and where."""

from grants.document import parse
from grants.place import Place, Report


def place() -> Place:
    root = parse("a: [x, y]\nb: {c: z}\n", file="F").root
    assert root is not None
    return Place(root, {"a": ["x", "y"], "b": {"c": "z"}}, (), Report("F"))


def test_a_path_that_leads_nowhere_ends_at_the_deepest_place() -> None:
    """A problem is told as near to its cause as one can tell."""
    assert place().at(("a", 1)).text == "y"
    assert place().at(("b", "c", "d", 1)).path == ("b", "c")
    assert place().at(("a", 7)).path == ("a",)


def test_what_was_refused_is_not_there() -> None:
    """Nobody complains twice about one thing."""
    here = place()
    here.report.refused |= {("a", 0), ("b",)}
    assert [item.text for item in here.items("a")] == ["y"]
    assert here.get("b") is None
    assert here.has("b")
    assert here.fields("b") == {}
    assert here.items("b") == []


def test_a_map_has_no_items_and_a_list_no_fields() -> None:
    """The kind that is not there is empty."""
    assert place().items("b") == []
    assert place().fields("a") == {}
