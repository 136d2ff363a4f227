"""Every list and map of the files has an example in its messages, and the example is one."""

import re
from typing import Any

import pytest
import yaml

from grants.example import KEY
from grants.load import grant_structure
from grants.structure import Structure
from proxy.settings.load import settings_structure


def collections(schema: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every schema of a list or a map, by its path."""
    if isinstance(schema, list):
        return [found for index, item in enumerate(schema) for found in collections(item, f"{path}[{index}]")]
    if not isinstance(schema, dict):
        return []
    below = [found for key, item in schema.items() for found in collections(item, f"{path}.{key}")]
    return below + ([(path, schema)] if schema.get("type") in ("array", "object") else [])


EVERY = [
    pytest.param(schema, id=f"{name}{path}")
    for name, structure in (("grant", grant_structure()), ("settings", settings_structure()))
    for path, schema in collections(structure.schema)
]


@pytest.mark.parametrize("schema", EVERY)
def test_every_list_and_map_has_an_example(schema: dict[str, Any]) -> None:
    """What is shown reads as what is wanted, and has nothing that is to be made up."""
    wanted = {"array": list, "object": dict}[schema["type"]]
    if "examples" in schema:
        assert isinstance(schema["examples"][0], wanted)
    elif KEY in schema:
        assert isinstance(yaml.safe_load(schema[KEY]), wanted)
        assert "…" not in schema[KEY]
    else:
        assert "x-expected" in schema


@pytest.mark.parametrize(
    ("structure", "text", "message"),
    [
        pytest.param(
            grant_structure(),
            "operations: {}",
            "operations: is a map; write a list: what may be done, such as `- name: list-open-issues`",
            id="operations",
        ),
        pytest.param(
            settings_structure(),
            "endpoints:\n- {upstream: 'https://x.example', assurance: trusted-upstream, timeout: 30s}",
            "endpoints[0].timeout: is a text; write a map, such as `connect: 10s`",
            id="timeout",
        ),
        pytest.param(
            settings_structure(),
            "tunnels:",
            "tunnels: has no value; write a map: opaque tunnels through the forward proxy, such as "
            "`allow: [pypi.org:443]`",
            id="no-value",
        ),
    ],
)
def test_examples_stand_in_messages(structure: Structure, text: str, message: str) -> None:
    """Whoever wrote something else is shown how it begins."""
    _, report = structure.read(text, file="")
    assert message in [re.sub(r"^:\d+:\d+: ", "", str(problem)) for problem in report.problems]


def test_only_a_text_that_may_be_empty_is_offered_as_one() -> None:
    """An empty path or name is of no use; an empty value of a parameter is one."""
    _, report = settings_structure().read("state:\nbroker:\n  word:\n", file="")
    assert not any("''" in str(problem) for problem in report.problems)
    assert ":1:7: state: has no value; write a path" in map(str, report.problems)
    _, report = grant_structure().read("operations:\n- query:\n  - name: q\n    values:\n    -\n", file="")
    assert any("or `''` for an empty text" in str(problem) for problem in report.problems)
