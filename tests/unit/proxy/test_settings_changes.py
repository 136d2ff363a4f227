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
    described,
    fixed_changes,
    load_settings,
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


def _relay(name: str, **changes: object) -> EndpointSettings:
    endpoint = EndpointSettings(
        name=name,
        upstream=Origin(scheme="https", host=f"{name}.example", port=443),
        assurance=Assurance.TRUSTED_UPSTREAM,
    )
    return replace(endpoint, **changes)  # type: ignore[arg-type]


LISTEN = TcpListen(host="127.0.0.1", port=9001)
BEFORE = replace(
    OLD, endpoints=(_relay("a"), _relay("b", listen=LISTEN)), boxes=(BoxSettings(name="x", token="env:X"),)
)


@pytest.mark.parametrize(
    ("new", "says"),
    [
        pytest.param(BEFORE, "the settings are as before, and secrets were read anew", id="nothing"),
        pytest.param(replace(BEFORE, endpoints=(*BEFORE.endpoints, _relay("c"))), "endpoint `c` added", id="added"),
        pytest.param(replace(BEFORE, endpoints=BEFORE.endpoints[1:]), "endpoint `a` removed", id="removed"),
        pytest.param(
            replace(BEFORE, endpoints=(_relay("a", secrets={"k": "env:SECRET_PLACE"}), BEFORE.endpoints[1])),
            "endpoint `a` changed", id="changed",
        ),
        pytest.param(
            replace(BEFORE, endpoints=(BEFORE.endpoints[0], _relay("b", listen=replace(LISTEN, port=9002)))),
            "listener `127.0.0.1:9001` removed; listener `127.0.0.1:9002` added", id="moved",
        ),
        pytest.param(
            replace(BEFORE, endpoints=(_relay("a", listen=LISTEN), _relay("b"))),
            "listener `127.0.0.1:9001` changed", id="listener of another",
        ),
        pytest.param(replace(BEFORE, proxy=replace(LISTEN, port=1)), "listener `127.0.0.1:1` added", id="listener added"),
        pytest.param(replace(BEFORE, boxes=()), "box `x` removed", id="box removed"),
        pytest.param(replace(BEFORE, boxes=(BoxSettings(name="x", token="env:SECRET_PLACE"),)), "box `x` changed", id="box changed"),
        pytest.param(replace(BEFORE, tunnels=Tunnels(allow=(TunnelRule(host="a", suffix=False, port=1),))), "tunnels changed", id="tunnels"),
        pytest.param(replace(BEFORE, limits=Limits(clients=1)), "limits changed", id="limits"),
        pytest.param(replace(BEFORE, endpoints=(), boxes=()), "endpoint `a` removed; endpoint `b` removed; box `x` removed; listener `127.0.0.1:9001` removed", id="several"),
    ],
)  # fmt: skip
# ruff: noqa: E501 - one case is one row
def test_what_a_reload_changed_is_named(new: Settings, says: str) -> None:
    """By name and no more: what changed may be where a secret is."""
    assert described(BEFORE, new) == says
    assert "SECRET_PLACE" not in says


def test_the_same_grant_read_again_is_no_change(tmp_path: Path) -> None:
    """A grant is known by its digest."""
    text = (Path(__file__).parents[3] / "examples" / "github-issues.grant.yaml").read_text()
    path = tmp_path / "s.yaml"
    path.write_text(
        "proxy: 127.0.0.1:0\nstate: st\nendpoints:\n- {name: a, upstream: 'https://a.example', assurance: semantic, grant: g.yaml}\n"
    )
    (tmp_path / "g.yaml").write_text(text)
    one = load_settings(path)
    assert described(one, load_settings(path)).startswith("the settings are as before")
    (tmp_path / "g.yaml").write_text(text.replace("owner: [acme]", "owner: [other]"))
    assert described(one, load_settings(path)) == "endpoint `a` changed"
