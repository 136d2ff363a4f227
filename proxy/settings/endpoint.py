"""One endpoint of a settings file."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import final

from grants.canonical import parse_authority
from grants.load import load_grant
from grants.message import Authority
from grants.model import Grant
from grants.place import Place
from grants.problems import GrantInvalid, Problem, quoted
from proxy.settings.files import Unreadable, read_bounded
from proxy.settings.model import Assurance, EndpointSettings, Listen, TcpListen
from proxy.settings.upstream import parse_upstream
from proxy.settings.values import ValueInvalid, parse_duration, parse_listen

_NAME = re.compile(r"[A-Za-z0-9._:\[\]-]{1,253}")
_SECRET_NAME = re.compile(r"[A-Za-z0-9._/-]+")
_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


@final
@dataclass(slots=True)
class Grants:
    """The grant files that the settings name, each read once, and the problems in them."""

    loaded: dict[Path, Grant | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def load(self, path: Path, place: Place) -> Grant | None:
        """The grant at `path`. A file that cannot be read is a problem of `place`, what is in it one of its own."""
        if path not in self.loaded:
            self.loaded[path] = None
            try:
                self.loaded[path] = load_grant(read_bounded(path), file=str(path))
            except Unreadable as unreadable:
                del self.loaded[path]
                place.problem(f"{quoted(str(path))} {unreadable}; write the path of a grant file")
            except GrantInvalid as invalid:
                self.problems.extend(invalid.problems)
        return self.loaded.get(path)


def read[Value](place: Place | None, parse: Callable[[str], Value]) -> Value | None:
    """What `parse` makes of the text at `place`; None when there is none, or it has problems."""
    if place is None:
        return None
    try:
        return parse(place.text)
    except ValueInvalid as invalid:
        place.problem(str(invalid))
        return None


def load_endpoint(place: Place, *, directory: Path, grants: Grants) -> EndpointSettings | None:
    """The endpoint, or None when it has problems. Relative paths are relative to `directory`."""
    upstream = read(place.get("upstream"), parse_upstream)
    listen = read(place.get("listen"), lambda text: parse_listen(text, directory=directory))
    path = place.get("grant")
    grant_path = directory / path.text if path else directory
    grant = grants.load(grant_path, path) if path else None
    secrets = _secrets(place, directory)
    hosts = _hosts(place, listen)
    ca = _ca(place, directory)
    timeout = place.get("timeout")
    connect = read(timeout.get("connect"), parse_duration) if timeout else None
    total = read(timeout.get("total"), parse_duration) if timeout else None
    name = place.get("name")
    if name and not _NAME.fullmatch(name.text):
        name.problem(f"is {quoted(name.text)}; write letters, digits, `.`, `_` and `-`")
    if upstream is None or grant is None:
        return None
    return EndpointSettings(
        name=name.text if name else upstream.origin.host,
        upstream=upstream.origin,
        base=upstream.base,
        assurance=Assurance.SEMANTIC,
        grant=grant,
        grant_path=grant_path,
        secrets=MappingProxyType(secrets),
        listen=listen,
        ca=ca,
        hosts=hosts,
        consented=upstream.consented,
        connect_timeout=connect or 10.0,
        total_timeout=total or 60.0,
    )


def _secrets(place: Place, directory: Path) -> dict[str, str]:
    """Where each secret is. What is wrong here may be the secret itself, so no message repeats it."""
    secrets = {}
    for name, reference in place.fields("secrets").items():
        if not _SECRET_NAME.fullmatch(name):
            reference.problem("has a name that no reference can hold; write letters, digits, `.`, `_`, `-` and `/`")
        kind, _, rest = reference.text.partition(":")
        if kind == "file" and rest and "\0" not in rest:
            secrets[name] = f"file:{directory / rest}"
        elif (kind == "exec" and rest.strip()) or _VARIABLE.fullmatch(reference.text):
            secrets[name] = reference.text
        else:
            reference.problem("does not say where the secret is; write `env:NAME`, `file:PATH` or `exec:COMMAND`")
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


def _has_port(text: str) -> bool:
    return re.search(r":[0-9]+$", text) is not None


def _ca(place: Place, directory: Path) -> Path | None:
    bundle = place.get("ca")
    if bundle is None:
        return None
    path = directory / bundle.text
    try:
        if _CERTIFICATE not in read_bounded(path):
            bundle.problem(f"{quoted(str(path))} holds no certificate; write the path of a PEM bundle")
    except Unreadable as unreadable:
        bundle.problem(f"{quoted(str(path))} {unreadable}; write the path of a PEM bundle")
    return path
