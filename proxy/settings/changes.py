"""What a reload cannot change: what the running program holds open for as long as it runs."""

from proxy.settings.model import Audit, Settings


def fixed_changes(old: Settings, new: Settings) -> list[str]:
    """One line, with its remedy, for each setting that differs and needs a new start; none: `new` may take over.

    Those are the state directory, the decision log and the admin address. Everything else may change: endpoints, their
    grants and secrets, listeners, boxes, tunnels and limits. Pure.
    """
    moved = old.state != new.state
    # A log that is named relative to the state directory moves with it: that is one change, told once.
    same_log = old.audit.path == new.audit.path or (moved and _log(old) == _log(new))
    pairs = (
        ("state", not moved, str(old.state), str(new.state)),
        ("audit.path", same_log, _written(old.audit), _written(new.audit)),
        ("audit.sync", old.audit.sync is new.audit.sync, str(old.audit.sync), str(new.audit.sync)),
        ("admin", old.admin == new.admin, str(old.admin or "none"), str(new.admin or "none")),
    )
    return [
        f"`{key}` is `{after}`, and the running program has `{before}`; start it anew, or put that back"
        for key, same, before, after in pairs
        if not same
    ]


def _log(settings: Settings) -> str:
    path = settings.audit.path
    if path is None or not path.is_relative_to(settings.state):
        return _written(settings.audit)
    return str(path.relative_to(settings.state))


def _written(audit: Audit) -> str:
    return "stdout" if audit.path is None else str(audit.path)
