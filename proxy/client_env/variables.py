"""The variables by which unmodified clients find the proxy and trust its CA. Pure: paths and texts in, texts out.

The guides in docs/guides/clients/ say which client reads which.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import urlsplit

from proxy.client_env.names import BUNDLE, GIT_COUNT, JAVA, LOOPBACK, NO_PROXY, NODE_PROXY, PROXY, WGETRC
from proxy.client_env.trust import TrustFiles

_NOTHING: Mapping[str, str] = MappingProxyType({})


def variables(
    *,
    proxy_url: str | None,
    files: TrustFiles,
    base_urls: Mapping[str, str],
    no_proxy: Sequence[str] = LOOPBACK,
    git_urls: Mapping[str, str] = _NOTHING,
    environment: Mapping[str, str] = _NOTHING,
) -> dict[str, str]:
    """What a client's environment gets, by name.

    Args:
        proxy_url: the forward proxy, `http://[user:password@]host:port`; None where there is none, and then nothing
            is said about the CA, which signs for the forward proxy only.
        files: the CA as the client sees it.
        base_urls: by the name of a variable, the base URL of an endpoint.
        no_proxy: hosts that are reached without the proxy. The hosts of `base_urls` and `git_urls` are added: a client
            would ask the proxy for the proxy.
        git_urls: by the beginning of a URL that git is given, the base URL that it uses in its place.
        environment: what the client has already. `JAVA_TOOL_OPTIONS` and git's numbered settings are added to what is
            there; every other variable is replaced.
    """
    found: dict[str, str] = {}
    direct = list(dict.fromkeys([*no_proxy, *_hosts([*base_urls.values(), *git_urls.values()])]))
    if proxy_url is not None:
        for name in PROXY:
            found[name] = found[name.lower()] = proxy_url
        found |= dict.fromkeys(NO_PROXY, ",".join(direct))
        found[NODE_PROXY] = "1"
        found |= dict.fromkeys(BUNDLE, str(files.bundle))
        found[WGETRC] = str(files.wgetrc)
        found[JAVA] = _java(proxy_url, files, direct, environment.get(JAVA, ""))
    found |= _git(git_urls, environment)
    return found | dict(base_urls)


def _hosts(urls: Sequence[str]) -> Iterator[str]:
    for url in urls:
        if host := urlsplit(url).hostname:
            yield host


def _java(proxy_url: str, files: TrustFiles, direct: Sequence[str], present: str) -> str:
    """Java's own options, after what is there less earlier ones of ours.

    Java has no option for a proxy's user and password: a program of its own has to send those.
    """
    proxy = urlsplit(proxy_url)
    options = {
        "http.proxyHost": proxy.hostname or "",
        "http.proxyPort": str(proxy.port or 80),
        "https.proxyHost": proxy.hostname or "",
        "https.proxyPort": str(proxy.port or 80),
        # The list for http holds for https too.
        "http.nonProxyHosts": "|".join(f"[{host}]" if ":" in host else host for host in direct),
        "javax.net.ssl.trustStore": str(files.pkcs12),
        "javax.net.ssl.trustStoreType": "PKCS12",
        "javax.net.ssl.trustStorePassword": files.pkcs12_password,
    }
    for key in options:
        present = re.sub(rf"""(?<!\S)(?:-D{re.escape(key)}=\S*|(["'])-D{re.escape(key)}=.*?\1)(?!\S)\s*""", "", present)
    ours = [_java_quoted(f"-D{key}={value}") for key, value in options.items()]
    return " ".join([*filter(None, [present.strip()]), *ours])


def _java_quoted(option: str) -> str:
    """An option as one word: the JVM splits at white space outside quotes, and knows no escapes in them."""
    if not re.search(r"[\s'\"]", option):
        return option
    return f"'{option}'" if "'" not in option else f'"{option}"'


def _git(urls: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Git's settings by number (git-config, "GIT_CONFIG_COUNT"), after those that are there."""
    count = environment.get(GIT_COUNT, "")
    first = int(count) if re.fullmatch(r"[0-9]{1,6}", count) else 0
    present = {
        (environment.get(f"GIT_CONFIG_KEY_{number}"), environment.get(f"GIT_CONFIG_VALUE_{number}"))
        for number in range(first)
    }
    pairs = [(f"url.{ours}.insteadOf", theirs) for theirs, ours in urls.items()]
    found: dict[str, str] = {}
    for number, (key, value) in enumerate((pair for pair in pairs if pair not in present), start=first):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        found[GIT_COUNT] = str(number + 1)
    return found
