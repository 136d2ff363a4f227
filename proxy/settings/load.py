"""Loading settings: the same located document as a grant, then the meaning, then what holds between the parts.

Every problem is found in one go, those in the grants that the settings name included, each with its own file.
Source: docs/reference/settings.md.
"""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from grants.place import Place, Report
from grants.problems import Invalid, Problem, in_file_order, quoted
from grants.structure import Structure
from proxy.settings.endpoint import Grants, load_endpoint, read
from proxy.settings.files import Unreadable, read_bounded
from proxy.settings.model import Audit, EndpointSettings, Limits, Listen, Settings, Sync, TcpListen
from proxy.settings.values import ValueInvalid, parse_duration, parse_listen, parse_size


class SettingsInvalid(Invalid):
    """Settings that cannot be used."""


@cache
def settings_structure() -> Structure:
    """The structure of a settings file: the JSON Schema that ships for editors."""
    return Structure("proxy.settings", "settings.schema.json")


def load_settings(path: Path) -> Settings:
    """Load a settings file and the grants that it names. Relative paths are relative to the file.

    Raises:
        SettingsInvalid: with all problems: the file's own in its order, then those of each grant.
    """
    try:
        text = read_bounded(path)
    except Unreadable as unreadable:
        raise SettingsInvalid([Problem(str(path), 0, 0, "", f"{unreadable}; write the path of a file")]) from None
    place, report = settings_structure().read(text, file=str(path))
    if place is None:
        raise SettingsInvalid(in_file_order(report.problems))
    return settings_of(place, directory=path.parent)


def settings_of(place: Place, *, directory: Path) -> Settings:
    """The settings at `place`, whose structure has been checked.

    Raises:
        SettingsInvalid: as `load_settings`.
    """
    grants = Grants()
    places = place.items("endpoints")
    endpoints = [load_endpoint(item, directory=directory, grants=grants) for item in places]
    proxy, admin = (read(place.get(key), lambda text: parse_listen(text, directory=directory)) for key in FRONTS)
    state = directory / found.text if (found := place.get("state")) else default_state()
    audit, limits = _audit(place, state), _limits(place)
    _hold_apart(place.report, places, endpoints, front=place.has("proxy"))
    _hold_listeners(place, places, directory)
    problems = (*in_file_order(place.report.problems), *grants.problems)
    if problems:
        raise SettingsInvalid(problems)
    return Settings(
        proxy=proxy,
        admin=admin,
        state=state,
        directory=directory,
        endpoints=tuple(endpoint for endpoint in endpoints if endpoint),
        audit=audit,
        limits=limits,
    )


FRONTS = ("proxy", "admin")


def default_state() -> Path:
    """The user's state directory (XDG Base Directory Specification)."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "state"
    return base / "grantproxy"


def _audit(place: Place, state: Path) -> Audit:
    audit = place.get("audit")
    path, sync = (audit.get("path"), audit.get("sync")) if audit else (None, None)
    if path and (not path.text or "\0" in path.text):
        path.problem("names no file; write a path, or `stdout`")
    return Audit(
        path=None if path and path.text == "stdout" else state / (path.text if path else "decisions.jsonl"),
        sync=Sync(sync.text) if sync else Sync.INTERVAL,
    )


def _limits(place: Place) -> Limits:
    limits = place.get("limits")
    if limits is None:
        return Limits()
    usual = Limits()
    clients = limits.get("clients")
    return Limits(
        header_bytes=read(limits.get("headerBytes"), parse_size) or usual.header_bytes,
        body_bytes=read(limits.get("bodyBytes"), parse_size) or usual.body_bytes,
        clients=clients.number if clients else usual.clients,
        client_idle=read(limits.get("clientIdle"), parse_duration) or usual.client_idle,
    )


def _hold_apart(report: Report, places: list[Place], endpoints: list[EndpointSettings | None], *, front: bool) -> None:
    """Names are unique, each endpoint can be reached, and on the proxy front each host and port is one endpoint."""
    names: dict[str, int] = {}
    origins: dict[tuple[str, int], str] = {}
    for place, endpoint in zip(places, endpoints, strict=True):
        if not front and not place.has("listen"):
            place.key_problem("listen", "is missing, and `proxy` is too, so nobody can reach this; add one of them")
        if endpoint is None:
            continue
        if endpoint.name in names:
            where = place.get("name") or place
            where.problem(f"is called {quoted(endpoint.name)}, as endpoint {names[endpoint.name]}; name it differently")
        names.setdefault(endpoint.name, int(place.path[-1]))
        origin = (endpoint.upstream.host, endpoint.upstream.port)
        if front and origin in origins and (upstream := place.get("upstream")):
            upstream.problem(
                f"has the host and port of {quoted(origins[origin])}, and the proxy front could not tell them apart; "
                "put both into one endpoint, or leave `proxy` out"
            )
        origins.setdefault(origin, endpoint.name)


def _hold_listeners(root: Place, endpoints: list[Place], directory: Path) -> None:
    """No two listeners have one address and port, or one socket."""
    taken: dict[Listen, str] = {}
    for label, place in _listeners(root, endpoints):
        try:
            listen = parse_listen(place.text, directory=directory)
        except ValueInvalid:
            continue
        if isinstance(listen, TcpListen) and listen.port == 0:
            continue
        if listen in taken:
            place.problem(f"is the address of {quoted(taken[listen])} already; choose another port")
        taken.setdefault(listen, label)


def _listeners(root: Place, endpoints: list[Place]) -> Iterator[tuple[str, Place]]:
    for key in FRONTS:
        if place := root.get(key):
            yield key, place
    for index, endpoint in enumerate(endpoints):
        if place := endpoint.get("listen"):
            yield f"endpoints[{index}].listen", place
