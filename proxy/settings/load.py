"""Loading settings: the same located document as a grant, then the meaning, then what holds between the parts.

Every problem is found in one go, those in the grants that the settings name included, each with its own file.
Source: docs/reference/settings.md.
"""

import os
from functools import cache, partial
from pathlib import Path

from grants.place import Place
from grants.problems import Invalid, Problem, in_file_order, quoted_file
from grants.structure import Structure
from proxy.settings.apart import hold_endpoints, hold_listeners, hold_tunnels, hold_variables
from proxy.settings.boxes import load_boxes
from proxy.settings.broker import load_broker
from proxy.settings.endpoint import load_endpoint
from proxy.settings.files import Unreadable, read_bounded
from proxy.settings.grantfiles import Grants
from proxy.settings.model import Audit, Limits, Settings, Sync
from proxy.settings.tunnels import load_tunnels
from proxy.settings.usable import hold_usable
from proxy.settings.values import (
    ValueInvalid,
    parse_duration,
    parse_listen,
    parse_local_listen,
    parse_path,
    parse_size,
    read,
)


class SettingsInvalid(Invalid):
    """Settings that cannot be used."""


@cache
def settings_structure() -> Structure:
    """The structure of a settings file: the JSON Schema that ships for editors."""
    return Structure("proxy.settings", "settings.schema.json")


def load_settings(path: Path, *, remedy: str = "write the path of a file") -> Settings:
    """Load a settings file and the grants that it names. Relative paths are relative to the file.

    Args:
        remedy: what to do where the file cannot be read.

    Raises:
        SettingsInvalid: with all problems: the file's own in its order, then those of each grant.
    """
    try:
        text = read_bounded(path)
    except Unreadable as unreadable:
        raise SettingsInvalid([Problem(str(path), 0, 0, "", f"{unreadable}; {remedy}")]) from None
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
    endpoints = [load_endpoint(item, directory=directory, grants=grants) for item in place.items("endpoints")]
    proxy = read(place.get("proxy"), partial(parse_listen, directory=directory))
    admin = read(place.get("admin"), partial(parse_local_listen, directory=directory))
    # Absolute, as what is relative to it, the log, is named by its whole path from here on.
    state = (read(place.get("state"), partial(parse_path, directory=directory)) or default_state()).absolute()
    audit, limits = _audit(place, state), _limits(place)
    workers = _workers(place, audit)
    tunnels, rules = load_tunnels(place)
    boxes = load_boxes(place, endpoints, directory=directory)
    broker = load_broker(place, boxes, directory=directory, state=state, grants=grants)
    hold_endpoints(endpoints, front=place.has("proxy"))
    hold_variables(endpoints)
    hold_tunnels(rules, endpoints)
    hold_listeners(place, endpoints, directory)
    noticed = hold_usable(endpoints, front=place.has("proxy"))
    problems = (*in_file_order(place.report.problems), *grants.problems)
    if problems:
        raise SettingsInvalid(problems)
    return Settings(
        proxy=proxy,
        admin=admin,
        state=state,
        directory=directory,
        endpoints=tuple(endpoint.settings for endpoint in endpoints if endpoint.settings),
        audit=audit,
        limits=limits,
        tunnels=tunnels,
        boxes=boxes,
        broker=broker,
        workers=workers,
        notices=in_file_order(noticed),
    )


def default_state() -> Path:
    """The user's state directory (XDG Base Directory Specification)."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "state"
    return base / "grantproxy"


def _audit(place: Place, state: Path) -> Audit:
    audit = place.get("audit")
    path, sync = (audit.get("path"), audit.get("sync")) if audit else (None, None)
    if path and path.text == "stdout":
        file = None
    else:
        file = read(path, partial(_log_file, state=state)) or state / "decisions.jsonl"
    return Audit(
        path=file,
        sync=Sync(sync.text) if sync else Sync.INTERVAL,
    )


def _log_file(text: str, *, state: Path) -> Path:
    """The decision log's file: as far as can be seen before the start, it can be opened. `state` may not be there yet.

    Raises:
        ValueInvalid: it cannot.
    """
    path = parse_path(text, directory=state)
    if path == state or path.name in ("", "..") or os.path.isdir(path):
        raise ValueInvalid(f"{quoted_file(text)} is a directory; write the path of a file, or `stdout`")
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise ValueInvalid(f"{quoted_file(text)} is not a regular file; write the path of one, or `stdout`")
    if path.parent != state and not os.path.isdir(path.parent):
        raise ValueInvalid(f"{quoted_file(text)} is in a directory that does not exist; make it, or write another")
    return path


def _workers(place: Place, audit: Audit) -> int:
    workers = place.get("workers")
    if workers is None:
        return 1
    if workers.number > 1 and audit.path is None:
        workers.problem("needs a decision log that processes can share; set `audit.path` to a file, or `workers: 1`")
    return workers.number


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
