"""Listeners: sockets that are ours, kept, replaced and removed."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest
from support.certificates import Certificates
from support.running import Running, running
from support.talk import base, raw
from support.upstream import Upstream

from proxy.settings.model import Listen, TcpListen, UnixListen
from proxy.sockets import Listener, ListenFailed, bind

pytestmark = pytest.mark.usefixtures("freed")

ANY = TcpListen(host="127.0.0.1", port=0)
GET = b"GET /things/1 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer @secret:api\r\n\r\n"


@pytest.fixture
def upstream(certificates: Certificates) -> Iterator[Upstream]:
    with Upstream(certificates) as server:
        yield server


@pytest.fixture
def run(tmp_path: Path, upstream: Upstream, certificates: Certificates) -> Callable[..., None]:
    def go(work: Callable[[Running], Coroutine[None, None, None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(30), running(tmp_path, upstream, certificates) as proxy:
                await work(proxy)

        asyncio.run(main())

    return go


def test_an_address_in_use_is_named_with_its_setting() -> None:
    """The message says which address, which setting, and what to do."""
    first = bind(ANY, setting="proxy")
    with pytest.raises(ListenFailed, match=r"`127\.0\.0\.1:\d+` \(setting `admin`\) is in use; "):
        bind(first.address, setting="admin")
    first.remove()


def test_a_unix_socket_is_the_owners_and_goes_with_its_listener(tmp_path: Path) -> None:
    """A dead one is replaced, a live one is not, and one of another program is left alone."""
    path = tmp_path / "s"
    first = bind(UnixListen(path=path), setting="admin")
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(ListenFailed, match="in use"):
        bind(UnixListen(path=path), setting="admin")
    first.sock.close()
    second = bind(UnixListen(path=path), setting="admin")
    first.remove()
    assert path.exists()
    second.remove()
    assert not path.exists()
    second.remove()


@pytest.mark.parametrize(
    ("asked", "endpoint", "wanted", "for_endpoint", "serves"),
    [
        pytest.param(ANY, "a", ANY, "a", True, id="any-port-same-endpoint"),
        pytest.param(ANY, "a", ANY, "b", False, id="any-port-other-endpoint"),
        pytest.param(TcpListen(host="::1", port=1), "a", TcpListen(host="::1", port=1), "b", True, id="renamed"),
        pytest.param(TcpListen(host="::1", port=1), "a", TcpListen(host="::1", port=2), "a", False, id="moved"),
        pytest.param(UnixListen(path=Path("a")), None, UnixListen(path=Path("a")), "b", True, id="unix"),
        pytest.param(UnixListen(path=Path("a")), None, ANY, None, False, id="other-kind"),
    ],
)
def test_which_sockets_serve_on(
    asked: Listen, endpoint: str | None, wanted: Listen, for_endpoint: str | None, *, serves: bool
) -> None:
    """An unchanged address keeps its socket, whoever it is for; where the port is any, each endpoint has its own."""
    with socket.socket() as sock:
        listener = Listener(setting="x", endpoint=endpoint, asked=asked, address=asked, sock=sock)
        assert listener.serves(wanted, for_endpoint) is serves
        renamed = listener.renamed("y", for_endpoint)
        assert (renamed.setting, renamed.endpoint, renamed.sock) == ("y", for_endpoint, sock)


def test_replace(run: Callable[..., None]) -> None:
    """What is new is bound before the old one closes; what is kept keeps its connections, and takes its new name."""

    async def work(proxy: Running) -> None:
        old = [served.listener for served in proxy.listeners._served.values()]
        fresh = bind(ANY, setting="new", endpoint="api")
        committed: list[int] = []
        async with base(proxy) as kept:
            proxy.listeners.replace([old[1].renamed("other", "gone"), fresh], lambda: committed.append(1))
            assert committed == [1]
            assert (await kept.ask(GET % kept.host))[0] == 200
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*proxy.proxy)
        async with base(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 403
        address = fresh.sock.getsockname()
        async with raw(address) as talk:
            assert (await talk.ask(GET % (b"127.0.0.1:%d" % address[1])))[0] == 200

    run(work)


def test_a_replace_that_fails_changes_nothing(run: Callable[..., None]) -> None:
    """All or nothing."""

    async def work(proxy: Running) -> None:
        old = [served.listener for served in proxy.listeners._served.values()]
        fresh, broken = bind(ANY, setting="new", endpoint="api"), bind(ANY, setting="broken", endpoint="api")
        broken.sock.close()
        committed: list[int] = []
        with pytest.raises((OSError, ValueError)):
            proxy.listeners.replace([*old, fresh, broken], lambda: committed.append(1))
        assert committed == []
        assert len(proxy.listeners._served) == 2
        fresh.remove()
        async with base(proxy) as talk:
            assert (await talk.ask(GET % talk.host))[0] == 200

    run(work)


def test_nobody_is_accepted_after_the_stop(run: Callable[..., None]) -> None:
    """Sockets are closed, and whoever was just accepted is not read."""

    async def work(proxy: Running) -> None:
        proxy.listeners.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*proxy.base)

    run(work)
