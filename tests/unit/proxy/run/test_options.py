"""The options of `run` for one endpoint mean what a settings file would, and their problems name them."""

from pathlib import Path

import pytest

from proxy.settings import SettingsInvalid, settings_from_endpoints
from proxy.settings.model import Settings
from proxy.settings.spec import KEYS, option_of

RELAY = ("upstream=https://a.example", "assurance=trusted-upstream")


def settings(tmp_path: Path, *options: str, specs: tuple[str, ...] = ()) -> Settings:
    return settings_from_endpoints(specs, proxy="127.0.0.1:0", state=str(tmp_path), options=options)


def test_values_may_hold_what_a_spec_cannot(tmp_path: Path) -> None:
    """A semicolon ends no value, as each option is one."""
    found = settings(tmp_path, *RELAY, "secret=api=exec:sh -c 'a; b'", "inject=X-Note=a;b=@secret:api")
    assert found.endpoints[0].secrets == {"api": "exec:sh -c 'a; b'"}
    assert found.endpoints[0].inject == ((b"X-Note", b"a;b=@secret:api"),)


def test_it_comes_after_the_specs(tmp_path: Path) -> None:
    """Specs keep their numbers."""
    found = settings(tmp_path, *RELAY, specs=("upstream=https://b.example;assurance=trusted-upstream",))
    assert [endpoint.name for endpoint in found.endpoints] == ["b.example", "a.example"]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        pytest.param("upstream=ftp://a", "--upstream: ", id="upstream"),
        pytest.param("assurance=tunnel", "--assurance: ", id="assurance"),
        pytest.param("grant=absent.yaml", "--grant: ", id="grant"),
        pytest.param("secret=api", "--secret: ", id="secret-incomplete"),
        pytest.param("secret=api=nowhere", "--secret: secrets.api: ", id="secret"),
        pytest.param("inject=Host=x", "--inject: inject.Host: ", id="inject"),
        pytest.param("listen=here", "--listen: ", id="listen"),
        pytest.param("ca=absent.pem", "--ca: ", id="ca"),
        pytest.param("host=a b", "--host: ", id="host"),
        pytest.param("env=1", "--env: ", id="env"),
        pytest.param("allowInside=perhaps", "--allow-inside: ", id="allow-inside"),
        pytest.param("concurrent=0", "--concurrent: ", id="concurrent"),
        pytest.param("connect=5", "--connect: ", id="connect"),
        pytest.param("idle=x", "--idle: ", id="idle"),
        pytest.param("name=a/b", "--name: ", id="name"),
    ],
)
@pytest.mark.parametrize(
    "specs", [(), ("upstream=https://b.example;assurance=trusted-upstream",)], ids=["alone", "last"]
)
def test_problems_name_the_option(tmp_path: Path, option: str, says: str, specs: tuple[str, ...]) -> None:
    """Not the number of an endpoint that nobody wrote."""
    key = option.partition("=")[0]
    rest = [part for part in RELAY if not part.startswith(f"{key}=")]
    listen = ["listen=127.0.0.1:0"] if key in ("env", "host") else []
    with pytest.raises(SettingsInvalid) as invalid:
        settings(tmp_path, *rest, *listen, option, specs=specs)
    texts = [str(problem) for problem in invalid.value.problems]
    assert any(text.startswith(says) for text in texts), texts
    assert not any(text.startswith("--endpoint[") for text in texts), texts


def test_what_is_missing_names_its_option(tmp_path: Path) -> None:
    """An endpoint without an upstream or an assurance."""
    with pytest.raises(SettingsInvalid) as invalid:
        settings(tmp_path, "name=a")
    assert {str(problem).partition(":")[0] for problem in invalid.value.problems} == {"--upstream", "--assurance"}


def test_names() -> None:
    """Of the keys, as options are written."""
    assert {option_of(key) for key in KEYS} >= {"allow-inside", "upstream", "websocket"}


@pytest.mark.parametrize(
    ("option", "says"),
    [
        pytest.param("secret=API", "--secret: names no reference; write `--secret NAME=REFERENCE`, such as `--secret api=env:TOKEN`", id="secret"),
        pytest.param("secret=env:API", "--secret: names no reference; write `--secret NAME=REFERENCE`", id="secret-without-a-name"),
        pytest.param("inject=X", "--inject: names no value; write `--inject HEADER=VALUE`", id="inject"),
    ],
)  # fmt: skip
# ruff: noqa: E501 - one case is one row
def test_a_remedy_is_written_as_the_option_is(tmp_path: Path, option: str, says: str) -> None:
    """Nobody who wrote `--secret` is told to write a part of `--endpoint`; whoever wrote that is."""
    with pytest.raises(SettingsInvalid) as invalid:
        settings(tmp_path, *RELAY, option)
    assert str(invalid.value).startswith(says)
    key = option.partition("=")[0]
    with pytest.raises(SettingsInvalid) as invalid:
        settings(tmp_path, specs=(";".join((*RELAY, option)),))
    assert f"write `{key}=" in str(invalid.value)
