"""The variables: each by the name that its client reads, and nothing of what was there lost that may stay."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from proxy.client_env.names import BUNDLE, RESERVED
from proxy.client_env.trust import TrustFiles
from proxy.client_env.variables import variables

PROXY = "http://127.0.0.1:8080"


def trust(folder: str = "/s") -> TrustFiles:
    path = Path(folder)
    return TrustFiles(
        ca=path / "ca.pem",
        bundle=path / "bundle.pem",
        pkcs12=path / "bundle.p12",
        pkcs12_password="changeit",
        wgetrc=path / "wgetrc",
        system=Path("/etc/ssl/bundle.pem"),
    )


def told(**changes: object) -> dict[str, str]:
    return variables(**{"proxy_url": PROXY, "files": trust(), "base_urls": {}, **changes})  # type: ignore[arg-type]


def test_the_proxy_is_named_in_both_cases() -> None:
    """curl reads `http_proxy` in lower case alone, others capitals alone."""
    found = told()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        assert found[name] == found[name.lower()] == PROXY
    assert found["NO_PROXY"] == found["no_proxy"] == "localhost,127.0.0.1,::1"
    assert found["NODE_USE_ENV_PROXY"] == "1"


def test_every_client_s_name_of_the_bundle_is_set() -> None:
    """The names that CLIENTS were seen to read; wget and Java have files of their own."""
    found = told()
    assert {name for name, value in found.items() if value == "/s/bundle.pem"} == set(BUNDLE)
    assert {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "PIP_CERT"} <= set(BUNDLE)
    assert {"AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT", "NODE_EXTRA_CA_CERTS", "npm_config_cafile"} <= set(
        BUNDLE
    )
    assert found["WGETRC"] == "/s/wgetrc"


def test_no_base_url_can_have_a_name_of_ours() -> None:
    """Every name that is set, but for the base URLs' own and git's numbers, is one that the settings refuse."""
    assert set(told()) <= RESERVED


def test_without_a_forward_proxy_there_are_base_urls_alone() -> None:
    """The CA signs for the forward proxy only."""
    assert told(proxy_url=None, base_urls={"A_URL": "http://127.0.0.1:1"}) == {"A_URL": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        pytest.param({"A": "http://127.0.0.1:1"}, "localhost,127.0.0.1,::1", id="loopback"),
        pytest.param({"A": "http://box:1/box/TOKEN", "B": "http://box:2"}, "localhost,127.0.0.1,::1,box", id="name"),
        pytest.param({"A": "http://[fd00::1]:1"}, "localhost,127.0.0.1,::1,fd00::1", id="address"),
        pytest.param({"A": "unix:x"}, "localhost,127.0.0.1,::1", id="no-host"),
    ],
)
def test_base_urls_are_asked_without_the_proxy(urls: dict[str, str], expected: str) -> None:
    """A client would ask the proxy for the proxy, which refuses that."""
    assert told(base_urls=urls)["NO_PROXY"] == expected


# --- Java ---

OURS = (
    "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=8080 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=8080 "
    "-Dhttp.nonProxyHosts=localhost|127.0.0.1|[::1] -Djavax.net.ssl.trustStore=/s/bundle.p12 "
    "-Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=changeit"
)


@pytest.mark.parametrize(
    ("present", "kept"),
    [
        pytest.param("", "", id="none"),
        pytest.param("-Xmx1g '-Da=b c'", "-Xmx1g '-Da=b c' ", id="others"),
        pytest.param("-Xmx1g " + OURS, "-Xmx1g ", id="ours-already"),
        pytest.param(
            "'-Djavax.net.ssl.trustStore=/my files/x' -Xmx1g -Dhttps.proxyPort=1", "-Xmx1g ", id="earlier-ones"
        ),
        pytest.param("-Dhttp.proxyHostX=1", "-Dhttp.proxyHostX=1 ", id="a-longer-name"),
    ],
)
def test_java_s_options_are_added(present: str, kept: str) -> None:
    """What the operator gave stays, earlier ones of ours go: eval twice is as once."""
    assert told(environment={"JAVA_TOOL_OPTIONS": present})["JAVA_TOOL_OPTIONS"] == kept + OURS


@pytest.mark.parametrize("proxy", ["http://box:TOKEN@proxy.internal:8080", "http://[::1]:8080", "http://a.example"])
def test_java_is_told_host_and_port(proxy: str) -> None:
    """It has no option for a user and a password, so no token is among them."""
    found = told(proxy_url=proxy)["JAVA_TOOL_OPTIONS"]
    assert "TOKEN" not in found
    assert "-Dhttps.proxyPort=80" in found


@pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")
@pytest.mark.parametrize("folder", ["/s", "/my state", "/it's", "/it's here", '/say "x"'])
def test_java_takes_each_option_as_one(folder: str) -> None:
    """The JVM splits at white space outside of quotes."""
    found = told(files=trust(folder), environment={"JAVA_TOOL_OPTIONS": "-Da=b"})["JAVA_TOOL_OPTIONS"]
    done = subprocess.run(
        ["java", "-XshowSettings:properties", "-version"],
        env={"PATH": os.environ["PATH"], "JAVA_TOOL_OPTIONS": found},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = {line.strip() for line in done.stderr.splitlines()}
    assert {f"javax.net.ssl.trustStore = {folder}/bundle.p12", "https.proxyPort = 8080", "a = b"} <= lines


# --- git ---

GIT = {"https://git.example/": "http://127.0.0.1:9001/"}
PAIR = {"GIT_CONFIG_KEY_0": "url.http://127.0.0.1:9001/.insteadOf", "GIT_CONFIG_VALUE_0": "https://git.example/"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, {"GIT_CONFIG_COUNT": "1", **PAIR}, id="none"),
        pytest.param({"GIT_CONFIG_COUNT": "many"}, {"GIT_CONFIG_COUNT": "1", **PAIR}, id="a-count-that-git-refuses"),
        pytest.param(
            {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"},
            {"GIT_CONFIG_COUNT": "2", **{name.replace("0", "1"): value for name, value in PAIR.items()}},
            id="others",
        ),
        pytest.param({"GIT_CONFIG_COUNT": "1", **PAIR}, {}, id="ours-already"),
    ],
)
def test_git_s_settings_are_added(environment: dict[str, str], expected: dict[str, str]) -> None:
    """By number, after those that are there; what is there already is not added again."""
    assert told(proxy_url=None, git_urls=GIT, environment=environment) == expected


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_takes_the_base_url() -> None:
    """As git itself reads it."""
    done = subprocess.run(
        ["git", "ls-remote", "--get-url", "https://git.example/acme/widgets.git"],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **told(proxy_url=None, git_urls=GIT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "http://127.0.0.1:9001/acme/widgets.git\n"
