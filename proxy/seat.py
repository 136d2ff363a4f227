"""A worker's place at its supervisor, as the program sees it: what is handed to it, and what is its part of a whole."""

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from addons.ports import Flights
from proxy.fronts import Fronts
from proxy.settings.model import Settings

if TYPE_CHECKING:
    from proxy.program import Program


class Seat(Protocol):
    """What a worker has from its supervisor.

    Attributes:
        of: how many workers there are.
        fronts: the listeners, which all workers share. Their names in the file system are the supervisor's to remove.
        flights: where the supervisor sees what is in flight here.
    """

    of: int
    fronts: Fronts
    flights: Flights

    @property
    def up(self) -> int:
        """How many workers serve now."""
        ...

    def freeze(self) -> None:
        """The log is about to be closed: what has no record by then is the supervisor's to record."""
        ...

    async def serve(self, program: "Program") -> None:
        """Do what the supervisor asks for, until cancelled; without a supervisor, end the program."""
        ...


def part(whole: int, of: int) -> int:
    """An equal part of a limit, rounded up, so that each has at least 1."""
    return -(-whole // of)


def part_of(settings: Settings, of: int) -> Settings:
    """The settings with one worker's part of what is bounded for the whole program."""
    return replace(
        settings,
        limits=replace(settings.limits, clients=part(settings.limits.clients, of)),
        endpoints=tuple(replace(endpoint, concurrent=part(endpoint.concurrent, of)) for endpoint in settings.endpoints),
    )
