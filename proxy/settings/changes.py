"""What a reload changes, and what it cannot: what the running program holds open for as long as it runs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from proxy.settings.model import Audit, EndpointSettings, Settings


def fixed_changes(old: Settings, new: Settings) -> list[str]:
    """One line, with its remedy, for each setting that differs and needs a new start; none: `new` may take over.

    Those are the state directory, the decision log, the admin address, the broker's database and the number of workers.
    Everything else may change: endpoints, their grants and secrets, listeners, boxes, tunnels, limits, what the broker
    serves. Pure.
    """
    moved = old.state != new.state
    # A log that is named relative to the state directory moves with it: that is one change, told once.
    same_log = old.audit.path == new.audit.path or (moved and _log(old) == _log(new))
    same_database = _database(old) == _database(new) or (moved and _file(old) is not None and _file(old) == _file(new))
    pairs = (
        ("state", not moved, str(old.state), str(new.state)),
        ("audit.path", same_log, _written(old.audit), _written(new.audit)),
        ("audit.sync", old.audit.sync is new.audit.sync, str(old.audit.sync), str(new.audit.sync)),
        ("workers", old.workers == new.workers, str(old.workers), str(new.workers)),
        ("admin", old.admin == new.admin, str(old.admin or "none"), str(new.admin or "none")),
        ("broker.database", same_database, _database(old), _database(new)),
    )
    return [
        f"`{key}` is `{after}`, and the running program has `{before}`; start it anew, or put that back"
        for key, same, before, after in pairs
        if not same
    ]


def _database(settings: Settings) -> str:
    """The broker's database as it may be shown: without a password."""
    return "none" if settings.broker is None else str(settings.broker.database)


def _file(settings: Settings) -> Path | None:
    """The broker's SQLite file below the state directory, with which it moves."""
    path = getattr(settings.broker and settings.broker.database, "path", None)
    return path.relative_to(settings.state) if path is not None and path.is_relative_to(settings.state) else None


def _log(settings: Settings) -> str:
    path = settings.audit.path
    if path is None or not path.is_relative_to(settings.state):
        return _written(settings.audit)
    return str(path.relative_to(settings.state))


def _written(audit: Audit) -> str:
    return "stdout" if audit.path is None else str(audit.path)


def described(old: Settings, new: Settings) -> str:
    """What differs between two settings, by name: endpoints, addresses, boxes, tunnels, the broker. Pure.

    Of an endpoint that is changed nothing more is said: what changed may be where a secret is. Values of secrets are
    not settings, and are read anew whatever this says.
    """
    parts = [
        *_named(
            "endpoint",
            {one.name: _endpoint(one) for one in old.endpoints},
            {o.name: _endpoint(o) for o in new.endpoints},
        ),
        *_named("box", {box.name: box for box in old.boxes}, {box.name: box for box in new.boxes}),
        *_named("listener", _listeners(old), _listeners(new)),
        *(["tunnels changed"] if old.tunnels != new.tunnels else []),
        *(["broker changed"] if old.broker != new.broker else []),
        *(["limits changed"] if old.limits != new.limits else []),
    ]
    return "; ".join(parts) or "the settings are as before, and secrets were read anew"


def _named(kind: str, old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """For each name that is in one of the two alone, or in both and differs."""
    found = [(name, "removed") for name in old if name not in new]
    found += [
        (name, "added" if name not in old else "changed") for name in new if name not in old or old[name] != new[name]
    ]
    return [f"{kind} `{name}` {how}" for name, how in found]


def _endpoint(endpoint: EndpointSettings) -> object:
    """The endpoint as it can be compared: of its grant the digest, and no listener, which is told by itself."""
    digest = endpoint.grant.digest if endpoint.grant is not None else None
    return replace(endpoint, grant=None, listen=None), digest


def _listeners(settings: Settings) -> dict[str, object]:
    """Each address that is listened on, with what it is for."""
    broker = settings.broker.listen if settings.broker is not None else None
    fronts = [("proxy", settings.proxy), ("broker", broker), *((one.name, one.listen) for one in settings.endpoints)]
    return {str(listen): name for name, listen in fronts if listen is not None}
