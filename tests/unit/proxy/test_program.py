"""The program's start: what fails leaves nothing behind."""

import resource
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from grants.message import Origin
from proxy import descriptors
from proxy.descriptors import raise_limit
from proxy.fronts import bind_fronts
from proxy.program import Program
from proxy.settings.model import (
    Assurance,
    Audit,
    EndpointSettings,
    Limits,
    Listen,
    Settings,
    TcpListen,
    UnixListen,
)
from proxy.sockets import ListenFailed

ANY = TcpListen(host="127.0.0.1", port=0)


def endpoint(name: str, listen: Listen | None) -> EndpointSettings:
    origin = Origin(scheme="https", host=f"{name}.example", port=443)
    return EndpointSettings(name=name, upstream=origin, assurance=Assurance.TRUSTED_UPSTREAM, listen=listen)


def settings(folder: Path, *endpoints: EndpointSettings, admin: Listen | None = None) -> Settings:
    return Settings(
        state=folder / "state",
        directory=folder,
        endpoints=endpoints,
        audit=Audit(path=folder / "state" / "decisions.jsonl"),
        limits=Limits(),
        proxy=ANY,
        admin=admin,
    )


def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Sockets that were bound are removed, and the log is closed."""
    admin = tmp_path / "admin.sock"
    threads = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = TcpListen(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(ListenFailed, match=r"endpoints\[1\]\.listen"):
            Program(
                settings(
                    tmp_path,
                    endpoint("a", UnixListen(path=tmp_path / "a.sock")),
                    endpoint("b", busy),
                    admin=UnixListen(path=admin),
                )
            )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state"]
    assert threading.active_count() == threads


def test_which_sockets_a_reload_keeps(tmp_path: Path) -> None:
    """Unchanged addresses keep their sockets in any order, also where two endpoints have changed places."""
    one, two = UnixListen(path=tmp_path / "1"), UnixListen(path=tmp_path / "2")
    old, fresh = bind_fronts(
        settings(tmp_path, endpoint("a", one), endpoint("b", two), endpoint("c", ANY), admin=ANY), None
    )
    assert len(fresh) == 5
    new, fresh = bind_fronts(
        settings(tmp_path, endpoint("d", ANY), endpoint("c", ANY), endpoint("b", one), endpoint("a", two), admin=ANY),
        old,
    )
    assert [listener.endpoint for listener in fresh] == ["d"]
    assert old.proxy is not None
    assert new.proxy is not None
    assert new.proxy.sock is old.proxy.sock
    assert new.admin is old.admin
    assert [listener.sock for listener in new.endpoints[1:]] == [old.endpoints[n].sock for n in (2, 0, 1)]
    assert [listener.setting for listener in new.endpoints] == [f"endpoints[{n}].listen" for n in range(4)]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = TcpListen(host="127.0.0.1", port=taken.getsockname()[1])
        fresh_path = UnixListen(path=tmp_path / "3")
        with pytest.raises(ListenFailed):
            bind_fronts(settings(tmp_path, endpoint("a", fresh_path), endpoint("b", busy), admin=ANY), new)
    assert not fresh_path.path.exists()
    assert one.path.exists()
    for listener in (*new.clients, new.admin):
        assert listener is not None
        listener.remove()


@pytest.mark.parametrize(
    ("limits", "raised", "warned"),
    [
        pytest.param((1024, 65536), 65536, False, id="raised"),
        pytest.param((65536, 65536), None, False, id="enough"),
        pytest.param((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None, False, id="no-limit"),
        pytest.param((1024, 2048), 2048, True, id="too-low"),
    ],
)
def test_descriptors(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raised: int | None, *, warned: bool
) -> None:
    """The soft limit becomes the hard one; where that is too low, one line says so, with what would fit."""
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _which: limits)
    monkeypatch.setattr(descriptors.resource, "setrlimit", lambda _which, pair: calls.append(pair))
    warning = raise_limit(1000, 1024)
    assert calls == ([] if raised is None else [(raised, raised)])
    assert (warning is not None) is warned
    if warning is not None:
        assert "can need 3088" in warning
        assert "set it to 480" in warning
        assert raise_limit(480, 1024) is None


def test_a_limit_that_may_not_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is as it is."""

    def refuse(_which: int, _pair: tuple[int, int]) -> None:
        raise ValueError

    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _which: (256, 65536))
    monkeypatch.setattr(descriptors.resource, "setrlimit", refuse)
    warning = raise_limit(1000, 1024)
    assert warning is not None
    assert "set it to 1" in warning


def test_settings_without_a_front_bind_nothing(tmp_path: Path) -> None:
    """No proxy, no admin, no base URL."""
    fronts, fresh = bind_fronts(replace(settings(tmp_path, endpoint("a", None)), proxy=None), None)
    assert (fronts.clients, fronts.admin, fresh) == ((), None, [])
