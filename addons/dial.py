"""mitmproxy dials nothing: judged requests are sent by our own client."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mitmproxy.proxy.server_hooks import ServerConnectionHookData


@dataclass(frozen=True, slots=True)
class NoDial:
    """Refuse every connection that mitmproxy would open, until a relay decides otherwise."""

    def server_connect(self, data: "ServerConnectionHookData") -> None:
        """Setting an error is how mitmproxy is told not to dial."""
        data.server.error = "refused: no decision allows this connection"
