"""SDKs with a reference where their users put a key, through both fronts; models plain, and then streaming."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.clients import REFERENCE, SECRET, World, needs
from support.node import packages

PROGRAMS = Path(__file__).parent / "programs"
FRONTS = pytest.mark.parametrize("front", ["proxy", "base"])
MODES = {"proxy": "proxy", "base": "terminate"}


@FRONTS
@pytest.mark.parametrize(
    ("name", "host", "said"),
    [
        *((sdk, "llm.example", "Good day|Good day") for sdk in ("anthropic", "openai")),
        ("PyGithub", "github.example", "It squeaks"),
        ("boto3", "s3.example", "public"),
    ],
)
def test_python(world: World, front: str, name: str, host: str, said: str) -> None:
    """The SDK gets its answer, and the API the credential; public reads of boto3 carry none."""
    assert world.run(sys.executable, str(PROGRAMS / "sdks.py"), front, name).strip() == said
    assert world.fronts() == {MODES[front]}
    assert (SECRET in str([request.fields for request in world.asked(host)])) == (name != "boto3")


@needs("node", "npm")
@FRONTS
@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((sdk, "Good day|Good day") for sdk in ("anthropic", "openai")),
        ("octokit", "It squeaks"),
    ],
)
def test_javascript(
    world: World, built: Callable[[str, Callable[[Path], None]], Path], front: str, name: str, said: str
) -> None:
    """Through the proxy with undici's agent, which they are handed; by base URL as they are."""

    def make(folder: Path) -> None:
        packages(folder)
        shutil.copy(PROGRAMS / "sdks.mjs", folder)

    program = built("sdks", make) / "sdks.mjs"
    assert world.run("node", str(program), front, name).strip() == said
    assert world.fronts() == {MODES[front]}


@needs("gh")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["api", "repos/acme/widgets", "--jq", ".full_name"], "acme/widgets", id="repository"),
        pytest.param(["api", "repos/acme/widgets/issues?state=open", "--jq", ".[0].title"], "It squeaks", id="issues"),
    ],
)
def test_gh(place: World, arguments: list[str], said: str) -> None:
    """gh takes the reference as its token, and asks over https only."""
    token = {"GH_HOST": "github.example", "GH_ENTERPRISE_TOKEN": REFERENCE, "GH_NO_UPDATE_NOTIFIER": "1"}
    found = place.run("gh", *arguments, **token)
    assert found.strip() == said
    assert place.fronts() == {"proxy"}
