"""One endpoint of a settings file."""

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import final

from grants.canonical import parse_authority
from grants.document import MAX_BYTES
from grants.message import Authority, Origin
from grants.place import Place
from grants.problems import quoted, quoted_file
from proxy.client_env.names import RESERVED
from proxy.settings.files import Unreadable, read_bounded
from proxy.settings.grantfiles import Grants
from proxy.settings.inject import load_inject
from proxy.settings.model import Assurance, EndpointSettings, Listen, TcpListen
from proxy.settings.reference import parse_reference
from proxy.settings.upstream import parse_upstream
from proxy.settings.values import parse_duration, parse_listen, parse_path, read

_NAME = re.compile(r"[A-Za-z0-9._:\[\]-]{1,253}")
_SECRET_NAME = re.compile(r"[A-Za-z0-9._/-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"

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
    ca = _ca(place, directory)
    if ca and upstream and upstream.origin.scheme == "http":
        place.key_problem("ca", "is for an https upstream; leave it out")
    connect, total, idle = (_timeout(place, key) for key in ("connect", "total", "idle"))
    if assurance:
        _hold_to_assurance(place, assurance)
    name, concurrent = place.get("name"), place.get("concurrent")
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
        concurrent=concurrent.number if concurrent else 256,
        connect_timeout=connect or 10.0,
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


def _timeout(place: Place, key: str) -> float | None:
    timeout = place.get("timeout")
    return read(timeout.get(key), parse_duration) if timeout else None


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
        if authority is None:
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


def _ca(place: Place, directory: Path) -> Path | None:
    bundle = place.get("ca")
    if bundle is None:
        return None
    path = read(bundle, partial(parse_path, directory=directory))
    if path is None:
        return None
    try:
        wrong = _wrong_with(read_bounded(path))
    except Unreadable as unreadable:
        wrong = str(unreadable)
    if wrong:
        bundle.problem(f"{quoted_file(str(path))} {wrong}; write the path of a PEM bundle")
    return path


def _wrong_with(bundle: bytes) -> str | None:
    """What keeps a PEM bundle from being trusted at the start, or None."""
    import ssl  # here: a quick `check` of settings without a bundle needs none

    if len(bundle) > MAX_BYTES:
        return "is over 1 MiB"
    if _CERTIFICATE not in bundle:
        return "holds no certificate"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=bundle.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        return "holds a certificate that cannot be read"
    return None
