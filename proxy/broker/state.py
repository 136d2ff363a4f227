"""What the broker remembers, as the chain asks for it: the store, opened at the start and kept through reloads."""

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, final

from addons.boxes import Box
from addons.broker.parts import Credential, Visitor
from addons.ports import StateUnavailable
from grants.broker.declaration import Report
from grants.broker.fountain import Holding, Kind
from grants.broker.issued import is_issued
from proxy.secrets import EndpointVault, ReferenceInvalid, parse_source
from proxy.store import Store, StoredBox

VISITOR: Final = "visitor"
_VAULTS: Final = 256


@final
class State:
    """Implements `addons.broker.parts.BrokerState` and `addons.boxes.AddedBoxes`.

    Args:
        directory: of the settings file, from which a visitor's `file:` reference starts.

    Attributes:
        store: None until the program has opened it.
    """

    def __init__(self, directory: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.store: Store | None = None
        self._directory = directory
        self._clock = clock
        self._vaults: dict[str, EndpointVault] = {}

    async def find(self, token: bytes) -> Box | None:
        """See `AddedBoxes`. What has not the form of a token is not looked for."""
        return (await self.find_all((token,))).get(token)

    async def find_all(self, tokens: Collection[bytes]) -> dict[bytes, Box]:
        """See `AddedBoxes`."""
        asked = [token for token in tokens if is_issued(token)]
        if not asked:
            return {}
        found = await self._open().boxes_by_tokens(asked, clock=self._clock)
        return {token: _box(box) for token, box in found.items()}

    async def added_too(self, names: frozenset[str]) -> tuple[str, ...]:
        """Those of `names`, which are in the settings, that were added as well: a name is one box's."""
        return tuple(box.name for box in await self._open().list_boxes() if box.name in names) if names else ()

    async def report_of(self, box: str) -> Report | None:
        """See `BrokerState`."""
        found = await self._open().report_of(box)
        return None if found is None else found.report

    async def save_report(self, box: str, report: Report, *, at: str) -> None:
        """See `BrokerState`."""
        await self._open().save_report(box, report, at=at)

    async def visitor(self, grant: bytes, box: str) -> Visitor | None:
        """See `BrokerState`. The credential is where the grant says; None where that is nowhere."""
        found = await self._open().grant_of(grant, box, now=self._clock())
        # The clock is read again: the question may have had to wait.
        vault = self._vault(found.credential) if found is not None and found.live(self._clock()) else None
        if found is None or vault is None:
            return None
        return Visitor(principal=found.principal, credential=Credential(name=VISITOR, vault=vault))

    async def owned(self, box: str, kind: Kind) -> frozenset[str]:
        """See `BrokerState`."""
        return await self._open().owned(box, kind)

    async def owners(self, identifiers: frozenset[str]) -> tuple[Holding, ...]:
        """See `BrokerState`."""
        return await self._open().owners(identifiers)

    async def ready(self, box: str) -> None:
        """See `BrokerState`."""
        await self._open().ready(box)

    async def learn(self, box: str, kind: Kind, identifier: str) -> bool:
        """See `BrokerState`."""
        return await self._open().learn(box, kind, identifier)

    async def close(self) -> None:
        """Close the store."""
        store, self.store = self.store, None
        if store is not None:
            await store.close()

    def _open(self) -> Store:
        if self.store is None:
            raise StateUnavailable
        return self.store

    def _vault(self, reference: str) -> EndpointVault | None:
        """The vault of a reference: the few last ones are kept, since a turn has many requests."""
        vault = self._vaults.pop(reference, None)
        if vault is None:
            try:
                vault = EndpointVault(VISITOR, {VISITOR: parse_source(reference, self._directory)})
            except ReferenceInvalid:
                return None
        self._vaults[reference] = vault
        while len(self._vaults) > _VAULTS:
            del self._vaults[next(iter(self._vaults))]
        return vault


def _box(found: StoredBox) -> Box:
    return Box(name=found.name, endpoints=found.endpoints, tunnels=found.tunnels, number=found.number)
