"""The URLs that a client is told: those by which it reaches the fronts, or a refusal that says what helps."""

# ruff: noqa: E501 - one case is one row

from pathlib import Path
from typing import Any

import pytest

from grants.message import Authority, Origin
from proxy.client_env.addresses import Addresses, AddressRefused, Client, Listening, addresses
from proxy.settings import (
    Assurance,
    Audit,
    BoxSettings,
    EndpointSettings,
    Limits,
    Settings,
    TcpListen,
    UnixListen,
)

PROXY = TcpListen(host="127.0.0.1", port=8080)
EVERYWHERE = TcpListen(host="0.0.0.0", port=8080)
BASE = TcpListen(host="127.0.0.1", port=9001)
BOX = BoxSettings(name="agent-1", token="env:T", endpoints=frozenset({"api"}))
OTHER = BoxSettings(name="agent-2", token="env:U")
TOKEN = "token-of-agent-1"


def endpoint(**changes: Any) -> EndpointSettings:
    origin = Origin(scheme="https", host="api.example", port=443)
    usual: dict[str, Any] = {"name": "api", "upstream": origin, "assurance": Assurance.TRUSTED_UPSTREAM}
    return EndpointSettings(**{**usual, "listen": BASE, "env": ("API_URL",), **changes})


def of(*endpoints: EndpointSettings, client: Client | None = None, **changes: Any) -> Addresses:
    base: dict[str, Any] = {"state": Path("/s"), "directory": Path(), "audit": Audit(path=None), "limits": Limits()}
    settings = Settings(**{**base, "proxy": PROXY, "endpoints": endpoints, **changes})
    return addresses(settings, Listening.of(settings), client or Client())


BOXED = {"boxes": (BOX, OTHER)}
AGENT = Client(box=BOX, token=TOKEN)
TOLD = [
    pytest.param(of(endpoint()), "http://127.0.0.1:8080", {"API_URL": "http://127.0.0.1:9001"}, {}, id="both"),
    pytest.param(of(endpoint(env=("A", "B"))), "http://127.0.0.1:8080", dict.fromkeys(("A", "B"), "http://127.0.0.1:9001"), {}, id="two-names"),
    pytest.param(of(endpoint(env=(), listen=None)), "http://127.0.0.1:8080", {}, {}, id="proxy-alone"),
    pytest.param(of(endpoint(env=())), "http://127.0.0.1:8080", {}, {}, id="a-base-url-that-no-variable-holds"),
    pytest.param(of(endpoint(), proxy=None), None, {"API_URL": "http://127.0.0.1:9001"}, {"https://api.example/": "http://127.0.0.1:9001/"}, id="base-url-alone"),
    pytest.param(of(endpoint(env=(), base=("git", "v1")), proxy=None), None, {}, {"https://api.example/git/v1/": "http://127.0.0.1:9001/"}, id="git-below-a-path"),
    pytest.param(of(endpoint(listen=TcpListen(host="::1", port=1)), proxy=TcpListen(host="::", port=2)), "http://[::1]:2", {"API_URL": "http://[::1]:1"}, {}, id="ipv6"),
    pytest.param(of(endpoint(), proxy=EVERYWHERE, client=AGENT, **BOXED), f"http://agent-1:{TOKEN}@127.0.0.1:8080", {"API_URL": f"http://127.0.0.1:9001/box/{TOKEN}"}, {}, id="box"),
    pytest.param(of(endpoint(name="other"), client=AGENT, **BOXED), f"http://agent-1:{TOKEN}@127.0.0.1:8080", {}, {}, id="not-the-box-s-endpoint"),
    pytest.param(of(endpoint(hosts=(Authority(host="box.internal", port=9001),)), client=Client(host="Box.internal")), "http://Box.internal:8080", {"API_URL": "http://Box.internal:9001"}, {}, id="host-by-name"),
    pytest.param(of(endpoint(listen=TcpListen(host="0.0.0.0", port=1)), client=Client(host="172.17.0.1")), "http://172.17.0.1:8080", {"API_URL": "http://172.17.0.1:1"}, {}, id="host-by-address"),
    pytest.param(of(endpoint(listen=TcpListen(host="::", port=1)), client=Client(host="fd00::1")), "http://[fd00::1]:8080", {"API_URL": "http://[fd00::1]:1"}, {}, id="host-by-ipv6"),
    pytest.param(of(endpoint(), client=Client(host="localhost")), "http://localhost:8080", {"API_URL": "http://localhost:9001"}, {}, id="localhost"),
    pytest.param(of(endpoint(env=()), client=Client(host="elsewhere")), "http://elsewhere:8080", {}, {}, id="host-for-the-proxy-alone"),
]  # fmt: skip


