"""What a reload may not change, and what it may."""

from dataclasses import replace
from pathlib import Path

import pytest

from grants.message import Origin
from proxy.settings import (
    Assurance,
    Audit,
    BoxSettings,
    EndpointSettings,
    Limits,
    Settings,
    Sync,
    TcpListen,
    TunnelRule,
    Tunnels,
    UnixListen,
    fixed_changes,
)

ADMIN = TcpListen(host="127.0.0.1", port=8081)
OLD = Settings(
    state=Path("st"),
    directory=Path(),
    endpoints=(),
    audit=Audit(path=Path("st/decisions.jsonl")),
    limits=Limits(),
    admin=ADMIN,
)
REMEDY = "; start it anew, or put that back"


def test_nothing_changed_is_no_change() -> None:
    """The same settings may be loaded again."""
    assert fixed_changes(OLD, OLD) == []


def test_everything_else_may_change() -> None:
    """Endpoints, listeners, boxes, tunnels and limits are taken over by a reload."""
    upstream = Origin(scheme="http", host="a.example", port=80)
    new = replace(
        OLD,
        endpoints=(EndpointSettings(name="a", upstream=upstream, assurance=Assurance.TRUSTED_UPSTREAM),),
        limits=Limits(clients=1),
        proxy=TcpListen(host="127.0.0.1", port=1),
        tunnels=Tunnels(allow=(TunnelRule(host="a", suffix=False, port=1),)),
        boxes=(BoxSettings(name="a", token="env:A"),),
    )
    assert fixed_changes(OLD, new) == []


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(
            replace(OLD, state=Path("other"), audit=Audit(path=Path("other/decisions.jsonl"))),
            ["`state` is `other`, and the running program has `st`"],
            id="state-with-the-log-in-it",
        ),
        pytest.param(
            replace(OLD, state=Path("other"), audit=Audit(path=Path("other/log"))),
            [
                "`state` is `other`, and the running program has `st`",
                "`audit.path` is `other/log`, and the running program has `st/decisions.jsonl`",
            ],
            id="state-and-another-log",
        ),
        pytest.param(
            replace(OLD, audit=Audit(path=Path("/var/log"))),
            ["`audit.path` is `/var/log`, and the running program has `st/decisions.jsonl`"],
            id="log-outside",
        ),
        pytest.param(
            replace(OLD, state=Path("other"), audit=Audit(path=None)),
            [
                "`state` is `other`, and the running program has `st`",
                "`audit.path` is `stdout`, and the running program has `st/decisions.jsonl`",
            ],
            id="stdout",
        ),
        pytest.param(
            replace(OLD, audit=Audit(path=OLD.audit.path, sync=Sync.ALWAYS)),
            ["`audit.sync` is `always`, and the running program has `interval`"],
            id="sync",
        ),
        pytest.param(
            replace(OLD, admin=UnixListen(path=Path("a"))),
            ["`admin` is `unix:a`, and the running program has `127.0.0.1:8081`"],
            id="admin",
        ),
        pytest.param(replace(OLD, workers=2), ["`workers` is `2`, and the running program has `1`"], id="workers"),
        pytest.param(
            replace(OLD, admin=None), ["`admin` is `none`, and the running program has `127.0.0.1:8081`"], id="no-admin"
        ),
    ],
)
def test_what_is_held_open_needs_a_new_start(new: Settings, expected: list[str]) -> None:
    """State directory, decision log and admin address: one line each, with its remedy."""
    assert fixed_changes(OLD, new) == [line + REMEDY for line in expected]


def test_an_absolute_log_stays_where_it_is() -> None:
    """A log outside of the state directory does not move with it."""
    old = replace(OLD, audit=Audit(path=Path("/var/log")))
    assert fixed_changes(old, replace(old, state=Path("other"))) == [
        f"`state` is `other`, and the running program has `st`{REMEDY}"
    ]
    assert fixed_changes(replace(OLD, admin=None), OLD) == [
        f"`admin` is `127.0.0.1:8081`, and the running program has `none`{REMEDY}"
    ]
