"""Settings whose parts are sound, and that nobody could use all the same: told with their place and what would be right."""

import json
from pathlib import Path

import pytest

from proxy.settings import SettingsInvalid, load_settings

RESPONSE = {
    "statuses": [200], "contentTypes": ["application/json"], "maxBytes": 100,
    "credentialDisclosure": "deny-exact", "json": {"type": "object"},
}  # fmt: skip


def operation(
    name: str, *values: str, route: str = "/v1/things", required: bool = True, **more: object
) -> dict[str, object]:
    """A read whose `X-Key` has one of `values`, or no header where there are none."""
    headers = [{"name": "X-Key", "values": list(values), "required": required}] if values else []
    return {
        "name": name, "effect": "read", "method": "GET", "route": route, "headers": headers, "response": RESPONSE, **more,
    }  # fmt: skip


def told(
    folder: Path, operations: list[dict[str, object]], *lines: str, proxy: bool = True
) -> tuple[list[str], list[str]]:
    """Problems and notices of an endpoint that has `lines` beside what it needs."""
    (folder / "g.yaml").write_text(json.dumps({"operations": operations}))
    given = {line.partition(":")[0] for line in lines}
    usual = ["upstream: https://api.example", "assurance: semantic", "grant: g.yaml", "secrets: {api: env:API}"]
    wanted = [line for line in usual if line.partition(":")[0] not in given] + list(lines)
    text = ("proxy: 127.0.0.1:8080\n" if proxy else "") + "endpoints:\n  - name: a\n    " + "\n    ".join(wanted) + "\n"
    (folder / "s.yaml").write_text(text)
    try:
        return [], [str(notice).removeprefix(f"{folder}/") for notice in load_settings(folder / "s.yaml").notices]
    except SettingsInvalid as invalid:
        return [str(problem).removeprefix(f"{folder}/") for problem in invalid.problems], []


LISTEN = "listen: 127.0.0.1:9001"
OTHER = operation("other")
LACKS = (
    "that takes `X-Key` with a reference to `token`, and the endpoint has `api`; add it to `secrets`, or write another "
    "name in the grant"
)
PATH = (
    "whose route is not below `/v1`, the path of `upstream`, so that the base URL never leads to it; write routes that "
    "begin with `/v1`, or `upstream` without a path"
)
BY_PROXY = PATH.replace("to it; write", "to it; by the forward proxy it can be called; write")


@pytest.mark.parametrize(
    ("operations", "lines", "proxy", "problem", "notice"),
    [
        pytest.param([operation("one", "@secret:api")], [], True, "", "", id="a secret that is there"),
        pytest.param([operation("one", "plain")], [], True, "", "", id="no reference"),
        pytest.param([operation("one", "@secret:token")], [], True, f"has operation `one` {LACKS}", "", id="the only value of the only operation"),
        pytest.param([operation("one", "Key @secret:token")], [], True, f"has operation `one` {LACKS}", "", id="within a value"),
        pytest.param([operation("one", "@secret:token"), operation("two", "@secret:token")], [], True, f"has operation `one` (and 1 more) {LACKS}", "", id="all operations"),
        pytest.param([operation("one", "@secret:token"), OTHER], [], True, "", f"has operation `one` {LACKS}", id="one of two operations"),
        pytest.param([operation("one", "@secret:token", "@secret:api")], [], True, "", f"has operation `one` {LACKS}", id="one of two values"),
        pytest.param([operation("one", "@secret:token", required=False)], [], True, "", f"has operation `one` {LACKS}", id="a header that may be left out"),
        pytest.param([operation("one", "@secret:token")], ["inject: {x-key: '@secret:api'}"], True, "", "", id="a header that is injected"),
        pytest.param([operation("one", "@secret:token")], ["secrets: {}"], True, f"has operation `one` {LACKS.replace('has `api`', 'has none')}", "", id="no secrets"),
        pytest.param([operation("one", "@secret:a @secret:b")], [], True, "has operation `one` that takes `X-Key` with a reference to `a`, `b`, and the endpoint has `api`; add them to", "", id="two names"),
        pytest.param([operation("one")], ["upstream: https://api.example/v1", LISTEN], False, "", "", id="a route below the path"),
        pytest.param([operation("one", route="/{v}/x", pathParameters={"v": ["v1", "v2"]})], ["upstream: https://api.example/v1", LISTEN], False, "", "", id="a parameter that takes the path"),
        pytest.param([operation("one", route="/{v}/x", pathParameters={"v": ["v2"]})], ["upstream: https://api.example/v1", LISTEN], False, f"has operation `one` {PATH}", "", id="a parameter that does not"),
        pytest.param([operation("one", route="/things")], ["upstream: https://api.example/v1", LISTEN], False, f"has operation `one` {PATH}", "", id="a route beside the path"),
        pytest.param([operation("one", route="/")], ["upstream: https://api.example/v1", LISTEN], False, f"has operation `one` {PATH}", "", id="a route above the path"),
        pytest.param([operation("one", route="/things"), OTHER], ["upstream: https://api.example/v1", LISTEN], False, "", f"has operation `one` {PATH}", id="one of two routes"),
        pytest.param([operation("one", route="/things")], ["upstream: https://api.example/v1", LISTEN], True, "", f"has operation `one` {BY_PROXY}", id="with a forward proxy"),
        pytest.param([operation("one", route="/things")], ["upstream: https://api.example/v1"], True, "", "", id="only a forward proxy"),
    ],
)  # fmt: skip
# ruff: noqa: E501 - one case is one row
def test_a_grant_beside_its_endpoint(
    tmp_path: Path, operations: list[dict[str, object]], lines: list[str], proxy: bool, problem: str, notice: str
) -> None:
    """What can never work is a problem at the endpoint's `grant`; what works in part is a notice there."""
    problems, notices = told(tmp_path, operations, *lines, proxy=proxy)
    for found, expected in ((problems, problem), (notices, notice)):
        assert len(found) == bool(expected), found
        for line in found:
            place, _, rest = line.partition(": endpoints[0].grant: ")
            assert place.startswith("s.yaml:")
            assert rest.startswith(expected)


@pytest.mark.parametrize(
    ("lines", "proxy", "says"),
    [
        pytest.param(
            ["upstream: https://localhost:8443"],
            True,
            "is on `localhost`, which clients are told to reach without the proxy (`NO_PROXY`), so that they get to it by its base URL only; add `listen`",
            id="name",
        ),
        pytest.param(
            ["upstream: https://127.0.0.1:8443", LISTEN],
            True,
            "base URL only; point them at its `listen`",
            id="address",
        ),
        pytest.param(["upstream: 'https://[::1]:8443'"], True, "is on `::1`", id="IPv6"),
        pytest.param(
            ["upstream: https://127.0.0.1:8443", LISTEN, "env: [API_URL]"], True, "", id="a variable names it"
        ),
        pytest.param(["upstream: https://127.0.0.1:8443", LISTEN], False, "", id="no forward proxy"),
        pytest.param(["upstream: https://127.0.0.2:8443"], True, "", id="an address that is asked for by proxy"),
    ],
)
def test_hosts_that_clients_reach_without_the_proxy(tmp_path: Path, lines: list[str], proxy: bool, says: str) -> None:
    """An upstream on a host of `NO_PROXY` is noticed where nothing leads clients to its base URL."""
    problems, notices = told(tmp_path, [OTHER], *lines, proxy=proxy)
    assert problems == []
    assert len(notices) == bool(says)
    assert all(": endpoints[0].upstream: " in notice and says in notice for notice in notices)
