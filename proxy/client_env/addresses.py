"""The URLs that clients are told: the forward proxy's and each base URL, as one client reaches them.

An address that a client cannot use is refused here, where its remedy can be named, and not left to the client's
"connection refused".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from grants.addresses import is_address
from grants.canonical import parse_authority
from grants.message import Authority
from grants.problems import quoted
from proxy.settings.model import BoxSettings, EndpointSettings, Listen, Settings, TcpListen, UnixListen

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - listeners on every address are called by one of them
_URL_SAFE = re.compile(r"[A-Za-z0-9._~-]+")


class AddressRefused(ValueError):
    """There is no URL that would work. The message says what is in the way and what helps, and holds no token."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where the fronts listen. `endpoints`: by name, those that have a base URL."""

    proxy: Listen | None
    endpoints: Mapping[str, Listen]

    @classmethod
    def of(cls, settings: Settings) -> "Listening":
        """As the settings say."""
        listens = {endpoint.name: endpoint.listen for endpoint in settings.endpoints if endpoint.listen is not None}
        return cls(proxy=settings.proxy, endpoints=listens)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who is told.

    Attributes:
        host: the name or address by which it reaches this machine; None for the listener's own.
        box: the box that it is; None where there are no boxes.
        token: that box's token.
    """

    host: str | None = None
    box: BoxSettings | None = None
    token: str | None = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """What `variables` takes. A token stands in the URLs where there is one."""

    proxy_url: str | None = field(repr=False)
    base_urls: Mapping[str, str] = field(repr=False)
    git_urls: Mapping[str, str] = field(repr=False)


def addresses(settings: Settings, listening: Listening, client: Client) -> Addresses:
    """The URLs for one client. Git is led to base URLs only where there is no forward proxy.

    Raises:
        AddressRefused: an address is not known before the start, cannot be called, or is not the client's to use.
    """
    if client.host is not None and _called(client.host, 80) is None:
        raise AddressRefused(f"{quoted(client.host)} is no host; write a name or an address, such as `172.17.0.1`")
    if settings.boxes and client.box is None:
        named = ", ".join(quoted(box.name) for box in settings.boxes)
        raise AddressRefused(f"every request names a box here; say which with `--box`: {named}")
    if client.token is not None and not _URL_SAFE.fullmatch(client.token):
        raise AddressRefused(
            "the box's token holds characters that URLs encode; make one of letters, digits, `-`, `.`, `_` and `~`"
        )
    proxy_url = None
    if listening.proxy is not None:
        known = f"{client.box.name}:{client.token}@" if client.box else ""
        proxy_url = f"http://{known}{_authority(listening.proxy, 'proxy', client)}"
    base_urls: dict[str, str] = {}
    git_urls: dict[str, str] = {}
    for endpoint in settings.endpoints:
        if (client.box and endpoint.name not in client.box.endpoints) or endpoint.name not in listening.endpoints:
            continue
        wanted = endpoint.env or listening.proxy is None
        if not wanted:
            continue
        url = _base_url(endpoint, listening.endpoints[endpoint.name], client)
        base_urls |= dict.fromkeys(endpoint.env, url)
        if listening.proxy is None:
            git_urls[_shown(endpoint)] = f"{url}/"
    if proxy_url is None and not base_urls and not git_urls:
        raise AddressRefused("there is nothing to tell; add `proxy` or an endpoint's `listen` to the settings")
    return Addresses(proxy_url=proxy_url, base_urls=base_urls, git_urls=git_urls)


def _base_url(endpoint: EndpointSettings, listen: Listen, client: Client) -> str:
    authority = _authority(listen, f"endpoint {quoted(endpoint.name)}", client)
    if client.host is not None and isinstance(listen, TcpListen) and not _answers(endpoint, listen, client.host):
        raise AddressRefused(
            f"endpoint {quoted(endpoint.name)} is not called {quoted(client.host)}; add that to its `hosts`, as any "
            "other `Host` is refused"
        )
    return f"http://{authority}/box/{client.token}" if client.box else f"http://{authority}"


def _answers(endpoint: EndpointSettings, listen: TcpListen, host: str) -> bool:
    """Whether the base URL's front takes this host. Where it listens on every address, each address may be its own."""
    called = _called(host, listen.port)
    own = {_called("localhost", listen.port), _called(listen.host, listen.port), *endpoint.hosts}
    return called in own or (listen.host in _ANY and called is not None and is_address(called.host))


def _called(host: str, port: int) -> Authority | None:
    """The host with a port, canonical; None for what is no host, or has a port already."""
    return parse_authority(f"{_bracketed(host)}:{port}".encode("utf-8", "replace"), scheme="http")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _authority(listen: Listen, what: str, client: Client) -> str:
    if isinstance(listen, UnixListen):
        raise AddressRefused(f"{what} listens on a Unix socket, which no variable can name; set `127.0.0.1:8080`")
    if listen.port == 0:
        raise AddressRefused(
            f"{what} listens on a port that is picked at the start; set one, or name the ready file of `serve` "
            "with `--ready-file`"
        )
    return f"{_bracketed(client.host or _ANY.get(listen.host, listen.host))}:{listen.port}"


def _shown(endpoint: EndpointSettings) -> str:
    """The upstream as a URL's beginning, with its closing slash."""
    return "/".join([str(endpoint.upstream), *endpoint.base, ""])
