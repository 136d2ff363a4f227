"""Picks the layer of each connection, by its listener, before a byte is read.

`next_layer` is mitmproxy's hook for that. A connection of no listener of ours gets no layer, and mitmproxy's own choice
is not among the addons, so nothing reads it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mitmproxy.proxy.layer import Layer, NextLayer

type Pick = Callable[[NextLayer], Layer | None]


@dataclass(frozen=True, slots=True)
class Front:
    """Asks `pick`, which knows the listeners."""

    pick: Pick

    def next_layer(self, nextlayer: NextLayer) -> None:
        """Set the layer."""
        if nextlayer.layer is None:
            nextlayer.layer = self.pick(nextlayer)
