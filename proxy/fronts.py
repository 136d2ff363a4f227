"""The bound sockets by what they serve, and how they follow the settings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, final

from proxy.settings.model import Listen, Settings
from proxy.sockets import Listener, bind


class Bind(Protocol):
    """Makes a listener (see `proxy.sockets.bind`)."""

    def __call__(self, listen: Listen, *, setting: str, endpoint: str | None = None, broker: bool = False) -> Listener:
        """Bind and listen; raises `ListenFailed`."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fronts:
    """Bound sockets by what they serve."""

    proxy: Listener | None
    endpoints: tuple[Listener, ...]
    admin: Listener | None
    broker: Listener | None = None

    @property
    def clients(self) -> tuple[Listener, ...]:
        """Those that agents call."""
        single = (self.proxy, self.broker)
        return (*(listener for listener in single if listener is not None), *self.endpoints)

    @property
    def every(self) -> tuple[Listener, ...]:
        """All of them."""
        return self.clients if self.admin is None else (*self.clients, self.admin)

    def each(self, change: Callable[[Listener], Listener]) -> "Fronts":
        """The same with every listener changed."""
        return Fronts(
            proxy=None if self.proxy is None else change(self.proxy),
            endpoints=tuple(map(change, self.endpoints)),
            admin=None if self.admin is None else change(self.admin),
            broker=None if self.broker is None else change(self.broker),
        )


def bind_fronts(settings: Settings, old: Fronts | None, make: Bind = bind) -> tuple[Fronts, list[Listener]]:
    """The sockets of `settings`, those of `old` that serve on among them, and which are new: all of them, or none.

    Raises:
        ListenFailed: an address cannot be listened on; whatever else `make` raises.
    """
    kept = [] if old is None else list(old.clients)
    fresh: list[Listener] = []

    def have(listen: Listen, setting: str, endpoint: str | None = None, *, broker: bool = False) -> Listener:
        for listener in kept:
            if listener.serves(listen, endpoint, broker=broker):
                kept.remove(listener)
                return listener.renamed(setting, endpoint, broker=broker)
        fresh.append(make(listen, setting=setting, endpoint=endpoint, broker=broker))
        return fresh[-1]

    try:
        admin = None if old is None else old.admin
        if old is None and settings.admin is not None:
            admin = have(settings.admin, "admin")
        proxy = None if settings.proxy is None else have(settings.proxy, "proxy")
        broker = None if settings.broker is None else have(settings.broker.listen, "broker.listen", broker=True)
        endpoints = tuple(
            have(endpoint.listen, f"endpoints[{number}].listen", endpoint.name)
            for number, endpoint in enumerate(settings.endpoints)
            if endpoint.listen is not None
        )
    except BaseException:
        for listener in fresh:
            listener.remove()
        raise
    return Fronts(proxy=proxy, endpoints=endpoints, admin=admin, broker=broker), fresh