@pytest.mark.parametrize(("found", "proxy", "base", "git"), TOLD)
def test_what_is_told(found: Addresses, proxy: str | None, base: dict[str, str], git: dict[str, str]) -> None:
    """The listener's own address, or what the client calls this machine; a box's token in each; git by base URL only
    where there is no forward proxy."""
    assert (found.proxy_url, found.base_urls, found.git_urls) == (proxy, base, git)
    assert TOKEN not in repr(found)


REFUSED = [
    pytest.param((endpoint(),), {"proxy": TcpListen(host="127.0.0.1", port=0)}, "proxy listens on a port that is picked at the start; set one, or name the ready file of `serve` with `--ready-file`", id="port-0"),
    pytest.param((endpoint(listen=TcpListen(host="127.0.0.1", port=0)),), {}, "endpoint `api` listens on a port that is picked at the start; set one, or name the ready file of `serve` with `--ready-file`", id="port-0-of-an-endpoint"),
    pytest.param((endpoint(),), {"proxy": UnixListen(path=Path("/x"))}, "proxy listens on a Unix socket, which no variable can name; set `127.0.0.1:8080`", id="socket"),
    pytest.param((endpoint(listen=UnixListen(path=Path("/x"))),), {"client": Client(host="localhost")}, "endpoint `api` listens on a Unix socket, which no variable can name; set `127.0.0.1:8080`", id="socket-of-an-endpoint"),
    pytest.param((endpoint(),), BOXED, "every request names a box here; say which with `--box`: `agent-1`, `agent-2`", id="no-box"),
    pytest.param((endpoint(),), {**BOXED, "client": Client(box=BOX, token="a/b+c@hunter2")}, "the box's token holds characters that URLs encode; make one of letters, digits, `-`, `.`, `_` and `~`", id="a-token-that-urls-encode"),
    *(pytest.param((endpoint(),), {"client": Client(host=host)}, f"`{host}` is no host; write a name or an address, such as `172.17.0.1`", id=f"host-{host}") for host in ("a b", "box:80", "http://box", "127.1", "a@b", "x/y")),
    pytest.param((endpoint(),), {"client": Client(host="box")}, "endpoint `api` is not called `box`; add that to its `hosts`, as any other `Host` is refused", id="a-host-that-is-refused"),
    pytest.param((endpoint(),), {"client": Client(host="172.17.0.1")}, "endpoint `api` is not called `172.17.0.1`; add that to its `hosts`, as any other `Host` is refused", id="an-address-that-is-refused"),
    pytest.param((endpoint(listen=TcpListen(host="0.0.0.0", port=1)),), {"client": Client(host="box")}, "endpoint `api` is not called `box`; add that to its `hosts`, as any other `Host` is refused", id="a-name-on-every-address"),
    pytest.param((), {"proxy": None}, "there is nothing to tell; add `proxy` or an endpoint's `listen` to the settings", id="nothing"),
    pytest.param((endpoint(),), {"proxy": None, "boxes": (OTHER,), "client": Client(box=OTHER, token=TOKEN)}, "there is nothing to tell; add `proxy` or an endpoint's `listen` to the settings", id="nothing-for-this-box"),
]  # fmt: skip


@pytest.mark.parametrize(("endpoints", "changes", "message"), REFUSED)
def test_what_would_not_work_is_refused(
    endpoints: tuple[EndpointSettings, ...], changes: dict[str, Any], message: str
) -> None:
    """One line with its remedy, and no token in it."""
    with pytest.raises(AddressRefused) as caught:
        of(*endpoints, **changes)
    assert str(caught.value) == message
