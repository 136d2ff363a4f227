"""A worker's place at its supervisor, as the program sees it: what is handed to it, and what is its part of a whole."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from addons.ports import Flights
from proxy.fronts import Fronts
from proxy.part import part
from proxy.settings.model import Settings
from proxy.upstream.pool import PoolLimits

if TYPE_CHECKING:
    from proxy.program import Program

_UNSENT_BYTES: Final = 256 * 1024 * 1024
_UNSENT_ANSWERS: Final = 8


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


def part_of(settings: Settings, of: int) -> Settings:
    """The settings with one worker's part of the connections that the whole program may have."""
    return replace(settings, limits=replace(settings.limits, clients=part(settings.limits.clients, of)))


def unsent_part(settings: Settings, of: int) -> int:
    """The part of one of `of` processes. Two whole answers are always held, or one could never be sent."""
    body = settings.limits.body_bytes
    return max(part(max(_UNSENT_BYTES, _UNSENT_ANSWERS * body), of), 2 * body)


def pool_part(limits: PoolLimits, of: int) -> PoolLimits:
    """The part of a pool's bounds."""
    return replace(
        limits,
        per_group=part(limits.per_group, of),
        total=part(limits.total, of),
        idle=part(limits.idle, of),
    )
