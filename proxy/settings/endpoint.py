"""One endpoint of a settings file."""

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import final

from grants.canonical import parse_authority
from grants.message import Authority, Origin
from grants.place import Place
from grants.problems import quoted
from proxy.client_env.names import RESERVED
from proxy.settings.grantfiles import Grants
from proxy.settings.inject import load_inject
from proxy.settings.model import Assurance, EndpointSettings, Listen, TcpListen
from proxy.settings.reference import parse_reference
from proxy.settings.terms import CONNECT_SECONDS, load_ca, load_concurrent, load_timeouts
from proxy.settings.upstream import parse_upstream
from proxy.settings.values import MAX_PORT, parse_listen, parse_path, port_is_too_large, read

_NAME = re.compile(r"[A-Za-z0-9._:\[\]-]{1,253}")
_SECRET_NAME = re.compile(r"[A-Za-z0-9._/-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

# A relayed stream may last: what bounds it is that something moves.
_USUAL_TOTAL = {Assurance.SEMANTIC: 60.0, Assurance.TRUSTED_UPSTREAM: 24 * 3600.0}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An endpoint as far as it could be read: enough to hold it beside the others, whatever is wrong with it.

    Attributes:
        name, upstream, assurance: None where they could not be read.
        settings: None where something that it cannot do without has problems.
    """

    place: Place
    name: str | None
    upstream: Origin | None
    assurance: Assurance | None
    settings: EndpointSettings | None = None


def load_endpoint(place: Place, *, directory: Path, grants: Grants) -> Candidate:
    """The endpoint at `place`. Relative paths are relative to `directory`."""
    found = place.get("assurance")
    assurance = Assurance(found.text) if found else None
    semantic = assurance is Assurance.SEMANTIC
    upstream = read(place.get("upstream"), partial(parse_upstream, https_only=semantic))
    listen = read(place.get("listen"), partial(parse_listen, directory=directory))
    path = place.get("grant")
    held = path if assurance is not Assurance.TRUSTED_UPSTREAM else None
    grant_path = read(held, partial(parse_path, directory=directory))
    grant = grants.load(grant_path, path) if path and grant_path else None
    secrets, inject = _secrets(place, directory), load_inject(place)
    hosts = _hosts(place, listen)
    env = _env(place)
    ca = load_ca(place, upstream, directory)
    connect, total, idle = load_timeouts(place)
    if assurance:
        _hold_to_assurance(place, assurance)
    name = place.get("name")
    if name and not _NAME.fullmatch(name.text):
        name.problem(f"is {quoted(name.text)}; write letters, digits, `.`, `_` and `-`")
    called = name.text if name else upstream.origin.host if upstream else None
    origin = upstream.origin if upstream else None
    candidate = Candidate(place=place, name=called, upstream=origin, assurance=assurance)
    if upstream is None or called is None or assurance is None or (semantic and grant is None):
        return candidate
    settings = EndpointSettings(
        name=called,
        upstream=upstream.origin,
        base=upstream.base,
        assurance=assurance,
        grant=grant,
        grant_path=grant_path,
        secrets=MappingProxyType(secrets),
        inject=inject,
        listen=listen,
        ca=ca,
        hosts=hosts,
        env=env,
        allow_inside=place.flag("allowInside"),
        capture=place.flag("capture"),
        websocket=place.flag("websocket"),
        concurrent=load_concurrent(place),
        connect_timeout=connect or CONNECT_SECONDS,
        total_timeout=total or _USUAL_TOTAL[assurance],
        idle_timeout=idle or 300.0,
    )
    return replace(candidate, settings=settings)


def _hold_to_assurance(place: Place, assurance: Assurance) -> None:
    """What one assurance has and the other has not. That `semantic` needs a grant, the structure says."""
    if assurance is Assurance.TRUSTED_UPSTREAM:
        if place.has("grant"):
            place.key_problem(
                "grant", "is not held by `trusted-upstream`, which relays everything; leave it out, or write `semantic`"
            )
        return
    if (websocket := place.get("websocket")) and websocket.value:
        websocket.problem("is only for `trusted-upstream`, as no grant can hold a WebSocket; leave it out")
    if (timeout := place.get("timeout")) and timeout.has("idle"):
        timeout.key_problem("idle", "is for the streams of `trusted-upstream`; leave it out, `total` is the bound here")


def _secrets(place: Place, directory: Path) -> dict[str, str]:
    """Where each secret is. What is wrong here may be the secret itself, so no message repeats it."""
    secrets = {}
    for name, found in place.fields("secrets").items():
        if not _SECRET_NAME.fullmatch(name):
            found.problem("has a name that no reference can hold; write letters, digits, `.`, `_`, `-` and `/`")
        if reference := read(found, partial(parse_reference, directory=directory)):
            secrets[name] = reference
    return secrets


def _hosts(place: Place, listen: Listen | None) -> tuple[Authority, ...]:
    if place.has("hosts") and not place.has("listen"):
        place.key_problem("hosts", "needs `listen`; add that, or leave it out")
    port = listen.port if isinstance(listen, TcpListen) else 0
    hosts = []
    for item in place.items("hosts"):
        authority = parse_authority(item.text.encode("utf-8", "replace"), scheme="http")
        if authority is None and port_is_too_large(item.text):
            item.problem(f"is {quoted(item.text)}, whose port is above {MAX_PORT}; write one from 1 to {MAX_PORT}")
        elif authority is None:
            item.problem(f"is {quoted(item.text)}; write `name` or `name:port`")
        elif not _has_port(item.text) and not port:
            item.problem(f"is {quoted(item.text)}, and the listener's port is not fixed; write `name:port`")
        else:
            hosts.append(authority if _has_port(item.text) else Authority(host=authority.host, port=port))
    return tuple(hosts)


def _env(place: Place) -> tuple[str, ...]:
    if place.has("env") and not place.has("listen"):
        place.key_problem("env", "needs `listen`, whose URL the variables hold; add that, or leave it out")
    names: list[str] = []
    for item in place.items("env"):
        if not _VARIABLE.fullmatch(item.text):
            item.problem(f"is {quoted(item.text)}; write the name of a variable, such as `API_BASE_URL`")
        elif item.text in RESERVED:
            item.problem(f"is {quoted(item.text)}, which leads clients to the proxy itself; write another name")
        elif item.text in names:
            item.problem(f"is {quoted(item.text)}, which is listed already; keep one of them")
        names.append(item.text)
    return tuple(names)


def _has_port(text: str) -> bool:
    return re.search(r":[0-9]+$", text) is not None
